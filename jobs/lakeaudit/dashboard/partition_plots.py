"""Draws the partitions with open discrepancies, as a calendar, bars or a matrix, depending on the partition keys."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

import altair as alt
import pandas as pd
import streamlit as st

from lakeaudit.dashboard.queries.table import Partition, Partitions
from lakeaudit.formatting import count, visible
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.report import palette

BARS = 30
"""Number of values of one key that are drawn as bars, worst first."""
NAMED = 12
"""Number of partitions in the list."""
_CELL = 20
_BAR = 26
_AROUND = 60
"""Height of the legend and a title, in points."""
_BELOW = 80
"""Height of numbers and a title below, in points."""
_NAMES = 140
"""Height of names below the columns, in points."""
_SEVERITY = alt.Color(
    "worst:N",
    scale=alt.Scale(domain=list(SEVERITIES), range=[palette.COLOURS[each] for each in SEVERITIES]),
    legend=alt.Legend(orient="top", title=None),
)


@dataclass(frozen=True)
class Place:
    """A cell of the matrix: `across` and `down` are its labels, `number` counts open discrepancies."""

    across: str
    down: str
    worst: str
    number: int


def draw(partitions: Partitions) -> None:
    """Draw a calendar for days, bars for other values of one key, a matrix for two keys."""
    parts = [part for part in partitions.shown if part.path]
    if not parts:
        return
    keys, values = key_values(parts)
    days = {key: _days(values[key]) for key in keys}
    alt_text = f"{count(len(parts))} partitions with something open; the list has the worst of them"
    if len(keys) == 1 and days[keys[0]]:
        chart = _calendar(parts, days[keys[0]])
    elif len(keys) == 1:
        chart = _bars(parts, values[keys[0]])
    else:
        across, down = across_and_down(keys, values)
        chart = _matrix(sum_places(parts, values[across], values[down]), across, down)
    st.altair_chart(chart, width="stretch", alt=alt_text)
    rest = f"; {count(partitions.rest)} more partitions are not drawn" if partitions.rest else ""
    without = sum(part.number for part in partitions.shown if not part.path)
    rest += (
        f"; {count(without)} without a partition {'is' if without == 1 else 'are'} not drawn"
        if without
        else ""
    )
    more = f", only by {keys[0]} and {keys[1]}" if len(keys) > 2 else ""
    st.caption(f"Worst severity by colour, number by size{more}{rest}.")


def key_values(parts: Sequence[Partition]) -> tuple[list[str], Mapping[str, Mapping[str, str]]]:
    """Return the keys of the partitions, those with most values first, and by key the value of each path.

    A path that is not made of `key=value` is a value of a key called `partition`. If the other paths have a single key
    and the path begins with that key, the rest of the path is its value, with the slashes.
    """
    values: dict[str, dict[str, str]] = {}
    known = Counter(filter(None, (_keys(part.path) for part in parts))).most_common(1)
    keys = known[0][0] if known else ()
    for part in parts:
        for key, value in _pairs(part.path, keys):
            values.setdefault(key, {})[part.path] = value
    return sorted(values, key=lambda key: -len(set(values[key].values()))), values


def _keys(path: str) -> tuple[str, ...]:
    """Return the keys of a path of `key=value`; empty for another path."""
    pairs = [level.partition("=") for level in path.split("/")]
    return tuple(key for key, _, _ in pairs) if all(sign for _, sign, _ in pairs) else ()


def _pairs(path: str, keys: Sequence[str]) -> Iterable[tuple[str, str]]:
    levels = [level.partition("=") for level in path.split("/")]
    if all(sign for _, sign, _ in levels):
        return [(key, value) for key, _, value in levels]
    if len(keys) == 1 and path.startswith(f"{keys[0]}="):
        return [(keys[0], path.partition("=")[2])]
    return [("partition", path)]


def across_and_down(keys: Sequence[str], values: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
    """Order the two keys with most values: a key of days runs across, else the one with more values."""
    first, second = keys[:2]
    return (second, first) if _days(values[second]) and not _days(values[first]) else (first, second)


def sum_places(parts: Iterable[Partition], across: Mapping[str, str], down: Mapping[str, str]) -> list[Place]:
    """Return one place for each pair of values; a path without one of the keys is at `(none)`."""
    numbers: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], str] = {}
    for part in parts:
        at = across.get(part.path, "(none)"), down.get(part.path, "(none)")
        numbers[at] += part.number
        worst[at] = min(worst.get(at, part.worst), part.worst, key=rank)
    return [Place(*at, worst[at], number) for at, number in sorted(numbers.items())]


def _days(values: Mapping[str, str]) -> dict[str, date]:
    """Return the day of each path; empty if any value is not a date."""
    days: dict[str, date] = {}
    for path, value in values.items():
        try:
            days[path] = date.fromisoformat(value)
        except ValueError:
            return {}
    return days


def _calendar(parts: Sequence[Partition], days: Mapping[str, date]) -> alt.Chart:
    """Draw a column for each week and a row for each weekday, with empty weeks, so that gaps are visible."""
    rows = [
        {"week": f"{days[part.path]:%G-W%V}", "weekday": f"{days[part.path]:%a}", "partition": visible(part.path),
         "worst": _drawn_severity(part.worst), "open": part.number}
        for part in parts
    ]  # fmt: skip
    weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    weeks = _weeks(min(days.values()), max(days.values()))
    chart: alt.Chart = _cells(rows, 7).encode(
        x=alt.X("week:O", scale=alt.Scale(domain=weeks), axis=_axis(overlap=True)),
        y=alt.Y("weekday:O", scale=alt.Scale(domain=weekdays), axis=_axis()),
        color=_SEVERITY, size=_amount(), tooltip=["partition:N", "worst:N", "open:Q"],
    )  # fmt: skip
    return chart


def _weeks(first: date, last: date) -> list[str]:
    days = range(first.toordinal(), min(last.toordinal(), first.toordinal() + 7 * 200) + 1)
    weeks = [f"{date.fromordinal(day):%G-W%V}" for day in days]
    return weeks[:1] + [after for before, after in pairwise(weeks) if after != before]


def _bars(parts: Sequence[Partition], values: Mapping[str, str]) -> alt.Chart:
    shown = parts[:BARS]
    rows = [
        {"value": visible(values[part.path])[:60], "worst": _drawn_severity(severity), "open": number}
        for part in shown
        for severity, number in part.by_severity.items()
    ]
    order = [visible(values[part.path])[:60] for part in shown]
    chart: alt.Chart = alt.Chart(pd.DataFrame(rows), height=_BAR * len(order) + _AROUND + _BELOW).mark_bar().encode(
        x=alt.X("sum(open):Q", axis=alt.Axis(title="open", format="d", tickMinStep=1, tickCount=5)),
        y=alt.Y("value:N", scale=alt.Scale(domain=order), axis=_axis()),
        color=_SEVERITY, tooltip=["value:N", "worst:N", "open:Q"],
    )  # fmt: skip
    return chart


def _matrix(places: Sequence[Place], across: str, down: str) -> alt.Chart:
    rows = [
        {"across": visible(each.across)[:40], "down": visible(each.down)[:60], "worst": _drawn_severity(each.worst),
         "open": each.number}
        for each in places
    ]  # fmt: skip
    chart: alt.Chart = _cells(rows, len({row["down"] for row in rows})).encode(
        x=alt.X("across:O", axis=_axis(visible(across)[:40], overlap=True)),
        y=alt.Y("down:O", axis=_axis(visible(down)[:40])),
        color=_SEVERITY, size=_amount(), tooltip=["across:N", "down:N", "worst:N", "open:Q"],
    )  # fmt: skip
    return chart


def _cells(rows: Sequence[Mapping[str, object]], high: int) -> alt.Chart:
    height = _CELL * min(high, 60) + _AROUND + _NAMES
    cells: alt.Chart = alt.Chart(pd.DataFrame(rows), height=height).mark_square(opacity=1)
    return cells


def _axis(title: str | None = None, *, overlap: bool = False) -> alt.Axis:
    return alt.Axis(title=title, labelLimit=220, ticks=False, domain=False, labelOverlap=overlap or "greedy")


def _amount() -> alt.Size:
    """Show the number by size, not by opacity: one critical must not look less severe than a hundred."""
    most = (_CELL - 2) ** 2
    return alt.Size("open:Q", scale=alt.Scale(type="log", range=[most / 3, most]), legend=None)


def _drawn_severity(severity: str) -> str:
    return severity if severity in SEVERITIES else SEVERITIES[0]
