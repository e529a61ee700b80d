"""Draws inline SVG: bars, days, runs, partitions. The page shows the numbers of every plot as text, too.

The page's content security policy refuses style attributes, so colours come from classes, and sizes from attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from lakeaudit.formatting import count, number, second, shortened, size, visible
from lakeaudit.kinds import JUDGED_OUTCOMES, SEVERITIES, rank
from lakeaudit.report.coverage_view import OUTCOMES, Cell
from lakeaudit.report.summary import Line
from lakeaudit.results.summaries.open_by_day import OpenByDay

WIDTH = 100.0
"""Width of a bar in units; the page stretches it."""
SLIVER = 1.5
"""Smallest width of a part above zero: twelve lost files among a million must be visible."""
STRIP_CELLS = 120
"""Highest number of cells in a strip; more partitions share cells, and each cell shows its worst."""

DAY = 8
"""Width of a day in units."""
NAME = 80
"""Characters of a name in the text of a plot."""

NOT_JUDGED = "not_judged"
"""Name of the part of a bar for files that were not judged, besides the outcomes."""

_BAR = Markup('<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
_STRIP = Markup(
    '<svg class="strip" viewBox="0 0 {0} {1}" width="{0}" height="{1}" preserveAspectRatio="none" role="img">'
    "<title>{2}</title>{3}</svg>"
)
_STRIP_HEIGHT = 22
_HEIGHTS = (22, 17, 12, 7)


def bar(value: int, largest: int, css_class: str) -> Markup:
    """Draw one bar, as long as the value's part of the largest."""
    width = max(WIDTH * value / largest, SLIVER) if value and largest else 0.0
    shape = Markup('<rect class="{}" width="{:.1f}" height="10"/>').format(css_class, width)
    return _BAR.format(shape)


