"""Whole audits of Delta tables with a checkpoint that contradicts the commits up to it, and of healthy ones.

Each table is a copy of one that delta-rs wrote: six commits, and checkpoints of versions 2 and 4. In old tables only
the newest commit is younger than sixty days, so that their state is read from the checkpoint of version 4.
"""

import io
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log import checkpoints
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.audits import audited, findings_by_table, leftover_status
from tests.builders.backdate import backdate, body_of, delete, present, put
from tests.builders.delta_lake import Action, add, context, frozen, info, remove, vector
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

TEMPLATE, ROWS, NEWEST = "template", 4, 5
LONG_AGO = datetime.now(UTC) - timedelta(days=60)


@dataclass
class Table:
    """A copy of the template."""

    shop: Shop
    name: str

    def key(self, path: str) -> str:
        return f"warehouse/{self.name}/{path}"

    @property
    def checkpoint(self) -> str:
        return self.key(f"_delta_log/{4:020}.checkpoint.parquet")

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(f"s3://{self.shop.bucket}/{self.key('')}", storage_options=self.shop.options)

    def put(self, key: str, body: bytes) -> None:
        put(self.shop.bucket, key, body)

    def commit(self, version: int, *actions: Action) -> None:
        self.put(self.key(f"_delta_log/{version:020}.json"), "\n".join(map(json.dumps, actions)).encode())

    def rows(self, key: str) -> pa.Table:
        """Return the rows of a checkpoint."""
        return pq.read_table(io.BytesIO(body_of(self.shop.bucket, key)))

    def change(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Write the checkpoint of version 4 again with other entries."""
        rows = self.rows(self.checkpoint)
        entries = [row for row in rows.to_pylist() if row["add"]]
        others = [row for row in rows.to_pylist() if not row["add"]]
        written = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(others + change(entries), rows.schema), written)
        self.put(self.checkpoint, written.getvalue())

    def drop(self, *names: str) -> None:
        for name in names:
            delete(self.shop.bucket, self.key(f"_delta_log/{name}"))

    def age(self) -> None:
        """Backdate everything but the newest commit and the files that it added."""
        newest = self.key(f"_delta_log/{NEWEST:020}.json")
        body = body_of(self.shop.bucket, newest)
        for key in present(self.shop.bucket, self.key("")):
            if key != newest and key.rpartition("/")[2].encode() not in body:
                backdate(self.shop.bucket, key, LONG_AGO)


def with_first(**given: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """The entries, of which the first says something else."""
    return lambda rows: [{**rows[0], "add": rows[0]["add"] | given}, *rows[1:]]


def another_path(t: Table) -> None:
    t.change(with_first(path="part-of-nothing.parquet"))


def another_size(t: Table) -> None:
    t.change(with_first(size=7))


def another_vector(t: Table) -> None:
    t.change(with_first(deletionVector=vector(1)))


def one_entry_twice_and_another_not(t: Table) -> None:
    t.change(lambda rows: [*rows[1:], rows[1]])


def a_removal_is_not_in_it(t: Table) -> None:
    """The table is overwritten, and the checkpoint after that lists the files as before, in the same number."""
    t.drop(f"{NEWEST:020}.json")
    paths = [row["add"]["path"] for row in _entries(t)]
    new = [add(f"new-{number}", size=12, stats="{}") for number in range(len(paths))]
    for one in new:
        t.put(t.key(one["add"]["path"]), f"{one['add']['path']} of it".ljust(12)[:12].encode())
    t.commit(5, info("WRITE"), *(remove(path) for path in paths), *new)
    t.put(t.checkpoint.replace(f"{4:020}", f"{5:020}"), body_of(t.shop.bucket, t.checkpoint))


def _entries(t: Table) -> list[dict[str, Any]]:
    return [row for row in t.rows(t.checkpoint).to_pylist() if row["add"]]


def base_is_short(t: Table) -> None:
    t.change(lambda rows: rows[2:])
    t.age()


def base_is_short_and_commits_reach_back_to_the_first(t: Table) -> None:
    t.change(lambda rows: rows[1:])
    t.drop(f"{2:020}.checkpoint.parquet")
    t.age()


def base_lists_another_path(t: Table) -> None:
    t.change(with_first(path="part-of-nothing.parquet"))
    t.age()


def base_is_short_by_its_hint_alone(t: Table) -> None:
    """Nothing else is left of the versions up to it."""
    t.change(lambda rows: rows[2:])
    t.drop(f"{2:020}.checkpoint.parquet", *(f"{version:020}.json" for version in range(5)))
    t.age()


def in_parts(t: Table, *shares: slice, **hint: Any) -> None:
    """Write the checkpoint of version 4 in parts, each with a share of its entries, and nothing older beside it."""
    rows = t.rows(t.checkpoint)
    entries = [row for row in rows.to_pylist() if row["add"]]
    others = [row for row in rows.to_pylist() if not row["add"]]
    sizes, counts = [], []
    for number, share in enumerate(shares):
        written = io.BytesIO()
        part = [*entries[share], *(others if number == 0 else ())]
        pq.write_table(pa.Table.from_pylist(part, rows.schema), written)
        name = f"_delta_log/{4:020}.checkpoint.{number + 1:010}.{len(shares):010}.parquet"
        t.put(t.key(name), written.getvalue())
        sizes.append(len(written.getvalue()))
        counts.append(len(part))
    t.drop(
        *(f"{version:020}.checkpoint.parquet" for version in (2, 4)),
        *(f"{version:020}.json" for version in range(5)),
    )
    counted = {"size": sum(counts), "sizeInBytes": sum(sizes)} | hint
    counted = {name: sum(sizes) if value == "bytes" else value for name, value in counted.items()}
    t.put(
        t.key("_delta_log/_last_checkpoint"),
        json.dumps({"version": 4, "parts": len(shares)} | counted).encode(),
    )
    t.age()


FIRST, REST, WITHOUT_LAST = slice(0, 2), slice(2, 5), slice(2, 4)


def parts_of_two_runs(t: Table) -> None:
    """The second part begins with a file of the first one, and ends before the last file; the counts are met."""
    in_parts(t, FIRST, slice(1, 4), numOfAddFiles=5)


def parts_of_two_runs_by_their_actions_alone(t: Table) -> None:
    in_parts(t, FIRST, WITHOUT_LAST, size=7, sizeInBytes=1)


def parts(t: Table) -> None:
    in_parts(t, FIRST, REST, numOfAddFiles=5)


def parts_counted_by_their_bytes(t: Table) -> None:
    """Old versions of delta-rs recorded bytes as the size."""
    in_parts(t, FIRST, REST, size="bytes")


def parts_written_again_since(t: Table) -> None:
    """All of them, by a run that dropped removals which had expired meanwhile."""
    in_parts(t, FIRST, REST, size=99)
    backdate(t.shop.bucket, t.key("_delta_log/_last_checkpoint"), LONG_AGO - timedelta(days=1))


def one_part_lists_a_file_twice(t: Table) -> None:
    """A fault of the writer, by which nothing is lost."""
    in_parts(t, FIRST, REST)
    key = t.key(f"_delta_log/{4:020}.checkpoint.{1:010}.{2:010}.parquet")
    rows = t.rows(key)
    written = io.BytesIO()
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), written)
    t.put(key, written.getvalue())


def untouched(t: Table) -> None:
    pass


def old(t: Table) -> None:
    t.age()


def old_and_cleaned_up(t: Table) -> None:
    t.drop(f"{2:020}.checkpoint.parquet", *(f"{version:020}.json" for version in range(3)))
    t.age()


def old_with_a_commit_of_it_gone(t: Table) -> None:
    """Delete commit 3, which readers no longer need."""
    t.drop(f"{3:020}.json")
    t.age()


def old_with_an_older_checkpoint_torn(t: Table) -> None:
    t.put(t.key(f"_delta_log/{2:020}.checkpoint.parquet"), b"PAR1 torn")
    t.age()


def compacted_and_checkpointed(t: Table) -> None:
    t.delta.optimize.compact()
    t.delta.create_checkpoint()


def listed_again_and_checkpointed(t: Table) -> None:
    """Row tracking lists files once more, and a removal is repeated."""
    paths = [row["add"] for row in _entries(t)]
    again = [
        add(each["path"], size=each["size"], stats='{"numRecords":4}', dataChange=False) for each in paths
    ]
    t.commit(6, info("ROW TRACKING BACKFILL"), *again)
    for version in (7, 8):
        t.commit(version, info("DELETE"), remove(paths[0]["path"]))
    t.delta.create_checkpoint()


def reordered(t: Table) -> None:
    t.change(lambda rows: rows[::-1])


FATES: dict[Callable[[Table], None], tuple[int | None, int | None, str] | None] = {
    another_path: (
        1,
        ROWS,
        "but not in the checkpoint of version 4, and 1 file is in the checkpoint of version 4, but not in the commits",
    ),
    another_size: (
        1,
        None,
        "1 file is in the checkpoint of version 4 with another size or deletion vector than",
    ),
    another_vector: (
        1,
        None,
        "1 file is in the checkpoint of version 4 with another size or deletion vector than",
    ),
    one_entry_twice_and_another_not: (1, ROWS, "1 file is in the commits up to version 4, but not"),
    a_removal_is_not_in_it: (
        5,
        None,
        "5 files are in the commits up to version 5, but not in the checkpoint of version 5, and 5 files are in",
    ),
    base_is_short: (2, 2 * ROWS, "2 files are in the commits up to version 4, but not in the checkpoint"),
    base_is_short_and_commits_reach_back_to_the_first: (
        1,
        ROWS,
        "1 file is in the commits up to version 4, but not",
    ),
    base_lists_another_path: (1, ROWS, "1 file is in the checkpoint of version 4, but not in the commits"),
    base_is_short_by_its_hint_alone: (2, None, "`_last_checkpoint` counts 5 files"),
    parts_of_two_runs: (None, None, "list the same 1 files"),
    parts_of_two_runs_by_their_actions_alone: (None, None, "counts 7 actions"),
    **dict.fromkeys(
        (
            *(untouched, old, old_and_cleaned_up, old_with_a_commit_of_it_gone, reordered),
            *(old_with_an_older_checkpoint_torn, compacted_and_checkpointed, listed_again_and_checkpointed),
            *(parts, parts_counted_by_their_bytes, parts_written_again_since, one_part_lists_a_file_twice),
        )
    ),
}
"""Changes of a table: files and rows at stake, and words of the finding."""


@dataclass(frozen=True)
class Night:
    """Findings by table, and the witnesses that the reader returns if no checkpoint can be summed up."""

    findings: dict[str, list[dict[str, Any]]]
    leftover: dict[str, str]
    counted: set[str]


@pytest.fixture(scope="module")
def night(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Night:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    uri = f"s3://{bucket}/warehouse/{TEMPLATE}"
    for version in range(NEWEST + 1):
        rows = pa.table({"amount": [version * 100 + n for n in range(ROWS)]})
        write_deltalake(uri, rows, mode="append", storage_options=shop.options)
        if version in (2, 4):
            DeltaTable(uri, storage_options=shop.options).create_checkpoint()
    shop.copy(TEMPLATE, *(fate.__name__ for fate in FATES))
    for fate in FATES:
        fate(Table(shop, fate.__name__))
    shop.take_inventory()
    lake = shop.lake(tmp_path_factory.mktemp("checkpoints"))
    audited(lake, run_id="night")
    found = findings_by_table(lake, "night", shop.tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "_SMALL", 0)
        claims = delta.read(lake.tables, context(clients_of(lake)), "manifest:delta", frozen)
    return Night(found, leftover_status(lake, "night"), {witness.table for witness in claims.witnesses})


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_a_checkpoint_is_reported_only_if_it_contradicts_its_commits(
    night: Night, fate: Callable[[Table], None]
) -> None:
    rows, expected = night.findings[fate.__name__], FATES[fate]
    if expected is None:
        rows = [row for row in rows if row["kind"] != "duplicate_entry"]
        assert rows == [], [row["explanation"] for row in rows]
        return
    files, records, words = expected
    (row,) = [row for row in rows if row["kind"] == "missing_metadata"]
    assert (row["severity"], row["files"], row["rows_at_stake"]) == ("critical", files, records)
    assert ".checkpoint." in row["key"]
    assert words in row["explanation"]
    assert night.leftover[fate.__name__] == "partial"


BY_COUNT = [
    *(base_is_short, base_is_short_and_commits_reach_back_to_the_first, base_is_short_by_its_hint_alone),
    parts_of_two_runs_by_their_actions_alone,
]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_a_checkpoint_too_large_for_sums_is_compared_by_its_count_alone(
    night: Night, fate: Callable[[Table], None]
) -> None:
    assert (fate.__name__ in night.counted) == (fate in BY_COUNT)
