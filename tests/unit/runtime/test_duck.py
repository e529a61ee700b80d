"""Relations are one statement each, and databases serve one task after the other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection

NUMBERS = pa.table({"n": [1, 2, 3]})


@pytest.fixture
def con() -> Iterator[Connection]:
    with duck.task_connection() as con:
        yield con


def numbers(con: Connection, sql: str, **named: duck.Rows) -> list[int]:
    return sorted(row["n"] for row in duck.rows_of(duck.query(con, sql, **named)))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT n + 10 AS n FROM input", [11, 12, 13]),
        ("FROM input WHERE n > 1", [2, 3]),
        ("WITH more AS (SELECT n * 2 AS n FROM input) FROM more", [2, 4, 6]),
        ("\n  WITH more AS (SELECT n * 2 AS n FROM input) FROM more", [2, 4, 6]),
        ("SELECT i.n FROM input i JOIN input j ON i.n = j.n + 1", [2, 3]),
    ],
)
def test_a_select_over_rows(con: Connection, sql: str, expected: list[int]) -> None:
    for rows in (NUMBERS, NUMBERS.to_batches()[0], NUMBERS.to_reader(), duck.hold(con, NUMBERS)):
        assert numbers(con, sql, input=rows) == expected


def test_a_name_is_that_of_the_select_it_is_given_to(con: Connection) -> None:
    """`input` and `other` stand for something else at each depth."""
    inner = duck.query(con, "SELECT n + 1 AS n FROM input", input=NUMBERS)
    middle = duck.query(con, "FROM input UNION ALL FROM other", input=inner, other=pa.table({"n": [50]}))
    outer = duck.query(con, "WITH more AS (FROM input) SELECT n * 10 AS n FROM more", input=middle)
    assert numbers(con, "FROM input UNION ALL FROM other", input=outer, other=middle) == [
        2,
        3,
        4,
        20,
        30,
        40,
        50,
        500,
    ]


def test_names_that_are_words_of_sql(con: Connection) -> None:
    assert numbers(con, "FROM rows UNION ALL FROM tables", rows=NUMBERS, tables=NUMBERS) == [1, 1, 2, 2, 3, 3]


def test_of_nothing_but_columns(con: Connection) -> None:
    rows = duck.relation(con, pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]).empty_table())
    assert rows.types == {"n": "BIGINT", "at": "TIMESTAMP WITH TIME ZONE"}
    assert duck.count_of(rows) == 0


def test_rows_that_are_held_are_computed_once(con: Connection) -> None:
    held = duck.hold(con, duck.query(con, "SELECT random() AS x"))
    assert duck.rows_of(held) == duck.rows_of(held)
    one, other = (duck.rows_of(duck.query(con, "SELECT random() AS x")) for _ in range(2))
    assert one != other


def test_what_a_task_held_goes_with_it() -> None:
    with duck.task_connection() as con:
        duck.hold(con, NUMBERS)
        tables = "SELECT count(*) AS n FROM duckdb_tables()"
        assert numbers(con, tables) == [1]
    with duck.task_connection() as con:
        assert numbers(con, tables) == [0]


def test_two_tasks_at_once_see_nothing_of_each_other() -> None:
    with duck.task_connection() as one, duck.task_connection() as other:
        held = duck.hold(one, NUMBERS)
        with pytest.raises(duck.DuckError, match="held_"):
            numbers(other, held.sql)


def test_a_database_in_which_something_failed_serves_nobody_else(tmp_path: Path) -> None:
    def marked(con: Connection) -> list[int]:
        return numbers(con, "SELECT count(*) AS n FROM duckdb_databases() WHERE database_name = 'mark'")

    with suppress(duck.DuckError), duck.task_connection("900MiB") as con:
        con.execute(f"ATTACH '{tmp_path}/mark.db' AS mark")
        numbers(con, "SELECT error('broken') AS n")
    with duck.task_connection("900MiB") as con:
        assert marked(con) == [0]
        con.execute(f"ATTACH '{tmp_path}/mark.db' AS mark")
    with duck.task_connection("900MiB") as con:
        assert marked(con) == [1]  # so the one above was a new one
        con.execute("DETACH mark")


def test_what_spills_lies_in_scratch_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with suppress(KeyError), duck.task_connection("64MiB") as con:
        rows = duck.query(con, "SELECT hash(range) AS h, range AS n FROM range(5_000_000)")
        duck.hold(con, rows)
        assert [path.name.startswith("lakeaudit-") for path in tmp_path.iterdir()] == [True]
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for text, expected in (("n\n1\n", [1]), ("n\n2\n", [2])):
        path.write_text(text)
        with duck.task_connection() as con:
            assert numbers(con, f"FROM read_csv('{path}')") == expected


def test_what_is_made_of_no_rows_is_known_to_be_none(con: Connection) -> None:
    nothing = duck.hold(con, duck.query(con, "FROM numbers WHERE n > 3", numbers=NUMBERS))
    made = duck.made_of(con, "SELECT n + 1 AS n FROM input", nothing)
    assert [duck.is_empty(rows) for rows in (nothing, made)] == [True, True]
    assert (duck.rows_of(made), duck.count_of(made)) == ([], 0)
    assert duck.conform(con, made, NUMBERS.schema).to_arrow_table() == NUMBERS.schema.empty_table()
    assert not duck.is_empty(duck.made_of(con, "FROM input", NUMBERS))


def test_rows_that_are_not_known_yet_are_not_taken_for_none(con: Connection) -> None:
    asked = duck.query(con, "FROM numbers WHERE n > 3", numbers=NUMBERS)
    assert (duck.known_count(asked), duck.are_few(asked, 100)) == (None, False)
    assert duck.known_count(duck.union(con, [NUMBERS, asked])) is None
    assert duck.known_count(duck.union(con, [NUMBERS, NUMBERS.slice(0, 0)])) == 3
    assert duck.rows_of(duck.query(con, "SELECT count(*) AS n FROM input", input=asked)) == [{"n": 0}]


def test_times_are_utc_wherever_the_machine_is() -> None:
    told = """from lakeaudit.runtime import duck
with duck.task_connection() as con:
    print(duck.rows_of(duck.query(con, "SELECT TIMESTAMPTZ '2026-11-21 12:00:00' AS at"))[0]["at"].isoformat())"""
    done = subprocess.run(
        [sys.executable, "-c", told], env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "2026-11-21T12:00:00+00:00"
