"""Where in a table something is open: a picture that fits what its partitions are named by."""

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
"""Values of one key that are drawn as bars, the worst."""
NAMED = 12
"""Partitions told in words."""
_CELL = 20
_BAR = 26
_AROUND = 60
"""Points that the legend and a title take."""
_BELOW = 80
"""Points that numbers and a title below take."""
_NAMES = 140
"""Points that names below the columns take."""
_SEVERITY = alt.Color(
    "worst:N",
    scale=alt.Scale(domain=list(SEVERITIES), range=[palette.COLOURS[each] for each in SEVERITIES]),
    legend=alt.Legend(orient="top", title=None),
)


@dataclass(frozen=True)
class Place:
    """Something open at a place of the picture: `across` and `down` are what is written at its sides."""

    across: str
    down: str
    worst: str
    number: int


def draw(found: Partitions) -> None:
    """A calendar for days, bars for other values of one key, a matrix for two keys; the numbers lie beside it."""
    parts = [part for part in found.shown if part.path]
    if not parts:
        return
    keys, values = named_by(parts)
    days = {key: _days(values[key]) for key in keys}
    alt_text = f"{count(len(parts))} partitions with something open; the worst of them stand in the list"
    if len(keys) == 1 and days[keys[0]]:
        chart = _calendar(parts, days[keys[0]])
    elif len(keys) == 1:
        chart = _bars(parts, values[keys[0]])
    else:
        across, down = across_and_down(keys, values)
        chart = _matrix(summed(parts, values[across], values[down]), across, down)
    st.altair_chart(chart, width="stretch", alt=alt_text)
    rest = f"; {count(found.rest)} more partitions are not drawn" if found.rest else ""
    apart = sum(part.number for part in found.shown if not part.path)
    rest += f"; {count(apart)} of no partition {'is' if apart == 1 else 'are'} not drawn" if apart else ""
    more = f" by {keys[0]} and {keys[1]} alone" if len(keys) > 2 else ""
    st.caption(f"Worst severity by colour, number by size{more}{rest}.")


def named_by(parts: Sequence[Partition]) -> tuple[list[str], Mapping[str, Mapping[str, str]]]:
    """The keys of the partitions, those with most different values first, and by key each path's value.

    A path that is not made of `key=value` is one value of a key called `partition`; but where the others have one key
    only, and it begins with that, a value with a slash in it.
    """
    values: dict[str, dict[str, str]] = {}
    known = Counter(filter(None, (_keys(part.path) for part in parts))).most_common(1)
    keys = known[0][0] if known else ()
    for part in parts:
        for key, value in _pairs(part.path, keys):
            values.setdefault(key, {})[part.path] = value
    return sorted(values, key=lambda key: -len(set(values[key].values()))), values


def _keys(path: str) -> tuple[str, ...]:
    """The keys of a path of `key=value`; empty for another path."""
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
    """Of the two keys with most values the one of days runs across, else the one with more of them."""
    first, second = keys[:2]
    return (second, first) if _days(values[second]) and not _days(values[first]) else (first, second)


def summed(parts: Iterable[Partition], across: Mapping[str, str], down: Mapping[str, str]) -> list[Place]:
    """One place for each pair of values; a path without one of the keys stands at `(none)`."""
    numbers: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], str] = {}
    for part in parts:
        at = across.get(part.path, "(none)"), down.get(part.path, "(none)")
        numbers[at] += part.number
        worst[at] = min(worst.get(at, part.worst), part.worst, key=rank)
    return [Place(*at, worst[at], number) for at, number in sorted(numbers.items())]


def _days(values: Mapping[str, str]) -> dict[str, date]:
    """By path its day; empty where any value is none."""
    found: dict[str, date] = {}
    for path, value in values.items():
        try:
            found[path] = date.fromisoformat(value)
        except ValueError:
            return {}
    return found


def _calendar(parts: Sequence[Partition], days: Mapping[str, date]) -> alt.Chart:
    """A column a week, a row a weekday; weeks in between are drawn too, so that a gap is seen as one."""
    rows = [
        {"week": f"{days[part.path]:%G-W%V}", "weekday": f"{days[part.path]:%a}", "partition": visible(part.path),
         "worst": _known(part.worst), "open": part.number}
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
        {"value": visible(values[part.path])[:60], "worst": _known(severity), "open": number}
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
        {"across": visible(each.across)[:40], "down": visible(each.down)[:60], "worst": _known(each.worst),
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
    """By size, and never by opacity: one critical must not look less bad than a hundred."""
    most = (_CELL - 2) ** 2
    return alt.Size("open:Q", scale=alt.Scale(type="log", range=[most / 3, most]), legend=None)


def _known(severity: str) -> str:
    return severity if severity in SEVERITIES else SEVERITIES[0]
