"""Renders the report page of one run: plain rows in, one self-contained HTML file out.

Pure: `gather.py` reads the rows, the clock is an argument. All values come from stores and writers and may be hostile:
autoescape is on for every expression, invisible characters are spelled out before that, no value becomes a style or a
script, links lead to the page itself or to the dashboard of the lake file, and the page's policy lets it fetch nothing.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakeaudit import formatting
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.report import broken, closing, coverage_view, summary, verdict
from lakeaudit.report.dashboard_links import dashboard_links
from lakeaudit.report.environment import asset, environment, style
from lakeaudit.report.page_data import PageData
from lakeaudit.results.recovery import Recovery

Row = Mapping[str, Any]

TABLES = 50
"""Number of tables that are visible at first, worst first."""
MORE = 200
"""Number of rows behind a click; further rows are counted, with the command that lists them."""
CHANGES = 20
SOURCES = 40
GAUGES = 3
"""Number of sources whose age is drawn, those nearest to their limit."""
SOURCE = 24
"""Characters of a source's location, for several sources of one kind."""


def render(page: PageData) -> str:
    """Return the page as one HTML text that loads nothing else."""
    judged = coverage_view.judged(page.coverage)
    lines = summary.by_table(page.totals)
    serious = [row for row in page.standing if row["severity"] in summary.AT_STAKE]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            run=page.run,
            verdict=verdict.verdict(
                page.run, page.standing, page.totals, judged, page.lake_tables, page.verified
            ),
            closing=closing.closing(page) if page.history is not None else None,
            broken=_broken(page),
            severities=summary.by_severity(broken.pressing(page.standing)),
            recovery=Recovery.of_sums(broken.pressing(serious)),
            gauges=gauges(page),
            lines=lines,
            most=max((line.line.stake.findings for line in lines), default=0),
            tables=lines[: TABLES + MORE],
            since=broken.since_by_table(page.history.still_open if page.history else ()),
            judged=judged,
            of_metadata=coverage_view.metadata_findings(page.totals, judged),
            evidence_up_to=min((t.evidence_up_to for t in judged if t.evidence_up_to), default=None),
            ends_known=any(line.line.stake.recovery.until is not None for line in lines),
            verified={row["table_name"]: row for row in page.verified},
            axes=coverage_view.axes_met(page.coverage),
            troubled={t.line.name for t in lines if rank(t.line.worst) < len(summary.AT_STAKE)},
            choices=_choices(page.findings),
            dashboard=dashboard_links(page.dashboard, page.run),
            style=style(),
            script=asset("page.js"),
            bounds={"tables": TABLES, "more": MORE, "changes": CHANGES, "sources": SOURCES},
        )
    )


def _broken(page: PageData) -> tuple[broken.Broken, ...]:
    ledger_rows, changes = (page.history.still_open, page.history.changes) if page.history else ((), ())
    past = page.run["run_id"] if page.history is None else None
    return broken.broken(page.standing, ledger_rows, changes, page.lake, past)


@dataclass(frozen=True)
class Gauge:
    """The age of a source's snapshot at the time of the audit; `limit` is the source's `max_age`, if it has one.

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
    """Return the sources whose snapshot has a time, nearest to their limit first; manifests are read live."""
    sources = [
        source
        for source in page.run["sources"] or ()
        if source["cut_from"] is not None and source["role"] != "manifest"
    ]
    kinds = Counter(source["kind"] for source in sources)
    drawn = [
        Gauge(
            _gauge_name(source, kinds[source["kind"]]),
            source["location"],
            max(page.run["as_of"] - source["cut_from"], timedelta(0)),
            page.limits.get(source["location"].rstrip("/")),
        )
        for source in sources
    ]
    return sorted(drawn, key=lambda each: (-each.part, -each.age, each.location))


def _gauge_name(source: Row, of_kind: int) -> str:
    words = re.split("[ /]", source["location"].rstrip("/"))
    return source["kind"] if of_kind == 1 else f"{source['kind']} {formatting.shortened(words[-1], SOURCE)}"


def _choices(findings: Sequence[Row]) -> dict[str, list[str]]:
    """Return the options of the filters: only values of findings on the page."""
    severities = {row["severity"] for row in findings}
    return {
        "severity": [
            *(name for name in SEVERITIES if name in severities),
            *sorted(severities - set(SEVERITIES)),
        ],
        "kind": sorted({row["kind"] for row in findings}),
        "table": sorted({formatting.table_label(row["table_name"]) for row in findings}),
    }
