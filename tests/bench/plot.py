"""Draws a plot of seconds over files as SVG, with two logarithmic axes."""

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 340, 60, 40, 16, 150
LABEL = 13
"""The height of a label."""
COLOURS = ("#b3261e", "#00639b", "#386a20", "#79747e", "#e8710a", "#7b5ea7")
_TEXT = (
    '<text x="{:.0f}" y="{:.0f}" font-size="12" font-family="sans-serif" fill="{}" text-anchor="{}">{}</text>'
)
_LINE = '<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" stroke="#d0d0d0"/>'

Points = Sequence[tuple[int, float]]


def plot(lines: Mapping[str, Points]) -> str:
    """Draw one line for each name."""
    drawn = {name: sorted(points) for name, points in lines.items() if points}
    sizes = [size for points in drawn.values() for size, _ in points] or [1]
    seconds = [second for points in drawn.values() for _, second in points] or [1.0]
    across = _Axis(min(sizes), max(sizes), LEFT, WIDTH - RIGHT)
    up = _Axis(min(seconds), max(seconds), HEIGHT - BOTTOM, TOP)
    shapes = [*_grid(across, up), *_curves(drawn, across, up)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


class _Axis:
    """An axis of whole decades around the values."""

    def __init__(self, least: float, most: float, begin: float, end: float) -> None:
        self.low = math.floor(math.log10(least))
        self.high = max(math.ceil(math.log10(most)), self.low + 1)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _grid(across: _Axis, up: _Axis) -> list[str]:
    shapes = []
    for tick in across.ticks:
        x = across.at(tick)
        shapes += [
            _LINE.format(x, TOP, x, HEIGHT - BOTTOM),
            _TEXT.format(x, HEIGHT - 20, "#333", "middle", f"{tick:,.0f}"),
        ]
    for tick in up.ticks:
        y = up.at(tick)
        shapes += [
            _LINE.format(LEFT, y, WIDTH - RIGHT, y),
            _TEXT.format(LEFT - 6, y + 4, "#333", "end", f"{tick:g} s"),
        ]
    return [
        *shapes,
        _TEXT.format((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "#333", "middle", "files of each source"),
    ]


def _curves(drawn: Mapping[str, Points], across: _Axis, up: _Axis) -> list[str]:
    shapes = []
    heights = _label_heights({name: up.at(points[-1][1]) for name, points in drawn.items()})
    for (name, points), colour in zip(drawn.items(), COLOURS, strict=False):
        places = [(across.at(size), up.at(second)) for size, second in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        shapes.append(_TEXT.format(places[-1][0] + 8, heights[name] + 4, colour, "start", name))
    return shapes


def _label_heights(heights: Mapping[str, float]) -> dict[str, float]:
    """Return the heights of labels from the top, so far from each other that all can be read."""
    found: dict[str, float] = {}
    lowest = -math.inf
    for name, height in sorted(heights.items(), key=lambda each: each[1]):
        lowest = found[name] = max(height, lowest + LABEL)
    return found
