"""A new kind of evidence is one object that is registered by one call: one of each role, and an audit with them.

All read JSON Lines: of objects, of entries, of files that a table lists, of requests.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.commands.doctor_checks import examine
from lakeaudit.config import (
    CatalogSource,
    EventsSource,
    ManifestSource,
    MetastoreSource,
    StorageSource,
    Table,
    load_lake,
)
from lakeaudit.config.field_types import Place
from lakeaudit.config.lake import Lake
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.evidence.catalog.reading import no_entry
from lakeaudit.evidence.kind import (
    KEY_ROWS,
    CatalogKind,
    EventsKind,
    ManifestKind,
    MetastoreKind,
    StorageKind,
)
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.evidence.protocol import (
    Batches,
    Changes,
    Claims,
    Context,
    Entries,
    Events,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    Stored,
    TableState,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, ENTRY, REQUEST, VERSION
from tests.builders.audits import audited, results_of

BUCKET = "toys"
OLD = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=20)


class ToyStorage(StorageSource):
    kind: Literal["toy_storage"]


class ToyStore(MetastoreSource):
    kind: Literal["toy_store"]
    lies: Place

    @property
    def name(self) -> str:
        return self.lies.uri

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.lies,)


class FlatStore(ToyStore):
    """A store with sizes and without folders."""

    has_tree = False

    kind: Literal["flat_store"]  # type: ignore[assignment]


class ToyCatalog(CatalogSource):
    kind: Literal["toy_catalog"]
    lies: Place

    @property
    def name(self) -> str:
        return self.word


class ToyManifest(ManifestSource):
    is_state = True

    kind: Literal["toy_manifest"]
    location: Place
    complete: bool = True

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class ToyEvents(EventsSource):
    kind: Literal["toy_events"]


def lines(place: Location) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(place.spark_path).read_text().splitlines()]


def _part(source_id: str, kind: str, schema: pa.Schema, place: Location, **same: object) -> Part:
    return Part(source_id, partial(_rows, source_id, kind, schema, place, same), 1)


def _rows(
    source_id: str, kind: str, schema: pa.Schema, place: Location, same: dict[str, Any], _: Connection
) -> Batches:
    rows = [{"source": source_id, "bucket": BUCKET, **same, **line} for line in lines(place)]
    yield kind, pa.Table.from_pylist(rows, schema)


def _info(source_id: str, role: str, kind: str, place: Location, ctx: Context) -> SourceInfo:
    return SourceInfo(source_id, role, kind, place.uri, "a toy", SnapshotWindow(ctx.as_of, ctx.as_of))


def read_storage(source: ToyStorage, ctx: Context, source_id: str) -> Stored:
    part = _part(
        source_id,
        "versions",
        VERSION,
        source.location,
        is_latest=True,
        is_delete_marker=False,
        modified_at=OLD,
    )
    info = _info(source_id, "storage", "toy_storage", source.location, ctx)
    return Stored(info, (part,), (Location(BUCKET, ""),))


def read_store(source: ToyStore, ctx: Context, source_id: str) -> Entries:
    flags = dict.fromkeys(("is_dir", "tombstone", "expired", "honoured", "authoritative"), False)
    part = _part(source_id, "entries", ENTRY, source.lies, **flags, mod_time=OLD, last_updated_given=False)
    return Entries(_info(source_id, "metastore", "toy_store", source.lies, ctx), (part,), (), None)


def read_flat(source: FlatStore, ctx: Context, source_id: str) -> Entries:
    scope = (Location(BUCKET, "u"),)
    return replace(read_store(source, ctx, source_id), scope=scope, tree=False)


def read_events(source: ToyEvents, ctx: Context, source_id: str) -> Events:
    same = {"action": "delete", "operation": "toy", "at": OLD + timedelta(hours=1), "succeeded": True}
    part = _part(source_id, "requests", REQUEST, source.location, **same)
    info = _info(source_id, "events", "toy_events", source.location, ctx)
    return Events(info, ctx.as_of - timedelta(days=90), lambda _, __: (part,))


def read_manifests(tables: Sequence[Table], ctx: Context, source_id: str) -> Claims:
    same = {"manifest_kind": "toy_manifest", "state": "live", "certain": True, "category": "data", "partition_path": "",
            "claimed_at": OLD, "listed": 1, "own_root": True, "explained": False}  # fmt: skip
    places = {table.name: place for table in tables for m in table.manifests for place in m.places}
    parts = [
        _part(source_id, "listed", CLAIM, place, table_name=name, **same) for name, place in places.items()
    ]
    states = {name: TableState(name, ctx.as_of, None) for name in places}
    info = _info(source_id, "manifest", "toy_manifest", next(iter(places.values())), ctx)
    return Claims(info, (tuple(parts),), _as_they_are, states)


def _as_they_are(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    return duck.relation(con, rows.get("listed", CLAIM.empty_table()))


def look_up(table: Table, _: Clients, __: str, key: str) -> tuple[str, list[dict[str, Any]], str]:
    named = [
        line for m in table.manifests for place in m.places for line in lines(place) if line["key"] == key
    ]
    return "present" if named else "absent", named, ""


def get(source: ToyStore, _: Clients, __: str, key: str) -> dict[str, Any] | None:
    return next((line for line in lines(source.lies) if line["key"] == key), None)


def list_tables(source: ToyCatalog, _: Clients, source_id: str, names: Callable[[str], bool]) -> Pointers:
    tables = [
        CatalogTable(source_id, line["name"], BUCKET, line["key"], "hive") for line in lines(source.lies)
    ]
    info = SourceInfo(source_id, "metastore", source.kind, source.lies.uri, "a toy", None)
    return Pointers(info, tuple(table for table in tables if names(table.name)))


def read_catalog(source: ToyCatalog, ctx: Context, source_id: str) -> Pointers:
    return list_tables(source, ctx.clients, source_id, lambda _: True)


def probe(source: StorageSource | MetastoreSource | EventsSource, _: Clients, __: datetime) -> Probed:
    (place,) = source.places
    return Probed(f"{len(lines(place))} lines", covers=(Location(BUCKET, ""),))


def nothing_new(_: Claims, __: Sequence[Table], ___: Context) -> Changes:
    names = ("table_name", "bucket", "key", "state")
    return Changes(pa.schema([(name, pa.string()) for name in names]).empty_table())


TOYS = (
    StorageKind(name="toy_storage", title="a toy", model=ToyStorage, read=read_storage, probe=probe),
    MetastoreKind(name="toy_store", title="a toy", model=ToyStore, read=read_store, probe=probe, get=get),
    MetastoreKind(name="flat_store", title="a toy", model=FlatStore, read=read_flat, probe=probe, get=get),
    CatalogKind(
        name="toy_catalog",
        title="a toy",
        model=ToyCatalog,
        read=read_catalog,
        probe=probe,
        get=no_entry,
        list_tables=list_tables,
    ),
    EventsKind(name="toy_events", title="a toy", model=ToyEvents, read=read_events, probe=probe),
    ManifestKind(
        name="toy_manifest",
        title="a toy",
        model=ToyManifest,
        read=read_manifests,
        changes=nothing_new,
        look_up=look_up,
        rows={"listed": KEY_ROWS},
    ),
)


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    registry.register(*TOYS)
    yield
    registry.unregister(*TOYS)


def store_item(name: str) -> dict[str, Any]:
    return {"key": f"t/{name}", "parent": "t", "size": 5, "etag": name}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    files = {
        "objects": [{"key": f"t/{name}", "size": 5, "etag": name} for name in ("kept", "hidden", "stray")],
        "entries": [
            {"key": "t", "parent": "", "is_dir": True},
            *(store_item(n) for n in ("kept", "lost", "stray")),
        ],
        "requests": [{"key": "t/lost", "principal": "ann", "request_id": "r1"}],
        "listed": [{"key": f"t/{name}", "size": 5} for name in ("kept", "hidden", "lost")],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: toys\nresults: {tmp_path / 'results'}\n"
        f"inventories: [{{kind: toy_storage, location: {tmp_path / 'objects'}}}]\n"
        f"metastores: [{{kind: toy_store, lies: {tmp_path / 'entries'}}}]\n"
        f"events: [{{kind: toy_events, location: {tmp_path / 'requests'}}}]\n"
        f"tables:\n- name: t\n  location: s3://{BUCKET}/t\n"
        f"  manifests: [{{kind: toy_manifest, location: {tmp_path / 'listed'}}}]\n"
        "defaults: {confirm: {mode: none}}\n"
    )
    return load_lake(path, {})


@pytest.fixture
def two_stores(lake: Lake, tmp_path: Path) -> Lake:
    """The same lake with a table in a store without folders, which is complete."""
    del lake
    names = ("d/kept", "d/other")
    objects = [{"key": f"u/{name}", "size": 5, "etag": name} for name in names]
    listed = [{"key": f"u/{name}", "size": 5} for name in names]
    (tmp_path / "flat").write_text("".join(json.dumps(row | {"parent": "u/d"}) + "\n" for row in objects))
    (tmp_path / "also").write_text("".join(json.dumps(row) + "\n" for row in listed))
    with (tmp_path / "objects").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in objects)
    path = tmp_path / "lake.yaml"
    text = path.read_text().replace(
        "metastores: [", f"metastores: [{{kind: flat_store, lies: {tmp_path / 'flat'}}}, "
    )
    also = f"{{kind: toy_manifest, location: {tmp_path / 'also'}}}"
    table = f"- name: u\n  location: s3://{BUCKET}/u\n  manifests: [{also}]\n"
    path.write_text(text.replace("defaults:", f"{table}defaults:"))
    return load_lake(path, {})


@pytest.mark.parametrize("prefilter_from", [projection_pass.PREFILTER_FROM, 0])
def test_an_audit_reads_and_judges_them_and_a_store_without_folders_is_not_judged_by_folders(
    two_stores: Lake, prefilter_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table `u` has no finding, beside a store that has folders."""
    monkeypatch.setattr(projection_pass, "PREFILTER_FROM", prefilter_from)
    audited(two_stores, run_id="r")
    rows = [row for batch in results_of(two_stores).findings("r") for row in batch.to_pylist()]
    assert sorted((row["kind"], row["key"]) for row in rows) == [
        ("dropped", "t/lost"), ("hidden", "t/hidden"), ("unreferenced", "t/"),
    ]  # fmt: skip
    assert [(row["cause"], row["cause_principal"]) for row in rows if row["cause"]] == [
        ("deleted (toy)", "ann")
    ]
    assert [each["kind"] for each in results_of(two_stores).runs()[0]["sources"]] == [
        "toy_storage",
        "toy_store",
        "toy_store",  # the reader of the store without folders is that of the other one
        "toy_manifest",
        "toy_events",
    ]


