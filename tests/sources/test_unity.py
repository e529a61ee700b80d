"""Unity Catalog as it is read (a stand-in over real HTTP, `tests.builders.unity_catalog`)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.errors import LakeFileError, SourceError
from lakeaudit.evidence.catalog import http
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.catalog.protocol import Pointers
from lakeaudit.evidence.catalog.unity import Unity
from lakeaudit.evidence.catalog.unity import reader as unity
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.rest_catalog import Answer, served
from tests.builders.unity_catalog import UnityCatalog

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def info(place: str | None, format_: str = "DELTA", type_: str = "EXTERNAL", **more: Any) -> dict[str, Any]:
    at = {} if place is None else {"storage_location": place}
    return {"data_source_format": format_, "table_type": type_, "updated_at": 1_790_000_000_000, **at, **more}


@pytest.fixture
def server() -> Iterator[UnityCatalog]:
    catalog = UnityCatalog()
    catalog.infos |= {
        ("main", "sales", "orders"): info("s3://lake/orders"),
        ("main", "sales", "lines"): info("s3a://lake/lines/", "PARQUET", "MANAGED"),
        ("main", "sales", "of_orders"): info(None, "UNKNOWN", "VIEW"),
        ("main", "raw.eu", "odd"): info("s3://lake/odd", "DELTASHARING"),
        ("other", "x", "hudi"): info("s3://lake/hudi", "HUDI"),
        ("other", "x", "nowhere"): info(None),
    }
    with served(catalog):
        yield catalog


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "wait_a_while", lambda _: None)


def listed(server: UnityCatalog, **more: Any) -> Pointers:
    return unity.list_tables(Unity(kind="unity", uri=server.uri, **more), Clients(), "metastore:0")


def named_tables(found: Pointers) -> dict[str, tuple[Location | None, str]]:
    return {table.name: (table.location, table.format) for table in found.tables}


@pytest.mark.parametrize("page", [1000, 1])
def test_tables_with_files_are_named_with_their_places_and_formats(server: UnityCatalog, page: int) -> None:
    server.page = page
    found = listed(server)
    assert named_tables(found) == {
        "main.sales.orders": (Location("lake", "orders"), "delta"),
        "main.sales.lines": (Location("lake", "lines"), "hive"),
        "main.`raw.eu`.odd": (Location("lake", "odd"), "unknown"),
        "other.x.hudi": (Location("lake", "hudi"), "hudi"),
        "other.x.nowhere": (None, "delta"),
    }
    assert found.holes == ()
    assert {table.updated_at for table in found.tables} == {datetime.fromtimestamp(1_790_000_000, UTC)}


def test_shallow_clones_are_tables_and_other_types_are_where_they_have_a_place(server: UnityCatalog) -> None:
    """A clone's own log lies at its place, and names its source's files: it is audited as any Delta table."""
    server.infos.clear()
    server.infos |= {
        ("main", "s", "clone"): info("s3://lake/clone", type_="MANAGED_SHALLOW_CLONE"),
        ("main", "s", "clone_2"): info("s3://lake/clone_2", type_="EXTERNAL_SHALLOW_CLONE"),
        ("main", "s", "stream"): info("s3://lake/stream", type_="STREAMING_TABLE"),
        ("main", "s", "foreign"): info("s3://lake/foreign", "PARQUET", "FOREIGN"),
        ("main", "s", "new"): info("s3://lake/new", type_="SOME_TYPE_OF_TOMORROW"),
        ("main", "s", "view"): info("s3://lake/view", "UNKNOWN", "VIEW"),
        ("main", "s", "figures"): info(None, "UNKNOWN", "METRIC_VIEW"),
        **{("main", "s", f"m{n}"): info(None, type_="MATERIALIZED_VIEW") for n in range(7)},
        ("main", "s", "far"): info(None, type_="FOREIGN"),
    }
    found, five = listed(server), [f"main.s.m{n}" for n in range(5)]
    assert {name.removeprefix("main.s."): format_ for name, (_, format_) in named_tables(found).items()} == {
        "clone": "delta", "clone_2": "delta", "stream": "delta", "foreign": "hive", "new": "delta",
    }  # fmt: skip
    assert found.holes == ()
    assert found.warnings == (
        "FOREIGN without a storage_location is left out: main.s.far",
        f"MATERIALIZED_VIEW without a storage_location is left out: {', '.join(five)} and 2 more",
    )


def test_catalogs_may_be_chosen_and_tables_limited_to_a_place(server: UnityCatalog) -> None:
    assert set(named_tables(listed(server, catalogs=("oth*",)))) == {"other.x.hudi", "other.x.nowhere"}
    assert set(named_tables(listed(server, location=Location("lake", "orders")))) == {"main.sales.orders"}


def test_a_schema_that_may_not_be_listed_is_an_evidence_gap_and_a_dropped_one_is_left_out(
    server: UnityCatalog,
) -> None:
    refused = {"error_code": "PERMISSION_DENIED", "message": "User does not have USE SCHEMA"}
    server.faults.append(lambda _, __, asked: (403, refused) if asked.get("schema_name") == "sales" else None)
    server.faults.append(lambda _, __, asked: (404, {}) if asked.get("schema_name") == "x" else None)
    found = listed(server)
    assert [(hole.subject, hole.reason) for hole in found.holes] == [
        ("main.sales.*", "the catalog answers 403: User does not have USE SCHEMA")
    ]
    assert set(named_tables(found)) == {"main.`raw.eu`.odd"}


NO_TABLES = "the catalog answers tables that cannot be understood"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"tables": None}, ()),
        ({}, ()),
        ({"tables": 7}, (NO_TABLES,)),
        ({"tables": [7]}, (NO_TABLES,)),
        ({"tables": [{"name": 7}]}, (NO_TABLES,)),
        ({"tables": [{"name": ""}]}, (NO_TABLES,)),
    ],
)
def test_odd_answers_name_nothing_and_are_evidence_gaps_if_they_may_concern_a_table(
    server: UnityCatalog, body: dict[str, Any], why: tuple[str, ...]
) -> None:
    asked = {"schema_name": "sales"}.items()
    server.faults.append(lambda _, __, params: (200, body) if asked <= params.items() else None)
    found = listed(server)
    assert set(named_tables(found)) == {"main.`raw.eu`.odd", "other.x.hudi", "other.x.nowhere"}
    assert tuple(hole.reason for hole in found.holes) == why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((500, {}), "the catalog answers 500"),
        ((503, {"message": "later"}), "the catalog answers 503: later"),
        ((200, b'{"tables": [{"name": "or'), "the catalog sent a response that is not a JSON object"),
    ],
)
def test_half_a_list_is_an_evidence_gap_of_its_schema_and_stops_no_other(
    server: UnityCatalog, answer: Answer, why: str
) -> None:
    server.page = 1
    second = {"schema_name": "sales", "page_token": "1"}.items()
    server.faults.append(lambda _, __, params: answer if second <= params.items() else None)
    found = listed(server)
    assert [(hole.subject, hole.reason) for hole in found.holes] == [("main.sales.*", why)]
    assert set(named_tables(found)) == {"main.`raw.eu`.odd", "other.x.hudi", "other.x.nowhere"}


def test_a_probe_asks_for_what_an_audit_needs(server: UnityCatalog) -> None:
    source = Unity(kind="unity", uri=server.uri)
    assert unity.probe(source, Clients(), NOW).message == "answers; 2 catalogs can be listed"
    server.faults.append(lambda _, path, __: (403, {}) if path.endswith("/schemas") else None)
    with pytest.raises(SourceError, match="answers 403"):
        unity.probe(source, Clients(), NOW)
    server.faults[:] = [lambda _, path, __: (501, {"message": "no"}) if path.endswith("/schemas") else None]
    with pytest.raises(SourceError, match="lacks this operation: it answers 501: no; no right is missing"):
        unity.probe(source, Clients(), NOW)
    server.faults.clear()
    server.infos.clear()
    assert "names none of the selected catalogs" in unity.probe(source, Clients(), NOW).message


def test_its_tables_are_audited_by_their_formats_and_others_left_alone(
    server: UnityCatalog, tmp_path: Path
) -> None:
    server.infos["main", "sales", "again"] = info("s3://lake/orders", "PARQUET")
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: s3://out/shop\nmetastores: [{{kind: unity, uri: '{server.uri}'}}]\n"
        "tables: [{discover: {from: unity}}]\n"
    )
    found = find_tables(load_lake(file, {}), Clients())
    kinds = {table.name: tuple(type(each) for each in table.manifests) for table in found.tables}
    assert kinds == {
        "main.sales.again": (DeltaManifest,), "main.sales.lines": (), "other.x.hudi": (HudiManifest,),
    }  # fmt: skip
    assert {table.also for table in found.tables} == {("main.sales.orders",), ()}
    assert sorted(found.warnings) == [
        "1 table of format unknown left alone: main.`raw.eu`.odd",
        "unity names no place of a store for other.x.nowhere",
    ]


def test_a_credential_needs_to_know_where_it_is_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(
        "version: 1\nlake: shop\nresults: s3://out/shop\ntables: [{name: a, location: s3://lake/a}]\n"
        "metastores: [{kind: unity, uri: 'https://dbc.example.com', credential_env: A}]\n"
    )
    with pytest.raises(LakeFileError, match="nothing says where it is exchanged: oauth2_uri"):
        load_lake(file, {})
