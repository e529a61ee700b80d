"""A part whose reading fails is an evidence gap of its source, in either engine, and the other parts are read."""

import errno
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakeaudit.collect.read_sources import _Reading
from lakeaudit.engine.chunks import FAULTS, WHOLE, read_guarded
from lakeaudit.engine.encoded_chunks import chunks_of, read_parts
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import CannotPublish, SourceError
from lakeaudit.evidence.protocol import Batches, EvidenceGap, Part, SourceInfo, Stored
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.threads import beside
from tests.builders.resources import small_files

ROWS = pa.table({"bucket": ["b"], "key": ["k"]})
DUCK = "SELECT error('broken')"
SPILLING = "CREATE TEMP TABLE x AS SELECT md5(i::VARCHAR) AS m FROM range(3_000_000) t(i) ORDER BY m"


def _sound(con: Connection) -> Batches:
    yield "versions", ROWS


def _failing(error: Exception, con: Connection) -> Batches:
    yield "versions", ROWS
    raise error


def _asking(sql: str, con: Connection) -> Batches:
    yield "versions", ROWS
    con.execute(sql).fetchall()


def part(read: object, subject: str = "") -> Part:
    return Part("storage:0", read, subject=subject)  # type: ignore[arg-type]


ERRORS: dict[str, tuple[object, str]] = {
    "a library's own": (partial(_failing, ValueError("bad page")), "it cannot be read: ValueError: bad page"),
    "memory": (
        partial(_failing, MemoryError()),
        "it cannot be read in the memory that one task has (1 GiB): it, or one value of it, is too large",
    ),
    "depth": (partial(_failing, RecursionError("x")), "it cannot be read: it is nested too deeply"),
    "DuckDB": (
        partial(_asking, DUCK),
        "it cannot be read: InvalidInputException: Invalid Input Error: broken",
    ),
    "a source": (partial(_failing, SourceError("s3://b/k", "access denied", "grant it")), "access denied"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_what_fails_is_a_note_and_the_rest_is_read(what: str) -> None:
    read, reason = ERRORS[what]
    answers = list(InProcessEngine(1).run([part(_sound), part(read, "s3://b/k")], [_count]))
    notes = [row for kind, batch in answers if kind == "notes" for row in batch.to_pylist()]
    assert [(note["source"], note["subject"], note["reason"]) for note in notes] == [
        ("storage:0", "s3://b/k", reason)
    ]
    assert [batch.to_pylist() for kind, batch in answers if kind == "counts"] == [[{"rows": 2}]]


def _count(_: Connection, rows: object) -> Iterator[tuple[str, pa.Table]]:
    yield "counts", pa.table({"rows": [rows["versions"].num_rows]})  # type: ignore[index]


def test_rows_that_are_kept_are_whole_or_their_source_cannot_be_read() -> None:
    with pytest.raises(SourceError, match="s3://b/k: it cannot be read: KeyError"):
        InProcessEngine(1).keep([part(_sound), part(partial(_failing, KeyError("x")), "s3://b/k")])


def test_a_task_of_spark_gives_the_same() -> None:
    parts = [part(_sound), part(partial(_failing, TypeError("x")), "s3://b/k"), part(_sound)]
    given = pa.RecordBatch.from_pydict({"parts": [pickle.dumps(parts)]})
    chunks = [chunk for batch in read_parts(1, WHOLE, iter([given])) for chunk in chunks_of(batch)]
    assert sum(chunk.batch.num_rows for chunk in chunks if chunk.kind == "versions") == 3
    (fault,) = [chunk for chunk in chunks if chunk.kind == FAULTS]
    assert fault.batch.to_pylist()[0]["reason"] == "it cannot be read: TypeError: x"


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), CannotPublish("results", "denied", "")])
def test_an_error_not_caused_by_the_content_ends_the_run(error: Exception) -> None:
    with pytest.raises(type(error)):
        list(read_guarded(part(partial(_failing, error)), 1))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_ends_the_run_and_is_named(
    code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with pytest.raises(CannotPublish, match=f"scratch folder {tmp_path}: the disk is full") as raised:
        list(read_guarded(part(partial(_failing, OSError(code, "full"))), 1))
    assert raised.value.exit_code == 14


def test_a_query_that_cannot_spill_names_the_scratch_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    spilling = partial(_asking, f"SET memory_limit = '60MB'; {SPILLING}")
    with small_files(1 << 20), pytest.raises(CannotPublish, match=f"scratch folder {tmp_path}"):
        list(read_guarded(part(spilling), 1))


def test_a_source_whose_reader_fails_is_an_evidence_gap_and_the_others_are_read() -> None:
    about = SourceInfo("storage:0", "storage", "listing", "s3://b/", "", None)
    reading = _Reading()
    with beside(1) as pool:
        assert reading.collect_all([(about, pool.submit(_broken))]) == []
    assert reading.holes == [
        EvidenceGap("storage:0", "it cannot be read: LookupError: no such thing", "s3://b/")
    ]
    assert [info.identity for info in reading.infos] == ["unreadable"]


def _broken() -> Stored:
    raise LookupError("no such thing")