def outcomes(cell: Cell) -> Markup:
    """Draw a stacked bar of the cell's outcomes in the order of OUTCOMES; empty if the axis has no files.

    If files were not judged whose number is not known, a part of the bar is for them. Evidence that is too old judges
    nothing of today, so that the whole bar is for files that were not judged.
    """
    names = (*OUTCOMES, NOT_JUDGED)
    counts = [cell.counts[name] for name in OUTCOMES]
    if cell.is_outdated and cell.hides_files:
        counts = [0 if name in JUDGED_OUTCOMES else many for name, many in zip(OUTCOMES, counts, strict=True)]
    unknown = max(sum(cell.counts.values()) - sum(counts), sum(counts) // 3, 1) if cell.hides_files else 0
    widths = _widths([*counts, unknown])
    shapes, left = [], 0.0
    for name, width in zip(names, widths, strict=True):
        if width:
            shape = Markup('<rect class="o-{}" x="{:.2f}" width="{:.2f}" height="10"/>')
            shapes.append(shape.format(name, left, width))
        left += width
    return _BAR.format(Markup().join(shapes))


def _widths(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    if not total:
        return [0.0] * len(counts)
    raised = [max(WIDTH * value / total, SLIVER) if value else 0.0 for value in counts]
    return [width * WIDTH / sum(raised) for width in raised]


def strip(partitions: Sequence[Line]) -> Markup:
    """Draw partitions with findings side by side, by name; taller and redder is worse."""
    step = -(-len(partitions) // STRIP_CELLS)
    groups = [partitions[at : at + step] for at in range(0, len(partitions), step or 1)]
    cells = Markup().join(_strip_cell(at, group) for at, group in enumerate(groups))
    label = f"{count(len(partitions))} partitions with findings, by name"
    return _STRIP.format(10 * len(groups), _STRIP_HEIGHT, label, cells)


def _strip_cell(at: int, group: Sequence[Line]) -> Markup:
    worst = min(group, key=lambda line: rank(line.worst))
    tall = _HEIGHTS[min(rank(worst.worst), len(_HEIGHTS) - 1)]
    shape = Markup('<rect class="s-{}" x="{}" y="{}" width="8" height="{}"><title>{}</title></rect>')
    label = visible(_strip_label(worst, len(group)))
    return shape.format(worst.worst, 10 * at + 1, _STRIP_HEIGHT - tall, tall, label)


def _strip_label(line: Line, partitions: int) -> str:
    more = f" and {count(partitions - 1)} more" if partitions > 1 else ""
    counts = ", ".join(f"{count(number)} {name}" for name, number in line.by_severity.items())
    stake = f", {size(line.stake.bytes.known)} at stake" if line.stake.bytes.known else ""
    return f"{shortened(line.name, NAME)}{more}: {counts}{stake}"


def stacked(by_severity: Mapping[str, int], largest: int) -> Markup:
    """Draw one bar of all severities, worst first, as long as its sum's part of the largest."""
    total = sum(by_severity.values())
    long = max(WIDTH * total / largest, SLIVER * len(by_severity)) if total and largest else 0.0
    widths = _widths([by_severity.get(name, 0) for name in SEVERITIES])
    shapes, left = [], 0.0
    for name, width in zip(SEVERITIES, widths, strict=True):
        if width:
            shape = Markup('<rect class="s-{}" x="{:.1f}" width="{:.1f}" height="10"/>')
            shapes.append(shape.format(name, left, width * long / WIDTH))
        left += width * long / WIDTH
    return _BAR.format(Markup().join(shapes))


def gauge(part: float) -> Markup:
    """Draw how much of a limit is used; at the limit the bar is full and has another colour."""
    over = "g-over" if part >= 1 else "g-part"
    shapes = Markup(
        '<rect class="g-all" width="100" height="10"/><rect class="{}" width="{:.1f}" height="10"/>'
    )
    return _BAR.format(shapes.format(over, min(max(part * WIDTH, SLIVER), WIDTH)))


_SPARK = Markup(
    '<svg class="spark" viewBox="0 0 {} 20" preserveAspectRatio="none" aria-hidden="true">'
    '<path class="s-{}" d="{}"/></svg>'
)


def spark(numbers: Sequence[int], severity: str) -> Markup:
    """Draw the numbers of open discrepancies at the end of each day, one step a day."""
    path = spark_path(numbers)
    return _SPARK.format(len(numbers), severity, path) if path else Markup()


def spark_path(numbers: Sequence[int]) -> str:
    """Return the outline of `spark`, one unit a day and 20 high, from 0; empty if every number is 0."""
    most = max(numbers, default=0)
    if not most:
        return ""
    tops = [f"V{20 - _tall(number, most):.1f}H{at}" for at, number in enumerate(numbers, 1)]
    return f"M0 20{''.join(tops)}V20Z"


def _tall(number: int, most: int) -> float:
    """Return the height of a number; every number above 0 is visible beside the largest."""
    return max(19 * number / most, 2.0) if number else 0.0


_RUN_HEIGHTS = {"complete": 9, "partial": 13, "suspect": 17, "failed": 22, "running": 5}


def ticks(runs: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw a tick for each run, the newest at the right; taller is worse."""
    cells = Markup().join(_tick(at, run) for at, run in enumerate(runs))
    label = f"Status of the last {count(len(runs))} runs, the newest at the right"
    return _STRIP.format(8 * len(runs), _STRIP_HEIGHT, label, cells)


def _tick(at: int, run: Mapping[str, Any]) -> Markup:
    tall = _RUN_HEIGHTS.get(run["status"], _STRIP_HEIGHT)
    tall = max(tall, _RUN_HEIGHTS["suspect"]) if run.get("gates") else tall
    shape = Markup('<rect class="r-{}" x="{}" y="{}" width="6" height="{}"><title>{}</title></rect>')
    gates = f", {number(len(run['gates']), 'failed gate')}" if run.get("gates") else ""
    label = visible(f"{second(run['as_of'])}: {run['status']}{gates}")
    look = "alarm" if gates and run["status"] in ("complete", "partial") else run["status"]
    return shape.format(look, 8 * at + 1, _STRIP_HEIGHT - tall, tall, label)


def days(trend: OpenByDay, table: str) -> Markup:
    """Draw the worst severity open at the end of each day; taller is worse, a hollow mark is a day without an audit."""
    by, totals = trend.by_severity(table), trend.of_table(table)
    cells = Markup().join(_day(trend, at, by, totals[at]) for at in range(len(trend.days)))
    seen = sum(number > 0 for number in totals)
    label = f"open on {count(seen)} of the last {count(len(trend.days))} days"
    return _STRIP.format(DAY * len(trend.days), _STRIP_HEIGHT, label, cells)


def _day(trend: OpenByDay, at: int, by: Mapping[str, Sequence[int]], total: int) -> Markup:
    worst = next((severity for severity, numbers in by.items() if numbers[at]), None)
    day = trend.days[at]
    if worst is None:
        seen = day in trend.audited
        shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="2"/>')
        return shape.format("d-quiet" if seen else "d-none", DAY * at + 1, _STRIP_HEIGHT - 2, DAY - 2)
    tall = _HEIGHTS[min(rank(worst), len(_HEIGHTS) - 1)]
    shape = Markup('<rect class="s-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    label = f"{day}: {count(total)} open, worst severity {worst}"
    return shape.format(worst, DAY * at + 1, _STRIP_HEIGHT - tall, DAY - 2, tall, label)
