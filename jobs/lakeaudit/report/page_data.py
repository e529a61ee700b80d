"""What the report page and the terminal show of one run: plain rows, ordered and cut to size. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeaudit import formatting
from lakeaudit.kinds import rank
from lakeaudit.results.open_by_day import OpenByDay

if TYPE_CHECKING:
    from lakeaudit.runtime.aws import Endpoint

Row = Mapping[str, Any]

MAX_FINDINGS = 5_000
"""Findings written out on the page, worst first; the totals speak of all."""
MAX_TEXT = 4_000_000
"""Characters of stored text in them: names of 1,024 bytes make a page of fewer findings, and not a larger one."""


@dataclass(frozen=True)
class History:
    """What the run changed in the ledger and what is open after it, each summed by table, kind and severity.

    Rows have table, transition, kind, severity, resolution, number, files, rows, bytes and since (first evidence).
    """

    changes: Sequence[Row]
    still_open: Sequence[Row]


@dataclass(frozen=True)
class PageData:
    """What the page is made of.

    Attributes:
        lake: the lake file as the reader of the page would type it; it goes into the commands.
        run: the row of `runs`.
        coverage: the run's rows of `coverage`.
        findings: at most MAX_FINDINGS rows of `findings`, worst first.
        totals: over all findings, one row per (kind, severity, table_name, partition_path) with findings, files,
            rows_at_stake, bytes_at_stake and the soonest recoverable_until.
        generated_at: when the page was made, UTC.
        demo: for the demo's page: seed, broken (the breaker's own acts, as mappings of one shape), matched.
        history: None for a run before the last one, of which it is not known any more.
        standing: how the lake stands after the run, as `results.lake_standing` sums it up.
        lake_tables: every table of the lake file; none: what the run looked at is taken for the whole.
        reach: by bucket how it is reached, for commands; a bucket that is not here is AWS's own.
        samples: by discrepancy the first files behind a group.
        trend: what was open at the end of each of the last days; None of a run before the last one.
        runs: the last rows of `runs` up to this one, oldest first.
        limits: by location how old a source may be.
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

    def names(self, finding: Row) -> Sequence[str]:
        """The first files behind a group that has any."""
        return self.samples.get(finding["discrepancy_id"] or "", ())

    def place(self, finding: Row) -> str | None:
        """Where a finding lies: a group of one file is that file."""
        names = self.names(finding)
        alone = len(names) == 1 and finding["files"] == 1
        return names[0] if alone else formatting.uri(finding) or finding["subject"]

    @property
    def found(self) -> int:
        """All findings of the run."""
        return sum(row["findings"] for row in self.totals)

    @property
    def not_shown(self) -> int:
        """Findings that are not on the page."""
        return self.found - len(self.findings)


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
) -> PageData:
    """Order the findings worst first and cut them; without `standing` the findings are all there is.

    Raises:
        ValueError: the totals count fewer findings than were given, so they are not of the same run.
    """
    given = sorted(findings, key=worst_first)
    shown = _within_bounds(given)
    if standing is None:
        standing = [{**row, "standing": "found", "findings": 1} for row in given]
    told = (demo, history, standing, lake_tables, reach or {}, samples or {}, trend, runs, limits or {})
    page = PageData(lake, run, coverage, shown, totals, generated_at, *told)
    if page.not_shown < 0:
        raise ValueError(f"{len(shown)} findings given, but the totals count {page.found}: not of one run")
    return page


def _within_bounds(findings: Sequence[Row]) -> Sequence[Row]:
    text = 0
    for at, row in enumerate(findings[:MAX_FINDINGS]):
        text += sum(len(value) for value in row.values() if isinstance(value, str))
        if text > MAX_TEXT:
            return findings[: max(at, 1)]
    return findings[:MAX_FINDINGS]


def worst_first(finding: Row) -> tuple[int, float, str, str, str]:
    """Severity, most bytes at stake (unknown last), then key, table and kind, so that the order is always the same."""
    at_stake = finding["bytes_at_stake"]
    place = finding["key"] or finding["subject"] or ""
    size = float("inf") if at_stake is None else -at_stake
    return rank(finding["severity"]), size, place, finding["table_name"] or "", finding["kind"]
