"""`Frame`: rows as tables of several libraries, and as a notebook shows them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeaudit.api.frame import SHOWN, Frame, frame_of_rows
from lakeaudit.errors import CannotAudit

SCHEMA = pa.schema([("key", pa.string()), ("rows", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
AT = datetime(2026, 11, 27, 1, 2, 3, tzinfo=UTC)


def rows(number: int) -> list[dict[str, Any]]:
    return [{"key": f"part-{n}", "rows": None if n % 2 else n, "at": AT} for n in range(number)]


def frame(number: int) -> Frame:
    return frame_of_rows(SCHEMA, lambda: rows(number), ("key", "at"))


@pytest.mark.parametrize("number", [0, 1, 5, SHOWN + 1, 9000])
def test_every_form_has_the_same_rows(number: int) -> None:
    made = frame(number)
    assert made.to_dicts() == rows(number) == [*made]
    assert (len(made), bool(made)) == (number, number > 0)
    assert made.arrow().schema.equals(SCHEMA)
    assert made.arrow().to_pylist() == rows(number)
    assert [*made.pandas().columns] == SCHEMA.names
    assert len(made.pandas()) == number
    stream = pa.RecordBatchReader.from_stream(made)
    assert duckdb.from_arrow(stream).aggregate("count(*)").fetchall() == [(number,)]


def test_polars_takes_a_frame_or_the_message_names_it() -> None:
    try:
        import polars as pl
    except ModuleNotFoundError:
        with pytest.raises(CannotAudit, match="polars: is not installed; pip install polars"):
            frame(3).polars()
    else:
        assert frame(3).polars().to_dicts() == pl.DataFrame(frame(3)).to_dicts() == rows(3)


def test_rows_are_read_batch_by_batch() -> None:
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(3):
            read.append(n)
            yield pa.RecordBatch.from_pylist(rows(2), schema=SCHEMA)

    made = Frame(SCHEMA, batches)
    assert bool(made)
    assert read == [0]


def test_a_notebook_and_a_terminal_show_the_first_rows_of_the_chosen_columns() -> None:
    html, text = frame(SHOWN + 1)._repr_html_(), repr(frame(SHOWN + 1))
    for shown in (html, text):
        assert f"part-{SHOWN - 1}" in shown
        assert f"part-{SHOWN}" not in shown
        assert f"{SHOWN + 1} rows, the first {SHOWN} are shown" in shown
        assert "2026-11-27 01:02:03Z" in shown
    assert html.count("<th>") == 2
    assert repr(frame(1)).endswith("1 row")


@pytest.mark.parametrize(
    "key", ["<script>x</script>", "a\x1b[31mred", "line\nbreak", "\u202egnp.exe", "[bold]x[/bold]"]
)
def test_values_are_text_and_never_markup_or_control(key: str) -> None:
    made = frame_of_rows(SCHEMA, lambda: [{"key": key, "rows": 1, "at": AT}])
    assert "<script>" not in made._repr_html_()
    for shown in (made._repr_html_(), repr(made)):
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert ("[bold]x[/bold]" in repr(made)) == ("[bold]" in key)
    assert made.to_dicts()[0]["key"] == key
