"""Healthy histories of Iceberg tables, and of folders that UniForm keeps in two formats, by PyIceberg and delta-rs."""

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.glue import GlueCatalog
from tests.builders.healthy_delta import DeltaHistory
from tests.builders.shop import Shop

_AMOUNT = NestedField(1, "amount", LongType(), required=False)
_SCHEMA = Schema(_AMOUNT, NestedField(2, "day", StringType(), required=False))
_SHORT_LOG = {"write.metadata.previous-versions-max": "2"}


def catalog_of(shop: Shop) -> Catalog:
    """A catalog of its own, which nobody else commits to."""
    from pyiceberg.catalog.memory import InMemoryCatalog  # takes a second

    made = InMemoryCatalog(
        f"tests-{uuid.uuid4()}",
        **{
            "warehouse": f"s3://{shop.bucket}/warehouse",
            "s3.endpoint": str(shop.endpoint.endpoint),
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        },
    )
    made.create_namespace("shop")
    return made


@dataclass
class IcebergHistory:
    """One table; where `glue` is given, that catalog says which state is the current one.

    `rival` is the catalog of another writer, which loses its races.
    """

    shop: Shop
    name: str
    chance: random.Random
    numbers: Iterator[int]
    catalog: Catalog
    rival: Catalog
    glue: GlueCatalog | None = None
    schema: Schema = _SCHEMA
    contested: bool = False
    shared: bool = False
    dropped: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        return f"warehouse/{self.name}"

    @property
    def uri(self) -> str:
        return f"s3://{self.shop.bucket}/{self.home}"

    @property
    def table(self) -> Table:
        return self.catalog.load_table(f"shop.{self.name}")

    @property
    def entry(self) -> str:
        named = f", catalog: glue, table: {self.glue.database}.{self.name}" if self.glue else ""
        return f"{{name: {self.name}, location: '{self.uri}', manifests: [{{kind: iceberg{named}}}]}}"

    @property
    def doubted(self) -> bool:
        """Whether a commit that lost its race, or another table, may have files here: none is called unused."""
        return self.shared or self.contested

    @property
    def live(self) -> set[str]:
        """Keys of the data files that the current snapshot lists."""
        return {self.key(task.file.file_path) for task in self.table.scan().plan_files()}

    @property
    def acts(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.append, self.append, self.overwrite, self.delete, self.roll_back, self.set_current, self.branch),
            *(self.tag, self.expire, self.expire_and_remove, self.remove_old_states, self.add_column),
            *(self.race, self.race, self.create_again),
        )  # fmt: skip

    def begin(self) -> None:
        """Create the table."""
        version = self.chance.choice(("1", "2"))
        self.catalog.create_table(
            f"shop.{self.name}", self.schema, location=self.uri, properties={"format-version": version}
        )
        self.append()
        self.publish()

    def act(self) -> None:
        """One act, drawn at random."""
        before, contested = self.table.metadata_location, self.contested
        chosen = self.chance.choice(self.acts)
        self.done.append(chosen.__name__)
        self.contested = False
        chosen()
        if self.table.metadata_location == before:
            self.contested = contested
        self.publish()

    def publish(self) -> None:
        """Glue names the table's newest state, and the one before."""
        if self.glue is None:
            return
        client, database = self.glue.glue, self.glue.database
        words = {"table_type": "ICEBERG", "metadata_location": self.table.metadata_location}
        named = [each["Name"] for each in client.get_tables(DatabaseName=database)["TableList"]]
        if self.name not in named:
            self.glue.table(self.name, self.uri, parameters=words)
            return
        before = client.get_table(DatabaseName=database, Name=self.name)["Table"]
        old = before["Parameters"]["metadata_location"]
        given: Any = {
            "Name": self.name,
            "StorageDescriptor": before["StorageDescriptor"],
            "TableType": "EXTERNAL_TABLE",
            "Parameters": words | {"previous_metadata_location": old},
        }
        if old != words["metadata_location"]:
            client.update_table(DatabaseName=database, TableInput=given)

    def rows(self) -> dict[str, list[int]]:
        """Return the files that a real reader reads, by branch and tag."""
        table = self.table
        return {
            f"iceberg {name}": sorted(
                table.scan(snapshot_id=ref.snapshot_id, selected_fields=("amount",))
                .to_arrow()["amount"]
                .to_pylist()
            )
            for name, ref in table.metadata.refs.items()
        }

    def some_rows(self) -> pa.Table:
        """Rows that nobody has written before."""
        amounts = [next(self.numbers) for _ in range(self.chance.choice((1, 2, 3)))]
        columns = {"amount": pa.array(amounts, pa.int64()), "day": ["2026-11-01"] * len(amounts)}
        return pa.table({name: columns[name] for name in self.schema.column_names})

    def append(self) -> None:
        self.table.append(self.some_rows())

    def overwrite(self) -> None:
        """All rows; of a table without any PyIceberg would warn."""
        table = self.table
        if any(table.scan().plan_files()):
            table.overwrite(self.some_rows())

    def delete(self) -> None:
        amounts = self.table.scan().to_arrow()["amount"].to_pylist()
        if amounts:
            self.table.delete(f"amount <= {self.chance.choice(amounts)}")

    def roll_back(self) -> None:
        """To an ancestor of the current snapshot."""
        table = self.table
        current = table.current_snapshot()
        parent = table.snapshot_by_id(current.parent_snapshot_id or 0) if current else None
        if parent is not None:
            table.manage_snapshots().rollback_to_snapshot(parent.snapshot_id).commit()

    def set_current(self) -> None:
        """To any snapshot, as after a rollback that was a mistake."""
        table = self.table
        chosen = self.chance.choice(table.metadata.snapshots).snapshot_id
        if chosen != table.metadata.current_snapshot_id:
            table.manage_snapshots().set_current_snapshot(chosen).commit()

    def branch(self) -> None:
        """A branch that goes on apart from the others."""
        table, name = self.table, f"dev{next(self.numbers)}"
        current = table.current_snapshot()
        if current is not None:
            table.manage_snapshots().create_branch(current.snapshot_id, name).commit()
            table.append(self.some_rows(), branch=name)

    def tag(self) -> None:
        chosen = self.chance.choice(self.table.metadata.snapshots).snapshot_id
        self.table.manage_snapshots().create_tag(chosen, f"v{next(self.numbers)}").commit()

    def expire(self) -> None:
        """Only what branches and tags name is promised; the files stay until orphans are removed."""
        table = self.table
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
        if gone:
            change = table.maintenance.expire_snapshots()
            for snapshot in gone:
                change = change.by_id(snapshot)
            change.commit()

    def expire_and_remove(self) -> None:
        """As Spark's procedure: the files that only expired snapshots list are removed."""
        before = self.reachable()
        self.expire()
        for key in before - self.reachable():
            self.remove(key)

    def remove_old_states(self) -> None:
        """`write.metadata.delete-after-commit.enabled`: what the log no longer names is removed."""
        with self.table.transaction() as change:
            change.set_properties(_SHORT_LOG)
        table = self.table
        kept = {self.key(each.metadata_file) for each in table.metadata.metadata_log}
        for key in self.keys("/metadata/"):
            if key.endswith(".metadata.json") and key not in {*kept, self.key(table.metadata_location)}:
                self.remove(key)

    def add_column(self) -> None:
        with self.table.update_schema() as change:
            change.add_column(f"extra{next(self.numbers)}", LongType())

    def race(self) -> None:
        """Two writers commit on one state: one wins, the other deletes its files where possible and may retry."""
        start = self.table.metadata_location
        first = self.chance.random() < 0.5
        if first:
            self.append()
        there = set(self.keys())
        rival = self.rival.register_table(f"shop.rival{next(self.numbers)}", start)
        rival.append(self.some_rows())
        left = set(self.keys()) - there
        if not first:
            self.append()
        stays = self.chance.choice(((), (".metadata.json",), (".metadata.json", ".avro")))
        for key in left:
            if not key.endswith(stays or ("nothing",)):
                self.remove(key)
        self.contested = bool(stays) and self.chance.random() < 0.5
        if not self.contested:
            self.append()

    def create_again(self) -> None:
        """Another table in the place of one that was dropped, which was purged or not."""
        purged = self.chance.random() < 0.5
        keys = self.keys()
        self.catalog.drop_table(f"shop.{self.name}")
        if purged:
            for key in keys:
                self.remove(key)
        if self.glue:
            self.glue.glue.delete_table(DatabaseName=self.glue.database, Name=self.name)
        self.begin()
        self.shared = not purged

    def drop(self) -> None:
        """Its owner drops and purges the table."""
        keys = self.keys()
        self.catalog.drop_table(f"shop.{self.name}")
        for key in keys:
            self.remove(key)
        self.dropped = True

    def reachable(self) -> set[str]:
        """Keys of lists, manifests and files of every snapshot."""
        found: set[str] = set()
        table = self.table
        for one in table.metadata.snapshots:
            manifests = one.manifests(table.io)
            found |= {one.manifest_list, *(each.manifest_path for each in manifests)}
            for each in manifests:
                entries = each.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
        return {self.key(path) for path in found}

    def key(self, path: str) -> str:
        return path.removeprefix(f"s3://{self.shop.bucket}/")

    def keys(self, part: str = "") -> list[str]:
        pages = self.shop.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.shop.bucket, Prefix=f"{self.home}/"
        )
        return [e["Key"] for page in pages for e in page.get("Contents", []) if part in e["Key"]]

    def remove(self, key: str) -> None:
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)


