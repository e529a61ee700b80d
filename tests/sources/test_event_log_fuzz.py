"""Event logs in other spellings give the same rows; damaged ones give the rows before the damage, and a fault."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.spark_event_log import log_files
from lakeaudit.evidence.manifest.spark_event_log.rows import Homes, application_of, rows_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.event_logs import App, packed

NEVER = datetime.max.replace(tzinfo=UTC)
"""The time of a log that sets no bound on its events."""
OUT = "s3a://lake/wh/events"
HOMES = Homes({Location("lake", "wh/events"): "events"})
CODECS = ("plain", "zstd", "lz4", "snappy")
LogContent = tuple[dict[str, pa.Table], str | None]
few = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

amounts = st.tuples(st.integers(0, 500), st.integers(1, 90_000))
written = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 12), amounts, max_size=5),
        st.sampled_from(["Append", "Overwrite"]),
        st.fixed_dictionaries({}, optional={"by": st.just("day"), "error": st.just("boom"), "dynamic": st.booleans()}),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


def log_of(writes: list[tuple[dict[int, tuple[int, int]], str, dict[str, Any]]]) -> App:
    app = App()
    for splits, mode, how in writes:
        app.write(OUT, splits, mode, **how)
    return app.end()


def read_log(folder: Path) -> LogContent:
    """Return the rows of the one log of a folder, and why some are missing."""
    (log,) = log_files.find(Clients(), Location.parse(str(folder)))
    application, lacks = application_of(Clients(), log)
    return dict(rows_of(application, HOMES, None, NEVER)), lacks


def emptied(folder: Path) -> Path:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    return folder


def _more_fields(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "New In Spark 5": {"children": [1, None]}}


def _reversed(event: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(event.items()))


BENIGN: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "unknown fields": lambda events: _lines([_more_fields(event) for event in events]),
    "key order": lambda events: _lines([_reversed(event) for event in events]),
    "blanks": lambda events: b"\n".join(json.dumps(event).encode() for event in events),
    "CRLF": lambda events: _lines(events).replace(b"\n", b"\r\n"),
    "BOM": lambda events: b"\xef\xbb\xbf" + _lines(events),
    "empty lines": lambda events: _lines(events).replace(b"\n", b"\n\n"),
    "unknown events": lambda events: _lines([each for event in events for each in (event, {"Event": "New"})]),
    "letters as escapes": lambda events: _lines(events).replace(b"events", b"\\u0065vents"),
}


def _lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


@few
@given(written, st.sampled_from(sorted(BENIGN)), st.sampled_from(CODECS), st.integers(50, 5000))
def test_a_log_that_is_written_otherwise_says_the_same(
    tmp_path: Path, writes: Any, how: str, codec: str, block: int
) -> None:
    app = log_of(writes)
    app.save(emptied(tmp_path), "plain")
    expected = read_log(tmp_path)
    content = packed(BENIGN[how](app.events), codec, block)
    (emptied(tmp_path) / f"{app.id}{'' if codec == 'plain' else f'.{codec}'}").write_bytes(content)
    assert read_log(tmp_path) == expected
    assert expected[1] is None


@few
@given(written, st.sampled_from(CODECS), st.integers(1, 6))
def test_a_log_that_was_rolled_says_the_same(tmp_path: Path, writes: Any, codec: str, files: int) -> None:
    app = log_of(writes)
    app.save(emptied(tmp_path), "plain")
    expected = read_log(tmp_path)
    app.save(emptied(tmp_path), codec, rolled=files)
    assert read_log(tmp_path) == expected


@few
@given(written, st.sampled_from(CODECS), st.floats(0, 0.999))
def test_a_log_that_was_cut_off_is_reported(tmp_path: Path, writes: Any, codec: str, share: float) -> None:
    """Wherever it ends: within a block, within a line, between two events; what stands before it is read."""
    app = log_of(writes)
    app.save(emptied(tmp_path), "plain")
    whole, _ = read_log(tmp_path)
    path = app.save(emptied(tmp_path), codec)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    rows, lacks = read_log(tmp_path)
    assert lacks or rows == whole  # all but a line's end, or the mark of the end of a stream
    assert set(rows["writes"]["job"].to_pylist()) <= set(whole["writes"]["job"].to_pylist())


@few
@given(written, st.integers(2, 5), st.data())
def test_a_log_that_lacks_a_file_is_reported(
    tmp_path: Path, writes: Any, files: int, data: st.DataObject
) -> None:
    """The first one and the last one too."""
    app = log_of(writes)
    home = app.save(emptied(tmp_path), "zstd", rolled=files)
    there = sorted(home.glob("events_*"))
    data.draw(st.sampled_from(there)).unlink()
    assert read_log(tmp_path)[1]


ABSURD: tuple[Any, ...] = (
    -1,
    1 << 62,
    1 << 70,
    1e300,
    float("nan"),
    float("inf"),
    None,
    "many",
    [],
    {},
    "\ud800",
)
PLACES: dict[str, tuple[str, Callable[[dict[str, Any], Any], None]]] = {
    "bytes": (
        "SparkListenerTaskEnd",
        lambda e, v: e["Task Metrics"]["Output Metrics"].update({"Bytes Written": v}),
    ),
    "split": ("SparkListenerTaskEnd", lambda e, v: e["Task Info"].update({"Partition ID": v})),
    "time": ("SparkListenerSQLExecutionStart", lambda e, v: e.update(time=v)),
    "end": ("SparkListenerSQLExecutionEnd", lambda e, v: e.update(time=v)),
    "plan": ("SparkListenerSQLExecutionStart", lambda e, v: e["sparkPlanInfo"].update(simpleString=v)),
    "children": ("SparkListenerSQLExecutionStart", lambda e, v: e["sparkPlanInfo"].update(children=v)),
    "totals": ("SparkListenerDriverAccumUpdates", lambda e, v: e["accumUpdates"][0].__setitem__(1, v)),
    "stages": ("SparkListenerJobStart", lambda e, v: e.update({"Stage IDs": v})),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ABSURD, ids=repr)
def test_absurd_numbers_are_reported_or_change_nothing(tmp_path: Path, place: str, value: Any) -> None:
    app = log_of([({0: (10, 100), 1: (10, 100)}, "Append", {})])
    app.save(tmp_path, "plain")
    expected, _ = read_log(tmp_path)
    name, put = PLACES[place]
    put(next(event for event in reversed(app.events) if event["Event"].endswith(name)), value)
    app.save(tmp_path, "plain")
    rows, lacks = read_log(tmp_path)
    assert lacks or (place, value) in HARMLESS or rows == expected


HARMLESS = [("time", -1), ("end", -1), ("children", {}), ("plan", "many"), ("plan", "\ud800")]
"""A time that nobody knows; a plan that writes nothing."""

ENCODED: dict[str, Callable[[bytes], bytes]] = {
    "UTF-16": lambda lines: lines.decode().encode("utf-16"),
    "UTF-16 without a mark": lambda lines: lines.decode().encode("utf-16-le"),
    "Latin-1": lambda lines: lines.replace(b"events", b"\xe9v\xe9nements"),
    "another codec than its name says": lambda lines: packed(lines, "zstd"),
    "half characters": lambda lines: lines.replace(b"wh/events", b"wh/\\ud800"),
    "deeper than anybody can read": lambda lines: lines + b'{"Event":' + b"[" * 200_000 + b"\n",
    "no JSON": lambda lines: lines.replace(b":", b"="),
}


@pytest.mark.parametrize("how", ENCODED)
def test_a_wrong_encoding_is_reported(tmp_path: Path, how: str) -> None:
    app = log_of([({0: (10, 100), 1: (10, 100)}, "Append", {})])
    (tmp_path / app.id).write_bytes(ENCODED[how](_lines(app.events)))
    assert read_log(tmp_path)[1]
