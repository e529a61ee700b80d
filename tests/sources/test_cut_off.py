"""A list of which fewer bytes arrive than were listed, as behind a proxy that cuts responses, is never a whole one."""

from collections.abc import Callable
from contextlib import nullcontext
from io import BytesIO

import pytest

from lakeaudit.evidence.events.event_files import blocks
from lakeaudit.evidence.files import File, stat
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, ListFile, lines
from lakeaudit.evidence.manifest.records.read_records import content
from lakeaudit.evidence.manifest.spark_event_log.log_files import EventLog, LogFile
from lakeaudit.evidence.manifest.spark_event_log.rows import application_of
from lakeaudit.evidence.whole_streams import CutOffError, whole
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.backdate import put
from tests.builders.refusals import SHORTENED, Refusals, refusing

LIST = b'{"path": "a.parquet", "size": 9}\n{"path": "b.parquet", "size": 9}\n'
EVENTS = b'{"Event": "SparkListenerLogStart", "Spark Version": "4.1.4"}\n{"Event": "SparkListenerApplicationEnd"}\n'


def of_a_list(clients: Clients, file: File) -> str:
    listed = ListFile("t", Location(file.place.bucket, "t/"), file.place, 0, file.modified_at, file.etag, whole=False,
                      size=file.size)  # fmt: skip
    *_, last = lines(listed, clients)
    return last.row.what if isinstance(last.row, Fault) else ""


def of_a_record(clients: Clients, file: File) -> str:
    try:
        content(clients, file)
    except Fault as fault:
        return str(fault)
    return ""


def of_an_event_log(clients: Clients, file: File) -> str:
    log = EventLog("app", file.place, (LogFile(file, "plain"),), is_open=True)
    return application_of(clients, log)[1] or ""


def of_a_log_of_requests(clients: Clients, file: File) -> str:
    *_, last = blocks(clients, file)
    return last.lacks


READERS = {
    "list": (of_a_list, LIST),
    "record": (of_a_record, b"{}"),
    "event log of Spark": (of_an_event_log, EVENTS),
    "log of requests": (of_a_log_of_requests, b"a request\nanother\n"),
}


@pytest.mark.parametrize(("read", "written"), READERS.values(), ids=READERS)
def test_a_short_response_is_a_fault(
    clients: Clients, bucket: str, read: Callable[[Clients, File], str], written: bytes
) -> None:
    put(bucket, "evidence", written)
    there = stat(clients, Location(bucket, "evidence"))
    assert there is not None
    assert read(clients, there) == ""
    with refusing(Refusals(lambda request: request.startswith("GET"), first=0, answer=SHORTENED)):
        assert f"{there.size} bytes" in read(clients, there)


@pytest.mark.parametrize(("size", "error"), [(0, None), (3, None), (4, CutOffError)])
@pytest.mark.parametrize("block", [1, 2, 100])
def test_a_stream_is_whole_if_it_has_as_many_bytes(
    size: int, error: type[Exception] | None, block: int
) -> None:
    stream = whole(BytesIO(b"abc"), size)
    read = iter(lambda: stream.read(block), b"")
    with pytest.raises(error, match="only 3 of its 4 bytes") if error else nullcontext():
        assert b"".join(read) == b"abc"
