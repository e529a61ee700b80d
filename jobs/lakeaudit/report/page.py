"""The report page of one run: plain rows in, one self-contained HTML file out.

Pure: rows are gathered elsewhere, the clock is an argument. Everything that is shown comes from stores and writers and
is hostile: autoescape is on for every expression, invisible characters are spelled out before that, nothing that was
read becomes a link's target, a style or a script, and the page's policy lets it fetch nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeaudit import formatting
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.report import broken, closing, coverage_view, summary, verdict
from lakeaudit.report.environment import asset, environment, style
from lakeaudit.report.open_by_day import OpenByDay
from lakeaudit.results.recovery import Recovery

if TYPE_CHECKING:
    from lakeaudit.runtime.aws import Endpoint

Row = Mapping[str, Any]

MAX_FINDINGS = 5_000
"""Findings written out on the page, worst first; the totals speak of all."""
MAX_TEXT = 4_000_000
"""Characters of stored text in them: names of 1,024 bytes make a page of fewer findings, and not a larger one."""
TABLES = 50
"""Tables seen at once, worst first."""
MORE = 200
"""Rows behind a click; what is more is a number, with the command that lists it."""
CHANGES = 20
SOURCES = 40
GAUGES = 3
"""Sources whose age is drawn, those nearest to their limit."""
SOURCE = 24
"""Characters of a source's location, where its kind alone does not tell it from another."""


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


def render(page: PageData) -> str:
    """The page as one HTML text that asks for nothing else."""
    judged = coverage_view.judged(page.coverage)
    lines = summary.by_table(page.totals)
    serious = [row for row in page.standing if row["severity"] in summary.AT_STAKE]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            run=page.run,
            verdict=verdict.verdict(page.run, page.standing, page.totals, judged, page.lake_tables),
            closing=closing.closing(page) if page.history is not None else None,
            broken=_broken(page),
            severities=summary.by_severity(broken.pressing(page.standing)),
            found=summary.by_severity(page.totals),
            recovery=Recovery.of_sums(broken.pressing(serious)),
            gauges=gauges(page),
            lines=lines,
            most=max((line.line.stake.findings for line in lines), default=0),
            tables=lines[: TABLES + MORE],
            since=broken.since_by_table(page.history.still_open if page.history else ()),
            judged=judged,
            evidence_up_to=min((t.evidence_up_to for t in judged if t.evidence_up_to), default=None),
            ends_known=any(row["recoverable_until"] is not None for row in page.totals),
            axes=coverage_view.axes_met(page.coverage),
            troubled={t.line.name for t in lines if rank(t.line.worst) < len(summary.AT_STAKE)},
            choices=_choices(page.findings),
            style=style(),
            script=asset("page.js"),
            bounds={"tables": TABLES, "more": MORE, "changes": CHANGES, "sources": SOURCES},
        )
    )


def _broken(page: PageData) -> tuple[broken.Broken, ...]:
    held, changes = (page.history.still_open, page.history.changes) if page.history else ((), ())
    past = page.run["run_id"] if page.history is None else None
    return broken.broken(page.standing, held, changes, page.lake, past)


@dataclass(frozen=True)
class Gauge:
    """How old a source's picture was when the audit went by it; `limit` is its `max_age`, if it has one.

    `name` is its kind, and the end of its location where several are of one kind.
    """

    name: str
    location: str
    age: timedelta
    limit: timedelta | None

    @property
    def part(self) -> float:
        return self.age / self.limit if self.limit else 0.0


def gauges(page: PageData) -> list[Gauge]:
    """The sources whose picture has a time, those nearest to their limit first; tables' logs are read anew."""
    sources = [
        source
        for source in page.run["sources"] or ()
        if source["cut_from"] is not None and source["role"] != "manifest"
    ]
    kinds = Counter(source["kind"] for source in sources)
    found = [
        Gauge(
            _named(source, kinds[source["kind"]]),
            source["location"],
            max(page.run["as_of"] - source["cut_from"], timedelta(0)),
            page.limits.get(source["location"].rstrip("/")),
        )
        for source in sources
    ]
    return sorted(found, key=lambda each: (-each.part, -each.age, each.location))


def _named(source: Row, of_kind: int) -> str:
    words = re.split("[ /]", source["location"].rstrip("/"))
    return source["kind"] if of_kind == 1 else f"{source['kind']} {formatting.shortened(words[-1], SOURCE)}"


def _choices(findings: Sequence[Row]) -> dict[str, list[str]]:
    """What the filters offer: only what is among the findings on the page."""
    severities = {row["severity"] for row in findings}
    return {
        "severity": [
            *(name for name in SEVERITIES if name in severities),
            *sorted(severities - set(SEVERITIES)),
        ],
        "kind": sorted({row["kind"] for row in findings}),
        "table": sorted({summary.table_label(row["table_name"]) for row in findings}),
    }
