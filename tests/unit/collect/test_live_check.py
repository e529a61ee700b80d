"""The live check: the answers of storage about suspects, the choice of suspects, and the changed rows."""

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lakeaudit.collect.storage_lookups import look
from lakeaudit.confirm.live_check import candidates, limited, with_answers
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.threads import Pacer
from lakeaudit.schemas import LIVE, PAIR
from lakeaudit.storage_classes import KNOWN_CLASSES, StorageClasses
from tests.builders.connections import connection
from tests.conftest import Aws

KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])
NOON = datetime(2026, 11, 21, 12)  # noqa: DTZ001 - times of an audit are UTC without a zone
LATER = NOON + timedelta(hours=3)
_TEXTS = ("axis", "judged_table", "rule", "outcome", "kind", "severity", "known_as", "related_key")
_FLAGS = ("suspected", "versions_known", "held")
SUSPECT = pa.schema(
    [
        *PAIR,
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.bool_()) for name in _FLAGS),
        ("known_at", pa.timestamp("us")),
    ]
)


def live_rows(clients: Clients, keys: Sequence[tuple[str, str]], rate: float = 1000) -> pa.Table:
    return look(duck.small(KEYS, keys), clients, rate=rate)


def answers(clients: Clients, keys: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    rows = live_rows(clients, keys)
    assert rows.schema == LIVE
    assert list(zip(*(rows.column(name).to_pylist() for name in KEYS.names), strict=True)) == list(keys)
    return {row["key"]: row for row in rows.to_pylist()}


def suspects(*rows: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"bucket": "b", "versions_known": False, **row} for row in rows], schema=SUSPECT
    )


@pytest.fixture
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


@contextmanager
def server_that_says(status: int) -> Iterator[Endpoint]:
    """A store that gives one answer to everything."""

    class Always(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Always)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Endpoint(endpoint=f"http://127.0.0.1:{server.server_port}", region="us-east-1", path_style=True)
    finally:
        server.shutdown()
        server.server_close()


def test_what_storage_answers_now(clients: Clients, aws: Aws, bucket: str) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("there", "marked", "wiped", "a b%2B+ü/there"):
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    aws.s3.put_object(Bucket=bucket, Key="cold", Body=b"bytes", StorageClass="GLACIER")
    aws.s3.delete_object(Bucket=bucket, Key="marked")
    only = aws.s3.list_object_versions(Bucket=bucket, Prefix="wiped")["Versions"][0]["VersionId"]
    aws.s3.delete_object(Bucket=bucket, Key="wiped", VersionId=only)
    (markers,) = aws.s3.list_object_versions(Bucket=bucket, Prefix="marked")["DeleteMarkers"]
    when = markers["LastModified"].astimezone(UTC).replace(tzinfo=None)
    told = answers(clients, [(bucket, key) for key in ("there", "marked", "wiped", "cold", "a b%2B+ü/there")])
    assert {key: (row["l_confirmation"], row["l_presence"]) for key, row in told.items()} == {
        "there": ("live", "present"),
        "marked": ("live", "absent"),
        "wiped": ("live", "absent"),
        "cold": ("live", "present"),
        "a b%2B+ü/there": ("live", "present"),
    }
    assert (told["there"]["l_size"], told["there"]["l_etag"]) == (5, hashlib.md5(b"bytes").hexdigest())
    assert told["there"]["l_archived"] is False
    assert told["cold"]["l_archived"] is True
    assert (told["marked"]["l_delete_marker"], told["marked"]["l_older_size"]) == (True, 5)
    marked = told["marked"]
    assert marked["l_version_id"] == markers["VersionId"]
    assert (marked["l_older_since"], marked["l_older_newer"]) == (when, 0)
    assert (told["wiped"]["l_older_version_id"], told["wiped"]["l_versions_known"]) == (None, True)
    there = told["there"]
    assert (there["l_storage_class"], there["l_multipart"], there["l_encryption"]) == (
        "STANDARD",
        False,
        "NONE",
    )
    assert there["l_version_id"] is not None
    assert there["l_at"].tzinfo is None
    assert abs(there["l_at"] - there["l_modified_at"]) < timedelta(minutes=5)


