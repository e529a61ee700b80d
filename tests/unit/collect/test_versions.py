"""The fold of object versions to one row per key, against a plain twin that reads one key at a time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import STORED, VERSION
from tests.builders.connections import connection

Row = dict[str, Any]
LATEST = [
    *("size", "etag", "version_id", "modified_at"),
    *("storage_class", "archived", "multipart", "encryption"),
]
LIVE = "listing"
TIMES = [
    datetime(*time, tzinfo=UTC).replace(tzinfo=None)
    for time in [(2024, 5, 7, 0, 0, 0, 0), (2024, 5, 7, 0, 0, 0, 1), (1969, 1, 1, 0, 0, 0, 0)]
]
FLAGS = st.sampled_from([True, False, None])
VERSIONS = st.fixed_dictionaries(
    {
        "source": st.sampled_from([LIVE, "inventory"]),
        "bucket": st.sampled_from(["", "b"]),
        "key": st.sampled_from(["k", "nul\0"]),
        "version_id": st.sampled_from([None, "null", "", "a", "ab", "z", "ß"]),
        "is_latest": FLAGS,
        "is_delete_marker": FLAGS,
        "size": st.sampled_from([None, 0, 5, -1]),
        "etag": st.sampled_from([None, "", "e", "é"]),
        "modified_at": st.sampled_from([None, *TIMES]),
        "storage_class": st.sampled_from([None, "STANDARD"]),
        "archived": FLAGS,
        "multipart": FLAGS,
        "encryption": st.sampled_from([None, "SSE-C"]),
    }
)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def twin(versions: list[Row], repeats: list[str], older_alone: list[str]) -> list[Row]:
    """Return the rows of `one_row_per_key` by key."""
    keys: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in versions:
        keys[row["source"], row["bucket"], row["key"]].append(row)
    return [
        one(rows, repeated=source in repeats, may_be_gone=source in older_alone)
        for (source, _, _), rows in keys.items()
    ]


def one(rows: list[Row], *, repeated: bool, may_be_gone: bool) -> Row:
    latest = [row for row in rows if row["is_latest"]]
    names = {version(row) for row in latest}
    newest: Row = max(latest, key=order("is_delete_marker", *LATEST), default={})
    clear = (len(names) if repeated else len(latest)) == 1 and newest["is_delete_marker"] is not None
    marker = newest["is_delete_marker"] if clear else None
    older = [row for row in rows if row["is_latest"] is False and row["is_delete_marker"] is False]
    gone = may_be_gone and len(older) == len(rows)
    recoverable: Row = max(older, key=order("size", "storage_class", "archived"), default={})
    return {
        **{name: rows[0][name] for name in ("source", "bucket", "key")},
        "presence": "absent" if gone else {None: "unclear", True: "absent", False: "present"}[marker],
        **{name: newest[name] if clear else None for name in LATEST},
        "checksum": None,
        "delete_marker": marker,
        "older_version_id": version(recoverable) if recoverable else None,
        "older_size": recoverable.get("size"),
        "older_class": recoverable.get("storage_class") if recoverable.get("archived") else None,
        "older_since": newest["modified_at"] if clear and replaced_by_latest(rows, recoverable) else None,
    }


def replaced_by_latest(rows: list[Row], older: Row) -> bool:
    """Whether no marker that is not the latest is as new as the older version."""
    markers = [row["modified_at"] for row in rows if row["is_latest"] is False and row["is_delete_marker"]]
    known = [at for at in markers if at is not None]
    at = older.get("modified_at")
    return bool(older) and (not known or (at is not None and max(known) < at))


def version(row: Row) -> str:
    return "null" if row["version_id"] is None else str(row["version_id"])


def order(*columns: str) -> Any:
    """Nulls before everything, texts by their bytes."""

    def comparable(value: Any) -> Any:
        return value is not None, value.encode() if isinstance(value, str) else value

    return lambda row: [
        comparable(each) for each in (row["modified_at"], version(row), *(row[c] for c in columns))
    ]


def grouped_rows(
    con: Connection, versions: list[Row], repeats: list[str], older_alone: Sequence[str] = ()
) -> list[Row]:
    rows = one_row_per_key(con, pa.Table.from_pylist(versions, VERSION), repeats, older_alone)
    return duck.rows_of(rows)


def by_key(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["source"], row["bucket"], row["key"]))


NAMED = st.sampled_from([[], [LIVE]])


@given(versions=st.lists(VERSIONS, max_size=16), repeats=NAMED, older_alone=NAMED)
def test_one_row_per_key_agrees_with_its_plain_twin(
    con: Connection, versions: list[Row], repeats: list[str], older_alone: list[str]
) -> None:
    found = grouped_rows(con, versions, repeats, older_alone)
    assert by_key(found) == by_key(twin(versions, repeats, older_alone))


@given(
    versions=st.lists(VERSIONS, max_size=8, unique_by=lambda row: (row["source"], row["bucket"], row["key"])),
    older_alone=NAMED,
)
def test_keys_with_one_version_agree_with_the_plain_twin(
    con: Connection, versions: list[Row], older_alone: list[str]
) -> None:
    assert by_key(grouped_rows(con, versions, [], older_alone)) == by_key(twin(versions, [], older_alone))


def row(**given: Any) -> Row:
    usual = {"source": LIVE, "bucket": "b", "key": "k", "is_latest": True, "is_delete_marker": False}
    return dict.fromkeys(VERSION.names) | usual | {"modified_at": TIMES[0]} | given


CASES: list[tuple[str, list[Row], Row]] = [
    ("one version", [row(size=1)], {"presence": "present", "size": 1, "delete_marker": False}),
    ("a delete marker", [row(is_delete_marker=True)], {"presence": "absent", "delete_marker": True}),
    ("no flag of latest", [row(is_latest=None, size=1)], {"presence": "unclear", "size": None}),
    ("no flag of marker", [row(is_delete_marker=None, size=1)], {"presence": "unclear", "size": None}),
    (
        "older alone",
        [row(is_latest=False, size=3)],
        {"presence": "unclear", "older_version_id": "null", "older_size": 3},
    ),
    (
        "an older marker is not recoverable",
        [row(is_latest=False, is_delete_marker=True)],
        {"older_version_id": None},
    ),
    (
        "replaced by what is there now",
        [row(modified_at=TIMES[1]), row(is_latest=False, version_id="a", size=3)],
        {"older_size": 3, "older_since": TIMES[1]},
    ),
    (
        "replaced by a marker",
        [row(is_delete_marker=True, modified_at=TIMES[1]), row(is_latest=False, version_id="a")],
        {"presence": "absent", "older_version_id": "a", "older_since": TIMES[1]},
    ),
    (
        "deleted, and written again: the time of the deletion is not known",
        [
            row(modified_at=TIMES[1]),
            row(is_latest=False, is_delete_marker=True),
            row(is_latest=False, version_id="a", modified_at=TIMES[2]),
        ],
        {"older_version_id": "a", "older_since": None},
    ),
    (
        "written after it had been deleted before",
        [
            row(is_delete_marker=True, modified_at=TIMES[1]),
            row(is_latest=False, version_id="a"),
            row(is_latest=False, is_delete_marker=True, version_id="b", modified_at=TIMES[2]),
        ],
        {"older_version_id": "a", "older_since": TIMES[1]},
    ),
    ("named twice", [row(version_id="a", size=1)] * 2, {"presence": "present", "size": 1}),
    ("two latest", [row(version_id="a"), row(version_id="b")], {"presence": "unclear", "version_id": None}),
    (
        "the null version was written again meanwhile",
        [row(size=1), row(size=2, modified_at=TIMES[1])],
        {"presence": "present", "size": 2},
    ),
    (
        "the version id decides between equal times",
        [row(), row(is_latest=False, version_id="a", size=9), row(is_latest=False, version_id="b", size=1)],
        {"older_version_id": "b", "older_size": 1},
    ),
]


@pytest.mark.parametrize(
    ("versions", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_presence_and_what_can_come_back(con: Connection, versions: list[Row], expected: Row) -> None:
    (found,) = grouped_rows(con, versions, [LIVE])
    assert {name: found[name] for name in expected} == expected


def test_without_repeats_a_version_named_twice_is_unclear(con: Connection) -> None:
    assert [each["presence"] for each in grouped_rows(con, [row(version_id="a")] * 2, [])] == ["unclear"]


def test_sources_stay_apart(con: Connection) -> None:
    rows = grouped_rows(con, [row(), row(source="inventory", is_delete_marker=True)], [])
    assert {each["source"]: each["presence"] for each in rows} == {LIVE: "present", "inventory": "absent"}


def test_every_sort_of_rows_gives_the_columns_of_stored(con: Connection) -> None:
    table = pa.Table.from_pylist([row(), row(key="other")], VERSION)
    sorts = [
        table,
        table.to_batches()[0],
        table.to_reader(),
        duck.relation(con, table),
        VERSION.empty_table(),
    ]
    tables = [duck.table(one_row_per_key(con, rows)) for rows in sorts]
    assert all(each.schema.equals(STORED) for each in tables)
    assert [each.num_rows for each in tables] == [2, 2, 2, 2, 0]
