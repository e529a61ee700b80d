"""The report page of one run: plain rows in, one self-contained HTML file out.

Pure: rows are gathered elsewhere, the clock is an argument. Everything that is shown comes from stores and writers and
is hostile: autoescape is on for every expression, invisible characters are spelled out before that, nothing that was
read becomes a link's target, a style or a script, and the page's policy lets it fetch nothing.
"""

import base64
import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeaudit import formatting, next_steps
from lakeaudit.kinds import KINDS, SEVERITIES, axis_words
from lakeaudit.report import coverage_view, plots, summary, verdict

if TYPE_CHECKING:
    from lakeaudit.runtime.aws import Endpoint

Row = Mapping[str, Any]

MAX_FINDINGS = 5_000
"""Findings written out on the page, worst first; the totals speak of all."""


@dataclass(frozen=True)
class History:
    """What the run changed in the ledger and what is open after it, each summed by table, kind and severity.

    Rows have table, transition, kind, severity, resolution, number, files, rows, bytes and since (first evidence).
    """

    changes: Sequence[Row]
    still_open: Sequence[Row]

    @property
    def all_new(self) -> bool:
        """Whether what is open is no more than what this run opened, as after a first run."""
        opened = [row for row in self.changes if row["transition"] == "opened"]
        return _sums(opened) == _sums(self.still_open)


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


def _sums(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        found[row["table"], row["kind"], row["severity"]] += row["number"]
    return found


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
) -> PageData:
    """Order the findings worst first and cut them at MAX_FINDINGS; without `standing` the findings are all there is.

    Raises:
        ValueError: the totals count fewer findings than were given, so they are not of the same run.
    """
    given = sorted(findings, key=worst_first)
    shown = given[:MAX_FINDINGS]
    if standing is None:
        standing = [{**row, "standing": "found", "findings": 1} for row in given]
    told = (demo, history, standing, lake_tables, reach or {}, samples or {})
    page = PageData(lake, run, coverage, shown, totals, generated_at, *told)
    if page.not_shown < 0:
        raise ValueError(f"{len(shown)} findings given, but the totals count {page.found}: not of one run")
    return page


def worst_first(finding: Row) -> tuple[int, float, str, str, str]:
    """Severity, most bytes at stake (unknown last), then key, table and kind, so that the order is always the same."""
    at_stake = finding["bytes_at_stake"]
    place = finding["key"] or finding["subject"] or ""
    size = float("inf") if at_stake is None else -at_stake
    return summary.rank(finding["severity"]), size, place, finding["table_name"] or "", finding["kind"]


def render(page: PageData) -> str:
    """The page as one HTML text that asks for nothing else."""
    kinds, severities = summary.by_kind(page.totals), summary.by_severity(page.totals)
    tables = coverage_view.judged(page.coverage)
    lines = summary.by_table(page.totals)
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        run=page.run,
        verdict=verdict.verdict(page.run, page.standing, page.totals, tables, page.lake_tables),
        severities=severities,
        kinds=kinds,
        most=max((line.stake.findings for line in kinds), default=0),
        tables=lines,
        judged=tables,
        evidence_up_to=min((t.evidence_up_to for t in tables if t.evidence_up_to), default=None),
        ends_known=any(row["recoverable_until"] is not None for row in page.totals),
        axes=coverage_view.axes_met(page.coverage),
        troubled={t.line.name for t in lines if summary.rank(t.line.worst) < len(summary.AT_STAKE)},
        choices=_choices(page.findings),
        style=_asset("page.css"),
        script=_asset("page.js"),
    )


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


@dataclass(frozen=True)
class _Asset:
    """A style or script of our own, with the hash by which the page's policy allows it."""

    text: Markup
    digest: str


def _asset(name: str) -> _Asset:
    text = files("lakeaudit.report").joinpath(name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return _Asset(Markup(text), f"sha256-{digest}")  # noqa: S704 - packaged text of ours, nothing that was read


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("lakeaudit.report", "."),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=formatting.count, size=formatting.size, age=formatting.age, share=formatting.share
    )
    environment.filters.update(comeback=formatting.comeback, uri=formatting.uri)
    environment.filters.update(
        time=_time, iso=_iso, amount=_amount, spelled=spelled, filter_link=_filter_link
    )
    environment.globals.update(
        words=formatting, plots=plots, summary=summary, KINDS=KINDS, STANDINGS=coverage_view.STANDINGS
    )
    environment.globals.update(
        OUTCOMES=coverage_view.OUTCOMES, at_stake=summary.AT_STAKE, command=next_steps.learn_more
    )
    environment.globals.update(
        way_back=next_steps.way_back,
        to_do=next_steps.to_do,
        THINK_FIRST=next_steps.THINK_FIRST,
        axis_words=axis_words,
    )
    environment.globals.update(
        confirmed=formatting.CONFIRMED, outcome_words=formatting.OUTCOMES, spelled=spelled
    )
    return environment


def _finalize(value: object) -> object:
    """Every expression of the template passes here before it is escaped."""
    if value is None:
        return formatting.UNKNOWN
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def spelled(text: str | None) -> Markup:
    """Untrusted text for the body of the page: what is spelled out is set apart, right-to-left parts stay in place."""
    if text is None:
        return Markup("{}").format(formatting.UNKNOWN)
    if text.isascii() or not any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text):
        return _set_apart(text)
    return Markup("/").join(Markup("<bdi>{}</bdi>").format(_set_apart(part)) for part in text.split("/"))


def _set_apart(text: str) -> Markup:
    odd, plain = Markup('<span class="u">{}</span>'), Markup("{}")
    return Markup().join((odd if is_odd else plain).format(part) for is_odd, part in formatting.pieces(text))


def _time(value: datetime | None) -> Markup:
    return Markup("<time>{}</time>").format(formatting.second(value))


def _iso(value: datetime) -> str:
    return formatting.second(value).replace(" ", "T")


def _amount(value: summary.Amount, put: Callable[[int | None], str]) -> str:
    """A sum in words; where a part of it is unknown, it is at least that."""
    return put(value.known) if value.whole or value.known is None else f"\u2265 {put(value.known)}"


def _filter_link(what: str, value: str) -> str:
    """The page's own address with the findings filtered: the one kind of link there is."""
    return "#" + urlencode({what: formatting.visible(value)})
