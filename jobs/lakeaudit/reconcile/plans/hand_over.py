"""Select the open findings that are handed over to other repair tools: only files on which an action might act.

Files that every action refuses are left out, and counted by reason: accepted ones, those of tables that the lake file
does not name, of weakly consistent buckets, of unknown owners, of logs, and those younger than `leftover_age`.
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
from lakeaudit.reconcile import deletion_guards
from lakeaudit.reconcile.plans.planning import Planner
from lakeaudit.reconcile.protocol import OLDER
from lakeaudit.reconcile.registry import FOLLOWED_BY, WAYS
from lakeaudit.results.read import PUBLISHED, Results, RowFilter
from lakeaudit.results.summaries.lake_standing import lost_states
from lakeaudit.results.summaries.past_audits import first_audits
from lakeaudit.schemas import rows_of

Row = Mapping[str, Any]

LEFTOVERS = ("uncommitted", "unvacuumed", "unreferenced")
TEMPORARY = "temporary"
ONLY_LISTED, DIFFERENT, ONLY_STORED = "+", "*", "-"
"""Marks of rclone's combined list, with the table's manifests as the source and storage as the destination."""
DIFFERENCES = {
    **dict.fromkeys(("dropped", "dropped_history", "missing_metadata"), ONLY_LISTED),
    **dict.fromkeys(("size_mismatch", "content_mismatch", "overwritten"), DIFFERENT),
    **dict.fromkeys((*LEFTOVERS, TEMPORARY), ONLY_STORED),
}
RESTORES = ("remove_delete_marker", "restore_version")
RESTORED = tuple(kind for kind, ways in WAYS.items() if set(ways) & set(RESTORES))
"""Kinds whose files an older version may restore."""
MOST_COPIED = 5 << 30
"""Largest object in bytes that a job of S3 Batch Operations copies (S3 User Guide, "Copy objects")."""

FILES = ("data", "deletes", "changes")
COLUMNS = ("run_id", "discrepancy_id", "kind", "bucket", "key", "size", "etag", "modified_at", "category")
"""Columns of `leftover_files` that a list needs."""
_TWIN = {"related_key": None}
"""A column that only duplicates have."""


@dataclass(frozen=True)
class HandOverFile:
    """One file of a list. `size` and `modified_at` are those of the object; `mark` tells how the two sides differ."""

    bucket: str
    key: str
    size: int | None = None
    modified_at: datetime | None = None
    version_id: str = ""
    mark: str = ""


@dataclass
class HandOver:
    """Streams the files of lists with one batch of rows in memory; `left_out` counts the other files by reason.

    Attributes:
        lake: only files of its tables are handed over.
        results: results of the audits.
        row_filter: filter for the findings.
        now: current time.
        allow: values of `--allow`.
    """

    lake: Lake
    results: Results
    row_filter: RowFilter
    now: datetime
    allow: Collection[str] = ()
    left_out: Counter[str] = field(default_factory=Counter)

    def leftovers(
        self, table: Table, kinds: Collection[str], categories: Collection[str]
    ) -> Iterator[HandOverFile]:
        """Yield a table's unused files of these kinds and categories."""
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
        loss = None if lost is None else f"a state of the table is lost or contradicts itself ({lost})"
        ours = (pc.field("table_name") == table.name) & pc.field("kind").isin(list(kinds))
        for row in rows_of(self.results.batches("leftover_files", ours, COLUMNS)):
            known = row["discrepancy_id"] in groups
            if known and self._may(loss or groups[row["discrepancy_id"]] or refusal.of_leftover(row)):
                at = in_utc(row["modified_at"])
                yield HandOverFile(row["bucket"], row["key"], row["size"], at, mark=ONLY_STORED)

    def differences(self, table: Table) -> Iterator[HandOverFile]:
        """Yield lost and differing files, then unused ones; names with a line break are left out."""
        for each in self._differences(table):
            if self._may("its name contains a line break" if "\n" in each.key else None):
                yield each

    def _differences(self, table: Table) -> Iterator[HandOverFile]:
        kinds, refusal = self._kinds(DIFFERENCES), Refusal(self.lake, table, in_utc(self.now))
        for row in self._open([kind for kind in kinds if DIFFERENCES[kind] != ONLY_STORED]):
            if self._may(refusal.of_difference(row) or self._accepted(row)):
                yield HandOverFile(
                    row["bucket"], row["key"], row["manifest_size"], mark=DIFFERENCES[row["kind"]]
                )
        left = [kind for kind in kinds if DIFFERENCES[kind] == ONLY_STORED]
        if left:
            yield from self.leftovers(table, left, deletion_guards.CATEGORIES)

    def restores(self, planner: Planner) -> Iterator[HandOverFile]:
        """Yield the older version of each lost file that a plan would restore, by the current state of storage."""
        kinds = self._kinds(RESTORED)
        for step in planner.steps(self.results, self._narrowed(kinds)) if kinds else ():
            if step.action in FOLLOWED_BY.values():
                continue
            if step.action not in RESTORES:
                self._may(step.evidence.get("why") or f"a plan would use another action: {step.action}")
                continue
            size, version = step.precondition["size"], step.precondition["version_id"]
            if self._may("above 5 GiB, too large for such a job" if size > MOST_COPIED else None):
                yield HandOverFile(step.bucket or "", step.key or "", size, version_id=version)

    def _kinds(self, of: Collection[str]) -> list[str]:
        """Return the requested kinds among these."""
        return [kind for kind in of if not self.row_filter.kinds or kind in self.row_filter.kinds]

    def _narrowed(self, kinds: Collection[str]) -> RowFilter:
        row_filter = self.row_filter
        return RowFilter(list(kinds), row_filter.tables, row_filter.severities, row_filter.partitions)

    def _open(self, kinds: Collection[str]) -> Iterator[Row]:
        """Yield open discrepancies of these kinds."""
        if kinds:
            yield from rows_of(self.results.discrepancies(("open",), row_filter=self._narrowed(kinds)))

    def _groups(self, kinds: Collection[str]) -> dict[str, str | None]:
        """Return by id of each open group why its files are not handed over; None: they are."""
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
        """Return the finished runs that read everything that could list an unused file of the table."""
        finished = {run["run_id"] for run in self.results.runs() if run["status"] in PUBLISHED}
        whole = (pc.field("axis") == "leftover") & (pc.field("status") == "complete")
        ours = whole & (pc.field("table_name") == table.name)
        return {
            row["run_id"] for row in rows_of(self.results.batches("coverage", ours, ["run_id"]))
        } & finished


