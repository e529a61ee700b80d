"""The contract of every reader of a catalog. A new reader adds one world below these tests.

A world serves the tables of PLACES, in a catalog that can be broken in three ways: it refuses one of its namespaces,
all of it, or nobody listens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from lakeaudit.config import CatalogSource
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.protocol import FORMATS, Pointers
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.catalog.snapshot import any_name
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.registry import METASTORES
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

PLACES = {"orders": Location("lake", "wh/orders"), "visits": Location("lake", "wh/visits")}


@dataclass(frozen=True)
class World:
    """A catalog with the tables of PLACES, by its last part of their names, in one namespace.

    `refuse_tables` makes it refuse the list of that namespace, `refuse` everything; `nowhere` is one that nobody
    serves.
    """

    kind: str
    source: CatalogSource
    nowhere: CatalogSource
    clients: Clients
    refuse_tables: Callable[[], None]
    refuse: Callable[[], None]

    def read(self) -> Pointers:
        return named_tables(self.source, self.clients, "metastore:3", any_name)


class CatalogContract:
    """The promises."""

    kind: ClassVar[str]

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    def test_tables_are_named_once_with_their_places_by_the_source_s_id(self, world: World) -> None:
        found = world.read()
        assert {t.name.rpartition(".")[2]: t.location for t in found.tables} == PLACES
        assert {t.catalog for t in found.tables} == {"metastore:3"}
        assert {t.format for t in found.tables} <= set(FORMATS)
        assert found.holes == ()

    def test_what_was_read_and_when_is_pinned(self, world: World) -> None:
        before = datetime.now(UTC)
        info = world.read().info
        assert (info.id, info.role, info.kind, info.rows) == ("metastore:3", "metastore", world.kind, 2)
        assert info.identity == world.read().info.identity
        assert info.cut is not None
        assert info.cut.end is not None
        assert before <= info.cut.start <= info.cut.end <= datetime.now(UTC)

    def test_a_namespace_that_cannot_be_listed_is_an_evidence_gap_with_its_name(self, world: World) -> None:
        world.refuse_tables()
        found = world.read()
        (hole,) = found.holes
        assert (hole.source, hole.subject.endswith(".*"), found.tables) == ("metastore:3", True, ())

    def test_a_catalog_that_cannot_be_queried_is_a_source_error_and_so_is_its_probe(
        self, world: World
    ) -> None:
        probe = METASTORES[world.kind].probe
        assert isinstance(probe(world.source, world.clients, datetime.now(UTC)), Probed)
        with pytest.raises(SourceError):
            named_tables(world.nowhere, world.clients, "m", any_name)
        world.refuse()
        with pytest.raises(SourceError):
            world.read()
        with pytest.raises(Exception, match=r"403|denied|Denied"):
            probe(world.source, world.clients, datetime.now(UTC))
