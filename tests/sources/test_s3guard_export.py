"""DynamoDB exports of an S3Guard table: which one is read, the places of its files, and reported damage."""

import gzip
import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.engine.chunks import read_part
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb import export as dynamodb_export
from lakeaudit.evidence.metastore.dynamodb import export_files
from lakeaudit.evidence.metastore.dynamodb.export_files import same_md5
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard import reader as s3guard
from lakeaudit.evidence.metastore.s3guard.layout import layout_fault
from lakeaudit.evidence.protocol import Entries
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from tests.builders import s3guard as built
from tests.conftest import Aws
from tests.sources.metastore_contract import AT, OLD, notes_of, rows_of
from tests.sources.test_s3guard import context

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def items(*keys: str) -> list[built.Item]:
    return [built.marker(), *(built.file("b", key, mod_time=OLD) for key in keys)]


@pytest.fixture
def read(clients: Clients) -> Callable[..., Entries]:
    """Reads what lies at a place, now or as of a time."""

    def read(place: str | Path, as_of: datetime = AT, **source: Any) -> Entries:
        given = S3Guard(kind="s3guard", export=Location.parse(str(place)), **source)
        return s3guard.read(given, context(clients, live=False, as_of=as_of), "metastore:0")

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


@pytest.mark.parametrize("where", ["x", "x//", "x//AWSDynamoDB"])
def test_an_export_with_a_prefix_that_ends_in_a_slash_lies_below_two(
    read: Callable[..., Entries], aws: Aws, bucket: str, where: str
) -> None:
    def put(key: str, content: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)

    built.export(put, items("k"), at=AT - HOUR, prefix="x//")
    entries = read(f"s3://{bucket}/{where}")
    assert (keys_of(entries), entries.holes) == (["k"], ())


@pytest.mark.parametrize("margin", [timedelta(0), HOUR])
def test_the_margin_of_an_export_may_be_set(
    read: Callable[..., Entries], tmp_path: Path, margin: timedelta
) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT - HOUR)
    cut = read(tmp_path, margin=margin).info.cut
    assert cut is not None
    assert cut.margin == margin


def test_exports_of_other_tables_are_passed_over(read: Callable[..., Entries], tmp_path: Path) -> None:
    built.export(built.into(tmp_path), items("ours"), at=AT - DAY, table="ours")
    built.export(built.into(tmp_path), items("theirs"), at=AT - HOUR, table="theirs")
    assert keys_of(read(tmp_path, table="ours")) == ["ours"]
    with pytest.raises(SourceError, match="holds exports of 2 tables; name the one to read"):
        read(tmp_path)
    with pytest.raises(SourceError, match="no complete export of nobodys"):
        read(tmp_path, table="nobodys")


def test_an_incremental_export_does_not_show_the_whole_table(
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
def test_damage_is_an_evidence_gap_and_the_rest_is_read(
    read: Callable[..., Entries], tmp_path: Path, damage: Damage, told: str, left: list[str]
) -> None:
    """Two data files: the marker and x in the first, y and z in the other."""
    folder = tmp_path / built.export(built.into(tmp_path), [*items("y", "x"), *items("z")[1:]], at=AT)
    damage(folder)
    entries = read(tmp_path)
    assert told in entries.holes[-1].reason
    assert keys_of(entries) == left
    assert entries.holes[0].source == "metastore:0"


def test_a_summary_that_counts_more_items_is_an_evidence_gap(
    read: Callable[..., Entries], tmp_path: Path
) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT, itemCount=3)
    entries = read(tmp_path)
    assert [hole.reason for hole in entries.holes] == ["lists 2 items, the summary 3"]
    assert keys_of(entries) == ["x"]