def test_one_file_is_looked_up_in_them(lake: Lake) -> None:
    (table,) = lake.tables
    answers = {
        name: next(lookup_claims(table, Clients(), BUCKET, f"t/{name}")).answer for name in ("lost", "stray")
    }
    assert answers == {"lost": "present", "stray": "absent"}


def test_doctor_tries_them(lake: Lake) -> None:
    checks = {check.about: check.message for check in examine(lake, Clients(), os.environ, datetime.now(UTC))}
    assert [
        told for about, told in checks.items() if about.startswith(("storage", "metastore", "events"))
    ] == [
        "3 lines",
        "4 lines",
        "1 lines",
    ]


def test_tables_are_discovered_in_a_catalog(tmp_path: Path) -> None:
    named = [{"name": "raw.orders", "key": "raw/orders/"}, {"name": "tmp.scratch", "key": "tmp/scratch/"}]
    (tmp_path / "named").write_text("".join(json.dumps(row) + "\n" for row in named))
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: toys\nresults: {tmp_path / 'results'}\n"
        f"metastores: [{{kind: toy_catalog, lies: {tmp_path / 'named'}}}]\n"
        "tables: [{discover: {from: toy_catalog, exclude: [tmp.*]}}]\n"
    )
    found = find_tables(load_lake(path, {}), Clients())
    assert [(table.name, table.location.uri) for table in found.tables] == [
        ("raw.orders", f"s3://{BUCKET}/raw/orders")
    ]
