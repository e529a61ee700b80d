"""Whole audits of Delta tables whose commits contradict the state before them, and of healthy ones that look alike.

Each table is a copy of one that delta-rs wrote; what happens to it is written by hand, as its writer would. All of them
are audited at once, and delta-rs reads each of them as well.
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, findings_by_table
from tests.builders.delta_lake import Action, add, features, info, millis, remove, vector, vector_file
from tests.builders.shop import Shop
from tests.conftest import Aws

ROWS = 4
"""Rows of each file that delta-rs wrote."""
TEMPLATE = "template"


@dataclass
class Table:
    """A table of four files in two partitions, which two commits of delta-rs appended; the next commit is number 2."""

    shop: Shop
    name: str
    at: int = 2

    @property
    def uri(self) -> str:
        return f"s3://{self.shop.bucket}/warehouse/{self.name}"

    def key(self, path: str) -> str:
        return f"warehouse/{self.name}/{path}"

    def log(self, version: int) -> str:
        return self.key(f"_delta_log/{version:020}.json")

    def put(self, key: str, body: bytes) -> None:
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=body)

    def commit(self, *actions: Action) -> "Table":
        self.put(self.log(self.at), "\n".join(map(json.dumps, actions)).encode())
        self.at += 1
        return self

    def paths(self) -> list[str]:
        """Paths of the files that delta-rs committed, as the log has them."""
        keys = [self.log(version).replace(self.name, TEMPLATE) for version in (0, 1)]
        bodies = [self.shop.s3.get_object(Bucket=self.shop.bucket, Key=key)["Body"].read() for key in keys]
        lines = [json.loads(line) for body in bodies for line in body.splitlines()]
        return sorted(line["add"]["path"] for line in lines if "add" in line)

    def new(self, name: str = "new", rows: int | None = ROWS, day: str = "c", **given: Any) -> Action:
        """An add of a file that is put into storage as well."""
        path = f"day={day}/{name}.parquet"
        body = f"{self.name}/{path}".ljust(100).encode()
        self.put(self.key(path), body)
        stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
        fields = {"stats": None, "partitionValues": {"day": day}, "size": len(body)} | stats | given
        return add(path, **fields)

    def vectors(self, number: int) -> Action:
        """A deletion vector that deletes a row."""
        self.put(self.key(vector_file(number)), b"\1".ljust(64))
        return vector(number)

    def with_vectors(self) -> "Table":
        """The protocol that tables with deletion vectors have."""
        return self.commit(info("UPGRADE PROTOCOL"), features("deletionVectors"))

    def overwrite(self, *actions: Action, read: int | None = None, **given: str) -> "Table":
        known = {} if read is None else {"readVersion": read}
        return self.commit(
            info("WRITE", operationParameters={"mode": "Overwrite"} | given, **known), *actions
        )

    def rewrite(self, *actions: Action, operation: str = "OPTIMIZE") -> "Table":
        """A commit that declares that it changes no rows."""
        quiet = [
            {kind: fields | {"dataChange": False}} for action in actions for kind, fields in action.items()
        ]
        return self.commit(info(operation), *quiet)


def removes(*paths: str) -> list[Action]:
    return [remove(path) for path in paths]


# what is wrong


def removes_absolute_paths(t: Table) -> None:
    t.overwrite(*removes(*(f"{t.uri}/{path}" for path in t.paths())), t.new())


def removes_by_another_scheme(t: Table) -> None:
    path = t.new("once")["add"]["path"]
    t.commit(info(), add(f"s3://{t.shop.bucket}/{t.key(path)}", size=100, partitionValues={"day": "c"}))
    t.commit(info("DELETE"), remove(f"s3a://{t.shop.bucket}/{t.key(path)}"))


def removes_another_spelling(t: Table) -> None:
    t.commit(info("DELETE"), *removes(*(path.replace("day", "%64ay") for path in t.paths()[:3])))


def removes_paths_decoded_once_more(t: Table) -> None:
    """The files lie below `day=a%20b`, and the path names `day=a b`."""
    t.overwrite(*removes(*(path.replace("%25", "%") for path in t.paths() if "%25" in path)), t.new())


def removes_what_another_bucket_holds(t: Table) -> None:
    """The table was copied from there, and its writer still takes it to be there; history begins at a checkpoint."""
    cleaned_up(t)
    t.commit(info("DELETE"), remove(f"s3://elsewhere/lake/{t.paths()[-1]}"))


def removes_what_was_never_there(t: Table) -> None:
    t.overwrite(remove("day=c/part-0.parquet"), remove("day=c/part-1.parquet"), t.new())


def removes_another_vector(t: Table) -> None:
    path = t.paths()[0]
    t.with_vectors().commit(info("DELETE"), remove(path, t.vectors(1)), t.new())


def compaction_loses_a_row(t: Table) -> None:
    t.rewrite(*removes(*t.paths()[2:]), t.new(rows=2 * ROWS - 1))


def compaction_lost_its_file(t: Table) -> None:
    t.rewrite(*removes(*t.paths()[2:]))


def purge_brings_rows_back(t: Table) -> None:
    file = t.paths()[3]
    _with_vector(t, file, 1)
    t.rewrite(remove(file, vector(1)), t.new(rows=ROWS), operation="REORG")


def rewrite_after_a_checkpoint(t: Table) -> None:
    cleaned_up(t)
    t.rewrite(*removes(*t.paths()[2:]), t.new(rows=2 * ROWS + 3))


def overwrites_of_one_version(t: Table) -> None:
    t.overwrite(*removes(*t.paths()), t.new("one"), read=1)
    t.overwrite(*removes(*t.paths()), t.new("two"), read=1)


def overwrites_that_remove_the_same(t: Table) -> None:
    """Writers that do not record which version they read; the second one writes to another partition."""
    t.overwrite(*removes(*t.paths()), t.new("one"))
    t.overwrite(*removes(*t.paths()), t.new("two", day="d"))


def overwrites_by_one_predicate(t: Table) -> None:
    for name in ("one", "two"):
        t.overwrite(t.new(name, day="d"), read=1, predicate="day = 'd'")


def overwrites_of_one_partition(t: Table) -> None:
    for name in ("one", "two"):
        t.overwrite(t.new(name, day="d"), t.new(name, day=name), read=1)


def lacks_files_that_it_counts(t: Table) -> None:
    t.commit(info(operationMetrics={"num_added_files": 2, "num_added_rows": 2 * ROWS}), t.new())


def lacks_a_removal_that_it_counts(t: Table) -> None:
    counts = {"numTargetFilesAdded": "1", "numTargetFilesRemoved": "1"}
    t.commit(info("MERGE", operationMetrics=counts), t.new())


def batch(t: Table, version: int, *actions: Action, app: str = "query", **others: int) -> None:
    """A batch of a stream, which names its transactions."""
    of_all = {app: version} | others
    named = [{"txn": {"appId": name, "version": number}} for name, number in of_all.items()]
    t.commit(info("STREAMING UPDATE", operationParameters={"outputMode": "Append"}), *named, *actions)


def two_streams_of_one_checkpoint(t: Table) -> None:
    """Each writes the rows in its own order, so that files and sizes differ."""
    batch(t, 1, t.new("one", rows=6), t.new("other", rows=6))
    batch(t, 1, t.new("sorted", rows=12))


# what is healthy


def batches_in_turn(t: Table) -> None:
    for version in (1, 2):
        batch(t, version, t.new(f"batch-{version}", rows=12))


def batch_of_two_frames(t: Table) -> None:
    """Both are written by one application, under versions of their own."""
    for version in (10, 11):
        batch(t, version, t.new(f"frame-{version}", rows=12), app="foreach")


def transactions_by_partition(t: Table) -> None:
    """Each commit names the offsets of all partitions, and only some go on."""
    for version in (1, 2):
        batch(t, 7, t.new(f"offset-{version}", rows=12), app="topic-0", **{"topic-1": version})


def batch_that_adds_nothing(t: Table) -> None:
    batch(t, 1)
    batch(t, 1, t.new("late", rows=12))


def stream_that_merges(t: Table) -> None:
    for name, path in zip(("one", "two"), t.paths()[:2], strict=True):
        batch(t, 1, remove(path), t.new(name))


def one_version_for_every_batch(t: Table) -> None:
    """The application does not count, so its transactions say nothing."""
    for number in range(4):
        batch(t, 1, t.new(f"batch-{number}", rows=12))


def repeated_batch_removed(t: Table) -> None:
    two_streams_of_one_checkpoint(t)
    t.commit(info("DELETE"), remove("day=c/sorted.parquet"))


def restored_with_its_transaction(t: Table) -> None:
    batch(t, 1, one := t.new("one", rows=12))
    transaction = {"txn": {"appId": "query", "version": 1}}
    t.commit(info("DELETE"), remove(one["add"]["path"]))
    t.commit(info("RESTORE"), transaction, one)


def untouched(t: Table) -> None:
    pass


def counts_an_empty_file(t: Table) -> None:
    """Spark counts files that it wrote without a row and did not commit."""
    t.commit(info(operationMetrics={"numFiles": "2", "numOutputRows": str(ROWS)}), t.new())


def overwritten(t: Table) -> None:
    t.overwrite(*removes(*t.paths()), one := t.new("one"), read=1)
    t.overwrite(remove(one["add"]["path"]), t.new("two"), read=2)


def optimized(t: Table) -> None:
    DeltaTable(t.uri, storage_options=t.shop.options).optimize.compact()
    DeltaTable(t.uri, storage_options=t.shop.options).optimize.z_order(["amount"])


def cleaned_up(t: Table) -> None:
    """Commits below a checkpoint are gone."""
    DeltaTable(t.uri, storage_options=t.shop.options).create_checkpoint()
    for version in (0, 1):
        t.shop.s3.delete_object(Bucket=t.shop.bucket, Key=t.log(version))


def removed_below_a_checkpoint(t: Table) -> None:
    paths = t.paths()
    cleaned_up(t)
    t.overwrite(*removes(*paths), t.new())


def removal_of_what_was_forgotten(t: Table) -> None:
    """It has the name of a live file; the log no longer shows whether a state listed it."""
    path = t.paths()[3]
    cleaned_up(t)
    long_ago = millis(datetime(2026, 1, 1, tzinfo=UTC))
    t.commit(info("DELETE"), remove(f"day=gone/{path.rpartition('/')[2]}", deletionTimestamp=long_ago))


def removed_twice(t: Table) -> None:
    t.commit(info("DELETE"), *removes(*t.paths()[:2]))
    t.commit(info("DELETE"), *removes(*t.paths()[:2]))


def restored(t: Table) -> None:
    """The overwrite is taken back, and made again from the same files."""
    one = t.new("one")
    t.overwrite(*removes(*t.paths()), one)
    back = [add(path, partitionValues=_day(path), size=_size(t, path)) for path in t.paths()]
    t.commit(info("RESTORE"), remove(one["add"]["path"]), *back)
    t.overwrite(*removes(*t.paths()), t.new("two"))


def shallow_clone(t: Table) -> None:
    """It lists files of another table by their absolute paths, declares no change, and removes one."""
    source = f"s3://{t.shop.bucket}/warehouse/untouched"
    files = [add(f"{source}/{path}", size=_size(t, path), partitionValues=_day(path)) for path in t.paths()]
    t.overwrite(*removes(*t.paths()))
    t.rewrite(*files, operation="CLONE")
    t.commit(info("DELETE"), remove(files[0]["add"]["path"]))


def vector_updated(t: Table) -> None:
    file = t.paths()[3]
    _with_vector(t, file, 1)
    t.commit(info("DELETE"), remove(file, vector(1)), _entry(t, file, t.vectors(2)))


def purged(t: Table) -> None:
    file = t.paths()[3]
    _with_vector(t, file, 1)
    t.rewrite(remove(file, vector(1)), t.new(rows=ROWS - 1), operation="REORG")


def files_without_rows_removed(t: Table) -> None:
    t.commit(info(), empty := t.new("empty", rows=0))
    t.rewrite(remove(empty["add"]["path"]))


def entries_written_again(t: Table) -> None:
    """Row tracking and new statistics: the same path with other words about it."""
    t.rewrite(*(_entry(t, path) for path in t.paths()), operation="ROW TRACKING BACKFILL")
    again = t.paths()[0]
    t.rewrite(remove(again), _entry(t, again), operation="COMPUTE STATS")


def rewrite_without_statistics(t: Table) -> None:
    t.rewrite(*removes(*t.paths()[2:]), t.new(rows=None))


def compaction_of_files_without_statistics(t: Table) -> None:
    t.commit(info(), bare := t.new("bare", rows=None))
    t.rewrite(remove(bare["add"]["path"]), t.new(rows=9))


def overwrites_of_two_partitions(t: Table) -> None:
    for day in ("d", "e"):
        t.overwrite(t.new(day=day), read=1)


def overwrites_by_two_predicates(t: Table) -> None:
    for number in (1, 2):
        t.overwrite(t.new(str(number)), read=1, predicate=f"amount = {number}")


def overwrite_tried_again(t: Table) -> None:
    """One application, which commits a batch as often as it takes."""
    transaction = {"txn": {"appId": "job", "version": 7}}
    for name in ("one", "two"):
        t.overwrite(transaction, *removes(*t.paths()), t.new(name), read=1)


def overwritten_once_more(t: Table) -> None:
    overwrites_of_one_version(t)
    t.commit(info("DELETE"), remove("day=c/one.parquet"))


def append_beside_an_overwrite(t: Table) -> None:
    t.commit(info(operationParameters={"mode": "Append"}, readVersion=1), t.new("one"))
    t.overwrite(*removes(*t.paths()), t.new("two"), read=1)


def _with_vector(t: Table, path: str, number: int) -> None:
    t.with_vectors().commit(info("DELETE"), remove(path), _entry(t, path, t.vectors(number)))


def _entry(t: Table, path: str, deleted: Action | None = None) -> Action:
    stats = json.dumps({"numRecords": ROWS})
    return add(path, deleted, size=_size(t, path), partitionValues=_day(path), stats=stats)


def _day(path: str) -> dict[str, str]:
    return {"day": "c" if path.startswith("day=c") else "a b"}


def _size(t: Table, path: str) -> int:
    key = f"warehouse/{TEMPLATE}/{path.replace('%25', '%')}"
    return t.shop.s3.head_object(Bucket=t.shop.bucket, Key=key)["ContentLength"]


IDLE, CHANGED = ("ineffective_removal", "warning"), ("rows_changed_by_rewrite", "error")
UNMET = ("incomplete_commit", "error")
Found = tuple[tuple[str, str], int, int | None, int | None]
"""Kind and severity, version, files and rows at stake."""
FATES: dict[Callable[[Table], None], Found | None] = {
    removes_absolute_paths: (IDLE, 2, 4, 4 * ROWS),
    removes_by_another_scheme: (IDLE, 3, 1, 10),
    removes_another_spelling: (IDLE, 2, 3, 3 * ROWS),
    removes_paths_decoded_once_more: (IDLE, 2, 2, 2 * ROWS),
    removes_what_another_bucket_holds: (IDLE, 2, 1, ROWS),
    removes_what_was_never_there: (IDLE, 2, 2, None),
    removes_another_vector: (IDLE, 3, 1, ROWS),
    compaction_loses_a_row: (CHANGED, 2, None, 1),
    compaction_lost_its_file: (CHANGED, 2, None, 2 * ROWS),
    purge_brings_rows_back: (CHANGED, 4, None, 1),
    rewrite_after_a_checkpoint: (CHANGED, 2, None, 3),
    overwrites_of_one_version: (IDLE, 3, 1, ROWS),
    overwrites_that_remove_the_same: (IDLE, 3, 1, ROWS),
    overwrites_by_one_predicate: (IDLE, 3, 1, ROWS),
    overwrites_of_one_partition: (IDLE, 3, 2, 2 * ROWS),
    lacks_files_that_it_counts: (UNMET, 2, 1, ROWS),
    lacks_a_removal_that_it_counts: (UNMET, 2, None, None),
    two_streams_of_one_checkpoint: (("duplicate_commit", "warning"), 3, 1, 12),
    **dict.fromkeys(
        (
            counts_an_empty_file,
            *(untouched, overwritten, optimized, cleaned_up, removed_below_a_checkpoint, removed_twice, restored),
            *(removal_of_what_was_forgotten, shallow_clone, vector_updated, purged, files_without_rows_removed),
            *(entries_written_again, rewrite_without_statistics, compaction_of_files_without_statistics),
            *(overwrites_of_two_partitions, overwrites_by_two_predicates, overwrite_tried_again),
            *(overwritten_once_more, append_beside_an_overwrite, batches_in_turn, batch_of_two_frames),
            *(transactions_by_partition, batch_that_adds_nothing, stream_that_merges, repeated_batch_removed),
            *(one_version_for_every_batch, restored_with_its_transaction),
        )
    ),
}  # fmt: skip
"""Changes of a table, and the expected finding."""


@dataclass(frozen=True)
class Night:
    """Findings above info by table."""

    shop: Shop
    findings: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def night(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Night:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    for number in range(2):
        days = ["a b"] * ROWS + ["c"] * ROWS
        written = pa.table({"day": days, "amount": [number * 100 + n for n in range(2 * ROWS)]})
        write_deltalake(
            f"s3://{bucket}/warehouse/{TEMPLATE}", written, mode="append", partition_by=["day"],
            storage_options=shop.options,
        )  # fmt: skip
    shop.copy(TEMPLATE, *(fate.__name__ for fate in FATES))
    for fate in FATES:
        fate(Table(shop, fate.__name__))
    shop.take_inventory()
    lake = shop.lake(tmp_path_factory.mktemp("commits"))
    audited(lake, run_id="night")
    return Night(shop, findings_by_table(lake, "night", shop.tables))


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_a_commit_is_reported_only_if_it_does_not_fit_its_state(
    night: Night, fate: Callable[[Table], None]
) -> None:
    rows = night.findings[fate.__name__]
    expected = FATES[fate]
    found = [
        ((row["kind"], row["severity"]), row["table_version"], row["files"], row["rows_at_stake"])
        for row in rows
    ]
    assert found == ([expected] if expected else []), [row["explanation"] for row in rows]


@pytest.mark.parametrize(
    ("fate", "files"),
    [(removes_absolute_paths, 5), (removes_by_another_scheme, 5), (removes_another_spelling, 4),
     (removes_paths_decoded_once_more, 5), (removed_below_a_checkpoint, 1)],
)  # fmt: skip
def test_delta_rs_reads_the_files_that_were_removed_in_vain(
    night: Night, fate: Callable[[Table], None], files: int
) -> None:
    table = Table(night.shop, fate.__name__)
    assert len(DeltaTable(table.uri, storage_options=night.shop.options).file_uris()) == files


def test_a_commit_below_its_own_counts_is_named_with_both_numbers(night: Night) -> None:
    """Its recovery is unknown: the bucket keeps no version, and its files may lie in the folder."""
    (row,) = night.findings["lacks_files_that_it_counts"]
    assert (
        "commit 2 holds less than its own counts say: 1 of 2 added files, 4 of 8 added rows"
        in row["explanation"]
    )
    assert row["recoverable"] == "unknown"
    (row,) = night.findings["lacks_a_removal_that_it_counts"]
    assert "0 of 1 removed files" in row["explanation"]


def test_two_commits_of_one_transaction_are_named_with_what_differs(night: Night) -> None:
    (row,) = night.findings["two_streams_of_one_checkpoint"]
    assert "carry the same transaction (query version 1)" in row["explanation"]
    assert "different numbers of files, rows or bytes" in row["explanation"]
