"""What is handed over to tools that mend by themselves: of what is open, only what an action might be asked for.

Left out, and counted with the reason, is what every action refuses: what is accepted, tables that the lake does not
name, buckets whose answers lag, files without an owner, logs, and files younger than the table's `leftover_age`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from lakeaudit.config import Lake, Table
from lakeaudit.evidence.storage.head import ObjectHead
from lakeaudit.formatting import in_utc
from lakeaudit.keys import Location
from lakeaudit.reconcile import four_yeses
from lakeaudit.reconcile.planning import Planner
from lakeaudit.reconcile.protocol import OLDER
from lakeaudit.reconcile.registry import FOLLOWED_BY, WAYS
from lakeaudit.results.lake_standing import lost_states
from lakeaudit.results.past_audits import first_audits
from lakeaudit.results.read import PUBLISHED, Results, RowFilter
from lakeaudit.schemas import rows_of

Row = Mapping[str, Any]

LEFTOVERS = ("uncommitted", "unvacuumed", "unreferenced")
TEMPORARY = "temporary"
ONLY_LISTED, DIFFERENT, ONLY_STORED = "+", "*", "-"
"""What rclone's combined list calls them, with the table's manifests as the source and storage as the destination."""
DIFFERENCES = {
    **dict.fromkeys(("dropped", "dropped_history", "missing_metadata"), ONLY_LISTED),
    **dict.fromkeys(("size_mismatch", "content_mismatch", "overwritten"), DIFFERENT),
    **dict.fromkeys((*LEFTOVERS, TEMPORARY), ONLY_STORED),
}
RESTORES = ("remove_delete_marker", "restore_version")
RESTORED = tuple(kind for kind, ways in WAYS.items() if set(ways) & set(RESTORES))
"""Kinds of which an older version may be copied back."""
MOST_COPIED = 5 << 30
"""Bytes of an object that a job of S3 Batch Operations copies (S3 User Guide, "Copy objects")."""

FILES = ("data", "deletes", "changes")
COLUMNS = ("run_id", "discrepancy_id", "kind", "bucket", "key", "size", "etag", "modified_at", "category")
"""Of `leftover_files`, all that a list is made of."""
_TWIN = {"related_key": None}
"""What a leftover lacks that a double has."""


@dataclass(frozen=True)
class Handed:
    """One file of a list. `size` and `modified_at` are what storage has; `mark` says how the two sides differ."""

    bucket: str
    key: str
    size: int | None = None
    modified_at: datetime | None = None
    version_id: str = ""
    mark: str = ""


@dataclass
class HandOver:
    """Streams what is handed over of a lake, a batch of rows in memory at a time; `left_out` counts the rest by reason.

    Attributes:
        lake: its tables are the only ones of which anything is handed over.
        results: what was found.
        wanted: what it is narrowed down to.
        now: the clock reading.
        allow: what the user allows beside the default.
    """

    lake: Lake
    results: Results
    wanted: RowFilter
    now: datetime
    allow: Collection[str] = ()
    left_out: Counter[str] = field(default_factory=Counter)

    def leftovers(
        self, table: Table, kinds: Collection[str], categories: Collection[str]
    ) -> Iterator[Handed]:
        """Files of a table's leftovers; none of a category that is not named."""
        groups = self._groups(kinds)
        first = None if OLDER in self.allow else first_audits(self.results).get(table.name)
        refusal = Refusal(
            self.lake,
            table,
            in_utc(self.now),
            self._whole_runs(table),
            categories,
            first,
            OLDER in self.allow,
        )
        lost = lost_states(self.results).get(table.name)
        held = None if lost is None else f"a state of the table is lost or contradicts itself ({lost})"
        ours = (pc.field("table_name") == table.name) & pc.field("kind").isin(list(kinds))
        for row in rows_of(self.results.batches("leftover_files", ours, COLUMNS)):
            known = row["discrepancy_id"] in groups
            if known and self._may(held or groups[row["discrepancy_id"]] or refusal.of_leftover(row)):
                at = in_utc(row["modified_at"])
                yield Handed(row["bucket"], row["key"], row["size"], at, mark=ONLY_STORED)

    def differences(self, table: Table) -> Iterator[Handed]:
        """Files that are lost or another, then those that nothing lists; each by a name that is one line."""
        for each in self._differences(table):
            if self._may("a line break is in its name" if "\n" in each.key else None):
                yield each

    def _differences(self, table: Table) -> Iterator[Handed]:
        kinds, refusal = self._kinds(DIFFERENCES), Refusal(self.lake, table, in_utc(self.now))
        for row in self._open([kind for kind in kinds if DIFFERENCES[kind] != ONLY_STORED]):
            if self._may(refusal.of_difference(row) or self._accepted(row)):
                yield Handed(row["bucket"], row["key"], row["manifest_size"], mark=DIFFERENCES[row["kind"]])
        left = [kind for kind in kinds if DIFFERENCES[kind] == ONLY_STORED]
        if left:
            yield from self.leftovers(table, left, four_yeses.CATEGORIES)

    def restores(self, planner: Planner) -> Iterator[Handed]:
        """The older version of each lost file that a plan would bring back, by what storage answers now."""
        kinds = self._kinds(RESTORED)
        for step in planner.steps(self.results, self._narrowed(kinds)) if kinds else ():
            if step.action in FOLLOWED_BY.values():
                continue
            if step.action not in RESTORES:
                self._may(step.evidence.get("why") or f"a plan would do otherwise: {step.action}")
                continue
            size, version = step.precondition["size"], step.precondition["version_id"]
            if self._may("above 5 GiB, which no such job copies" if size > MOST_COPIED else None):
                yield Handed(step.bucket or "", step.key or "", size, version_id=version)

    def _kinds(self, of: Collection[str]) -> list[str]:
        """Of these kinds those that were asked for."""
        return [kind for kind in of if not self.wanted.kinds or kind in self.wanted.kinds]

    def _narrowed(self, kinds: Collection[str]) -> RowFilter:
        wanted = self.wanted
        return RowFilter(list(kinds), wanted.tables, wanted.severities, wanted.partitions)

    def _open(self, kinds: Collection[str]) -> Iterator[Row]:
        """Open discrepancies of these kinds; none where none is named."""
        if kinds:
            yield from rows_of(self.results.discrepancies(("open",), row_filter=self._narrowed(kinds)))

    def _groups(self, kinds: Collection[str]) -> dict[str, str | None]:
        """By the id of an open group of leftovers why its files are not handed over; None: they are."""
        return {row["discrepancy_id"]: self._accepted(row) for row in self._open(self._kinds(kinds))}

    def _may(self, why: str | None) -> bool:
        if why is not None:
            self.left_out[why] += 1
        return why is None

    def _accepted(self, row: Row) -> str | None:
        until = row["ack_until"]
        return (
            "accepted by `lakeaudit ack`" if until is not None and in_utc(until) > in_utc(self.now) else None
        )

    def _whole_runs(self, table: Table) -> set[str]:
        """The finished runs that read all that could list a leftover of the table."""
        finished = {run["run_id"] for run in self.results.runs() if run["status"] in PUBLISHED}
        whole = (pc.field("axis") == "leftover") & (pc.field("status") == "complete")
        ours = whole & (pc.field("table_name") == table.name)
        return {
            row["run_id"] for row in rows_of(self.results.batches("coverage", ours, ["run_id"]))
        } & finished


