"""The live inventory table of S3 Metadata, in the columns of its documentation: contract, versions, refusals."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Stored
from lakeaudit.evidence.storage.s3_metadata import S3Metadata
from lakeaudit.evidence.storage.s3_metadata import reader as s3_metadata
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.examples import examples
from tests.builders.iceberg_files import DELETED, Entry, Snapshot, write_metadata
from tests.builders.s3_metadata import UNCOALESCED, Object, lay, rows
from tests.builders.shop import Shop
from tests.conftest import Aws
from tests.sources.storage_contract import OBJECTS, S3_ONLY, StorageContract, World, context, stored_rows

LAKE = (Location("lake", ""),)
HOUR = timedelta(hours=1)
PLAIN = Object("t/a")


def read(folder: Path, as_of: datetime | None = None, **options: Any) -> Stored:
    source = S3Metadata(
        kind="s3_metadata", location=Location.parse(str(folder)), **{"covers": LAKE, **options}
    )
    return s3_metadata.read(source, context(Clients(), as_of or datetime.now(UTC) + HOUR), "storage:0")


class TestContract(StorageContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, tmp_path_factory: pytest.TempPathFactory) -> World:
        folder = tmp_path_factory.mktemp("table")
        objects = OBJECTS | S3_ONLY
        began = datetime(2026, 11, 19, 12, tzinfo=UTC)
        gone: dict[str, Any] = {"size": None, "e_tag": None, "is_delete_marker": True}
        versions = [
            Object("t/again", 5, sequence_number="0A", version_id="v1"),
            Object("t/again", 6, sequence_number="0B", version_id="v2"),
            Object("t/gone", 8, sequence_number="0A", version_id="v1", last_modified_date=began - HOUR),
            Object("t/gone", sequence_number="0A0", version_id="v2", **gone),
        ]
        plain = [Object(key, len(content)) for key, content in objects.items()]
        lay(folder, [rows([*plain[::2], *versions[:1]]), rows([*plain[1::2], *versions[1:]])],
            {UNCOALESCED: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})  # fmt: skip
        stored = read(folder / "inventory")
        return World(stored, LAKE[0], objects, began, versions=True, rows=stored_rows(stored))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two states: one with t/a, one with t/b as well."""
    folder = tmp_path_factory.mktemp("table")
    return lay(folder, [rows([PLAIN]), rows([replace(PLAIN, key="t/b")])])


def test_what_a_row_means(table: Any) -> None:
    at = read(Path(table.metadata_location.removeprefix("file://")))
    found = stored_rows(at)
    assert [row["key"] for row in found] == ["t/a", "t/b"]
    assert found[0] == {
        "source": "storage:0", "bucket": "lake", "key": "t/a", "presence": "present", "size": 5,
        "modified_at": datetime(2026, 11, 19, 12), "etag": "5d41402abc4b2a76b9719d911017c592",  # noqa: DTZ001
        "storage_class": "STANDARD", "archived": False, "multipart": False, "encryption": "SSE-S3",
        "delete_marker": False,
    }  # fmt: skip
    assert (at.holes, at.covers) == ((), LAKE)


def test_a_state_of_the_past(table: Any) -> None:
    home = Path(table.location().removeprefix("file://"))
    first = datetime.fromtimestamp(table.history()[0].timestamp_ms / 1000, UTC)
    assert [row["key"] for row in stored_rows(read(home, first))] == ["t/a"]
    with pytest.raises(SourceError, match="has no state of"):
        read(home, first - HOUR)


TOLD = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
CUTS: dict[str, tuple[dict[str, str], timedelta | None, datetime | None, timedelta]] = {
    "not told": ({}, None, None, timedelta(hours=24)),
    "told in ISO": ({UNCOALESCED: TOLD.isoformat()}, None, TOLD, HOUR),
    "told without a zone": ({UNCOALESCED: f"{TOLD:%Y-%m-%d %H:%M:%S}"}, None, TOLD, HOUR),
    "told in ms": ({UNCOALESCED: str(int(TOLD.timestamp() * 1000))}, None, TOLD, HOUR),
    "told, with a margin": (
        {UNCOALESCED: TOLD.isoformat()},
        timedelta(minutes=5),
        TOLD,
        timedelta(minutes=5),
    ),
    "told of the future": ({UNCOALESCED: "2100-01-01T00:00:00Z"}, None, None, HOUR),
}


@pytest.mark.parametrize(("properties", "margin", "start", "expected"), CUTS.values(), ids=CUTS)
def test_up_to_when_a_table_is_whole(
    tmp_path: Path,
    properties: Mapping[str, str],
    margin: timedelta | None,
    start: datetime | None,
    expected: timedelta,
) -> None:
    made = write_metadata(tmp_path, {1: Snapshot({"m": []}, at=TOLD + HOUR)}, properties=dict(properties))
    stored = read(made, margin=margin)
    assert stored.info.cut is not None
    assert (stored.info.cut.start, stored.info.cut.margin) == (start or TOLD + HOUR, expected)
    assert bool(stored.warnings) is (UNCOALESCED not in properties)


def test_a_table_that_is_not_kept_up_is_stale(tmp_path: Path) -> None:
    made = write_metadata(tmp_path, {1: Snapshot({"m": []})})
    assert "stale" in read(made).holes[0].reason
    assert read(made, max_age=timedelta(days=9999)).holes == ()


@pytest.mark.parametrize(
    ("name", "archived"), [("GLACIER", True), ("INTELLIGENT_TIERING", None), ("STANDARD", False)]
)
def test_classes(tmp_path: Path, name: str, archived: bool | None) -> None:
    lay(tmp_path, [rows([replace(PLAIN, storage_class=name)])])
    assert stored_rows(read(tmp_path / "inventory"))[0].get("archived") is archived


