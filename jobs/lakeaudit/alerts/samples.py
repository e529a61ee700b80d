"""Computes the metrics of a lake from its results: every number with its name and its labels.

The number of series is bounded, since every series costs memory in Prometheus. A lake has a series for each of its
tables, and series by severity and axis for the worst of them. The other tables are added up under one name, so that
every sum over the tables is complete.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.config import Lake
from lakeaudit.formatting import visible
from lakeaudit.judged import NOTHING, OFF, axis_state, files_judged, files_young, table_standing
from lakeaudit.kinds import FILE_AXES, SEVERITIES
from lakeaudit.report.coverage_view import STANDINGS
from lakeaudit.report.evidence_ages import evidence_ages
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.summaries.lake_numbers import NOTHING_OPEN, OpenSums, open_sums, run_changes, total
from lakeaudit.results.summaries.latest_coverage import latest_coverage
from lakeaudit.results.summaries.verified_tables import current_watermarks

DETAILED_TABLES = 250
"""Highest number of tables with series of their own by severity and axis."""
MOST_TABLES = 2000
"""Highest number of tables with a series of their own."""
MOST_SOURCES = 100
"""Highest number of sources with series of their own."""
OTHER_TABLES = "(other tables)"
"""Label of the sum over the tables without a series of their own."""
SOURCES = "(sources)"
"""Label of findings about sources, which have no table."""

STATUSES = tuple(dict.fromkeys((*PUBLISHED, "suspect", "failed")))
"""Possible final states of an audit."""
UNCHECKED = "unchecked"
"""Standing of a table that no published audit has checked."""

METRICS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "lakeaudit_last_run_timestamp_seconds": ((), "When the last audit ended."),
    "lakeaudit_last_run_duration_seconds": ((), "How long the last audit took."),
    "lakeaudit_last_run": (("lakeaudit_last_run",), "How the last audit ended."),
    "lakeaudit_last_published_timestamp_seconds": ((), "When the last audit was published."),
    "lakeaudit_overdue_seconds": ((), "The age of the last published audit at which an audit is overdue."),
    "lakeaudit_open_discrepancies": (
        ("table", "severity"), "Open and not accepted; without a table: about evidence.",
    ),
    "lakeaudit_table_open_discrepancies": (("table",), "Open and not accepted, of all severities."),
    "lakeaudit_verified_through_timestamp_seconds": (
        ("table",), "Up to when all commits of a table are verified; 0: none is.",
    ),
    "lakeaudit_rows_at_stake": (
        ("table",), "Known rows of open discrepancies of the worst severity of a table, above info.",
    ),
    "lakeaudit_discrepancies_without_rows": (
        ("table",), "Open discrepancies of the worst severity of a table whose number of rows is not known.",
    ),
    "lakeaudit_decided_share": (
        ("table", "axis"), "Files of an axis that the last audit of the table could decide on, of all.",
    ),
    "lakeaudit_judged_share": (("axis",), "Files of an axis that the last audits of all tables judged, of all."),
    "lakeaudit_tables": (("standing",), "Tables by how much of them their last audit judged."),
    "lakeaudit_audited_files": ((), "Files that the last audits of all tables counted."),
    "lakeaudit_changed_discrepancies": (("transition",), "Discrepancies that the last published audit changed."),
    "lakeaudit_evidence_timestamp_seconds": (
        ("role", "kind", "location"), "When the newest snapshot of a source was made.",
    ),
    "lakeaudit_evidence_max_age_seconds": (
        ("role", "kind", "location"), "The age of a source that the lake file allows.",
    ),
    "lakeaudit_left_out": (("of",), "Tables and sources that have no series of their own."),
}  # fmt: skip
"""All metrics, which are gauges: their labels after `lake`, and their help."""


@dataclass(frozen=True)
class Sample:
    """One number of a metric; `labels` are the values of its labels after `lake`."""

    metric: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class _Table:
    """A table's open discrepancies, and its rows of coverage of its last audit."""

    name: str
    open: OpenSums
    coverage: Sequence[Row]

    @property
    def standing(self) -> str:
        return table_standing(self.coverage) if self.coverage else UNCHECKED

    def rank(self) -> tuple[tuple[int, ...], bool, str]:
        """Return the sort key, worst first: most of the worst severities, then not fully judged, then by name."""
        return tuple(-self.open.numbers.get(s, 0) for s in SEVERITIES), self.standing == "whole", self.name


def samples(results: Results, lake: Lake, now: datetime) -> Iterator[Sample]:
    """Yield the numbers of a lake; before an audit has ended only `lakeaudit_overdue_seconds`.

    Raises:
        CannotAudit: the results cannot be read.
    """
    yield Sample("lakeaudit_overdue_seconds", (), lake.overdue.total_seconds())
    finished = [run for run in results.runs() if run["finished_at"] is not None]
    if not finished:
        return
    yield from _last_run(finished[-1])
    published = [run for run in finished if run["status"] in PUBLISHED]
    if published:
        yield from _last_published(results, published[-1])
        yield from _evidence(published, lake, now)
    opened = open_sums(results, now)
    tables = sorted(_tables(lake, opened, latest_coverage(results)), key=_Table.rank)
    yield from _of_tables(tables, opened.get(None, NOTHING_OPEN))
    names = [table.name for table in tables[:MOST_TABLES]]
    yield from _verified(names, current_watermarks(results, lake, now, names))
    yield from _of_lake(tables)


