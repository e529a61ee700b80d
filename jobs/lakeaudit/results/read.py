"""Reads the result tables for commands, pages and the dashboard, through delta-rs and without a JVM.

Only finished runs are shown. Findings are streamed batch by batch, worst severity first, since there may be
hundreds of thousands.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import islice
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Expression

from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.kinds import SEVERITIES, WATCHED_KINDS
from lakeaudit.results.tables import BATCH_ROWS, ResultTables

Row = dict[str, Any]

PUBLISHED = ("complete", "partial", "suspect")
"""States of a run whose rows may be shown."""

FOLLOWING, FOLLOWED = "following", "followed"
"""States of a run of `lakeaudit follow`, which reports single losses and audits nothing: not yet published, published.

Its row is in `runs`, but it is not an audit: `Results.runs` leaves it out.
"""

WITH_CHANGES = (*PUBLISHED, FOLLOWED)
"""States of a run whose transitions count."""

UNRESOLVED = ("pending", "open")
"""States of a discrepancy that is not resolved."""

RETIRED = "retired"
"""The resolution of a discrepancy that audits no longer follow."""

_BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)
FEW = 16 * BATCH_ROWS
"""The most rows that are held to sort them."""
_ODD = ~pc.field("severity").isin(SEVERITIES) | pc.field("severity").is_null()
_GROUP = ("kind", "severity", "table_name", "owner", "partition_path", "recoverable")


@dataclass(frozen=True)
class RowFilter:
    """Limits a list to rows with these values; empty means any. A partition includes all partitions below it.

    `files` are pairs of bucket and key.
    """

    kinds: Sequence[str] = ()
    tables: Sequence[str] = ()
    severities: Sequence[str] = ()
    partitions: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = ()

    def condition(self) -> Expression:
        """Return the condition for rows of `findings` or `discrepancies`."""
        named = _among(("kind", self.kinds), ("table_name", self.tables), ("severity", self.severities))
        path = pc.field("partition_path")
        below = [(path == each) | pc.starts_with(path, f"{each}/") for each in self.partitions]
        files = [(pc.field("bucket") == bucket) & (pc.field("key") == key) for bucket, key in self.files]
        return reduce(and_, (reduce(or_, some) for some in (below, files) if some), named)


ALL = RowFilter()


def failure_of(run: Row) -> str:
    """Return which run failed, and why."""
    return f"run {run['run_id']} failed: {run['error'] or 'the cause is not known'}"


class Results(ResultTables):
    """The results of one lake at one place.

    Raises:
        CannotAudit: from every method, where the place or a table of it cannot be read.
    """

    def runs(self) -> list[Row]:
        """Return the rows of audits, finished or not, oldest first. They are read once until `forget`."""
        return [run for run in self._every_run() if run["status"] not in (FOLLOWING, FOLLOWED)]

    def followed(self) -> list[Row]:
        """Return the rows of `runs` of `lakeaudit follow`, published or not, oldest first."""
        return [run for run in self._every_run() if run["status"] in (FOLLOWING, FOLLOWED)]

    def _every_run(self) -> list[Row]:
        if self.delta("runs") is None:
            return []
        opened = self._tables["runs"]
        if opened.rows is None:
            opened.rows = sorted(self._rows("runs", pc.scalar(True)), key=_order)
        return opened.rows

    def last_published(self) -> Row | None:
        """Return the published run that finished last."""
        return next((run for run in reversed(self.runs()) if run["status"] in PUBLISHED), None)

    def published(self, run_id: str | None) -> Row:
        """Return the row of a published run, by default the last one.

        Raises:
            BadInput: there is no run of that id, or it has not finished.
            CannotAudit: nothing was ever published.
        """
        if run_id is None:
            if run := self.last_published():
                return run
            what = f"holds no finished audit{self._last_failure()}"
            raise CannotAudit(self._place.uri, what, "run `lakeaudit audit` first")
        run = self.run(run_id)
        if run["status"] not in PUBLISHED:
            why = f"; its error: {run['error']}" if run["error"] else ""
            what = f"that run is {run['status']}: it published nothing{why}"
            raise BadInput(f"--run-id {run_id}", what, "run it again, or leave --run-id out")
        return run

    def _last_failure(self) -> str:
        """Return the cause of the last failure, as the end of a sentence; empty if no run failed."""
        failed = [run for run in self.runs() if run["status"] == "failed"]
        return f"; the {failure_of(failed[-1])}" if failed else ""

    def with_findings(self, run_id: str | None) -> Row:
        """Return the row of a run that wrote findings, even if it could judge nothing; by default the last one.

        Raises:
            BadInput: there is no run of that id, or it wrote no findings.
            CannotAudit: no run has written any.
        """
        if run_id is None and (last := next(filter(_wrote_findings, reversed(self.runs())), None)):
            return last
        run = None if run_id is None else self.run(run_id)
        return run if run is not None and _wrote_findings(run) else self.published(run_id)

    def failed_since(self, run: Row) -> Row | None:
        """Return the last run that finished after `run` and failed."""
        later = [each for each in self.runs() if _order(each) > _order(run) and each["status"] == "failed"]
        return later[-1] if later else None

    def run(self, run_id: str) -> Row:
        """Return the row of one run, finished or not.

        Raises:
            BadInput: there is no run of that id.
        """
        found = [run for run in self.runs() if run["run_id"] == run_id]
        if not found:
            raise BadInput(
                f"--run-id {run_id}", f"no such run in {self._place.uri}", "leave it out for the last"
            )
        return found[-1]

    def coverage(self, run_id: str, tables: Sequence[str] = ()) -> list[Row]:
        """Return the run's rows of `coverage`, by table and axis."""
        rows = self._rows("coverage", _of(run_id, tables=tables))
        return sorted(rows, key=lambda row: (row["table_name"] or "", row["axis"]))

    def verified(self, run_id: str) -> list[Row]:
        """Return the run's rows of `verified`, by table; an audit of single partitions has none."""
        return sorted(self._rows("verified", _of(run_id)), key=lambda row: row["table_name"])

    def findings(self, run_id: str, row_filter: RowFilter = ALL) -> Iterator[pa.RecordBatch]:
        """Yield the run's findings with all columns, worst severity first."""
        yield from self._worst_first("findings", _of(run_id) & row_filter.condition())

    def discrepancies(
        self, states: Sequence[str] = (), like: str = "", row_filter: RowFilter = ALL
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of the ledger with all columns, worst severity first, by state and by the start of the id."""
        begins = pc.starts_with(pc.field("discrepancy_id"), like)
        held = begins & _among(("state", states)) & row_filter.condition()
        yield from self._worst_first("discrepancies", held)

    def open_files(self, row_filter: RowFilter = ALL) -> int:
        """Count the files of open discrepancies; a discrepancy without files counts as one."""
        held = _among(("state", ("open",))) & row_filter.condition()
        files = (batch["files"] for batch in self.batches("discrepancies", held, ["files"], rows=1 << 16))
        return sum((pc.sum(pc.fill_null(each, 1)).as_py() or 0) for each in files)

    def holds_any(self, table: str, condition: Expression) -> bool:
        """Return whether a result table has rows that match."""
        return any(True for _ in self.batches(table, condition, ["run_id"]))

    def unresolved(self) -> list[Row]:
        """Return discrepancy_id, kind, severity and owner of every discrepancy that is pending or open."""
        condition = _among(("state", UNRESOLVED))
        columns = ("discrepancy_id", "kind", "severity", "owner")
        return [
            row for batch in self.batches("discrepancies", condition, columns) for row in batch.to_pylist()
        ]

    def discrepancies_of_file(self, bucket: str, key: str) -> list[Row]:
        """Return the ledger's rows about one key, in any state."""
        return self._rows("discrepancies", (pc.field("bucket") == bucket) & (pc.field("key") == key))

    def discrepancies_named(self, text: str, *, like: bool = False) -> list[Row]:
        """Return the ledger's rows with this subject or id; with `like` also those whose id begins with it."""
        identity = pc.field("discrepancy_id")
        same = (pc.field("subject") == text) | (identity == text)
        return self._rows("discrepancies", same | pc.starts_with(identity, text) if like else same)

    def files_named(self, path: str) -> list[tuple[str, str]]:
        """Return (bucket, key) of known files with this path: the whole key, `bucket/key`, else the key's end.

        The files of the ledger, of the last published run, and of its groups of unused files are known.
        """
        bucket, _, key = path.partition("/")
        whole = (pc.field("key") == path) | ((pc.field("bucket") == bucket) & (pc.field("key") == key))
        return self._places(whole) or self._places(pc.ends_with(pc.field("key"), f"/{path}"))

    def folders_named(self, path: str) -> list[tuple[str, str]]:
        """Return (bucket, prefix) of folders that hold known files and whose prefix is, or ends with, this path."""
        found = set()
        inside = pc.starts_with(pc.field("key"), f"{path}/") | pc.match_substring(
            pc.field("key"), f"/{path}/"
        )
        for bucket, key in self._places(inside):
            at = 0 if key.startswith(f"{path}/") else key.index(f"/{path}/") + 1
            found.add((bucket, key[: at + len(path) + 1]))
        return sorted(found)

    def is_folder(self, bucket: str, key: str) -> bool:
        """Return whether known files have keys below this key, and no file has the key itself."""
        own = pc.field("bucket") == bucket
        below = self._places(own & pc.starts_with(pc.field("key"), f"{key}/"))
        return bool(below) and not self._places(own & (pc.field("key") == key))

    def _places(self, condition: Expression) -> list[tuple[str, str]]:
        run = self.last_published()
        of_files = condition & pc.field("subject_type").isin(["file", "commit"])
        found = [("discrepancies", of_files)]
        found += [("findings", of_files & _of(run["run_id"]))] if run else []
        found += [("leftover_files", condition & _of(run["run_id"]))] if run else []
        columns = ("bucket", "key")
        rows = [b for name, condition in found for b in self.batches(name, condition, columns)]
        return sorted({(row["bucket"], row["key"]) for batch in rows for row in batch.to_pylist()})

    def states(self) -> list[Row]:
        """Return the rows of `states`: one a table and kind of manifest, or several until upkeep removes old ones."""
        return self._rows("states", pc.scalar(True))

    def tables(self) -> list[Row]:
        """Return the rows of `tables` by name: each table that an audit had in its scope, in the lake file or not."""
        return sorted(self._rows("tables", pc.scalar(True)), key=lambda row: row["table_name"])

    def notices(self) -> list[Row]:
        """Return all notices, sent or due, oldest first."""
        return sorted(
            self._rows("notices", pc.scalar(True)), key=lambda row: (row["made_at"], row["notice_id"])
        )

    def history(self, ids: Sequence[str]) -> list[Row]:
        """Return the transitions of these discrepancies, oldest first."""
        return sorted(self._rows("transitions", _among(("discrepancy_id", ids))), key=lambda row: row["at"])

    def _worst_first(self, table: str, condition: Expression) -> Iterator[pa.RecordBatch]:
        for batches in self._by_severity(table, condition):
            yield from batches

    def _by_severity(self, table: str, condition: Expression) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the rows of one severity after the other, the worst first; at last those of no known one."""
        few = self._few(table, condition)
        for severity in (*(pc.field("severity") == each for each in SEVERITIES), _ODD):
            if few is None:
                yield self.batches(table, condition & severity)
            else:
                found = few.filter(severity).to_batches(max_chunksize=BATCH_ROWS)
                yield (batch for batch in found if batch.num_rows)

    def _few(self, table: str, condition: Expression) -> pa.Table | None:
        """Return the rows that match in one pass; None if they are more than `FEW`."""
        batches: list[pa.RecordBatch] = []
        for batch in self.batches(table, condition):
            batches.append(batch)
            if sum(each.num_rows for each in batches) > FEW:
                return None
        return (
            pa.Table.from_batches(batches) if batches else pa.table({"severity": pa.array([], pa.string())})
        )

    def findings_of_file(self, run_id: str, bucket: str, key: str) -> list[Row]:
        """Return the run's findings about one key, or with this key as their related key."""
        about = (pc.field("key") == key) | (pc.field("related_key") == key)
        return self._rows("findings", _of(run_id) & (pc.field("bucket") == bucket) & about)

    def group_findings(self, run_id: str, table: str) -> list[Row]:
        """Return the run's findings about more than one file of a table: prefixes, partitions, the table itself."""
        return self._rows("findings", _of(run_id, tables=(table,)) & (pc.field("subject_type") != "file"))

    def leftover_groups(self, run_id: str, row_filter: RowFilter = ALL) -> list[Row]:
        """Return the run's findings about groups of unused files, whose files are in `leftover_files`."""
        named = (pc.field("axis") == "leftover") & ~pc.field("kind").isin(WATCHED_KINDS)
        return self._rows("findings", _of(run_id) & row_filter.condition() & named)

    def worst(self, run_id: str, limit: int, below: tuple[str, str] | None = None) -> list[Row]:
        """Return the worst findings: by severity, then most bytes at stake, then key.

        `below` limits them to keys of a bucket with a prefix.
        """
        found: list[Row] = []
        known = islice(self._by_severity("findings", _of(run_id) & _below(below)), len(SEVERITIES))
        for batches in known:
            if len(found) < limit:
                found += _top(batches, limit - len(found))
        return found

    def open_below(self, bucket: str, prefix: str) -> list[Row]:
        """Return the ledger's open rows about keys with this prefix."""
        return self._rows("discrepancies", _below((bucket, prefix)) & _among(("state", ("open",))))

    def groups_of_files_below(self, run_id: str, bucket: str, prefix: str) -> set[str]:
        """Return the ids of the run's groups of unused files that have a file with this prefix."""
        condition = _of(run_id) & _below((bucket, prefix))
        batches = self.batches("leftover_files", condition, ["discrepancy_id"])
        return {row["discrepancy_id"] for batch in batches for row in batch.to_pylist()}

    def totals(self, run_id: str, below: tuple[str, str] | None = None) -> list[Row]:
        """Return sums of all findings, or of those below a (bucket, prefix).

        There is one row for each kind, severity, table (with its owner), partition and answer of `recoverable`. Each
        has findings, files, rows_at_stake, bytes_at_stake (null where every part is) and the soonest recoverable_until.
        """
        summed = ("files", "rows_at_stake", "bytes_at_stake")
        columns = [*_GROUP, *summed, "recoverable_until"]
        batches = list(self.batches("findings", _of(run_id) & _below(below), columns))
        if not batches:
            return []
        sums = [*((name, "sum") for name in summed), ("recoverable_until", "min")]
        grouped = pa.Table.from_batches(batches).group_by(list(_GROUP)).aggregate([*sums, ([], "count_all")])
        names = {f"{name}_{how}": name for name, how in sums} | {"count_all": "findings"}
        rows: list[Row] = grouped.rename_columns([names.get(n, n) for n in grouped.column_names]).to_pylist()
        return rows

    def leftover_files(self, run_id: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the files of the run's groups, without tables whose files a later run has replaced."""
        yield from self.batches("leftover_files", _of(run_id), columns)

    def leftovers_of_file(self, run_id: str, bucket: str, key: str) -> list[Row]:
        """Return the rows of `leftover_files` about one key."""
        about = (pc.field("bucket") == bucket) & (pc.field("key") == key)
        return self._rows("leftover_files", _of(run_id) & about)

    def _rows(self, table: str, condition: Expression) -> list[Row]:
        return [row for batch in self.batches(table, condition) for row in batch.to_pylist()]


def _top(found: Iterable[pa.RecordBatch], limit: int) -> list[Row]:
    """Return the first `limit` rows; only few batches are held at a time."""
    order = [("bytes_at_stake", "descending"), ("key", "ascending"), ("table_name", "ascending")]
    batches: list[pa.RecordBatch] = []
    for batch in found:
        batches.append(batch)
        if sum(each.num_rows for each in batches) > limit + FEW:
            batches = pa.Table.from_batches(batches).sort_by(order).slice(0, limit).to_batches()
    rows: list[Row] = []
    if batches:
        rows = pa.Table.from_batches(batches).sort_by(order).slice(0, limit).to_pylist()
    return rows


def _order(run: Row) -> tuple[datetime, str]:
    return run["finished_at"] or _BEFORE_ALL, run["run_id"]


def _wrote_findings(run: Row) -> bool:
    """Return whether a run wrote findings; one that ended before has no number of audited tables."""
    return run["status"] in PUBLISHED or (run["status"] == "failed" and run["tables_audited"] is not None)


def _of(run_id: str, tables: Sequence[str] = ()) -> Expression:
    return (pc.field("run_id") == run_id) & _among(("table_name", tables))


def _among(*condition: tuple[str, Sequence[str]]) -> Expression:
    """Require each column to have one of its values; no values mean any."""
    conditions = [pc.field(column).isin(list(values)) for column, values in condition if values]
    return reduce(and_, conditions, pc.scalar(True))


def _below(place: tuple[str, str] | None) -> Expression:
    """Require keys with the prefix of a (bucket, prefix); None allows any key."""
    if place is None:
        return pc.scalar(True)
    bucket, prefix = place
    return (pc.field("bucket") == bucket) & pc.starts_with(pc.field("key"), prefix)