@dataclass
class UniformHistory:
    """A folder of two formats: delta-rs commits, and a converter brings the Iceberg metadata up to date.

    `declared` is the format that the lake file names; `may_lag`: the converter need not run before an audit.
    """

    delta: DeltaHistory
    iceberg: IcebergHistory
    declared: str
    may_lag: bool

    def __post_init__(self) -> None:
        self.name, self.done, self.dropped = self.delta.name, self.delta.done, False
        self.chance, self.doubted = self.delta.chance, False

    @property
    def home(self) -> str:
        return self.delta.home

    @property
    def entry(self) -> str:
        return f"{{name: {self.name}, location: '{self.delta.uri}', manifests: [{{kind: {self.declared}}}]}}"

    @property
    def live(self) -> set[str]:
        return self.delta.live if self.declared == "delta" else self.iceberg.live

    def begin(self) -> None:
        self.delta.begin()
        self.iceberg.catalog.create_table(
            f"shop.{self.name}", self.iceberg.schema, location=self.delta.uri, properties={}
        )
        self.convert()

    def act(self) -> None:
        delta = self.delta
        acts = (
            *(delta.append, delta.append, delta.overwrite, delta.delete, delta.compact, delta.restore),
            *(delta.checkpoint, delta.commit_nothing, delta.append_bare, self.vacuum, self.convert),
        )
        chosen = self.chance.choice(acts)
        self.done.append(chosen.__name__)
        chosen()
        if not self.may_lag:
            self.convert()

    def rows(self) -> dict[str, list[int]]:
        return self.delta.rows() | self.iceberg.rows()

    def vacuum(self) -> None:
        """The converter expires the snapshots whose files VACUUM removes."""
        self.convert()
        self.iceberg.expire()
        self.delta.vacuum()
        self.convert()

    def convert(self) -> None:
        """The Iceberg table lists what the newest version of the Delta table does, and names it."""
        table, version = self.iceberg.table, max(self.delta.states)
        listed = {task.file.file_path: task.file for task in table.scan().plan_files()}
        live = {f"s3://{self.delta.shop.bucket}/{key}" for key in self.delta.live}
        with table.transaction() as change:
            if gone := listed.keys() - live:
                with change.update_snapshot().overwrite() as snapshot:
                    for path in gone:
                        snapshot.delete_data_file(listed[path])
            if new := sorted(live - listed.keys()):
                change.add_files(new)
            change.set_properties({"delta-version": str(version)})
