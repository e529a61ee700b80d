"""Inline SVG: bars of findings, bars of outcomes, strips of partitions. Every plot stands beside its numbers in words.

The page's content security policy refuses style attributes, so colours come from classes, and sizes from attributes.
"""

from collections.abc import Sequence

from markupsafe import Markup

from lakeaudit.formatting import count, size, visible
from lakeaudit.report.coverage_view import OUTCOMES, Cell
from lakeaudit.report.summary import Line, rank

WIDTH = 100.0
"""Bars are drawn 100 wide and stretched by the page."""
SLIVER = 1.5
"""What is there is never drawn narrower: twelve lost files among a million must show."""
STRIP_CELLS = 120
"""Cells in a strip; more partitions than that share cells, each showing its worst."""

_BAR = Markup('<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
_STRIP = Markup(
    '<svg class="strip" viewBox="0 0 {0} {1}" width="{0}" height="{1}" preserveAspectRatio="none" role="img">'
    "<title>{2}</title>{3}</svg>"
)
_STRIP_HEIGHT = 22
_HEIGHTS = (22, 17, 12, 7)


def bar(value: int, largest: int, css_class: str) -> Markup:
    """One bar, as long as the value's part of the largest."""
    width = max(WIDTH * value / largest, SLIVER) if value and largest else 0.0
    shape = Markup('<rect class="{}" width="{:.1f}" height="10"/>').format(css_class, width)
    return _BAR.format(shape)


def outcomes(cell: Cell) -> Markup:
    """A stacked bar of the cell's outcomes in the order of OUTCOMES; empty where the axis counts no file."""
    widths = _widths([cell.counts[name] for name in OUTCOMES])
    shapes, left = [], 0.0
    for name, width in zip(OUTCOMES, widths, strict=True):
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
    """Partitions with findings side by side in the order of their names; taller and redder is worse."""
    step = -(-len(partitions) // STRIP_CELLS)
    groups = [partitions[at : at + step] for at in range(0, len(partitions), step or 1)]
    cells = Markup().join(_strip_cell(at, group) for at, group in enumerate(groups))
    label = f"{count(len(partitions))} partitions with findings, by name"
    return _STRIP.format(10 * len(groups), _STRIP_HEIGHT, label, cells)


def _strip_cell(at: int, group: Sequence[Line]) -> Markup:
    worst = min(group, key=lambda line: rank(line.worst))
    tall = _HEIGHTS[min(rank(worst.worst), len(_HEIGHTS) - 1)]
    shape = Markup('<rect class="s-{}" x="{}" y="{}" width="8" height="{}"><title>{}</title></rect>')
    told = visible(_told(worst, len(group)))
    return shape.format(worst.worst, 10 * at + 1, _STRIP_HEIGHT - tall, tall, told)


def _told(line: Line, partitions: int) -> str:
    more = f" and {count(partitions - 1)} more" if partitions > 1 else ""
    found = ", ".join(f"{count(number)} {name}" for name, number in line.by_severity.items())
    stake = f", {size(line.stake.bytes.known)} at stake" if line.stake.bytes.known else ""
    return f"{line.name}{more}: {found}{stake}"
