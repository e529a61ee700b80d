"""Server access logs: the events contract, hostile lines, places of logs, and unreadable logs."""

import gzip
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence import files
from lakeaudit.evidence.events import event_files
from lakeaudit.evidence.events.access_log import S3AccessLog
from lakeaudit.evidence.events.access_log import reader as access_log
from lakeaudit.evidence.protocol import Events
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import access_logs
from tests.builders.access_logs import AT, JOB, LIFECYCLE, PERSON, Line, content, deleted, expired, write_line
from tests.builders.examples import examples
from tests.conftest import Aws
from tests.sources.events_contract import (
    NOW,
    REQUESTS,
    EventsContract,
    SentRequest,
    World,
    context,
    rejected,
    rows_of,
)

OPERATIONS = {
    "put": "REST.PUT.OBJECT",
    "copy": "REST.COPY.OBJECT",
    "delete": "REST.DELETE.OBJECT",
    "get": "REST.GET.OBJECT",
    "head": "REST.HEAD.OBJECT",
    "list": "REST.GET.BUCKET",
}
BY: dict[str | None, str] = {"ann": PERSON, "job": JOB, None: LIFECYCLE}


def read(clients: Clients, where: str | Path, as_of: datetime = NOW, days: int = 7) -> Events:
    place = Location.parse(str(where))
    source = S3AccessLog(kind="s3_access_log", location=place, window=timedelta(days=days))
    return access_log.read(source, context(clients, as_of), "events:0")


def line_of(number: int, made: SentRequest) -> Line:
    request = f"REQUEST{number}"
    if made.action == "expire":
        return expired(made.key, made.at, request=request)
    failed = (
        {"status": "404" if made.action == "head" else "403", "error": "NoSuchKey"} if made.failed else {}
    )
    return Line(OPERATIONS[made.action], made.key, made.at, BY[made.by], request, **failed)


LINES = [line_of(number, made) for number, made in enumerate(REQUESTS)]


