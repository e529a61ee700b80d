"""Builds the dashboard's own style and markup; `report/palette.py` has colours, shapes and words of severities.

The markup contains only numbers, dates and severities, and no stored text, which could act as markup.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from urllib.parse import quote

from lakeaudit.dashboard.addresses import relative_address
from lakeaudit.formatting import count, second
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.plots import spark_path
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.open_by_day import Numbers, OpenByDay

_INKS = "\n".join(
    f".tile.{level} .level {{ color: light-dark({light}, {dark}); }}"
    for level, (light, dark) in palette.INKS.items()
)
GRID, DAYS = "grid", "days"
"""Keys of containers."""
COLUMNS = 12
LINE = 17
"""Height of a table in the plot of days, in points."""
_NUMBERS = "\n".join(
    f'[class*="st-key-{GRID}-"][class*="-n{at}-"] :is(th, td):nth-child({at}), '
    f'[class*="st-key-{GRID}-"][class*="-n{at}-"] :is(th, td):nth-child({at}) * '
    "{ text-align: right !important; white-space: nowrap; }"
    for at in range(1, COLUMNS + 1)
)
"""Columns of numbers: `widgets.grid` names them in its key. Streamlit sets each cell to the left by itself."""
_WIDE_ONLY = ", ".join(
    f'[class*="st-key-{GRID}-"][class*="-w{at}-"] :is(th, td):nth-child({at})' for at in range(1, COLUMNS + 1)
)
_PHONE = f"""@media (max-width: 640px) {{
  [class*="st-key-{GRID}-"] :is(th, td) {{ padding: .25rem .35rem; font-size: .85rem; }}
  {_WIDE_ONLY} {{ display: none; }}
  [class*="st-key-{GRID}-"] [data-testid="stTable"] {{ overflow-x: auto; }}
}}"""
"""A narrow screen shows the columns that `widgets.grid` names for it."""
_OWN = """
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(4.6rem, 1fr)); gap: .5rem; }
.tile { border: 1px solid #8885; border-radius: .4rem; padding: .3rem .6rem .35rem; min-width: 0; }
.tile .level { display: block; font-size: .8rem; font-weight: 600; overflow: hidden; text-overflow: ellipsis; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile.none b, .tile.none .level { font-weight: 400; }
.tile .top { display: block; font-size: .65rem; line-height: 1; text-align: right; opacity: .8; }
.tile .ends { display: flex; justify-content: space-between; font-size: .65rem; line-height: 1.3; opacity: .8; }
.tile img { display: block; width: 100%; height: 1.6rem; border-bottom: 1px solid #8885; }
.runs { display: grid; grid-template-columns: repeat(auto-fill, 24px); gap: 3px; }
.runs a { height: 24px; border-radius: 3px; background: #8885; color: #000 !important; text-decoration: none !important;
  text-align: center; font-size: 12px; line-height: 24px; }
.runs a.failed { color: #fff !important; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .8rem; margin-top: .4rem; font-size: .8rem; }
.legend i { display: inline-block; width: .7rem; height: .7rem; margin-right: .35rem; border-radius: 2px; }
.days { display: grid; grid-template-columns: repeat(30, minmax(2px, 1fr)); grid-auto-rows: 16px; gap: 1px; }
.days, .st-key-days [data-testid="stText"] { font-size: 11px; line-height: 17px; }
.st-key-days [data-testid="stText"] { padding-top: 17px; }
.days i { align-self: end; height: 100%; }
.days .error { height: 72%; } .days .warning { height: 48%; } .days .info { height: 26%; }
.days .carried { opacity: .35; }
.days .no-audit { background: none; border: 1px solid #8886; height: 60%; }
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }
[data-testid="stText"], [data-testid="stTable"] { font-variant-numeric: tabular-nums; }
h1 { overflow-wrap: anywhere; }
[data-testid="stPageLink-NavLink"] * { white-space: normal; overflow-wrap: anywhere; }
[data-testid="stCaptionContainer"] { opacity: .8; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { color: inherit; }
button[aria-label="Clear value"] { min-width: 24px; min-height: 24px; }
"""
"""Denser than Streamlit's own spacing, so that the first screen shows the verdict without scrolling.

Its captions are too pale to read and its smallest button too small to hit (WCAG 2.2, 1.4.3 and 2.5.8)."""
_AREAS = "\n".join(
    f".{of} .{name} {{ background: {colour}; }}"
    for of, colours in (
        ("days", palette.COLOURS), ("runs", palette.STATUS_COLOURS), ("legend", palette.STATUS_COLOURS),
    )
    for name, colour in colours.items()
)  # fmt: skip
_ALARM = f":is(.runs, .legend) .alarm {{ background: {palette.COLOURS['error']}; }}"
"""A night with lost coverage or a failed gate is an alarm of severity error."""
STYLE = f"<style>{_OWN}{_INKS}\n{_AREAS}\n{_ALARM}\n{_NUMBERS}\n{_PHONE}\n</style>"


def tiles(numbers: Mapping[str, int], days: OpenByDay) -> str:
    """Return a tile for each severity: the number of open ones, and a line of that number at the end of each day.

    `st.html` removes inline SVG and keeps images, so the line is an image.
    """
    drawn = "".join(
        _tile(name, numbers.get(name, 0), days.of_severity(name), days.days) for name in SEVERITIES
    )
    return f'<div class="tiles">{drawn}</div>'


def _tile(severity: str, number: int, days: Numbers, dates: Sequence[date]) -> str:
    head = f'<span class="level">{palette.shape(severity)} {severity}</span><b>{count(number)}</b>'
    return (
        f'<div class="tile {severity}{"" if number else " none"}">{head}{_line(severity, days, dates)}</div>'
    )


def _line(severity: str, days: Numbers, dates: Sequence[date]) -> str:
    """Return the line with its scale: the highest number above it, and the first and the last day below it."""
    path = spark_path(days)
    if not path:
        return ""
    size = f"viewBox='0 0 {len(days)} 20' preserveAspectRatio='none'"
    shape = f"<path fill='{palette.COLOURS[severity]}' d='{path}'/>"
    label = f"at the end of each of {len(days)} days: at most {count(max(days))}, the last {count(days[-1])}"
    source = quote(f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{shape}</svg>")
    line = f'<img alt="{label}" title="{label}" src="data:image/svg+xml,{source}">'
    ends = f"<span>{_day_label(dates[0])}</span><span>{_day_label(dates[-1])}</span>"
    top = f'<span class="top" aria-hidden="true">max {count(max(days))}</span>'
    return f'{top}{line}<span class="ends" aria-hidden="true">{ends}</span>'


def ticks(runs: Sequence[Row], lake: Mapping[str, str], alarms: Mapping[str, str]) -> str:
    """Return a mark for each run in the colour of its status, and a legend; run ids are percent-encoded.

    `lake` is the parameter that names the lake in addresses; empty at a dashboard of one lake. `alarms` are from
    `audit_health.alarms`: such a run has a mark of its own.
    """
    drawn = "".join(_tick(run, lake, alarms.get(run["run_id"], "")) for run in runs)
    numbers = Counter(
        _ALARM if _is_worse(run, alarms.get(run["run_id"], "")) else run["status"] for run in runs
    )
    words = "".join(
        f'<span><i class="{status}"></i>{palette.STATUS_SHAPES[status]} {count(numbers[status])} {status}</span>'
        for status in _STATUSES
        if numbers[status]
    )
    if worse := numbers[_ALARM]:
        words += f'<span><i class="alarm"></i>! {count(worse)} with lost coverage or a failed gate</span>'
    return f'<div class="runs">{drawn}</div><div class="legend">{words}</div>'


def full_bar(severity: str) -> str:
    """Return a bar in the colour of a severity, for a source that is older than its limit."""
    return f'<div style="height: 8px; border-radius: 4px; background: {palette.COLOURS[severity]}"></div>'


_STATUSES = tuple(palette.STATUS_COLOURS)


_MARKS = {status: mark for status, mark in palette.STATUS_SHAPES.items() if status != "complete"}
"""Complete runs have no mark."""


_ALARM = "alarm"


def _is_worse(run: Row, alarm: str) -> bool:
    """Return whether a run is drawn with the mark of its alarm instead of that of its status."""
    return bool(alarm) and run["status"] in ("complete", "partial")


def _tick(run: Row, lake: Mapping[str, str], alarm: str) -> str:
    status = run["status"] if run["status"] in _STATUSES else "unknown"
    label = f"{status}, as of {second(run['as_of'])}{f': {alarm}' if alarm else ''}"
    address = relative_address("runs", {**lake, "run": run["run_id"]})
    look, mark = (f"{status} {_ALARM}", "!") if _is_worse(run, alarm) else (status, _MARKS.get(status, ""))
    return f'<a class="{look}" href="{address}" title="{label}" aria-label="{label}">{mark}</a>'


def days(trend: OpenByDay, tables: Sequence[str]) -> str:
    """Return a line for each table, without its name: areas in the colour of the worst severity of their days."""
    label = "The worst severity of each table by day; the grid above it has the numbers"
    heads = "".join(
        f'<span style="grid-area: 1 / {at + 1} / 2 / span 5">{_day_label(trend.days[at])}</span>'
        for at in range(1, len(trend.days) - 3, 7)
    )
    lines = "".join(_area(each, row) for row, table in enumerate(tables, 2) for each in _spans(trend, table))
    return f'<div class="days" role="img" aria-label="{label}">{heads}{lines}</div>'


@dataclass(frozen=True)
class _Span:
    """Consecutive days of one table with the same severity and number; `at` is the position of the first, from 0."""

    at: int
    days: Sequence[date]
    worst: str
    open: int
    is_audited: bool


def _spans(trend: OpenByDay, table: str) -> Iterator[_Span]:
    by, totals = trend.by_severity(table), trend.of_table(table)
    groups = groupby(
        range(len(trend.days)),
        key=lambda at: (_worst(trend, by, at), totals[at], trend.days[at] in trend.audited),
    )
    for (worst, number, is_audited), places in groups:
        at = [*places]
        if worst:
            yield _Span(at[0], [trend.days[each] for each in at], worst, number, is_audited)


def _worst(trend: OpenByDay, by: Mapping[str, Numbers], at: int) -> str:
    worst = next((severity for severity, numbers in by.items() if numbers[at]), "")
    return worst or ("" if trend.days[at] in trend.audited else _NO_AUDIT)


_NO_AUDIT = "no-audit"


def _area(span: _Span, row: int) -> str:
    label = " to ".join(dict.fromkeys((_day_label(span.days[0]), _day_label(span.days[-1]))))
    words = "no audit" if span.worst == _NO_AUDIT else f"{span.worst}, {count(span.open)} open"
    carried = span.worst != _NO_AUDIT and not span.is_audited
    look, words = (
        (f"{span.worst} carried", f"{words} since the last audit") if carried else (span.worst, words)
    )
    place = f"{row} / {span.at + 1} / {row + 1} / span {len(span.days)}"
    return f'<i class="{look}" style="grid-area: {place}" title="{label}: {words}"></i>'


def _day_label(day: date) -> str:
    return f"{day:%m-%d}"
