"""Lost content: what may be the only copy of a live file that is lost, under another name or in another folder.

A person who renames a folder, or a job that copies and then deletes, leaves the bytes of a live file where no table
lists them. They look like debris. While the loss is open, no file of the size or the name of a lost one is hidden,
moved or removed, wherever it lies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.reconcile.four_yeses import DOUBLES, LEFTOVERS
from lakeaudit.reconcile.steps import Step
from lakeaudit.results.lake_standing import files_of_lost_content
from lakeaudit.results.read import Results

MOST = 500_000
"""Lost files that are compared; of more of them every leftover may be one."""

_MAY_BE = "it may be the only copy of a lost file ({}): restore that file, or settle its finding, first"


@dataclass(frozen=True)
class LostContent:
    """Sizes and names of live files that are lost; `beyond`: there are more of them than are compared."""

    sizes: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    beyond: bool = False

    def may_hold(self, key: str, size: int | None) -> str | None:
        """Why a file that no table lists may hold the content of a lost one; None: it does not."""
        if self.beyond:
            return _MAY_BE.format(f"more than {MOST:,} files are lost")
        if key.rpartition("/")[2] in self.names:
            return _MAY_BE.format("one has its name")
        return _MAY_BE.format("one has its size") if size in self.sizes else None

    def of_row(self, row: Mapping[str, Any]) -> str | None:
        """The same of a row of the ledger; None where it is about no leftover."""
        return (
            self.may_hold(row["key"], row["storage_size"]) if _is_leftover(row["kind"], row["key"]) else None
        )

    def of_step(self, step: Step) -> str | None:
        """The same of a step of a plan, by what was there when it was planned."""
        if step.key is None or not _is_leftover(step.kind, step.key):
            return None
        return self.may_hold(step.key, step.precondition.get("size"))


def _is_leftover(kind: str | None, key: str | None) -> bool:
    return kind in (*LEFTOVERS, *DOUBLES) and bool(key)


NOTHING_LOST = LostContent()


def lost_content(results: Results) -> LostContent:
    """The live files that the ledger holds as lost and nobody has settled.

    Raises:
        CannotAudit: the ledger cannot be read.
    """
    rows = files_of_lost_content(results, MOST + 1)
    if len(rows) > MOST:
        return LostContent(beyond=True)
    names = (row["key"].rpartition("/")[2] for row in rows)
    return LostContent(frozenset(row["size"] for row in rows if row["size"]), frozenset(filter(None, names)))
