"""S3 Inventory reports with faults: an error if nothing can be trusted, else an evidence gap or a rejected row."""

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Stored
from lakeaudit.evidence.storage.inventory import S3Inventory, reader
from lakeaudit.evidence.storage.inventory.columns import BY_CSV_NAME
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.inventory import ALL, SCAN, WRITERS, Version, csv, csv_line, into, lay
from tests.conftest import Aws
from tests.sources.storage_contract import context, stored_rows

DAY_AFTER = SCAN + timedelta(days=1)
GOOD = csv([Version("good")])


def read(where: str | Path, clients: Clients | None = None, **options: Any) -> Stored:
    as_of = options.pop("as_of", DAY_AFTER)
    source = S3Inventory(kind="s3_inventory", location=Location.parse(str(where)), **options)
    return reader.read(source, context(clients or Clients(), as_of), "inventory 1")


def edit(folder: Path, change: Callable[[bytes], bytes], name: str = "manifest.json") -> None:
    path = folder / "inv" / "2024-05-07T01-00Z" / name
    path.write_bytes(change(path.read_bytes()))


def keys_of(stored: Stored) -> list[str]:
    return [row["key"] for row in stored_rows(stored) if "reject" not in row]


UNREADABLE: list[tuple[str, dict[str, Any], str]] = [
    ("not complete", {"checksum": False}, "no complete inventory report"),
    ("made later", {"at": SCAN + timedelta(days=2)}, "no complete inventory report"),
    ("a field missing", {"files": None}, "is not an S3 Inventory manifest (files"),
    (
        "a hostile file entry",
        {"files": [{"key": "x", "size": -1, "MD5checksum": "0"}]},
        "is not an S3 Inventory",
    ),
    ("a hostile time", {"creationTimestamp": "9" * 30}, "is not an S3 Inventory manifest (creationTimestamp"),
    ("another format", {"fileFormat": "Avro"}, "has data files of format Avro"),
    ("no key column", {"fileSchema": "Bucket, Size"}, "has no column Key"),
    ("a column twice", {"fileSchema": "Bucket, Key, key"}, "names a column twice"),
]


@pytest.mark.parametrize(
    ("laid", "told"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE]
)
def test_a_report_that_cannot_be_used_is_an_error(tmp_path: Path, laid: dict[str, Any], told: str) -> None:
    lay(into(tmp_path), [GOOD], **laid)
    with pytest.raises(SourceError) as caught:
        read(tmp_path / "inv")
    assert told in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_wrong_checksum_is_an_error_and_no_older_report_is_taken(tmp_path: Path) -> None:
    lay(into(tmp_path), [GOOD], at=SCAN - timedelta(days=1))
    lay(into(tmp_path), [GOOD])
    edit(tmp_path, lambda content: content + b" ")
    with pytest.raises(SourceError, match=r"the manifest has MD5 .* not the one in manifest.checksum"):
        read(tmp_path / "inv")


