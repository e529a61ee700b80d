"""Grouping of event manifests: chosen cases, and random histories compared with a simple replay."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.engine.chunks import routed
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.file_list.fold import ACTS, EVENT, EVENTS
from lakeaudit.evidence.manifest.file_list.list_part import Summaries
from lakeaudit.evidence.manifest.file_list.point_lookup import fold_one
from lakeaudit.evidence.manifest.file_list.read_lines import ListFile
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection
from tests.builders.examples import examples

START = datetime(2026, 11, 21, tzinfo=UTC)


class Event(NamedTuple):
    """`hour` of the event, its list and line; `fault` makes it a row that nobody understood."""

    hour: int
    list_no: int
    line: int
    action: str
    key: str | None = None
    scope: str | None = None
    fault: bool = False

    @property
    def order(self) -> tuple[int, int, int]:
        return self.hour, self.list_no, self.line


class Claim(NamedTuple):
    state: str
    added: int | None
    removed: int | None
    size: int | None
    certain: bool = True


def below(scope: str | None, keys: Iterable[str]) -> list[str]:
    """The keys strictly under a scope; no scope holds none."""
    folder = f"{scope}/" if scope else ""
    return [key for key in keys if scope is not None and key.startswith(folder) and key != folder]


def replay(history: Sequence[Event]) -> dict[str, Claim]:
    """Return the state of every path after all events, applied one after the other."""
    claims: dict[str, Claim] = {}
    settled: dict[str, tuple[int, int, int]] = {}
    acts: set[tuple[int, int, str | None]] = set()

    def settle(key: str, claim: Claim, event: Event) -> None:
        claims[key], settled[key] = claim, event.order

    def retire(key: str, event: Event) -> None:
        old = claims.get(key, Claim("live", None, None, event.line))
        if old.state == "live":
            settle(key, old._replace(state="gone", removed=event.hour), event)

    for event in sorted((event for event in history if not event.fault), key=lambda each: each.order):
        act = (event.hour, event.list_no, event.scope)
        for key in below(event.scope, claims) if act not in acts else []:
            retire(key, event)
        acts.add(act)
        if event.key is not None and event.action == "remove":
            retire(event.key, event)
        elif event.key is not None:
            settle(event.key, Claim("live", event.hour, None, event.line), event)
    lost = [event for event in history if event.fault]
    doubts = {key: [e.order for e in lost if e.key in (None, key)] for key in claims}
    return {key: c._replace(certain=all(d < settled[key] for d in doubts[key])) for key, c in claims.items()}


def row_of(event: Event) -> dict[str, Any]:
    """Holds the fields of fold.EVENT; the line is also its size."""
    return {
        "list_no": event.list_no,
        "line": event.line,
        "at": START + timedelta(hours=event.hour),
        "action": None if event.fault else event.action,
        "bucket": None if event.key is None else "b",
        "key": event.key,
        "scope_bucket": None if event.scope is None else "b",
        "scope_key": event.scope,
        "size": event.line,
        "commit_id": None,
        "fault": "lost" if event.fault else None,
    }


def tables(histories: Sequence[Sequence[Event]]) -> dict[str, pa.Table]:
    """Rows of both kinds; every history is the table of its number, with lists of its own."""
    rows = [
        row_of(event) | {"table_name": str(table), "list_no": table * LISTS + event.list_no, "unread": False}
        for table, history in enumerate(histories)
        for event in history
    ]
    events = pa.Table.from_pylist(rows, pa.schema(EVENT.items()))
    summaries = Summaries({number: list_file(number) for number in range(len(histories) * LISTS)}, "m")
    for at in range(0, events.num_rows, 7):  # acts come in pieces
        summaries.add(events.slice(at, 7))
    lost = [row for row in rows if row["fault"] and row["key"] is None]
    doubts = pa.Table.from_pylist([row | {"source": "m"} for row in lost], ACTS)
    return {
        "events": events.filter(events.column("key").is_valid()).add_column(0, "source", pa.array(["m"]).take(
            pa.array([0] * sum(row["key"] is not None for row in rows), pa.int64()))),
        "acts": pa.concat_tables([summaries.take_acts(), doubts]),
    }  # fmt: skip


LISTS = 10


def list_file(number: int) -> ListFile:
    place = Location("lists", str(number))
    return ListFile(str(number // LISTS), Location("b", "t"), place, number, START, None, whole=False)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    con = connection()
    yield con
    con.close()


def hours(at: datetime | None) -> int | None:
    return None if at is None else (at.replace(tzinfo=UTC) - START) // timedelta(hours=1)


def shares(con: Connection, kinds: Mapping[str, pa.Table], count: int) -> list[dict[str, pa.Table]]:
    """As an engine brings rows to the shares of the keys; a kind without rows in a share is not there."""
    held: list[dict[str, list[pa.RecordBatch]]] = [{} for _ in range(count)]
    for kind, table in kinds.items():
        for batch in table.to_batches():
            for chunk in routed(con, kind, batch, count):
                held[chunk.share].setdefault(kind, []).append(chunk.batch)
    return [{kind: pa.Table.from_batches(batches) for kind, batches in share.items()} for share in held]


def fold_histories(
    con: Connection, histories: Sequence[Sequence[Event]], count: int = 1
) -> list[dict[str, Claim]]:
    found: list[dict[str, Claim]] = [{} for _ in histories]
    for share in shares(con, tables(histories), count):
        for row in duck.rows_of(fold.claims(con, share, source="m")):
            of_table = found[int(row["table_name"])]
            assert row["key"] not in of_table
            at = (hours(row["claimed_at"]), hours(row["removed_at"]))
            of_table[row["key"]] = Claim(row["state"], *at, row["size"], row["certain"])
    return found


def add(hour: int, key: str, *, list_no: int = 0, line: int = 1) -> Event:
    return Event(hour, list_no, line, "add", key)


def remove(hour: int, key: str, *, list_no: int = 0, line: int = 1) -> Event:
    return Event(hour, list_no, line, "remove", key)


def replace(hour: int, scope: str, key: str | None = None, *, list_no: int = 0, line: int = 1) -> Event:
    return Event(hour, list_no, line, "replace", key, scope)


def faulty(hour: int, key: str | None = None, *, list_no: int = 0, line: int = 1) -> Event:
    return Event(hour, list_no, line, "add", key, fault=True)


CASES: list[tuple[str, list[Event], dict[str, Claim]]] = [
    ("nothing", [], {}),
    ("written", [add(1, "t/a")], {"t/a": Claim("live", 1, None, 1)}),
    ("written again", [add(1, "t/a", line=7), add(2, "t/a", line=8)], {"t/a": Claim("live", 2, None, 8)}),
    ("removed", [add(1, "t/a"), remove(2, "t/a")], {"t/a": Claim("gone", 1, 2, 1)}),
    ("removed twice", [add(1, "t/a"), remove(2, "t/a"), remove(5, "t/a")], {"t/a": Claim("gone", 1, 2, 1)}),
    ("removed before it was written", [remove(1, "t/a"), add(2, "t/a")], {"t/a": Claim("live", 2, None, 1)}),
    ("removed, written by nobody here", [remove(3, "t/a", line=9)], {"t/a": Claim("gone", None, 3, 9)}),
    ("removed twice, written by nobody here", [remove(3, "t/a", line=9), remove(4, "t/a"), faulty(1, "t/a")], {
        "t/a": Claim("gone", None, 3, 9)}),
    ("back again", [add(1, "t/a"), remove(2, "t/a"), add(3, "t/a")], {"t/a": Claim("live", 3, None, 1)}),
    ("one time: the list decides", [remove(1, "t/a", list_no=1), add(1, "t/a")], {"t/a": Claim("gone", 1, 1, 1)}),
    ("one list: the line decides", [remove(1, "t/a"), add(1, "t/a", line=2)], {"t/a": Claim("live", 1, None, 2)}),
    (
        "an overwrite retires what lies under it, at a path boundary",
        [add(1, "t/d/a"), add(1, "t/d2/a", line=2), add(1, "t/d", line=3), replace(2, "t/d", "t/d/n")],
        {
            "t/d/a": Claim("gone", 1, 2, 1),
            "t/d2/a": Claim("live", 1, None, 2),
            "t/d": Claim("live", 1, None, 3),
            "t/d/n": Claim("live", 2, None, 1),
        },
    ),
    (
        "an overwrite of many files, each row saying so, is one",
        [add(1, "t/a"), *(replace(2, "t", f"t/{n}", line=n) for n in range(2, 5))],
        {"t/a": Claim("gone", 1, 2, 1)} | {f"t/{n}": Claim("live", 2, None, n) for n in range(2, 5)},
    ),
    (
        "rows before the overwrite in its own list are earlier",
        [add(2, "t/a", line=1), replace(2, "t", line=2), add(2, "t/b", line=3)],
        {"t/a": Claim("gone", 2, 2, 1), "t/b": Claim("live", 2, None, 3)},
    ),
    ("the first of two overwrites", [add(1, "t/d/a"), replace(2, "t"), replace(3, "t/d")], {
        "t/d/a": Claim("gone", 1, 2, 1)}),
    ("the next of many overwrites", [*(replace(n, "t") for n in range(1, 30)), add(17, "t/a", list_no=1)], {
        "t/a": Claim("gone", 17, 18, 1)}),
    ("written after the overwrite", [replace(2, ""), add(3, "t/a")], {"t/a": Claim("live", 3, None, 1)}),
    ("a late list of an early job", [add(1, "t/a", list_no=9), replace(2, "t", list_no=1)], {
        "t/a": Claim("gone", 1, 2, 1)}),
    ("double slashes", [add(1, "t//a"), add(1, "t/a", line=2), replace(2, "t/")], {
        "t//a": Claim("gone", 1, 2, 1), "t/a": Claim("live", 1, None, 2)}),
    ("a lost row casts doubt on what was before it", [add(1, "t/a"), faulty(2), add(3, "t/b")], {
        "t/a": Claim("live", 1, None, 1, certain=False), "t/b": Claim("live", 3, None, 1)}),
    ("a row lost in part only on its own path", [add(1, "t/a"), add(1, "t/b", line=2), faulty(2, "t/a")], {
        "t/a": Claim("live", 1, None, 1, certain=False), "t/b": Claim("live", 1, None, 2)}),
    ("a lost row names no file", [faulty(1, "t/a"), faulty(2)], {}),
]  # fmt: skip


@pytest.mark.parametrize("count", [1, 3])
def test_told_histories(con: Connection, count: int) -> None:
    found = fold_histories(con, [history for _, history, _ in CASES], count)
    assert dict(zip([what for what, _, _ in CASES], found, strict=True)) == {
        what: left for what, _, left in CASES
    }


def test_the_replay_agrees_with_the_told_histories() -> None:
    assert {what: replay(history) for what, history, _ in CASES} == {what: left for what, _, left in CASES}


KEYS = st.sampled_from(["a", "a/b", "a/b/c", "a/bc", "a//b", "ab/c", "a/b/c/d", "a b/%2F", "é/b"])
ACTIONS = st.sampled_from(["add", "add", "remove", "replace", "bare", "lost"])
SCOPES = st.sampled_from(["", "a", "a/b", "a/", "é", "ab", "a/b/c"])


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3), st.integers(0, 2), ACTIONS,
                KEYS, SCOPES, st.booleans(),
            ),
            max_size=14,
        )
    )  # fmt: skip
    events = []
    for line, (hour, list_no, what, key, scope, known) in enumerate(drawn, 1):
        if what == "lost":
            events.append(faulty(hour, key if known else None, list_no=list_no, line=line))
        elif what in ("replace", "bare"):
            events.append(
                replace(hour, scope, key if what == "replace" else None, list_no=list_no, line=line)
            )
        else:
            events.append(Event(hour, list_no, line, what, key))
    return events


def answer_of(history: Sequence[Event], key: str) -> str:
    claim = replay(history).get(key)
    doubted = any(event.fault and event.key in (None, key) for event in history)
    if claim is None:
        return "unknown" if doubted else "absent"
    return ("present" if claim.state == "live" else "deleted") if claim.certain else "unknown"


@examples(80, 300)
@given(histories())
def test_one_file_alone_folds_as_it_replays(history: list[Event]) -> None:
    rows = [row_of(event) | {"list": str(event.list_no)} for event in history]
    named = {event.key for event in history if event.key} | {"never/named"}
    told = {key: fold_one(rows, "b", key)[0] for key in named}
    assert told == {key: answer_of(history, key) for key in named}


@given(histories())
def test_a_random_history_folds_as_it_replays(con: Connection, history: list[Event]) -> None:
    assert fold_histories(con, [history]) == [replay(history)]


@examples(3, 100)
@given(st.lists(histories(), min_size=60, max_size=60))
def test_random_histories_fold_share_by_share(con: Connection, drawn: list[list[Event]]) -> None:
    found = fold_histories(con, drawn, 3)
    differ = [(history, got) for history, got in zip(drawn, found, strict=True) if got != replay(history)]
    assert min(differ, key=lambda each: len(each[0]), default=None) is None


def test_no_event_at_all(con: Connection) -> None:
    for kinds in ({}, {"acts": ACTS.empty_table()}, {"events": EVENTS.empty_table()}):
        assert duck.rows_of(fold.claims(con, kinds, source="m")) == []


def test_tables_that_are_left_out(con: Connection) -> None:
    kinds = tables([[add(1, "t/a")], [add(1, "t/b")]])
    rows = duck.rows_of(fold.claims(con, kinds, source="m", left_out=("0", "it's")))
    assert [(row["source"], row["manifest_kind"], row["key"]) for row in rows] == [("m", "file_list", "t/b")]


def test_very_many_acts_of_one_scope(con: Connection) -> None:
    """Each path is retired by the act after its write, though there are as many acts as paths."""
    count = 20_000
    sql = f"""SELECT 'm' AS source, 't' AS table_name, i % 7 AS list_no, i AS line, 's' AS scope_key,
        TIMESTAMP '2026-01-01' + to_seconds(2 * i + {{shift}}) AS "at", 'b' AS scope_bucket, 'b' AS bucket,
        's/' || i AS key, 'add' AS action, * FROM range({count}) AS r(i), (SELECT {{nulls}})"""
    nulls = ", ".join(f"NULL AS {name}" for name in EVENT if name in EMPTY)
    events = con.sql(sql.format(shift=0, nulls=nulls)).project(
        ", ".join(f'"{name}"' for name in EVENTS.names)
    )
    acts = con.sql(sql.format(shift=1, nulls=nulls)).project(", ".join(f'"{name}"' for name in ACTS.names))
    rows = {"events": events.to_arrow_table().cast(EVENTS), "acts": acts.to_arrow_table().cast(ACTS)}
    late = "SELECT count(*) AS n FROM claims WHERE removed_at - claimed_at = INTERVAL 1 SECOND"
    assert duck.rows_of(duck.query(con, late, claims=fold.claims(con, rows, source="m"))) == [{"n": count}]


EMPTY = {
    *("partition_path", "own_root", "size", "etag", "version_id", "checksum", "records", "commit_id"),
    *("fault", "unread"),
}