def test_what_head_says_of_an_object(clients: Clients, aws: Aws, bucket: str) -> None:
    checksum = hashlib.sha256(b"bytes").digest()
    aws.s3.put_object(Bucket=bucket, Key="summed", Body=b"bytes", ChecksumAlgorithm="SHA256")
    aws.s3.put_object(Bucket=bucket, Key="sealed", Body=b"bytes", ServerSideEncryption="aws:kms")
    aws.s3.put_object(Bucket=bucket, Key="cold", Body=b"bytes", StorageClass="DEEP_ARCHIVE")
    aws.s3.put_object(Bucket=bucket, Key="thawed", Body=b"bytes", StorageClass="GLACIER")
    aws.s3.restore_object(Bucket=bucket, Key="thawed", RestoreRequest={"Days": 2})
    upload = aws.s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    part = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
    etag = aws.s3.upload_part(**part, PartNumber=1, Body=b"bytes")["ETag"]  # type: ignore[arg-type]
    whole = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    aws.s3.complete_multipart_upload(**part, MultipartUpload=whole)  # type: ignore[arg-type]
    told = answers(clients, [(bucket, key) for key in ("summed", "sealed", "cold", "thawed", "parts")])
    assert told["summed"]["l_checksum"] == f"sha256:{checksum.hex()}"
    assert told["sealed"]["l_encryption"] == "SSE-KMS"
    assert (told["cold"]["l_archived"], told["thawed"]["l_archived"]) == (True, False)
    assert [told[key]["l_multipart"] for key in ("parts", "cold")] == [True, False]
    assert {row["l_version_id"] for row in told.values()} == {None}


@pytest.mark.parametrize(
    ("status", "confirmation"), [(403, "denied"), (404, "denied"), (500, "error"), (400, "error")]
)
def test_only_a_proven_404_means_absent(status: int, confirmation: str) -> None:
    """A store that returns 404 to every request does not prove that the principal may list."""
    with server_that_says(status) as endpoint:
        told = answers(Clients(endpoint), [("lake", "key")])
    assert (told["key"]["l_confirmation"], told["key"]["l_presence"]) == (confirmation, None)


def test_local_files_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"bytes")
    keys = [("", str(tmp_path / name)[1:]) for name in ("there", "gone")]
    told = answers(Clients(), keys)
    assert [(told[key]["l_presence"], told[key]["l_size"]) for _, key in keys] == [
        ("present", 5),
        ("absent", None),
    ]


def test_a_local_key_that_no_path_can_have_gives_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    keys = [("", "a\0b"), ("", f"{tmp_path}/file/below"[1:])]
    assert [row["l_confirmation"] for row in answers(Clients(), keys).values()] == ["error", "error"]


# --- what is asked of a bucket, and what is remembered of it -------------------------------------------------


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Call")  # type: ignore[typeddict-item]


MISSING, DENIED, SLOW = refusal("404", 404), refusal("AccessDenied", 403), refusal("SlowDown", 503)
LATE = ReadTimeoutError(endpoint_url="http://store")
HEAD = {"ETag": '"e"', "ContentLength": 5, "LastModified": NOON.replace(tzinfo=UTC)}
NOTHING: dict[str, Any] = {}