class TestContract(EventsContract):
    @pytest.fixture(scope="class", params=["flat", "partitioned", "local", "gzip"])
    @classmethod
    def world(
        cls,
        request: pytest.FixtureRequest,
        clients: Clients,
        aws: Aws,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> World:
        if request.param in ("local", "gzip"):
            folder = tmp_path_factory.mktemp("logs")
            packed = request.param == "gzip"
            for line in LINES:
                name = access_logs.name(line.at, line.request) + (".gz" if packed else "")
                body = content([line])
                (folder / name).write_bytes(gzip.compress(body) if packed else body)
            events = read(Clients(), folder)
        else:
            bucket = f"access-{request.param}"
            aws.s3.create_bucket(Bucket=bucket)
            for line in LINES:
                day = "" if request.param == "flat" else f"123456789012/eu-west-1/lake/{line.at:%Y/%m/%d}/"
                key = f"logs/{day}{access_logs.name(line.at, line.request)}"
                aws.s3.put_object(Bucket=bucket, Key=key, Body=content([line]))
            events = read(clients, f"s3://{bucket}/logs/")
        says = {*OPERATIONS, "expire"}
        return World(events, says, BY, rows=rows_of(events.parts(events.since, True)))


def parsed(tmp_path: Path, text: bytes | Sequence[Line], reads: bool = True) -> list[dict[str, Any]]:
    """Rows of one file; what could not be understood is a row (reject)."""
    for old in tmp_path.glob("20*"):
        old.unlink()
    (tmp_path / access_logs.name(AT)).write_bytes(text if isinstance(text, bytes) else content(text))
    events = read(Clients(), tmp_path)
    parts = events.parts(events.since, reads)
    return [*rows_of(parts), *([{"reject": True}] * rejected(parts))]


AGENTS = ('"Mozilla/5.0 "quoted" agent"', '"a" 200 - - - - - "b"', '"', '""', "-", '"x\\" y"', '"\u202e né"',
          '"-" 3E57 REST.DELETE.OBJECT t/other "DELETE /t/other HTTP/1.1" 204 -"')  # fmt: skip


def test_what_a_client_writes_moves_no_field(tmp_path: Path) -> None:
    lines = [deleted("t/a b", AT, agent=agent, referer=referer) for agent in AGENTS for referer in AGENTS]
    rows = parsed(tmp_path, lines)
    told = [(row["action"], row["key"], row["principal"], row["status"], row["succeeded"]) for row in rows]
    assert told == [("delete", "t/a b", PERSON, 204, True)] * len(lines)


KEYS: dict[str, tuple[Line, str]] = {
    "encoded twice": (write_line("t/x", AT, encoded="t/day%253D1/a%2520b"), "t/day=1/a b"),
    "encoded once, as the request's path shows": (write_line("t/a%20b", AT, encoded="t/a%2520b"), "t/a%20b"),
    "not encoded at all": (write_line("t/a=b", AT, encoded="t/a=b"), "t/a=b"),
    "a plus for a space": (write_line("t/a b", AT, encoded="t/a%2Bb"), "t/a b"),
    "a plus that is one": (write_line("t/a+b", AT, encoded="t/a%252Bb"), "t/a+b"),
    "lifecycle actions encode once": (expired("t/p=%41/x", AT), "t/p=%41/x"),
    "a batch says no path": (
        Line("BATCH.DELETE.OBJECT", "t/day=1/x%2F", status="204"), "t/day=1/x%2F",
    ),
    "quotes and escapes": (write_line("t/\"a\\b'\n\t\x01", AT), "t/\"a\\b'\n\t\x01"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_decoded_as_often_as_they_were_encoded(tmp_path: Path, name: str) -> None:
    line, key = KEYS[name]
    (row,) = parsed(tmp_path, [line])
    assert row["key"] == key


FAULTS: dict[str, bytes] = {
    "no line at all": b"hello\n",
    "cut within the time": LINES[0].text[:90].encode(),
    "cut within the request's line": LINES[0].text.split(" HTTP/")[0].encode(),
    "cut before the turnaround time": LINES[0].text.split(" 1361 ")[0].encode(),
    "a path that feigns a status": LINES[7].text.replace(" HTTP/1.1", '" 200 - - 1 1 1 "x').encode(),
    "an invalid time": LINES[0].text.replace("/Nov/", "/Nov99/").encode(),
    "a key that decodes to no text": write_line("t/x", AT, encoded="t/%25E2%2528").text.encode(),
    "another language": "été\u2028\u2028".encode("utf-16"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_invalid_line_is_counted_and_never_a_request(tmp_path: Path, name: str) -> None:
    sound = content([LINES[1]])
    rows = parsed(tmp_path, sound + FAULTS[name] + b"\n" + sound)
    assert [row["key"] for row in rows if "key" in row] == [REQUESTS[1].key] * 2
    assert len([row for row in rows if "reject" in row]) >= 1


def test_a_version_that_is_named_is_read(tmp_path: Path) -> None:
    lines = [
        deleted("t/a", AT, query="?versionId=v%2B1"),
        Line("BATCH.DELETE.OBJECT", "t/b", status="204", version="v2"),
        expired("t/c", AT, version="v3"),
        deleted("t/d", AT),
    ]
    found = {row["key"]: row.get("version_id") for row in parsed(tmp_path, lines)}
    assert found == {"t/a": "v+1", "t/b": "v2", "t/c": "v3", "t/d": None}


def test_a_copy_an_upload_and_a_transition_are_identified_by_their_operations(tmp_path: Path) -> None:
    names = ("REST.COPY.OBJECT_GET", "REST.POST.UPLOADS", "REST.PUT.PART", "REST.POST.UPLOAD", "REST.DELETE.UPLOAD",
             "REST.PUT.ACL", "REST.POST.MULTI_OBJECT_DELETE")  # fmt: skip
    lines = [Line(name, "t/a", request=name) for name in names]
    lines.append(Line("S3.TRANSITION_GDA.OBJECT", "t/a", principal=LIFECYCLE, status="-"))
    assert [(row["operation"], row["action"]) for row in parsed(tmp_path, lines)] == [
        ("REST.POST.UPLOAD", "put"),
        ("S3.TRANSITION_GDA.OBJECT", "transition"),
    ]


JOBS = {
    '"https://audit.example.org/hadoop/1/op_delete/3c0d-3/?op=op_delete&p1=t/a&pr=alice&ps=2358&ji=job_2026%2B1&ts=1"':
        "op_delete of alice in job job_2026+1",
    '"http://audit/hadoop/1/op_create/3c0d/?op=op_create&pr=bob"': "op_create of bob",
    '"http://audit/hadoop/1/op_create/3c0d/?op=%E2%28"': None,
    '"http://elsewhere/?op=op_create&pr=mallory"': None,
    '"-"': None,
}  # fmt: skip


@pytest.mark.parametrize("referer", JOBS)
def test_the_job_in_the_referer_of_s3a_is_read(tmp_path: Path, referer: str) -> None:
    (row,) = parsed(tmp_path, [deleted("t/a", AT, JOB, referer=referer)])
    assert row.get("job") == JOBS[referer]


BENIGN: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda text: text.replace(b"\n", b"\r\n"),
    "BOM": lambda text: b"\xef\xbb\xbf" + text,
    "no last line break": lambda text: text.rstrip(b"\n"),
    "empty lines": lambda text: text.replace(b"\n", b"\n\n  \n"),
    "fields of the future": lambda text: text.replace(b" - -\n", b" - - us-east-1 x y\n"),
    "a tail cut short": lambda text: re.sub(rb" SigV4.*\n", b"\n", text),
    "bytes that are not UTF-8 in the agent": lambda text: text.replace(b"Linux/5.10", b"\xff\xfe"),
}


@pytest.fixture(scope="module")
def plain_rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Those of one plain file of all lines, in order."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / access_logs.name(AT)).write_bytes(content(LINES))
    events = read(Clients(), folder)
    return _in_order(rows_of(events.parts(events.since, True)))


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: [row[name] for name in ("key", "action", "at")])


@examples(7, 250)
@given(
    order=st.permutations(range(len(LINES))),
    mutations=st.lists(st.sampled_from(sorted(BENIGN)), max_size=3, unique=True),
    pieces=st.integers(1, 4),
    packed=st.booleans(),
)
def test_benign_changes_change_no_row(
    tmp_path_factory: pytest.TempPathFactory,
    plain_rows: list[dict[str, Any]],
    order: list[int],
    mutations: list[str],
    pieces: int,
    packed: bool,
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    for piece in range(pieces):
        body = content([LINES[n] for n in order[piece::pieces]])
        for name in mutations:
            body = BENIGN[name](body)
        name = access_logs.name(AT, f"F{piece}") + (".gz" if packed else "")
        (folder / name).write_bytes(gzip.compress(body) if packed else body)
    events = read(Clients(), folder)
    parts = events.parts(events.since, True)
    assert _in_order(rows_of(parts)) == plain_rows
    assert rejected(parts) == 0


@examples(2, 60)
@given(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 2000)), min_size=5, max_size=5))
def test_noise_ends_no_audit(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[bytes, int]]
) -> None:
    """Whatever stands in files: their sound lines are rows, and what is left of others is counted, or a line."""
    folder, body = tmp_path_factory.mktemp("logs"), content(LINES)
    for number, (noise, at) in enumerate(drawn):
        (folder / access_logs.name(AT, f"F{number}")).write_bytes(body[:at] + noise + body[at:])
    events = read(Clients(), folder)
    rows = rows_of(events.parts(events.since, True))
    assert all("reject" in row or {"key", "action", "at"} <= row.keys() for row in rows)


