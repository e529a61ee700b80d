"""DynamoDB exports of an S3Guard table: which one is read, where its files are sought, and what damage is told."""

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeaudit.config import S3Guard
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore import s3guard
from lakeaudit.evidence.metastore.export_data import same_md5
from lakeaudit.evidence.protocol import Entries
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients
from tests.builders import s3guard as built
from tests.conftest import Aws
from tests.sources.metastore_contract import AT, OLD, rows_of
from tests.sources.test_s3guard import context

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def items(*keys: str) -> list[built.Item]:
    return [built.marker(), *(built.file("b", key, mod_time=OLD) for key in keys)]


@pytest.fixture
def read(spark: SparkSession, clients: Clients) -> Callable[..., Entries]:
    """Reads what lies at a place, now or as of a time."""

    def read(place: str | Path, as_of: datetime = AT, **source: Any) -> Entries:
        given = S3Guard(kind="s3guard", export=Location.parse(str(place)), **source)
        return s3guard.read(given, context(spark, clients, live=False, as_of=as_of), "metastore:0")

    return read


def keys_of(entries: Entries) -> list[str]:
    return [row["key"] for row in rows_of(entries)]


def test_the_newest_complete_export_up_to_as_of_is_read(read: Callable[..., Entries], tmp_path: Path) -> None:
    for days, key in ((3, "oldest"), (2, "older"), (1, "newer")):
        built.export(built.into(tmp_path), items(key), at=AT - days * DAY, prefix="lake/exports/")
    unfinished = built.export(built.into(tmp_path), items("unfinished"), at=AT - HOUR, prefix="lake/exports/")
    (tmp_path / "lake/exports" / unfinished / "manifest-summary.checksum").unlink()
    assert keys_of(read(tmp_path / "lake/exports")) == ["newer"]
    assert keys_of(read(tmp_path / "lake/exports/AWSDynamoDB", AT - 2 * DAY)) == ["older"]
    entries = read(tmp_path / "lake", AT - 2 * DAY - timedelta(seconds=1))
    assert keys_of(entries) == ["oldest"]
    cut = entries.info.cut
    assert cut is not None
    assert (cut.start, cut.end, cut.margin) == (AT - 3 * DAY, AT - 3 * DAY, timedelta(minutes=1))
    assert entries.info.identity.startswith(f"0{round((AT - 3 * DAY).timestamp() * 1000)}-a1b2c3d4 md5:")


def test_exports_of_other_tables_are_passed_over(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), items("ours"), at=AT - DAY, table="ours")
    built.export(built.into(tmp_path), items("theirs"), at=AT - HOUR, table="theirs")
    assert keys_of(read(tmp_path, table="ours")) == ["ours"]
    with pytest.raises(SourceError, match="holds exports of 2 tables; name the one to read"):
        read(tmp_path)
    with pytest.raises(SourceError, match="no complete export of nobodys up to 2026-11-21T12:00:00Z"):
        read(tmp_path, table="nobodys")


def test_an_incremental_export_is_no_picture_of_the_table(
    read: Callable[..., Entries], tmp_path: Path
) -> None:
    built.export(built.into(tmp_path), items("full"), at=AT - DAY)
    built.export(built.into(tmp_path), items("change"), at=AT - HOUR, exportType="INCREMENTAL_EXPORT")
    assert keys_of(read(tmp_path)) == ["full"]


def test_an_export_on_s3_copied_elsewhere_is_found(
    read: Callable[..., Entries], aws: Aws, bucket: str, tmp_path: Path
) -> None:
    def put(key: str, body: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=f"copied here/{key.removeprefix('daily/')}", Body=body)

    folder = built.export(put, items("x", "y", "z"), at=AT, prefix="daily/", files=3)
    for place in (f"s3://{bucket}", f"s3://{bucket}/copied here", f"s3://{bucket}/copied here/{folder}"):
        entries = read(place)
        assert keys_of(entries) == ["x", "y", "z"]
        assert entries.holes == ()


def flattened(tmp_path: Path) -> Path:
    """Only the files, without the folders that their keys name."""
    folder = tmp_path / built.export(built.into(tmp_path), items("x", "y"), at=AT)
    for path in folder.glob("data/*"):
        path.rename(folder / path.name)
    return folder


def test_data_files_are_sought_by_ever_shorter_keys(read: Callable[..., Entries], tmp_path: Path) -> None:
    assert keys_of(read(flattened(tmp_path))) == ["x", "y"]


Damage = Callable[[Path], object]


def first_data(folder: Path) -> Path:
    return min(path for path in (folder / "data").iterdir())


def truncate(folder: Path) -> None:
    path = first_data(folder)
    path.write_bytes(path.read_bytes()[:-9])


def other_bytes(folder: Path) -> None:
    first_data(folder).write_bytes(gzip.compress(b'{"Item":{}}\n'))


def edit_lines(folder: Path, **change: Any) -> None:
    path = folder / "manifest-files.json"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *others]))
    sign(folder, "manifest-files")


def sign(folder: Path, name: str) -> None:
    built.with_checksum(built.into(folder), name, (folder / f"{name}.json").read_bytes())


