"""Protect unused files that may be the only copy of a lost live file, under another name or in another folder.

After a renamed folder, or a job that copies and then deletes, the bytes of a live file are where no table lists them,
and look like debris. While the loss is open, no file with the size or the name of a lost one is hidden, moved or
removed, wherever it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.reconcile.deletion_guards import DUPLICATES, LEFTOVERS
from lakeaudit.reconcile.steps import Step
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.lake_standing import files_of_lost_content

MOST = 500_000
"""Most lost files that are compared; if there are more, every unused file is protected."""

_MAY_BE = "it may be the only copy of a lost file ({}): restore that file, or settle its finding, first"


@dataclass(frozen=True)
class LostContent:
    """Sizes and names of lost live files; `beyond`: there are more than MOST."""

    sizes: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    beyond: bool = False

    def may_hold(self, key: str, size: int | None) -> str | None:
        """Return why an unused file may contain the content of a lost one; None: it does not."""
        if self.beyond:
            return _MAY_BE.format(f"more than {MOST:,} files are lost")
        if key.rpartition("/")[2] in self.names:
            return _MAY_BE.format("one has its name")
        return _MAY_BE.format("one has its size") if size in self.sizes else None

    def of_row(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason for a row of the ledger; None: it is not about an unused file."""
        return (
            self.may_hold(row["key"], row["storage_size"]) if _is_leftover(row["kind"], row["key"]) else None
        )

    def of_step(self, step: Step) -> str | None:
        """Return the reason for a step of a plan, by the object that was planned."""
        if step.key is None or not _is_leftover(step.kind, step.key):
            return None
        return self.may_hold(step.key, step.precondition.get("size"))


def _is_leftover(kind: str | None, key: str | None) -> bool:
    return kind in (*LEFTOVERS, *DUPLICATES) and bool(key)


NOTHING_LOST = LostContent()


def lost_content(results: Results) -> LostContent:
    """Return the live files whose loss is open in the ledger.

    Raises:
        CannotAudit: the ledger cannot be read.
    """
    rows = files_of_lost_content(results, MOST + 1)
    if len(rows) > MOST:
        return LostContent(beyond=True)
    names = (row["key"].rpartition("/")[2] for row in rows)
    return LostContent(frozenset(row["size"] for row in rows if row["size"]), frozenset(filter(None, names)))