def test_only_files_that_may_hold_what_is_wanted_are_read(tmp_path: Path) -> None:
    for days in range(12):
        at = NOW - timedelta(days=days)
        (tmp_path / access_logs.name(at)).write_bytes(content([write_line(f"t/{days}", at)]))
    (tmp_path / "README").write_text("not a log")
    events = read(Clients(), tmp_path)
    assert {row["key"] for row in rows_of(events.parts(events.since, False))} == {f"t/{n}" for n in range(8)}
    since = NOW - timedelta(days=2)
    assert {row["key"] for row in rows_of(events.parts(since, False))} == {"t/0", "t/1", "t/2"}
    assert events.warnings == (
        f"/{str(tmp_path)[1:]}: 1 objects are not named as those of s3_access_log are, and left alone",
    )
    assert sum(part.weight for part in events.parts(since, False)) < 3000


def test_folders_of_other_days_are_not_listed(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in ("2026/11/20", "2026/11/02", "2025/11/20"):
        at = datetime.strptime(day, "%Y/%m/%d").replace(tzinfo=UTC)
        key = f"logs/1234/eu/lake/{day}/{access_logs.name(at)}"
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content([write_line(day, at)]))
    listed: list[str] = []
    plain = files.list_files

    def watched(clients: Clients, folder: Location, **how: Any) -> Any:
        listed.append(folder.key)
        return plain(clients, folder, **how)

    monkeypatch.setattr(event_files, "list_files", watched)
    events = read(clients, f"s3://{bucket}/logs")
    assert [row["key"] for row in rows_of(events.parts(events.since, False))] == ["2026/11/20"]
    assert not [place for place in listed if "2025" in place or "/11/02" in place]