DAMAGES: list[tuple[str, Damage, str, list[str]]] = [
    ("missing", lambda f: first_data(f).unlink(), "is not below", ["y", "z"]),
    ("truncated", truncate, "its MD5 is not the one in the manifest", ["y", "z"]),
    ("other bytes", other_bytes, "its MD5 is not the one in the manifest", ["y", "z"]),
    ("other count", lambda f: edit_lines(f, itemCount=5), "holds 2 items, the manifest says 5", ["y", "z"]),
    (
        "escaping key",
        lambda f: edit_lines(f, dataFileS3Key="../../../etc/passwd"),
        "is not below",
        ["y", "z"],
    ),
    ("broken line", lambda f: edit_lines(f, itemCount="many"), "line 1 cannot be understood", ["y", "z"]),
    (
        "changed summary",
        lambda f: (f / "manifest-summary.checksum").write_text("AAAA"),
        ".checksum",
        ["x", "y", "z"],
    ),
    (
        "changed files",
        lambda f: (f / "manifest-files.checksum").write_text("0" * 32),
        ".checksum",
        ["x", "y", "z"],
    ),
]


@pytest.mark.parametrize(
    ("damage", "told", "left"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_damage_is_a_hole_and_the_rest_is_read(
    read: Callable[..., Entries], tmp_path: Path, damage: Damage, told: str, left: list[str]
) -> None:
    """Two data files: the marker and x in the first, y and z in the other."""
    folder = tmp_path / built.export(built.into(tmp_path), [*items("y", "x"), *items("z")[1:]], at=AT)
    damage(folder)
    entries = read(tmp_path)
    assert told in entries.holes[-1].reason
    assert keys_of(entries) == left
    assert entries.holes[0].source == "metastore:0"


def test_a_summary_that_tells_of_more_items_is_a_hole(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT, itemCount=3)
    entries = read(tmp_path)
    assert [hole.reason for hole in entries.holes] == ["lists 2 items, the summary 3"]
    assert keys_of(entries) == ["x"]


def test_a_line_that_is_no_item_is_a_rejected_row(read: Callable[..., Entries], tmp_path: Path) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), items("x"), at=AT, files=1)
    body = gzip.compress(gzip.decompress(first_data(folder).read_bytes()) + b"{oops\n[1]\n\xff\xfe\n\n")
    first_data(folder).write_bytes(body)
    edit_lines(folder, itemCount=5, md5Checksum=hashlib.md5(body).hexdigest())
    entries = read(tmp_path)
    assert [row.get("reject", row.get("key")) for row in rows_of(entries)] == [
        *["parent is no path below a bucket in the item of ?/?"] * 3,
        "x",
    ]


def test_a_damaged_newer_export_is_never_replaced_by_an_older_one(
    read: Callable[..., Entries], tmp_path: Path
) -> None:
    built.export(built.into(tmp_path), items("older"), at=AT - DAY)
    newer = tmp_path / built.export(built.into(tmp_path), items("newer"), at=AT)
    (newer / "manifest-summary.json").write_text('{"exportTime": "soon"}')
    with pytest.raises(
        SourceError, match=r"manifest-summary\.json: the export's summary cannot be understood"
    ):
        read(tmp_path)
    assert keys_of(read(tmp_path, AT - HOUR)) == ["older"]


def test_ion_is_refused(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT, outputFormat="ION")
    with pytest.raises(SourceError, match="the export's format is ION; export the table as DYNAMODB_JSON"):
        read(tmp_path)


def test_an_export_without_one_good_file_is_no_evidence(read: Callable[..., Entries], tmp_path: Path) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), items("x"), at=AT)
    for path in folder.glob("data/*"):
        path.unlink()
    with pytest.raises(SourceError, match="no data file is left to read"):
        read(tmp_path)


def test_an_empty_table_is_empty(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), [], at=AT)
    entries = read(tmp_path)
    assert (keys_of(entries), entries.holes) == ([], ())


@pytest.mark.parametrize("place", ["nothing/here", "AWSDynamoDB"])
def test_nothing_there_is_told(read: Callable[..., Entries], tmp_path: Path, place: str) -> None:
    with pytest.raises(
        SourceError, match=r"no complete export up to .*; name a folder that holds AWSDynamoDB"
    ):
        read(tmp_path / place)


def test_a_bucket_that_does_not_exist_is_told(read: Callable[..., Entries]) -> None:
    with pytest.raises(SourceError, match=r"s3://no-such-bucket-here.*does not exist"):
        read("s3://no-such-bucket-here/exports")


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("1B2M2Y8AsgTpgAmY7PhCfg==", True),
        ('"1B2M2Y8AsgTpgAmY7PhCfg=="\n', True),
        ("d41d8cd98f00b204e9800998ecf8427e", True),
        ("D41D8CD98F00B204E9800998ECF8427E ", True),
        ("1B2M2Y8AsgTpgAmY7PhCfQ==", False),
        ("", False),
        ("né", False),
    ],
)
def test_md5_in_base64_or_hex(written: str, same: bool) -> None:
    assert same_md5(bytes.fromhex("d41d8cd98f00b204e9800998ecf8427e"), written) is same


def test_times_carry_their_zone(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT, exportTime="2026-11-21T13:30:00.250+02:00")
    cut = read(tmp_path).info.cut
    assert cut is not None
    assert cut.start.astimezone(UTC) == datetime(2026, 11, 21, 11, 30, 0, 250_000, tzinfo=UTC)
