"""What every page works with: the lake, its results as they lie there now, and what was already asked of them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import streamlit as st

from lakeaudit.config import Lake, load_lake
from lakeaudit.results.read import Results
from lakeaudit.runtime.endpoints import clients_of

T = TypeVar("T")

FRESH = 5
"""Seconds for which it is not asked again whether the results have changed."""
REMEMBERED = 600
"""Seconds for which a figure is remembered while the results stay the same: what is accepted runs out by the clock."""
VERSIONED = ("runs", "discrepancies", "transitions", "plans", "actions", "notices")
"""Result tables of which one changes with everything that pages show."""


@dataclass(frozen=True)
class Desk:
    """One state of one lake's results. `stamp` names the state: the same stamp, the same answers."""

    lake: Lake
    lake_file: str
    results: Results
    stamp: str
    now: datetime

    def ask(self, about: tuple[object, ...], figure: Callable[[], T], *, by_clock: bool = True) -> T:
        """A figure, from memory where this state of the results was asked for the same a short while ago.

        It is shared by all who ask, so nobody changes it. One that is not `by_clock` stays as long as the results do.
        """
        while_ago = int(self.now.timestamp()) // REMEMBERED if by_clock else 0
        found: T = _kept(self.stamp, while_ago, repr(about), figure)
        return found


def desk(lake_file: str, now: datetime) -> Desk:
    """The lake as its file says now, and its results as they lie there.

    Raises:
        BadInput: the lake file cannot be used.
        CannotAudit: the results cannot be read.
    """
    lake = _lake(lake_file, _changed(lake_file))
    place = f"{lake.results.uri} {lake.name}"
    versions = _versions(place, Results(lake.results, clients_of(lake), lake.name))
    stamp = f"{place} {versions} {_changed(lake_file)}"
    return Desk(lake, lake_file, _results(stamp, lake), stamp, now)


def _changed(lake_file: str) -> int:
    try:
        return Path(lake_file).stat().st_mtime_ns
    except OSError:
        return 0  # the loader says what is wrong


@st.cache_resource(max_entries=4, show_spinner=False)
def _lake(lake_file: str, changed_at: int) -> Lake:  # noqa: ARG001 - the key of the memory
    return load_lake(lake_file, os.environ)


@st.cache_data(ttl=FRESH, max_entries=16, show_spinner=False)
def _versions(place: str, _results: Results) -> str:  # noqa: ARG001 - the key of the memory
    return str([_results.version(table) for table in VERSIONED])


@st.cache_resource(ttl=REMEMBERED, max_entries=4, show_spinner=False)  # a role's credentials run out
def _results(stamp: str, _lake: Lake) -> Results:  # noqa: ARG001 - the key of the memory
    return Results(_lake.results, clients_of(_lake), _lake.name)


@st.cache_resource(
    max_entries=300, show_spinner=False
)  # no copy for each who asks: of 2,000 tables it takes long
def _kept(stamp: str, while_ago: int, key: str, _ask: Callable[[], T]) -> T:  # noqa: ARG001 - the key of the memory
    return _ask()