@dataclass(frozen=True)
class Refusal:
    """Why a file of a table is not handed over, as every action would refuse it.

    Attributes:
        lake: says what is whose.
        table: of which files are handed over.
        now: the clock reading, in UTC.
        runs: those whose leftovers are known to be listed by nothing.
        categories: that may be handed over.
        first_audit: when the first complete audit of the table looked at storage; None: there was none.
        older: older leftovers are meant as well.
    """

    lake: Lake
    table: Table
    now: datetime
    runs: Collection[str] = ()
    categories: Collection[str] = ()
    first_audit: datetime | None = None
    older: bool = False

    @cached_property
    def incomplete(self) -> str | None:
        """The first table about this one of which not every claim is known."""
        about = [each for each in self.lake.tables if each.location.contains(self.table.location)]
        return next((each.name for each in about if not each.complete), None)

    @cached_property
    def knowing(self) -> list[Location | None]:
        """Where metadata stores know of files; None: everywhere."""
        return [each.location for each in self.lake.metastores if each.knows_files]

    @cached_property
    def inner(self) -> list[Location]:
        """Where other tables lie below this one."""
        others = [each.location for each in self.lake.tables if each.name != self.table.name]
        return [place for place in others if self.table.location.contains(place)]

    def of_leftover(self, row: Row) -> str | None:
        """Of a row of `leftover_files`; None: it is handed over."""
        if row["run_id"] not in self.runs:
            return "found by an audit that has not finished, or not read all that could list it"
        if row["category"] not in self.categories or four_yeses.kind_allows({**row, **_TWIN}):
            return f"of the category {row['category']}"
        if self.incomplete:
            return f"not every claim on files of {self.incomplete} is known"
        place = row["bucket"], row["key"]
        if any(location is None or location.holds(*place) for location in self.knowing):
            return "a metadata store knows of files there: what removes the file has to tell it"
        return self._too_young_or_old(row) or self.of_place(row)

    def _too_young_or_old(self, row: Row) -> str | None:
        if row["modified_at"] is None:
            return "nobody knows when it was written"
        head = _head(row)
        if four_yeses.is_old_enough(self.table, head, self.now):
            return "younger than leftover_age"
        if four_yeses.is_since_first_audit(head, self.first_audit, allowed=self.older):
            return f"older than the first complete audit of its table: see --allow {OLDER}"
        return None

    def of_difference(self, row: Row) -> str | None:
        """Of a discrepancy; None: it is handed over."""
        if row["subject_type"] != "file" or not row["key"]:
            return "a finding about many files at once, which names none of them"
        return self.of_place(row)

    def of_place(self, row: Row) -> str | None:
        """Of where a file lies."""
        at = row["bucket"], row["key"]
        if self.lake.is_weak(row["bucket"]):
            return "answers of its bucket may lag behind writes (consistency: weak)"
        if any(place.holds(*at) for place in self.inner):
            return "of another table by the lake file"
        return None if self.table.location.holds(*at) else "outside the table's location"


def _head(row: Row) -> ObjectHead:
    """What an audit has seen of a leftover, as far as its age is concerned."""
    etag = row["etag"] or ""
    return ObjectHead(
        size=row["size"] or 0, etag=etag, version_id=None, modified_at=in_utc(row["modified_at"]), storage_class="",
        archived=False, multipart="-" in etag, encryption="", checksum=None, expiration=None,
    )  # fmt: skip