@dataclass(frozen=True)
class Refusal:
    """Decides why a file of a table is not handed over; every action would refuse such a file.

    Attributes:
        lake: its tables decide who owns a file.
        table: table of the list.
        now: current time in UTC.
        runs: runs that have read everything that could list an unused file of the table.
        categories: categories that may be handed over.
        first_audit: time of the first complete audit of the table's unused files; None: there was none.
        older: older files are allowed as well.
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
        """Return the first table around this one with incomplete claims."""
        about = [each for each in self.lake.tables if each.location.contains(self.table.location)]
        return next((each.name for each in about if not each.complete), None)

    @cached_property
    def knowing(self) -> list[Location | None]:
        """Return the locations that metadata stores cover; None: everywhere."""
        return [each.location for each in self.lake.metastores if each.knows_files]

    @cached_property
    def inner(self) -> list[Location]:
        """Return the locations of other tables below this one."""
        others = [each.location for each in self.lake.tables if each.name != self.table.name]
        return [place for place in others if self.table.location.contains(place)]

    def of_leftover(self, row: Row) -> str | None:
        """Return the reason for a row of `leftover_files`; None: the file is handed over."""
        if row["run_id"] not in self.runs:
            return "reported by an audit that is not finished, or has not read everything that could list it"
        if row["category"] not in self.categories or deletion_guards.kind_allows({**row, **_TWIN}):
            return f"of the category {row['category']}"
        if self.incomplete:
            return f"the claims of {self.incomplete} are incomplete"
        place = row["bucket"], row["key"]
        if any(location is None or location.holds(*place) for location in self.knowing):
            return "a metadata store lists files there and would have to be updated"
        return self._too_young_or_old(row) or self.of_place(row)

    def _too_young_or_old(self, row: Row) -> str | None:
        if row["modified_at"] is None:
            return "the time of its last write is not known"
        head = _head(row)
        if deletion_guards.is_old_enough_at_place(self.lake.tables, self.table, head, self.now):
            return "younger than leftover_age"
        if deletion_guards.is_since_first_audit(head, self.first_audit, allowed=self.older):
            return f"older than the first complete audit of its table: see --allow {OLDER}"
        return None

    def of_difference(self, row: Row) -> str | None:
        """Return the reason for a discrepancy; None: its file is handed over."""
        if row["subject_type"] != "file" or not row["key"]:
            return "a finding about many files that does not name them"
        return self.of_place(row)

    def of_place(self, row: Row) -> str | None:
        """Return the reason that follows from the file's location."""
        at = row["bucket"], row["key"]
        if self.lake.is_weak(row["bucket"]):
            return "responses of its bucket may lag behind writes (consistency: weak)"
        if any(place.holds(*at) for place in self.inner):
            return "inside the location of another table"
        return None if self.table.location.holds(*at) else "outside the table's location"


def _head(row: Row) -> ObjectHead:
    """Build the head of an unused file from its row, for the check of its age."""
    etag = row["etag"] or ""
    return ObjectHead(
        size=row["size"] or 0, etag=etag, version_id=None, modified_at=in_utc(row["modified_at"]), storage_class="",
        archived=False, multipart="-" in etag, encryption="", checksum=None, expiration=None,
    )  # fmt: skip