def test_a_data_file_that_is_named_twice_is_read_once_and_the_source_may_be_an_arn(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    entry = {"key": laid.data[0], "size": len(GOOD), "MD5checksum": hashlib.md5(GOOD).hexdigest()}
    again = entry | {"MD5checksum": str(entry["MD5checksum"]).upper()}
    lay(into(tmp_path), [GOOD], files=[entry, again], source="arn:aws:s3:::lake")
    stored = read(tmp_path / "inv")
    assert (keys_of(stored), stored.holes) == (["good"], ())
    assert stored.covers == (Location("lake", ""),)


def test_a_data_file_with_two_checksums_is_read_by_neither_alone(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    entry = {"key": laid.data[0], "size": len(GOOD), "MD5checksum": hashlib.md5(GOOD).hexdigest()}
    lay(into(tmp_path), [GOOD], files=[entry, entry | {"MD5checksum": "0" * 32}])
    assert len(read(tmp_path / "inv").holes) == 1


def test_a_checksum_without_its_manifest_is_an_error(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    (tmp_path / laid.manifest).unlink()
    with pytest.raises(SourceError, match="the manifest is missing"):
        read(tmp_path / "inv")


def test_several_inventories_below_one_folder_are_an_error(tmp_path: Path) -> None:
    for name in ("daily", "weekly"):
        lay(into(tmp_path), [GOOD], under=f"inv/lake/{name}")
    with pytest.raises(SourceError, match="holds several inventories"):
        read(tmp_path / "inv")


def test_a_report_named_outright_may_not_be_newer_than_the_time_asked_for(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    with pytest.raises(SourceError, match="begun at 2024-05-07T01:00Z, after the time asked for"):
        read(tmp_path / laid.manifest, as_of=SCAN - timedelta(minutes=1))


def test_covers_must_lie_in_the_bucket_of_the_report(tmp_path: Path) -> None:
    lay(into(tmp_path), [GOOD])
    stored = read(tmp_path / "inv", covers=(Location("lake", "warehouse"),))
    assert stored.covers == (Location("lake", "warehouse"),)
    with pytest.raises(SourceError, match="about bucket lake and cannot cover s3://pond"):
        read(tmp_path / "inv", covers=(Location("lake", "a"), Location("pond", "")))


def test_a_report_older_than_max_age_is_an_evidence_gap(tmp_path: Path) -> None:
    lay(into(tmp_path), [GOOD])
    assert read(tmp_path / "inv", as_of=SCAN + timedelta(days=3)).holes == ()
    stored = read(tmp_path / "inv", as_of=SCAN + timedelta(days=3, seconds=1))
    assert [hole.reason for hole in stored.holes] == [
        "stale: begun at 2024-05-07T01:00Z, older than max_age allows"
    ]
    assert keys_of(stored) == ["good"]


@pytest.mark.parametrize(
    ("before", "days", "holes"),
    [
        ([7, 14, 21], 9, 0),
        ([7, 14, 21], 11, 1),
        ([7, 8, 15], 9, 0),
        ([1, 2, 3], 4, 1),
        ([7, 8, 9], 4, 1),
        ([7], 9, 0),
    ],
    ids=[
        "weekly",
        "a weekly one is missing",
        "one made by hand",
        "daily",
        "daily, and a week without",
        "two of them",
    ],
)
def test_weekly_reports_may_be_older_than_daily_ones(
    tmp_path: Path, before: list[int], days: int, holes: int
) -> None:
    for each in (0, *before):
        lay(into(tmp_path), [GOOD], at=SCAN - timedelta(days=each))
    assert len(read(tmp_path / "inv", as_of=SCAN + timedelta(days=days)).holes) == holes
    assert len(
        read(tmp_path / "inv", as_of=SCAN + timedelta(days=days), max_age=timedelta(days=5)).holes
    ) == (days > 5)


def test_the_margin_may_be_set(tmp_path: Path) -> None:
    lay(into(tmp_path), [GOOD])
    cut = read(tmp_path / "inv", margin=timedelta(hours=1)).info.cut
    assert cut is not None
    assert cut.margin == timedelta(hours=1)


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN_FILES: list[tuple[str, Callable[[Path], object]]] = [
    ("is missing", lambda path: path.unlink()),
    ("bytes and not", lambda path: path.write_bytes(path.read_bytes()[:-7])),
    ("has MD5", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x")),
    ("is missing", _to_folder),
]


def test_a_data_file_that_differs_from_the_manifest_is_an_evidence_gap(tmp_path: Path) -> None:
    lost = [csv([Version(f"lost {i}")]) for i in range(len(BROKEN_FILES))]
    laid = lay(into(tmp_path), [*lost, GOOD])
    for name, (_, break_it) in zip(laid.data, BROKEN_FILES, strict=False):
        break_it(tmp_path / name)
    stored = read(tmp_path / "inv")
    assert keys_of(stored) == ["good"]
    assert [hole.subject for hole in stored.holes] == [f"/{name}" for name in laid.data[:-1]]
    assert all(told in hole.reason for hole, (told, _) in zip(stored.holes, BROKEN_FILES, strict=True))


def test_a_report_without_a_readable_file_has_no_rows_and_gaps(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    (tmp_path / laid.data[0]).unlink()
    stored = read(tmp_path / "inv")
    assert (stored_rows(stored), len(stored.holes)) == ([], 1)


def test_a_data_file_that_is_hidden_for_spark_is_an_evidence_gap(tmp_path: Path) -> None:
    laid = lay(into(tmp_path), [GOOD])
    (tmp_path / laid.data[0]).rename(tmp_path / "inv" / "_part.csv.gz")
    content = json.loads((tmp_path / laid.manifest).read_text())
    entry = content["files"][0] | {"key": "inv/_part.csv.gz"}
    lay(into(tmp_path), [], files=[entry])
    (hole,) = read(tmp_path / "inv").holes
    assert "hidden" in hole.reason


def test_on_s3_a_copied_report_is_found_and_altered_files_are_evidence_gaps(
    clients: Clients, aws: Aws, bucket: str
) -> None:
    """The destination bucket of the manifest does not exist here; the copy lies below another prefix."""

    def put(key: str, content: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=f"copy/{key}", Body=content)

    laid = lay(put, [GOOD, csv([Version("altered")]), csv([Version("gone")])], under="dest/lake/daily")
    put(laid.data[1], csv([Version("changed")]))
    aws.s3.delete_object(Bucket=bucket, Key=f"copy/{laid.data[2]}")
    stored = read(f"s3://{bucket}/copy/dest/lake/daily/", clients=clients)
    assert keys_of(stored) == ["good"]
    assert sorted(hole.subject for hole in stored.holes) == [f"s3://reports/{key}" for key in laid.data[1:]]


def test_a_file_whose_etag_is_not_an_md5_is_read_through(clients: Clients, aws: Aws, bucket: str) -> None:
    def put(key: str, content: bytes) -> None:
        begun = aws.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        asked = {"Bucket": bucket, "Key": key, "UploadId": begun}
        etag = aws.s3.upload_part(**asked, PartNumber=1, Body=content)["ETag"]  # type: ignore[arg-type]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        aws.s3.complete_multipart_upload(**asked, MultipartUpload=parts)  # type: ignore[arg-type]

    lay(put, [GOOD], destination=bucket)
    stored = read(f"s3://{bucket}/inv/", clients=clients)
    assert (keys_of(stored), stored.holes) == (["good"], ())


LINES: list[tuple[bytes, str]] = [
    (b'"lake","few","",\n', "no row of 13 columns"),
    (csv_line(Version("many")).rstrip() + b',"x"\n', "no row of 13 columns"),
    (b",".join([b'"x"'] * 30_000) + b"\n", "no row of 13 columns"),
    (b'"lake","' + b"z" * 300_000 + b'"\n', "no row of 13 columns"),
    (csv_line(Version("size")).replace(b'"5"', b'"5.0"'), "Size is not a number: 5.0"),
    (csv_line(Version("size")).replace(b'"5"', b'"-5"'), "Size is not a number: -5"),
    (
        csv_line(Version("size")).replace(b'"5"', b'"9999999999999999999"'),
        "Size is not a number: 9999999999999999999",
    ),
    (csv_line(Version("flag")).replace(b'"true"', b'"yes"'), "IsLatest is not a flag: yes"),
    (
        csv_line(Version("time")).replace(b"2024-05-06T", b"2024-13-06T"),
        "LastModifiedDate is not a time: 2024-13",
    ),
    (csv_line(Version("zone")).replace(b".000Z", b""), "LastModifiedDate is not a time"),
    (csv_line(Version("x")).replace(b'"x"', b'"a%zz"'), "Key is not text: a%zz"),
    (csv_line(Version("x")).replace(b'"x"', b'"a%4"'), "Key is not text: a%4"),
    (csv_line(Version("x")).replace(b'"x"', b'"a%+1"'), "Key is not text: a%+1"),
    (csv_line(Version("x")).replace(b'"x"', b'"a%FF"'), "Key is not text: a%FF"),
    (csv_line(Version("x")).replace(b'"x"', b'"a%ED%A0%80"'), "Key is not text: a%ED"),
    (csv_line(Version("x")).replace(b'"x"', b'"a\xff"'), "Key is not text: a"),
    (csv_line(Version("x")).replace(b'"x"', b'""'), "row without a key"),
    (csv_line(Version("x")).replace(b'"lake"', b'"pond"'), "row of another bucket: pond, not lake"),
    (csv_line(Version("x")).replace(b'"lake"', b'""'), "row of another bucket: none, not lake"),
]


def test_a_csv_row_that_cannot_be_understood_is_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    good = [csv_line(Version("first")), csv_line(Version("last"))]
    content = gzip.compress(good[0] + b"".join(line for line, _ in LINES) + good[1] + b"\n\n  \n")
    lay(into(tmp_path), [content])
    stored = read(tmp_path / "inv")
    rows = stored_rows(stored)
    assert keys_of(stored) == ["first", "last"]
    rejected = [row for row in rows if "reject" in row]
    assert all(set(row) == {"source", "reject"} for row in rejected)
    assert len(rejected) == len(LINES)
    for _, told in LINES:
        assert any(row["reject"].startswith(f"0701-0.csv.gz: {told}") for row in rejected), told


def test_rows_of_another_bucket_are_rejected_in_every_format(tmp_path: Path) -> None:
    for form, write in WRITERS.items():
        lay(into(tmp_path / form), [write([Version("mine"), Version("theirs", Bucket="pond")])], form=form)
        rows = stored_rows(read(tmp_path / form / "inv"))
        assert [row.get("key") for row in rows] == [None, "mine"]
        assert "row of another bucket: pond, not lake" in rows[0]["reject"]


def test_a_folder_with_pattern_characters_is_read_by_its_name(tmp_path: Path) -> None:
    place = tmp_path / "a[b]{c}*? d%20"
    lay(into(place), [GOOD])
    assert keys_of(read(place / "inv")) == ["good"]


def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    lay(into(tmp_path / "secret"), [GOOD])
    secret = json.loads((tmp_path / "secret/inv/2024-05-07T01-00Z/manifest.json").read_text())["files"][0]
    out = [secret | {"key": f"../../secret/{secret['key']}"}]
    lay(into(tmp_path / "open"), [], files=out)
    (hole,) = read(tmp_path / "open" / "inv").holes
    assert hole.reason == "data file is missing"


def test_a_place_that_cannot_be_reached_is_an_error(clients: Clients) -> None:
    with pytest.raises(SourceError, match="the bucket does not exist"):
        read("s3://no-such-bucket-at-all/inv/", clients=clients)


def test_without_credentials_the_error_says_so(s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SourceError, match="no AWS credentials found"):
        read("s3://lake/inv/", clients=Clients(s3))


def test_all_columns_of_the_builder_are_known() -> None:
    assert [name for name in ALL if name.lower() not in BY_CSV_NAME] == []
