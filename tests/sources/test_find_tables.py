"""Tables that catalogs name, as tables of the lake (stand-ins over real HTTP, `tests.builders.rest_catalog`)."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.commands.doctor_checks import examine
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import LakeFileError
from lakeaudit.evidence.catalog.find_tables import DiscoveredTables, find_tables
from lakeaudit.evidence.discovery import with_tables
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.explain.source_answers import ask_metastores
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.rest_catalog import RestCatalog, served


@pytest.fixture
def a() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


@pytest.fixture
def b() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


def name(rest: RestCatalog, folder: Path, **places: str) -> None:
    """Tables of a catalog, by their names with two underscores for the dot, and where they lie."""
    for table, place in places.items():
        path = folder / f"{rest.port}-{table}.json"
        path.write_text(json.dumps({"location": place}))
        rest.tables[tuple(table.split("__"))] = path


def lake_of(folder: Path, discover: str, *catalogs: RestCatalog, more: str = "") -> Lake:
    stores = [f"{{kind: iceberg_rest, name: c{n}, uri: '{each.uri}'}}" for n, each in enumerate(catalogs)]
    file = folder / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: s3://out/shop\nmetastores: [{', '.join(stores)}]\n"
        f"tables:\n  - discover: {{from: iceberg_rest{discover}}}\n{more}"
    )
    return load_lake(file, {})


def tables_of(found: DiscoveredTables) -> dict[str, str]:
    return {table.name: table.location.uri for table in found.tables}


def test_every_table_that_is_meant_is_found_with_what_holds_for_it(tmp_path: Path, a: RestCatalog) -> None:
    name(a, tmp_path, sales__orders="s3://lake/o/", sales__tmp_1="s3://lake/t", raw__visits="s3a://lake/v")
    more = "owners: [{match: 'sales.*', owner: us}]\nprofiles: {slow: {grace: 9h}}\n"
    lake = lake_of(tmp_path, ", exclude: ['*.tmp_*'], profile: slow", a, more=more)
    found = find_tables(lake, Clients())
    assert tables_of(found) == {"sales.orders": "s3://lake/o", "raw.visits": "s3://lake/v"}
    owners = {table.name: (table.owner, table.settings.grace.seconds // 3600) for table in found.tables}
    assert owners == {"sales.orders": ("us", 9), "raw.visits": (None, 9)}
    for table in found.tables:
        (manifest,) = table.manifests
        assert isinstance(manifest, PointedIceberg)
        assert [(each.source_id, each.name) for each in manifest.pointers] == [("metastore:0", table.name)]
    assert (found.warnings, found.gaps) == ([], [])
    assert not a.paths("/tables/tmp_1")


@pytest.mark.parametrize(
    ("discover", "names"),
    [
        (", include: ['raw.*']", {"raw.visits"}),
        (", include: ['raw.*'], name: 'prod.{2}'", {"prod.visits"}),
        (", name: '{1}/{3}'", {"raw.visits", "sales.orders"}),
        (", catalog: c0", {"raw.visits", "sales.orders"}),
    ],
)
def test_which_tables_are_selected_and_their_names(
    tmp_path: Path, a: RestCatalog, discover: str, names: set[str]
) -> None:
    name(a, tmp_path, sales__orders="s3://lake/o", raw__visits="s3://lake/v")
    assert set(tables_of(find_tables(lake_of(tmp_path, discover, a), Clients()))) == names


def test_two_names_of_one_location_are_one_table_and_both_catalogs_say_its_state(
    tmp_path: Path, a: RestCatalog, b: RestCatalog
) -> None:
    name(a, tmp_path, sales__orders="s3://lake/o", old__orders="s3a://lake/o/")
    name(b, tmp_path, mirror__orders="s3://lake/o", mirror__own="s3://lake/m")
    found = find_tables(lake_of(tmp_path, "", a, b), Clients())
    by_name = {table.name: table for table in found.tables}
    assert set(by_name) == {"old.orders", "mirror.own"}
    assert by_name["old.orders"].also == ("sales.orders", "mirror.orders")
    (manifest,) = by_name["old.orders"].manifests
    assert isinstance(manifest, PointedIceberg)
    assert [(each.source_id, each.name) for each in manifest.pointers] == [
        ("metastore:0", "old.orders"), ("metastore:0", "sales.orders"), ("metastore:1", "mirror.orders"),
    ]  # fmt: skip


def test_a_table_that_the_file_names_is_not_found_again_and_goes_by_its_other_names_too(
    tmp_path: Path, a: RestCatalog
) -> None:
    name(
        a,
        tmp_path,
        sales__orders="s3://lake/o",
        sales__own="s3://lake/own",
        sales__out="s3://out/shop/findings",
    )
    lake = lake_of(tmp_path, "", a, more="  - {name: mine, location: s3://lake/own}\n")
    found = find_tables(lake, Clients())
    assert tables_of(found) == {"sales.orders": "s3://lake/o"}
    mine = with_tables(lake, found).table("mine")
    assert (mine.also, mine.manifests) == (("sales.own",), ())


def test_tables_that_share_a_name_go_by_longer_ones(tmp_path: Path, a: RestCatalog, b: RestCatalog) -> None:
    name(a, tmp_path, sales__orders="s3://lake/o", sales__x="s3://lake/x")
    name(b, tmp_path, sales__orders="s3://other/o")
    found = find_tables(lake_of(tmp_path, "", a, b), Clients())
    assert tables_of(found) == {
        "c0.sales.orders": "s3://lake/o", "sales.x": "s3://lake/x", "c1.sales.orders": "s3://other/o",
    }  # fmt: skip
    assert found.warnings == ["several tables would be called sales.orders: they go by longer names"]
    same = find_tables(lake_of(tmp_path, ", catalog: c0, name: '{1}'", a, b), Clients())
    assert tables_of(same) == {"c0.sales.orders": "s3://lake/o", "c0.sales.x": "s3://lake/x"}


def test_gaps_of_a_catalog_are_reported_and_may_hide_a_table(
    tmp_path: Path, a: RestCatalog, b: RestCatalog
) -> None:
    name(a, tmp_path, sales__nowhere="hdfs://nn/x", sales__orders="s3://lake/o", sales__shut="s3://lake/s")
    a.faults.append(lambda _, path, __: (403, {}) if path.endswith("/shut") else None)
    b.faults.append(lambda *_: (403, {}))
    found = find_tables(lake_of(tmp_path, "", a, b), Clients())
    assert set(tables_of(found)) == {"sales.orders"}
    assert found.warnings == ["c0 names no place of a store for sales.nowhere"]
    assert [gap.partition(" answers")[0] for gap in found.gaps] == [
        "c0: sales.shut: the catalog",
        "c1: the catalog",
    ]


def test_a_catalog_that_names_nothing_may_let_the_audit_see_nothing(tmp_path: Path, a: RestCatalog) -> None:
    found = find_tables(lake_of(tmp_path, "", a), Clients())
    assert found.gaps == ["c0 names none of the selected tables; the audit may lack the rights to see them"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from: iceberg_rest, catalog: c9", "no catalog is called 'c9'"),
        ("from: iceberg_rest, under: ['s3://x/']", "under"),
        ("from: unity", "unity"),
        ("from: [iceberg_rest]", "discover"),
        ("from: iceberg_rest, formats: [orc]", "formats"),
    ],
)
def test_discoveries_that_cannot_be_are_refused(tmp_path: Path, a: RestCatalog, text: str, told: str) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(
        "version: 1\nlake: shop\nresults: s3://out/shop\n"
        f"metastores: [{{kind: iceberg_rest, name: c0, uri: '{a.uri}'}}]\ntables: [{{discover: {{{text}}}}}]\n"
    )
    with pytest.raises(LakeFileError, match=told):
        load_lake(file, {})


def test_doctor_and_explain_know_the_catalog(tmp_path: Path, a: RestCatalog) -> None:
    name(a, tmp_path, sales__orders="s3://lake/o")
    lake = lake_of(tmp_path, "", a)
    (said,) = ask_metastores(lake, Clients(), "lake", "o/part-0")
    assert (said.source, said.answer, said.reason) == (
        "metastore iceberg_rest c0", "not_asked", "the store contains only tables",
    )  # fmt: skip
    local = lake.model_copy(update={"results": Location.parse(str(tmp_path / "results"))})
    checks = {each.about: each for each in examine(local, Clients(), os.environ, datetime.now(UTC))}
    assert checks["metastore c0"].message == "answers; 1 namespace at its top can be listed"
    assert checks["discovery"].message == "each audit discovers the tables of c0"
    a.faults.append(lambda *_: (403, {}))
    checks = {each.about: each for each in examine(local, Clients(), os.environ, datetime.now(UTC))}
    assert checks["metastore c0"].state == "bad"
