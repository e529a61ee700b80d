"""Gives every page the lake, its newest results, and cached figures."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import streamlit as st

from lakeaudit.config import Lake, load_lake, read_local
from lakeaudit.dashboard.queries.lake import Health, LakeFigures, lake_figures, table_healths
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of

T = TypeVar("T")

CHECK_AGE = 5
"""Seconds after which the versions of the results are read again."""
CACHED = 600
"""Seconds for which a figure is cached while the results do not change: acceptances expire by the clock."""
MOST_LAKES = 100
"""Number of lakes whose lake file and results are cached."""
READ_AGAIN = 60
"""Seconds after which a lake file in a store is read again."""
VERSIONED = ("runs", "discrepancies", "transitions", "plans", "actions", "notices")
"""Result tables whose versions together identify the state of the results."""


@dataclass(frozen=True)
class PageSession:
    """One state of one lake's results. `state` identifies it: figures of the same state are equal."""

    lake: Lake
    lake_file: str
    results: Results
    state: str
    now: datetime

    def load(self, about: tuple[object, ...], figure: Callable[[], T], *, by_clock: bool = True) -> T:
        """Return a figure, from the cache if it was computed for this state a short while ago.

        Callers share it and must not change it. A figure that is not `by_clock` is cached until the results change.
        """
        period = int(self.now.timestamp()) // CACHED if by_clock else 0
        value: T = _cached(self.state, period, repr(about), figure)
        return value

    def tables(self) -> tuple[Health, ...]:
        """Return the health of each table, worst first."""
        return self.load(("tables",), lambda: table_healths(self.results, self.lake, self.now))

    def figures(self) -> LakeFigures:
        """Return the data of the lake's page."""
        tables = self.tables()
        return self.load(("lake",), lambda: lake_figures(self.results, self.lake, self.now, tables))

    def forget_versions(self) -> None:
        """Read the versions of the results again at once, after a change by a visitor."""
        _versions.clear()


def use_reader(read: Callable[[str], bytes]) -> None:
    """Read lake files by this function, which also knows stores; the default reads files of this machine."""
    _reader["read"] = read


_reader: dict[str, Callable[[str], bytes]] = {}


def lake_of(lake_file: str) -> Lake:
    """Return the lake of the current lake file.

    Raises:
        BadInput: the lake file cannot be used.
    """
    return _lake(lake_file, _changed(lake_file))


def page_session(lake_file: str, now: datetime) -> PageSession:
    """Return the lake of the current lake file, with its newest results.

    Raises:
        BadInput: the lake file cannot be used.
        CannotAudit: the results cannot be read.
    """
    lake = lake_of(lake_file)
    place = f"{lake.results.uri} {lake.name}"
    versions = _versions(place, Results(lake.results, clients_of(lake), lake.name))
    state = f"{place} {versions} {_changed(lake_file)}"
    return PageSession(lake, lake_file, _results(state, lake), state, now)


def _changed(lake_file: str) -> int:
    if "://" in lake_file:
        return int(time.time()) // READ_AGAIN
    try:
        return Path(lake_file).stat().st_mtime_ns
    except OSError:
        return 0  # the loader reports the error


@st.cache_resource(max_entries=MOST_LAKES, show_spinner=False)
def _lake(lake_file: str, changed_at: int) -> Lake:  # noqa: ARG001 - the key of the cache
    return load_lake(lake_file, os.environ, _reader.get("read", read_local))


@st.cache_data(ttl=CHECK_AGE, max_entries=MOST_LAKES, show_spinner=False)
def _versions(place: str, _results: Results) -> str:  # noqa: ARG001 - the key of the cache
    return str([_results.version(table) for table in VERSIONED])


@st.cache_resource(ttl=CACHED, max_entries=MOST_LAKES, show_spinner=False)  # a role's credentials run out
def _results(state: str, _lake: Lake) -> Results:  # noqa: ARG001 - the key of the cache
    return Results(_lake.results, clients_of(_lake), _lake.name)


@st.cache_resource(max_entries=300, show_spinner=False)  # no copies: those of 2,000 tables take long
def _cached(state: str, period: int, key: str, _figure: Callable[[], T]) -> T:  # noqa: ARG001 - the key of the cache
    return _figure()