def _last_run(run: Row) -> Iterator[Sample]:
    yield Sample("lakeaudit_last_run_timestamp_seconds", (), run["finished_at"].timestamp())
    yield Sample(
        "lakeaudit_last_run_duration_seconds", (), (run["finished_at"] - run["started_at"]).total_seconds()
    )
    for status in STATUSES:
        yield Sample("lakeaudit_last_run", (status,), run["status"] == status)


def _last_published(results: Results, run: Row) -> Iterator[Sample]:
    yield Sample("lakeaudit_last_published_timestamp_seconds", (), run["finished_at"].timestamp())
    for transition, number in run_changes(results, run["run_id"]).items():
        yield Sample("lakeaudit_changed_discrepancies", (transition,), number)


def _evidence(published: Sequence[Row], lake: Lake, now: datetime) -> Iterator[Sample]:
    """Yield the sources of the newest audit and of those shortly before: an audit of one table reads few sources."""
    recent = [run for run in published if run["finished_at"] >= published[-1]["finished_at"] - lake.overdue]
    ages = evidence_ages(recent, lake, now)
    for source in ages[:MOST_SOURCES]:
        labels = (source.role, source.kind, visible(source.location))
        yield Sample("lakeaudit_evidence_timestamp_seconds", labels, source.at.timestamp())
        if source.limit:
            yield Sample("lakeaudit_evidence_max_age_seconds", labels, source.limit.total_seconds())
    yield Sample("lakeaudit_left_out", ("sources",), len(ages[MOST_SOURCES:]))


def _tables(
    lake: Lake, opened: Mapping[str | None, OpenSums], coverage: Mapping[str | None, Sequence[Row]]
) -> Iterator[_Table]:
    """Yield the tables of the lake file, those that audits discovered, and those with an open discrepancy."""
    discovered = coverage if lake.finds_tables else ()
    for name in dict.fromkeys([*(table.name for table in lake.tables), *discovered, *opened]):
        if name is not None:
            yield _Table(name, opened.get(name, NOTHING_OPEN), coverage.get(name, ()))


def _of_tables(tables: Sequence[_Table], evidence: OpenSums) -> Iterator[Sample]:
    """Yield every number that a table has even if it is 0, since alarms ignore a series that disappears."""
    detailed, others = tables[:DETAILED_TABLES], tables[DETAILED_TABLES:]
    for table in detailed:
        yield from _open(visible(table.name), table.open)
        yield from _decided(table)
    yield from _open(SOURCES, evidence)
    if others:
        yield from _open(OTHER_TABLES, total([table.open for table in others]))
    for table in tables[:MOST_TABLES]:
        yield Sample("lakeaudit_table_open_discrepancies", (visible(table.name),), table.open.number)
    yield Sample("lakeaudit_left_out", ("table details",), len(others))
    yield Sample("lakeaudit_left_out", ("tables",), len(tables[MOST_TABLES:]))


def _verified(names: Sequence[str], watermarks: Mapping[str, Row]) -> Iterator[Sample]:
    for name in names:
        if name in watermarks:
            at = watermarks[name]["verified_through"]
            seconds = 0.0 if at is None else at.timestamp()
            yield Sample("lakeaudit_verified_through_timestamp_seconds", (visible(name),), seconds)


def _open(table: str, opened: OpenSums) -> Iterator[Sample]:
    for severity in SEVERITIES:
        yield Sample("lakeaudit_open_discrepancies", (table, severity), opened.numbers.get(severity, 0))
    yield Sample("lakeaudit_rows_at_stake", (table,), opened.rows)
    yield Sample("lakeaudit_discrepancies_without_rows", (table,), opened.without_rows)


def _decided(table: _Table) -> Iterator[Sample]:
    """Yield the shares of axes; 0 if nothing could be judged, even if the number of files is not known."""
    for row in table.coverage:
        share = 0.0 if axis_state(row) == NOTHING else row["decided_share"]
        if share is not None:
            yield Sample("lakeaudit_decided_share", (visible(table.name), row["axis"]), share)


def _of_lake(tables: Sequence[_Table]) -> Iterator[Sample]:
    standings = [table.standing for table in tables]
    for standing in (*STANDINGS, UNCHECKED):
        yield Sample("lakeaudit_tables", (standing,), standings.count(standing))
    files = (
        max((row["files"] or 0 for row in table.coverage if row["axis"] in FILE_AXES), default=0)
        for table in tables
    )
    yield Sample("lakeaudit_audited_files", (), sum(files))
    by_axis: dict[str, list[Row]] = {}
    for row in (row for table in tables for row in table.coverage):
        by_axis.setdefault(row["axis"], []).append(row)
    for axis, rows in by_axis.items():
        yield from _judged(axis, rows)


def _judged(axis: str, rows: Sequence[Row]) -> Iterator[Sample]:
    """Yield the share of the files that are old enough; none if the axis is off, or has no such files, everywhere."""
    old_enough = sum((row["files"] or 0) - files_young(row) for row in rows if axis_state(row) != OFF)
    if old_enough:
        judged = sum(files_judged(row) for row in rows if axis_state(row) != OFF)
        yield Sample("lakeaudit_judged_share", (axis,), judged / old_enough)
    elif any(axis_state(row) == NOTHING for row in rows):
        yield Sample("lakeaudit_judged_share", (axis,), 0.0)