def test_logs_delivered_late_are_read_of_a_time_past(tmp_path: Path) -> None:
    then = NOW - timedelta(days=20)
    late = write_line("t/late", then - timedelta(hours=1))
    (tmp_path / access_logs.name(then + timedelta(days=3))).write_bytes(content([late]))
    (tmp_path / access_logs.name(NOW)).write_bytes(content([write_line("t/after", NOW)]))
    events = read(Clients(), tmp_path, as_of=then)
    assert [row["key"] for row in rows_of(events.parts(events.since, False))] == ["t/late"]


def test_a_folder_without_logs_is_an_evidence_gap(tmp_path: Path) -> None:
    (hole,) = read(Clients(), tmp_path).holes
    assert "has no file of s3_access_log from 2026-11-14T12:00Z or later" in hole.reason


def test_a_log_that_vanishes_or_is_damaged_is_noted_and_the_rest_read(tmp_path: Path) -> None:
    for number, line in enumerate(LINES[:3]):
        (tmp_path / access_logs.name(AT, f"F{number}")).write_bytes(content([line]))
    torn = gzip.compress(content(LINES[3:5]))
    (tmp_path / f"{access_logs.name(AT, 'TORN')}.gz").write_bytes(torn[: len(torn) // 2])
    events = read(Clients(), tmp_path)
    (tmp_path / access_logs.name(AT, "F1")).unlink()
    parts = events.parts(events.since, False)
    assert {REQUESTS[0].key, REQUESTS[2].key} <= {row["key"] for row in rows_of(parts)}
    reasons = {note["subject"].rpartition("-")[2]: note["reason"] for note in rows_of(parts, "notes")}
    assert reasons == {"F1": "does not exist any more", "TORN.gz": "is damaged or cannot be read (EOFError)"}


def test_the_signature_of_a_url_is_left_out(tmp_path: Path) -> None:
    line = (
        LINES[0].text.replace(" HTTP/1.1", "?X-Amz-Signature=secret\t HTTP").replace(access_logs.OWNER, "o")
    )
    (tmp_path / access_logs.name(AT)).write_bytes(line.encode())
    events = read(Clients(), tmp_path)
    (counted,) = rows_of(events.parts(events.since, True), "counted")
    assert (counted["rejected"], "secret" in counted["sample"]) == (1, False)
    assert counted["sample"].endswith("plain.parquet?...")
