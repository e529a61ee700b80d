"""S3 Inventory: genuine reports to the exact row, the storage contract, versions, columns and time."""

import gzip
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence import files
from lakeaudit.evidence.files import folders
from lakeaudit.evidence.protocol import SnapshotWindow, Stored
from lakeaudit.evidence.storage.inventory import S3Inventory, reader
from lakeaudit.evidence.storage.inventory.report import find_report
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.inventory import (
    ALL,
    CURRENT,
    SCAN,
    WRITERS,
    Version,
    deleted,
    into,
    lay,
)
from tests.conftest import Aws
from tests.sources.storage_contract import (
    OBJECTS,
    S3_ONLY,
    VERSIONED,
    StorageContract,
    World,
    context,
    stored_rows,
)

GENUINE = Path(__file__).parents[1] / "data" / "inventory"
DAY_AFTER = SCAN + timedelta(days=1)


def read(
    where: str | Path,
    as_of: datetime = DAY_AFTER,
    clients: Clients | None = None,
    **options: Any,
) -> Stored:
    source = S3Inventory(kind="s3_inventory", location=Location.parse(str(where)), **options)
    return reader.read(source, context(clients or Clients(), as_of), "inventory 1")


def at(hour: int, minute: int, second: int) -> datetime:
    return datetime(2024, 5, 6, hour, minute, second)  # noqa: DTZ001 - times inside an audit are UTC without a zone


GENUINE_COMMON = {"source": "inventory 1", "bucket": "filemanager-inventory-test"}
GENUINE_PUT = GENUINE_COMMON | {
    "presence": "present",
    "storage_class": "STANDARD",
    "archived": False,
    "multipart": False,
    "encryption": "SSE-S3",
    "delete_marker": False,
}
GENUINE_ROWS = [
    GENUINE_PUT
    | {
        "key": "inventory-test/",
        "size": 0,
        "etag": "d41d8cd98f00b204e9800998ecf8427e",
        "modified_at": at(22, 37, 48),
    },
    GENUINE_PUT
    | {
        "key": "inventory-test/key1",
        "size": 5,
        "etag": "d8e8fca2dc0f896fd7cb4cb0031ba249",
        "version_id": "tpinzcbxOfWpZsmjvVgdHEvSohsY4TA0",
        "modified_at": at(22, 44, 22),
        "older_version_id": "null",
        "older_size": 0,
        "older_since": at(22, 44, 22),
    },
    GENUINE_COMMON
    | {
        "key": "inventory-test/key2",
        "presence": "absent",
        "delete_marker": True,
        "version_id": "gdN1exfZmD7m713patv8dlQ7fTNwle3v",
        "modified_at": at(22, 46, 14),
        "older_version_id": "zl_C7NLxrkBsMFD5HQUdybrmuV9VpvkN",
        "older_size": 5,
        "older_since": at(22, 46, 14),
    },
]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_genuine_reports_are_read_to_the_exact_rows(form: str) -> None:
    stored = read(GENUINE / f"{form}_inventory_manifest.json")
    assert stored_rows(stored) == GENUINE_ROWS
    assert (stored.holes, stored.warnings) == ((), ())
    assert stored.covers == (Location("filemanager-inventory-test", ""),)
    assert stored.info.cut == SnapshotWindow(SCAN, None, timedelta(hours=48))


FORMS = [(form, kind) for form in WRITERS for kind in ("all-versions", "current-only")]


def _contents(*, versions: bool) -> list[Version]:
    rows = [Version(key, Size=len(content)) for key, content in (OBJECTS | S3_ONLY).items()]
    if not versions:
        return rows
    (key, (first, second)), (gone, (was, _)) = VERSIONED.items()
    noon = SCAN - timedelta(hours=13)
    return [
        *rows,
        Version(key, None, IsLatest=False, Size=len(first)),
        Version(key, "v2", Size=len(second or b""), LastModifiedDate=noon + timedelta(minutes=1)),
        deleted(gone, "d2", noon + timedelta(minutes=1)),
        Version(gone, "v1", IsLatest=False, Size=len(was)),
    ]


