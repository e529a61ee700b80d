"""Holds what the report page and the terminal show about one run: plain rows, ordered and limited in number. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeaudit import formatting
from lakeaudit.kinds import rank
from lakeaudit.results.summaries.open_by_day import OpenByDay

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Endpoint

Row = Mapping[str, Any]

MAX_FINDINGS = 5_000
"""Number of findings with details on the page, worst first; the totals count all."""
MAX_TEXT = 4_000_000
"""Characters of stored text in the findings: long names reduce the number of findings, not enlarge the page."""


@dataclass(frozen=True)
class History:
    """The changes of the ledger by the run and the open discrepancies after it, summed by table, kind and severity.

    Rows have table, transition, kind, severity, resolution, number, files, rows, bytes and since (first evidence).
    """

    changes: Sequence[Row]
    still_open: Sequence[Row]


@dataclass(frozen=True)
class PageData:
    """Holds everything that the page shows.

    Attributes:
        lake: the lake file as the reader of the page would type it, for the commands.
        run: the row of `runs`.
        coverage: the run's rows of `coverage`.
        findings: at most MAX_FINDINGS rows of `findings`, worst first.
        totals: over all findings, one row per (kind, severity, table_name, partition_path, recoverable) with findings,
            files, rows_at_stake, bytes_at_stake and the soonest recoverable_until.
        generated_at: time at which the page was made, UTC.
        demo: for the demo's page: seed, broken (the breaker's own acts, as mappings of one shape), matched.
        history: None for a run before the last one: the ledger no longer has it.
        standing: the state of the lake after the run, from `results.summaries.lake_standing`.
        lake_tables: every table of the lake file; if empty, the tables of the run count as the whole lake.
        reach: endpoint by bucket, for commands; a bucket that is not listed is on AWS.
        samples: by discrepancy the first files behind a group.
        trend: open discrepancies at the end of each of the last days; None for a run before the last one.
        runs: the last rows of `runs` up to this one, oldest first.
        limits: highest age of a source by location.
        dashboard: where people open the dashboard; None: there is none.
        run_at: a sentence that states where the commands can be run; empty: everywhere.
        verified: the run's rows of `verified`.
    """

    lake: str
    run: Row
    coverage: Sequence[Row]
    findings: Sequence[Row]
    totals: Sequence[Row]
    generated_at: datetime
    demo: Row | None = None
    history: History | None = None
    standing: Sequence[Row] = ()
    lake_tables: Sequence[str] = ()
    reach: Mapping[str, "Endpoint"] = field(default_factory=dict)
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    trend: OpenByDay | None = None
    runs: Sequence[Row] = ()
    limits: Mapping[str, timedelta] = field(default_factory=dict)
    dashboard: str | None = None
    run_at: str = ""
    verified: Sequence[Row] = ()

    def beside(self, finding: Row) -> frozenset[str]:
        """Return the kinds of all findings on the page about the finding's file."""
        return self._kinds_by_place.get((finding["bucket"], finding["key"]), frozenset())

    @cached_property
    def _kinds_by_place(self) -> Mapping[tuple[str, str], frozenset[str]]:
        kinds: dict[tuple[str, str], set[str]] = {}
        for row in self.findings:
            if row["bucket"] and row["key"]:
                kinds.setdefault((row["bucket"], row["key"]), set()).add(row["kind"])
        return {place: frozenset(each) for place, each in kinds.items()}

    def names(self, finding: Row) -> Sequence[str]:
        """Return the first files of a group; empty for other findings."""
        return self.samples.get(finding["discrepancy_id"] or "", ())

    def place(self, finding: Row) -> str | None:
        """Return the location of a finding; for a group of one file that of the file."""
        names = self.names(finding)
        alone = len(names) == 1 and finding["files"] == 1
        return names[0] if alone else formatting.uri(finding) or finding["subject"]

    @property
    def finding_count(self) -> int:
        """Return the number of all findings of the run."""
        return sum(row["findings"] for row in self.totals)

    @property
    def not_shown(self) -> int:
        """Return the number of findings that are not on the page."""
        return self.finding_count - len(self.findings)


def page_data(
    lake: str,
    run: Row,
    coverage: Sequence[Row],
    findings: Iterable[Row],
    totals: Sequence[Row],
    generated_at: datetime,
    demo: Row | None = None,
    history: History | None = None,
    standing: Sequence[Row] | None = None,
    lake_tables: Sequence[str] = (),
    reach: Mapping[str, "Endpoint"] | None = None,
    samples: Mapping[str, Sequence[str]] | None = None,
    trend: OpenByDay | None = None,
    runs: Sequence[Row] = (),
    limits: Mapping[str, timedelta] | None = None,
    verified: Sequence[Row] = (),
) -> PageData:
    """Order the findings worst first and limit them; without `standing` the findings are the state of the lake.

    Raises:
        ValueError: the totals count fewer findings than `findings` has, so they are not of the same run.
    """
    ordered = sorted(findings, key=worst_first)
    shown = _within_bounds(ordered)
    if standing is None:
        standing = [{**row, "standing": "found", "findings": 1} for row in ordered]
    rest = (demo, history, standing, lake_tables, reach or {}, samples or {}, trend, runs, limits or {})
    page = PageData(lake, run, coverage, shown, totals, generated_at, *rest, verified=verified)
    if page.not_shown < 0:
        raise ValueError(
            f"{len(shown)} findings given, but the totals count {page.finding_count}: not of one run"
        )
    return page


def _within_bounds(findings: Sequence[Row]) -> Sequence[Row]:
    text = 0
    for at, row in enumerate(findings[:MAX_FINDINGS]):
        text += sum(len(value) for value in row.values() if isinstance(value, str))
        if text > MAX_TEXT:
            return findings[: max(at, 1)]
    return findings[:MAX_FINDINGS]


def worst_first(finding: Row) -> tuple[int, float, str, str, str]:
    """Return the sort key: severity, most bytes at stake (unknown last), then key, table and kind."""
    at_stake = finding["bytes_at_stake"]
    place = finding["key"] or finding["subject"] or ""
    size = float("inf") if at_stake is None else -at_stake
    return rank(finding["severity"]), size, place, finding["table_name"] or "", finding["kind"]