class Script:
    """An S3 client whose answers are given: by call, those of each key in turn, the last one for all later keys."""

    names: Aliases = ()

    def __init__(self, **answers: Sequence[Any]) -> None:
        given = {"get_bucket_versioning": [{"Status": "Enabled"}]} | answers
        self.answers = {name: list(answer) for name, answer in given.items()}
        self.calls: list[str] = []

    def s3(self, *_: str) -> "Script":
        return self

    def storage_classes(self, _: str) -> StorageClasses:
        return KNOWN_CLASSES

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            self.calls.append(name)
            given = self.answers[name]
            answer = given.pop(0) if len(given) > 1 else given[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def look_up(script: Script, keys: int) -> list[dict[str, Any]]:
    """Return LIVE rows of keys of one bucket, looked up one after the other."""
    rows = duck.small(KEYS, [("lake", str(n)) for n in range(keys)])
    found: list[dict[str, Any]] = look(rows, cast("Clients", script), rate=10_000, threads=1).to_pylist()
    return found


@pytest.mark.parametrize("passing", [SLOW, LATE, refusal("InternalError", 500)])
def test_one_version_lookup_that_fails_says_nothing_of_the_next(passing: Exception) -> None:
    script = Script(head_object=[HEAD], list_object_versions=[NOTHING, passing, NOTHING])
    rows = look_up(script, 4)
    assert [row["l_versions_known"] for row in rows] == [True, False, True, True]
    assert {row["l_confirmation"] for row in rows} == {"live"}
    assert script.calls.count("list_object_versions") == 4


def test_versions_are_requested_once_if_access_is_denied() -> None:
    script = Script(head_object=[HEAD], list_object_versions=[DENIED])
    assert [row["l_versions_known"] for row in look_up(script, 3)] == [False] * 3
    assert script.calls.count("list_object_versions") == 1


def test_versions_are_not_requested_from_a_bucket_that_never_had_them() -> None:
    script = Script(head_object=[HEAD, MISSING], list_objects_v2=[NOTHING], get_bucket_versioning=[NOTHING])
    rows = look_up(script, 3)
    assert [row["l_versions_known"] for row in rows] == [True] * 3
    assert {row["l_older_version_id"] for row in rows} == {None}
    assert script.calls.count("get_bucket_versioning") == 1
    assert "list_object_versions" not in script.calls


@pytest.mark.parametrize(("said", "asked_again"), [(DENIED, 1), (SLOW, 2)])
def test_who_may_not_know_whether_versions_are_kept_asks_for_them(said: Exception, asked_again: int) -> None:
    script = Script(head_object=[HEAD], get_bucket_versioning=[said], list_object_versions=[NOTHING])
    assert [row["l_versions_known"] for row in look_up(script, 2)] == [True] * 2
    assert script.calls.count("get_bucket_versioning") == asked_again
    assert script.calls.count("list_object_versions") == 2


def test_the_right_to_list_is_proved_once_a_bucket() -> None:
    script = Script(head_object=[MISSING], list_objects_v2=[NOTHING], list_object_versions=[NOTHING])
    assert {(row["l_confirmation"], row["l_presence"]) for row in look_up(script, 3)} == {("live", "absent")}
    assert script.calls.count("list_objects_v2") == 1


def test_a_404_proves_nothing_to_who_may_not_list() -> None:
    script = Script(head_object=[MISSING], list_objects_v2=[DENIED])
    assert {(row["l_confirmation"], row["l_presence"]) for row in look_up(script, 3)} == {("denied", None)}
    assert script.calls.count("list_objects_v2") == 1


@pytest.mark.parametrize("passing", [SLOW, LATE])
def test_a_proof_that_fails_for_now_is_tried_again(passing: Exception) -> None:
    script = Script(head_object=[MISSING], list_objects_v2=[passing, NOTHING], list_object_versions=[NOTHING])
    assert [row["l_confirmation"] for row in look_up(script, 3)] == ["error", "live", "live"]
    assert script.calls.count("list_objects_v2") == 2


def test_an_object_whose_checksum_may_not_be_read_is_there() -> None:
    script = Script(head_object=[DENIED, HEAD], list_object_versions=[NOTHING])
    assert look_up(script, 1)[0]["l_presence"] == "present"
    assert script.calls == ["head_object", "head_object", "get_bucket_versioning", "list_object_versions"]


# --- the pace ------------------------------------------------------------------------------------------------


def test_slots_lie_at_even_distances_over_all_threads() -> None:
    waits: list[float] = []
    pacer = Pacer(50, clock=lambda: 100.0, sleep=waits.append)

    def work() -> None:
        for _ in range(25):
            pacer.wait()

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(waits) == pytest.approx([slot / 50 for slot in range(1, 200)])


def test_no_slots_are_saved_up() -> None:
    moments = iter([0.0, 60.0, 60.0])
    waits: list[float] = []
    pacer = Pacer(10, clock=lambda: next(moments), sleep=waits.append)
    for _ in range(3):
        pacer.wait()
    assert waits == pytest.approx([0.1])


def test_every_request_takes_a_slot() -> None:
    """Ten missing keys: ten HEADs, a proof of the right to list, ten version lookups, and whether there are any."""
    script = Script(head_object=[MISSING], list_objects_v2=[NOTHING], list_object_versions=[NOTHING])
    rows = duck.small(KEYS, [("lake", str(n)) for n in range(10)])
    started = datetime.now(UTC)
    look(rows, cast("Clients", script), rate=100, threads=1)
    assert len(script.calls) == 22
    assert datetime.now(UTC) - started >= timedelta(seconds=0.2)


def test_local_files_take_no_slots(tmp_path: Path) -> None:
    started = datetime.now(UTC)
    live_rows(Clients(), [("", str(tmp_path / str(n))[1:]) for n in range(50)], rate=0.5)
    assert datetime.now(UTC) - started < timedelta(seconds=2)


# --- which suspects are asked about --------------------------------------------------------------------------


def suspect(
    axis: str,
    outcome: str,
    severity: str | None,
    table: str,
    key: str,
    size: int | None,
    known: str | None = None,
) -> dict[str, Any]:
    """A verdict row whose sizes agree."""
    sizes = dict.fromkeys(("c_size", "s_size", "m_size"), size)
    return {"axis": axis, "outcome": outcome, "severity": severity, "judged_table": table, "key": key,
            "known_as": known, **sizes}  # fmt: skip


def test_what_is_open_comes_first_then_the_worst_and_every_table_has_its_turn(con: Connection) -> None:
    rows = suspects(
        suspect("content", "finding", "warning", "a", "small-warning", 1),
        suspect("content", "finding", "critical", "a", "critical", 5),
        suspect("content", "finding", "warning", "a", "big-warning", 100),
        suspect("content", "consistent", None, "a", "open-before", 1, "known"),
        suspect("metastore", "finding", "warning", "b", "other-table", 1),
        suspect("leftover", "finding", "critical", "a", "never-asked", 1),
        suspect("content", "undecided", None, "a", "no-finding", 1),
        suspect("content", "finding", "critical", "unlimited", "of-a-table-without-a-limit", 1),
    )
    within = limited(con, rows, {"a": 3, "b": 9})
    order = ["open-before", "critical", "other-table", "big-warning"]
    for limit in (9, 1):
        found = candidates(con, within, limit)
        assert found.schema.names == ["bucket", "key"]
        assert found.column("key").to_pylist() == order[:limit]
    assert sorted(row["turn"] for row in duck.rows_of(within)) == [1, 1, 2, 3]


def test_a_key_counts_once_by_its_worst_row(con: Connection) -> None:
    rows = suspects(
        suspect("content", "finding", "info", "a", "twice", None),
        suspect("metastore", "finding", "error", "a", "twice", None),
        suspect("content", "finding", "warning", "a", "once", 9),
        suspect("content", "finding", "warning", "a", "unsized", None),
        suspect("content", "finding", "strange", "a", "last", 99),
    )
    found = candidates(con, limited(con, rows, {"a": 9}), 9)
    assert found.column("key").to_pylist() == ["twice", "once", "unsized", "last"]


def test_no_limits_and_no_suspects_give_no_keys(con: Connection) -> None:
    one = suspects(suspect("content", "finding", "error", "a", "k", 1))
    assert candidates(con, limited(con, one, {}), 9).num_rows == 0
    assert candidates(con, limited(con, suspects(), {"a": 1}), 9).num_rows == 0


# --- the answers in the rows ---------------------------------------------------------------------------------

BEFORE = {
    "axis": "content", "judged_table": "a", "key": "k", "s_presence": "present", "s_size": 5, "s_etag": "then",
    "s_version_id": "v1", "s_modified_at": NOON, "s_storage_class": "GLACIER", "s_archived": True,
    "s_multipart": True, "s_encryption": "SSE-C", "s_checksum": "md5:0", "s_delete_marker": False,
    "s_older_version_id": "v0", "s_older_size": 4, "s_source": "inventory", "s_from": NOON,
    "s_margin": timedelta(hours=24), "m_from": NOON, "l_confirmation": "none", "c_size": 5, "held": True,
    "versions_known": True,
}  # fmt: skip
ABSENT = {"bucket": "b", "key": "k", "l_confirmation": "live", "l_presence": "absent", "l_at": LATER}


def merged(
    con: Connection, rows: Sequence[Mapping[str, Any]], *live: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The rows with answers; they keep the columns, types and order of suspects."""
    found = duck.table(with_answers(con, suspects(*rows), pa.Table.from_pylist(list(live), schema=LIVE)))
    assert found.schema.names == SUSPECT.names
    plain: list[dict[str, Any]] = found.to_pylist()
    return plain


def test_an_answer_stands_in_place_of_the_cut(con: Connection) -> None:
    older = {"l_versions_known": True, "l_delete_marker": True, "l_older_version_id": "v1", "l_older_size": 5}
    (row,) = merged(con, [BEFORE], ABSENT | older)
    assert (row["s_presence"], row["s_from"], row["m_from"]) == ("absent", LATER, LATER)
    seen = ("size", "etag", "version_id", "modified_at", "storage_class", "archived", "multipart")
    assert {row[f"s_{name}"] for name in (*seen, "encryption", "checksum")} == {None}
    assert (row["s_delete_marker"], row["s_older_version_id"], row["s_older_size"]) == (True, "v1", 5)
    assert (row["versions_known"], row["l_confirmation"]) == (True, "live")
    assert (row["s_source"], row["c_size"], row["held"]) == ("inventory", 5, True)
    answered = with_answers(con, suspects(BEFORE), pa.Table.from_pylist([ABSENT], schema=LIVE))
    margins = duck.query(con, "SELECT s_margin = INTERVAL 0 SECOND AS none FROM answered", answered=answered)
    assert duck.rows_of(margins) == [{"none": True}]


def test_versions_that_were_not_answered_stay_those_of_the_cut(con: Connection) -> None:
    (row,) = merged(con, [BEFORE], ABSENT | {"l_versions_known": False})
    assert (row["s_presence"], row["s_older_version_id"], row["s_older_size"]) == ("absent", "v0", 4)
    assert (row["s_delete_marker"], row["versions_known"]) == (False, False)


@pytest.mark.parametrize("confirmation", ["denied", "error"])
def test_no_answer_changes_nothing_but_the_confirmation(con: Connection, confirmation: str) -> None:
    (row,) = merged(con, [BEFORE], {**ABSENT, "l_confirmation": confirmation, "l_presence": None})
    kept = [name for name in BEFORE if name not in ("l_confirmation", "s_margin", "versions_known")]
    assert {name: row[name] for name in kept} == {name: BEFORE[name] for name in kept}
    assert (row["l_confirmation"], row["versions_known"]) == (confirmation, False)


def test_a_suspect_without_a_live_check_has_the_reason(con: Connection) -> None:
    rows = [{**BEFORE, "axis": axis} for axis in ("content", "metastore", "leftover", "duplicate")]
    found = {row["axis"]: (row["l_confirmation"], row["versions_known"]) for row in merged(con, rows)}
    assert found == {
        "content": ("limit", False),
        "metastore": ("limit", False),
        "leftover": ("none", False),
        "duplicate": ("none", False),
    }


def test_the_metastore_is_compared_at_the_younger_of_both_moments(con: Connection) -> None:
    rows = [{**BEFORE, "m_from": moment} for moment in (LATER + timedelta(hours=1), None)]
    found = [row["m_from"] for row in merged(con, rows, ABSENT)]
    assert sorted(found) == [LATER, LATER + timedelta(hours=1)]


def test_an_answer_is_for_its_own_bucket_and_key(con: Connection) -> None:
    rows = [BEFORE, {**BEFORE, "key": "K"}, {**BEFORE, "bucket": "c"}]
    found = {(row["bucket"], row["key"]): row["l_confirmation"] for row in merged(con, rows, ABSENT)}
    assert found == {("b", "k"): "live", ("b", "K"): "limit", ("c", "k"): "limit"}