def test_an_invalid_line_is_a_rejected_row(read: Callable[..., Entries], tmp_path: Path) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), items("x"), at=AT, files=1)
    body = gzip.compress(gzip.decompress(first_data(folder).read_bytes()) + b"{oops\n[1]\n\xff\xfe\n\n")
    first_data(folder).write_bytes(body)
    edit_lines(folder, itemCount=5, md5Checksum=hashlib.md5(body).hexdigest())
    entries = read(tmp_path)
    assert [row.get("reject", row.get("key")) for row in rows_of(entries)] == [
        *["parent is not a path below a bucket in the item of ?/?"] * 3,
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


def test_an_export_without_one_good_file_cannot_be_used(read: Callable[..., Entries], tmp_path: Path) -> None:
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
def test_an_empty_place_is_reported(read: Callable[..., Entries], tmp_path: Path, place: str) -> None:
    with pytest.raises(SourceError, match=r"no complete export; name a folder that holds AWSDynamoDB"):
        read(tmp_path / place)


def test_a_bucket_that_does_not_exist_is_reported(read: Callable[..., Entries]) -> None:
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


class WithMargin(S3Guard):
    margin: timedelta | None = None


@pytest.mark.parametrize(("margin", "taken"), [(None, timedelta(minutes=1)), (timedelta(minutes=5),) * 2])
def test_the_margin_of_the_point_in_time(
    clients: Clients, tmp_path: Path, margin: timedelta | None, taken: timedelta
) -> None:
    built.export(built.into(tmp_path), items("x"), at=AT)
    source = WithMargin(kind="s3guard", export=Location.parse(str(tmp_path)), margin=margin)
    cut = s3guard.read(source, context(clients, live=False), "metastore:0").info.cut
    assert cut is not None
    assert cut.margin == taken


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every export counts as a large one, whose items are checked while they are read."""
    monkeypatch.setattr(dynamodb_export, "SMALL", 0)
    monkeypatch.setattr(export_files, "HEAD_LINES", 2)


def resigned(folder: Path, body: bytes, count: int) -> None:
    """The first data file is another one, as its manifest says too."""
    first_data(folder).write_bytes(body)
    edit_lines(folder, itemCount=count, md5Checksum=hashlib.md5(body).hexdigest())


LATE: list[tuple[str, Damage, str, int]] = [
    ("fewer", lambda f: edit_lines(f, itemCount=5), "holds 2 items, the manifest says 5", 3),
    ("more", lambda f: edit_lines(f, itemCount=1), "holds 2 items, the manifest says 1", 1),
    ("torn", lambda f: resigned(f, first_data(f).read_bytes()[:-9], 2), "is not a complete gzip file", 0),
    ("plain", lambda f: resigned(f, b'{"Item":{}}\n', 1), "is not a complete gzip file", 1),
]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("damage", "reason", "missing"), [c[1:] for c in LATE], ids=[c[0] for c in LATE])
def test_what_only_reading_shows_is_a_note(
    read: Callable[..., Entries], tmp_path: Path, damage: Damage, reason: str, missing: int
) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), [*items("y", "x"), *items("z")[1:]], at=AT)
    damage(folder)
    sign(folder, "manifest-files")
    entries = read(tmp_path)
    assert all("lists" in hole.reason for hole in entries.holes)
    assert {"y", "z"} <= set(keys_of(entries))
    bad, good = sorted(notes_of(entries), key=lambda row: str(row["reason"] is None))
    assert (bad["source"], bad["reason"]) == ("metastore:0", reason)
    assert bad["subject"].endswith("/data/0000abcdefghijklmnop.json.gz")
    assert bad["count"] == missing if missing else bad["count"] >= 1
    assert (good["reason"], good["count"]) == (None, 0)
    assert layout_fault([bad, good], has_holes=bool(entries.holes)) is None


@pytest.mark.usefixtures("large")
def test_a_file_that_goes_before_it_is_read_is_a_note(
    read: Callable[..., Entries], aws: Aws, bucket: str
) -> None:
    def put(key: str, body: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=body)

    folder = built.export(put, items("x", "y"), at=AT, files=1)
    entries = read(f"s3://{bucket}")
    assert keys_of(entries) == ["x", "y"]
    aws.s3.delete_object(Bucket=bucket, Key=f"{folder}/data/0000abcdefghijklmnop.json.gz")
    assert keys_of(entries) == []
    assert [(row["reason"], row["count"]) for row in notes_of(entries)] == [
        ("cannot be read: does not exist", 3)
    ]


@pytest.mark.usefixtures("large")
def test_damage_that_the_md5_shows_is_an_evidence_gap_before_rows_are_read(
    read: Callable[..., Entries], tmp_path: Path
) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), [*items("y", "x"), *items("z")[1:]], at=AT)
    truncate(folder)
    entries = read(tmp_path)
    assert [(hole.reason, hole.count) for hole in entries.holes] == [
        ("its MD5 is not the one in the manifest", 2)
    ]
    assert keys_of(entries) == ["y", "z"]
    assert layout_fault(notes_of(entries), has_holes=True) is None
    assert layout_fault(notes_of(entries), has_holes=False) == (
        "is an S3Guard table of another layout, or none: it has no ../VERSION item"
    )
    for path in folder.glob("data/*"):
        path.write_bytes(b"")
    with pytest.raises(SourceError, match="no data file is left to read"):
        read(tmp_path)


@pytest.mark.usefixtures("large")
def test_the_layout_of_a_large_export(read: Callable[..., Entries], tmp_path: Path) -> None:
    """What the first lines show is an error at once, the rest a fault once all is read."""
    built.export(built.into(tmp_path / "sound"), items(*"abcdefgh"), at=AT)
    entries = read(tmp_path / "sound")
    assert layout_fault(notes_of(entries), has_holes=False) is None

    built.export(built.into(tmp_path / "other"), [built.marker(99), *items("x")[1:]], at=AT)
    with pytest.raises(SourceError, match=r"another layout, or none: its version is 99, not 100"):
        read(tmp_path / "other")

    built.export(built.into(tmp_path / "none"), [{"id": {"S": str(n)}} for n in range(9)], at=AT)
    with pytest.raises(SourceError, match=r"another layout, or none: no item has a parent and a child"):
        read(tmp_path / "none")

    late = [*items(*"abcdefgh")[1:], built.marker(99)]
    built.export(built.into(tmp_path / "late"), late, at=AT, files=1)
    fault = layout_fault(notes_of(read(tmp_path / "late")), has_holes=False)
    assert fault == "is an S3Guard table of another layout, or none: its version is 99, not 100"


def test_parts_are_plain_data_of_the_weight_of_their_files(
    read: Callable[..., Entries], tmp_path: Path
) -> None:
    folder = tmp_path / built.export(built.into(tmp_path), items("x", "y", "z"), at=AT)
    entries = read(tmp_path)
    assert isinstance(entries.rows, tuple)
    stored = sorted(path.stat().st_size for path in folder.glob("data/*"))
    assert sorted(part.weight for part in entries.rows) == stored[1:]  # without the empty one
    again = replace(entries, rows=pickle.loads(pickle.dumps(entries.rows)))
    assert keys_of(again) == ["x", "y", "z"]


def test_a_part_is_routed_while_it_is_read(
    read: Callable[..., Entries], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is used between batches, of which there are many."""
    monkeypatch.setattr(duck, "BATCH_ROWS", 2048)
    keys = [f"f{n:05d}" for n in range(9000)]
    built.export(built.into(tmp_path), items(*keys), at=AT, files=1)
    entries = read(tmp_path)
    assert isinstance(entries.rows, tuple)
    with task_connection() as con:
        chunks = [
            chunk for part in entries.rows for chunk in read_part(con, part, 8) if chunk.kind == "entries"
        ]
    assert sorted(key for chunk in chunks for key in chunk.batch.column("key").to_pylist()) == keys
    assert {chunk.share for chunk in chunks} == set(range(8))