class TestContract(StorageContract):
    @pytest.fixture(scope="class", params=FORMS, ids=["-".join(params) for params in FORMS])
    @classmethod
    def world(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
        form, kind = request.param
        folder = tmp_path_factory.mktemp("report")
        columns = ALL if kind == "all-versions" else CURRENT
        rows = _contents(versions=kind == "all-versions")
        halves = [WRITERS[form](rows[::2], columns), WRITERS[form](rows[1::2], columns)]
        lay(into(folder), halves, form=form, columns=columns)
        stored = read(folder / "inv")
        return World(
            stored=stored,
            place=Location("lake", ""),
            objects=OBJECTS | S3_ONLY,
            began=SCAN - timedelta(hours=13),
            versions=kind == "all-versions",
            rows=stored_rows(stored),
        )


def test_a_report_on_s3_is_read_from_its_destination_bucket(clients: Clients, aws: Aws, bucket: str) -> None:
    def put(key: str, content: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)

    under = "dest/lake/config id"
    lay(put, [WRITERS["CSV"]([Version("k 1")])], under=under, destination=bucket)
    places = (f"s3://{bucket}/dest/", f"s3://{bucket}/{under}/", f"s3://{bucket}/{under}/2024-05-07T01-00Z")
    found = {find_report(clients, Location.parse(where), DAY_AFTER).place for where in places}
    assert found == {Location(bucket, f"{under}/2024-05-07T01-00Z/manifest.json")}
    stored = read(places[0], clients=clients)
    assert [row["key"] for row in stored_rows(stored)] == ["k 1"]
    cut = stored.info.cut
    assert cut is not None
    assert cut.end is not None
    assert (cut.start, cut.margin) == (SCAN, cut.end - SCAN)


VERSION_TABLE: list[tuple[str, list[Version], dict[str, Any]]] = [
    ("one null version", [Version("k")], {"presence": "present", "size": 5}),
    ("the text null", [Version("k", "null")], {"presence": "present", "size": 5}),
    ("two latest", [Version("k", "a"), Version("k", "b")], {"presence": "unclear"}),
    ("the same row twice", [Version("k", "a"), Version("k", "a")], {"presence": "unclear"}),
    (
        "no latest",
        [Version("k", "a", IsLatest=False)],
        {"presence": "unclear", "older_version_id": "a", "older_size": 5},
    ),
    ("latest not told", [Version("k", "a", IsLatest=None)], {"presence": "unclear"}),
    ("marker not told", [Version("k", "a", IsDeleteMarker=None)], {"presence": "unclear"}),
    (
        "only delete markers",
        [deleted("k", "a"), deleted("k", "b", latest=False)],
        {"presence": "absent", "delete_marker": True, "version_id": "a"},
    ),
    (
        "the newest of the older ones",
        [
            Version("k", "old", IsLatest=False, Size=1, LastModifiedDate=SCAN - timedelta(days=3)),
            Version("k", "newer", IsLatest=False, Size=2, LastModifiedDate=SCAN - timedelta(days=2)),
            Version("k", None, IsLatest=False, Size=3, LastModifiedDate=SCAN - timedelta(days=4)),
            Version("k", "now", Size=4, LastModifiedDate=SCAN - timedelta(days=5)),
        ],
        {"presence": "present", "size": 4, "version_id": "now", "older_version_id": "newer", "older_size": 2},
    ),
]


CLASSES: list[tuple[str | None, str | None, bool | None]] = [
    ("STANDARD", None, False),
    ("GLACIER_IR", None, False),
    ("GLACIER", None, True),
    ("DEEP_ARCHIVE", None, True),
    ("INTELLIGENT_TIERING", "FREQUENT", False),
    ("INTELLIGENT_TIERING", "ARCHIVE_INSTANT_ACCESS", False),
    ("INTELLIGENT_TIERING", "ARCHIVE_ACCESS", True),
    ("INTELLIGENT_TIERING", "DEEP_ARCHIVE_ACCESS", True),
    ("INTELLIGENT_TIERING", None, None),
    (None, None, None),
]
ENCRYPTIONS = [
    ("NOT-SSE", "NONE"),
    ("SSE-S3", "SSE-S3"),
    ("SSE-KMS", "SSE-KMS"),
    ("SSE-C", "SSE-C"),
    (None, None),
]


TOLD = ("presence", "size", "version_id", "older_version_id", "older_size", "delete_marker")


@pytest.mark.parametrize("form", WRITERS)
def test_versions_fold_to_one_row_in_one_spelling(tmp_path: Path, form: str) -> None:
    rows = [Version(**(vars(version) | {"Key": name})) for name, rows, _ in VERSION_TABLE for version in rows]
    rows += [
        Version(f"c{i}", StorageClass=name, IntelligentTieringAccessTier=tier)
        for i, (name, tier, _) in enumerate(CLASSES)
    ]
    rows += [Version(f"e{i}", EncryptionStatus=written) for i, (written, _) in enumerate(ENCRYPTIONS)]
    lay(into(tmp_path), [WRITERS[form](rows[::2]), WRITERS[form](rows[1::2])], form=form)
    found = {row["key"]: row for row in stored_rows(read(tmp_path / "inv"))}
    for name, _, expected in VERSION_TABLE:
        asked = {key: found[name][key] for key in TOLD if key in found[name]}
        present = {"delete_marker": False} if expected["presence"] == "present" else {}
        assert asked == present | expected, name
    assert [found[f"c{i}"].get("archived") for i in range(len(CLASSES))] == [told for _, _, told in CLASSES]
    encryption = [found[f"e{i}"].get("encryption") for i in range(len(ENCRYPTIONS))]
    assert encryption == [told for _, told in ENCRYPTIONS]


def test_current_only_reports_name_a_key_once_or_are_unclear(tmp_path: Path) -> None:
    rows = [Version("once"), Version("twice"), Version("twice", Size=6)]
    lay(into(tmp_path), [WRITERS["CSV"](rows, CURRENT)], columns=CURRENT)
    found = {row["key"]: row["presence"] for row in stored_rows(read(tmp_path / "inv"))}
    assert found == {"once": "present", "twice": "unclear"}


@pytest.mark.parametrize("form", WRITERS)
def test_missing_optional_columns_are_null(tmp_path: Path, form: str) -> None:
    columns = ("Bucket", "Key")
    lay(into(tmp_path), [WRITERS[form]([Version("k")], columns)], form=form, columns=columns)
    stored = read(tmp_path / "inv")
    row = {
        "source": "inventory 1",
        "bucket": "lake",
        "key": "k",
        "presence": "present",
        "delete_marker": False,
    }
    assert stored_rows(stored) == [row]
    lacks = [warning.partition(":")[0].rpartition(" ")[2] for warning in stored.warnings]
    assert lacks == ["Size", "LastModifiedDate", "ETag", "StorageClass", "EncryptionStatus"]


def test_unknown_columns_are_left_out_with_one_warning(tmp_path: Path) -> None:
    columns = ("Bucket", "Key", "Moods", "Size")
    lay(into(tmp_path), [WRITERS["CSV"]([Version("k")], ("Bucket", "Key", "ETag", "Size"))], columns=columns)
    stored = read(tmp_path / "inv")
    assert [(row["key"], row["size"]) for row in stored_rows(stored)] == [("k", 5)]
    assert stored.warnings[0] == "columns not known to S3 Inventory are left out: Moods"
    assert not [warning for warning in stored.warnings[1:] if "Moods" in warning]


NEWEST: Sequence[tuple[timedelta, int]] = [
    (timedelta(minutes=1), 0),
    (timedelta(days=1), 1),
    (timedelta(days=2, hours=23), 2),
    (timedelta(days=3, hours=1), 2),
]


def seconds(at: datetime) -> str:
    return str(int(at.timestamp()))


S3_LIKE: dict[str, tuple[tuple[str, ...], dict[str, Any], bool]] = {
    # (columns that the store writes, fields of its manifest that differ, whether it knows multipart uploads)
    "Alibaba OSS": (
        ("Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "StorageClass", "LastModifiedDate", "ETag",
         "IsMultipartUploaded", "EncryptionStatus", "ObjectAcl", "TaggingCount", "ObjectType", "Crc64"),
        {"creationTimestamp": seconds(SCAN), "destinationBucket": "reports", "version": "2019-09-01"},
        True,
    ),
    "Tencent COS": (
        ("Bucket", "Key", "Size", "StorageClass", "ETag", "ReplicationStatus", "MultipartUploaded", "LastModifiedDate",
         "VersionId", "IsLatest", "IsDeleteMarker"),
        {"destinationBucket": "reports"},
        True,
    ),
    "Huawei OBS": (("Bucket", "Key", "Size", "LastModifiedDate", "ETag", "StorageClass"), {"recordCount": 2}, False),
}  # fmt: skip
"""As their documentation has them; manifests of Huawei and Tencent count the records of each file beside its MD5."""


@pytest.mark.parametrize("store", S3_LIKE)
def test_reports_of_stores_that_are_like_s3(tmp_path: Path, store: str) -> None:
    columns, differs, knows_parts = S3_LIKE[store]
    lines = [
        ",".join(f'"{LIKE_S3.get(name, "")}"'.replace("KEY", f"t/a+{n}") for name in columns) + "\n"
        for n in range(2)
    ]
    content = gzip.compress("".join(lines).encode())
    entry = {"key": "inv/data/0701-0.csv.gz", "size": len(content), "inventoriedRecord": 2}
    md5 = hashlib.md5(content).hexdigest().upper()
    lay(into(tmp_path), [content], columns=columns, files=[entry | {"MD5checksum": md5}], **differs)
    stored = read(tmp_path / "inv")
    found = stored_rows(stored)
    assert [(row["key"], row["size"], row["presence"]) for row in found] == [
        ("t/a 0", 5, "present"),
        ("t/a 1", 5, "present"),
    ]
    assert {row.get("multipart") for row in found} == {False if knows_parts else None}
    assert (stored.holes, stored.info.cut and stored.info.cut.start) == ((), SCAN)


LIKE_S3 = {
    "Bucket": "lake", "Key": "KEY", "Size": "5", "LastModifiedDate": "2024-05-06T12:00:00Z", "IsLatest": "true",
    "IsDeleteMarker": "false", "ETag": "D8E8FCA2DC0F896FD7CB4CB0031BA249", "StorageClass": "Standard",
    "IsMultipartUploaded": "false", "MultipartUploaded": "false", "EncryptionStatus": "false", "TaggingCount": "0",
    "ObjectType": "Normal", "Crc64": "4053", "ObjectAcl": "private",
}  # fmt: skip


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ({"fileFormat": "JSON"}, "has data files of format JSON"),  # MinIO's AIStor, CoreWeave
        ({"fileFormat": "TSV"}, "has data files of format TSV"),  # CoreWeave
        ({"creationTimestamp": None}, "creationTimestamp"),  # Tencent's newer manifests
        ({"files": [{"key": "x", "size": 1}]}, "files.0.MD5checksum"),
        ({"fileSchema": "Appid, Bucket, Name"}, "has no column Key"),
        ({"checksum": False}, "no complete inventory report"),
    ],
    ids=str,
)
def test_what_is_not_like_s3_is_refused_by_name(tmp_path: Path, differs: dict[str, Any], told: str) -> None:
    lay(into(tmp_path), [WRITERS["CSV"]([Version("a")])], **differs)
    with pytest.raises(SourceError, match=told):
        read(tmp_path / "inv")


def test_the_newest_complete_report_at_the_time_asked_for_is_taken(tmp_path: Path) -> None:
    for day in range(4):
        lay(into(tmp_path), [], at=SCAN + timedelta(days=day), checksum=day < 3)
    for after, day in NEWEST:
        report = find_report(Clients(), Location.parse(str(tmp_path / "inv")), SCAN + after)
        assert report.manifest.created_at == SCAN + timedelta(days=day)


def test_no_other_folder_is_listed_than_those_of_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`data/` is shared by all reports and may hold millions of keys."""
    lay(into(tmp_path), [WRITERS["CSV"]([Version("k")])])
    asked: list[str] = []

    def record_folder(clients: Clients, place: Location) -> list[str]:
        asked.append(place.key)
        return folders(clients, place)

    monkeypatch.setattr(files, "folders", record_folder)
    find_report(Clients(), Location.parse(str(tmp_path)), DAY_AFTER)
    assert [key.rpartition("/")[2] for key in asked] == [tmp_path.name, "inv"]