PARQUET = "data/gone.parquet"
REFUSED: dict[str, tuple[Sequence[Entry], dict[str, Any], str]] = {
    "position deletes": ([Entry(PARQUET, content=1)], {}, "has delete files"),
    "equality deletes": ([Entry(PARQUET, content=2)], {}, "has delete files"),
    "deletion vectors": ([Entry(PARQUET, content=1, offset=4)], {}, "has delete files"),
    "a store that nobody knows": ([Entry("hdfs://x/y.parquet")], {}, "cannot be understood"),
    "no time": ([], {"properties": {UNCOALESCED: "soon"}}, "is not a time: soon"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, what: str) -> None:
    entries, more, reason = REFUSED[what]
    with pytest.raises(SourceError, match=reason):
        read(write_metadata(tmp_path, {1: Snapshot({"m": entries})}, **more), max_age=timedelta(days=9999))


def test_evidence_that_is_gone(tmp_path: Path) -> None:
    made = write_metadata(
        tmp_path, {1: Snapshot({"m": [Entry(PARQUET), Entry("x.parquet", status=DELETED)]})}
    )
    (hole,) = read(made, max_age=timedelta(days=9999)).holes
    assert (hole.reason, hole.subject.endswith(PARQUET)) == ("data file is missing", True)
    for name, reason in (
        ("m.avro", "the manifest is gone"),
        ("snap-1-1.avro", "its list of manifests"),
        (made.name, "does not exist"),
    ):
        (made.parent / name).unlink()
        with pytest.raises(SourceError, match=reason):
            read(made)
    with pytest.raises(SourceError, match=r"holds no metadata\.json"):
        read(tmp_path)


def test_a_table_is_of_one_bucket(tmp_path: Path) -> None:
    made = write_metadata(tmp_path, {1: Snapshot({"m": []})})
    with pytest.raises(SourceError, match="a table is of one bucket, and `covers` names lake, other"):
        read(made, covers=(*LAKE, Location("other", "")))


REJECTS: list[dict[str, Any]] = [
    {"bucket": "other"},
    {"bucket": None},
    {"key": ""},
    {"sequence_number": None},
    {"size": -1},
]


def test_rows_that_cannot_be_understood_are_an_evidence_gap(tmp_path: Path) -> None:
    odd: list[Any] = [replace(PLAIN, **{"key": f"t/{n}", **each}) for n, each in enumerate(REJECTS)]
    lay(tmp_path, [rows([*odd, PLAIN])])
    stored = read(tmp_path / "inventory")
    assert [row["key"] for row in stored_rows(stored)] == ["t/a"]
    (hole,) = stored.holes
    assert (hole.count, "5 rows cannot be understood, such as" in hole.reason) == (5, True)


VERSION_OF = st.tuples(st.sampled_from(["a", "b"]), st.text("01AF", min_size=1, max_size=3), st.booleans())


def test_the_largest_sequence_number_as_text_is_the_latest(tmp_path_factory: pytest.TempPathFactory) -> None:
    @examples(3, 60)
    @given(st.lists(VERSION_OF, min_size=1, max_size=12, unique_by=lambda each: each[:2]), st.integers(1, 3))
    def check(versions: Sequence[tuple[str, str, bool]], pieces: int) -> None:
        objects = [
            Object(key, n, sequence_number=number, version_id=f"v{n}", is_delete_marker=marker)
            for n, (key, number, marker) in enumerate(versions)
        ]
        folder = tmp_path_factory.mktemp("table")
        lay(folder, [rows(objects[n::pieces]) for n in range(pieces) if objects[n::pieces]])
        newest = {key: _newest(objects, key) for key in {each.key for each in objects}}
        found = {row["key"]: row for row in stored_rows(read(folder / "inventory"))}
        assert {key: row["version_id"] for key, row in found.items()} == {
            k: o.version_id for k, o in newest.items()
        }
        assert {key: row["delete_marker"] for key, row in found.items()} == {
            key: each.is_delete_marker for key, each in newest.items()
        }

    check()


def _newest(objects: Sequence[Object], key: str) -> Object:
    return max((each for each in objects if each.key == key), key=lambda each: each.sequence_number or "")


# --- a whole audit ---------------------------------------------------------------------------------------------------


def test_a_lost_file_is_found_and_nothing_else(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """And nothing of the healthy table beside it."""
    shop = Shop(aws.s3, s3, bucket)
    for table in ("orders", "healthy"):
        shop.write(table)
    lost = shop.keys("orders/")[0]
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    time.sleep(1.1)
    objects = [
        Object(str(v.Key), v.Size, v.LastModifiedDate, e_tag=v.ETag, bucket=bucket) for v in shop.objects()
    ]
    lay(tmp_path, [rows(objects)], {UNCOALESCED: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    inventory = (
        f"{{kind: s3_metadata, location: '{tmp_path}/inventory', covers: ['s3://{bucket}/'], margin: 0s}}"
    )
    lake = shop.lake(tmp_path, inventories=f"[{inventory}]", tables=[
        f"- {{name: {name}, location: 's3://{bucket}/warehouse/{name}', manifests: [{{kind: delta}}]}}"
        for name in ("orders", "healthy")
    ])  # fmt: skip
    outcome = audited(lake)
    found = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    assert [(row["kind"], row["key"]) for row in found] == [("dropped", lost)]
    content = [row for row in results_of(lake).coverage(outcome.run_id) if row["axis"] == "content"]
    assert {row["table_name"]: row["status"] for row in content} == {
        "orders": "complete", "healthy": "complete",
    }  # fmt: skip
