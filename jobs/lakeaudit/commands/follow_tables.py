"""Read the tables of a lake for `lakeaudit follow`, and read them again in the background."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.config import Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.discovery import described
from lakeaudit.evidence.protocol import Context
from lakeaudit.follow.known_tables import KnownTables
from lakeaudit.follow.losses import Judge
from lakeaudit.follow.needed_files import NeededFiles, unwatched
from lakeaudit.follow.table_places import TablePlaces
from lakeaudit.keys import digest
from lakeaudit.runtime.cache import cache_dir
from lakeaudit.runtime.connections.aws import Clients

INDEX_AGE = 24 * 3600.0
"""Seconds after which tables are discovered again, and the index is built again."""


@dataclass
class TablesReader:
    """Reads the tables of a lake, and reads them again in the background."""

    lake: Lake
    clients: Clients
    engine: InProcessEngine
    context: Callable[[], Context]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "index"))
    _next: "Future[KnownTables] | None" = None
    _read_at: float = field(default_factory=time.monotonic)

    def known_tables(self, *, fresh: bool = False) -> KnownTables:
        """Return the tables with an index of their files."""
        lake, missed = self._described()
        lake, clients = as_stored(lake, self.clients)
        unseen = unwatched(lake)
        watched = frozenset(table.name for table in lake.tables) - unseen.keys()
        folder = state_folder(lake)
        followed = lake.model_copy(update={"tables": tuple(t for t in lake.tables if t.name in watched)})
        with spark_engine(lake) as builder:
            context = replace(self.context(), clients=clients)
            needed = NeededFiles.opened(followed, folder, context, self.engine, builder, fresh=fresh)
        judge = Judge(followed, self.engine, Lifecycles(clients))
        unseen |= {name: f"{why}; follow tries again" for name, why in needed.unread.items()}
        unseen |= {"undiscovered tables": "; ".join(missed)} if missed else {}
        return KnownTables(needed, judge, TablePlaces.of(lake.tables), watched, clients, unseen)

    def newer(self, needed: NeededFiles) -> KnownTables | None:
        """Return newer tables once they are read; they are read in the background once a day, or when many changed."""
        if self._next is not None and self._next.done():
            read, self._next = self._next, None
            self._read_at = time.monotonic()
            return read.result()
        if self._next is None and (needed.is_outgrown or time.monotonic() - self._read_at > INDEX_AGE):
            self._next = self.pool.submit(self.known_tables, fresh=True)
        return None

    def _described(self) -> tuple[Lake, tuple[str, ...]]:
        """Return the lake with its discovered tables, and the reasons why some may be missing."""
        if not self.lake.finds_tables:
            return self.lake, ()
        found = described(self.lake, self.context())
        return found.lake, found.gaps


def state_folder(lake: Lake) -> Path:
    """Return the folder of the index, and of the position in a journal."""
    if lake.follow is not None and lake.follow.state is not None:
        return Path(lake.follow.state)
    return cache_dir(os.environ) / "follow" / digest(lake.name, lake.results.uri)
