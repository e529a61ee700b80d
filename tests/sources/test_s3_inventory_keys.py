"""Any key is the same key through every format of S3 Inventory, and CSV keys are decoded exactly once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.storage.inventory.columns import decoded_key_sql
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import task_connection
from tests.builders.examples import examples
from tests.builders.inventory import WRITERS, Version, into, lay
from tests.sources.storage_contract import stored_rows
from tests.sources.test_s3_inventory import read

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text(min_size=1, max_size=40)
ODD = st.lists(
    st.sampled_from(["%", "+", " ", "/", "//", "%41", "%zz", "%25", "a", "é", "\ufffd", '"', ","]), min_size=1
)
KEYS = st.one_of(TEXT, ODD.map("".join))


def decoded(raw: Sequence[str]) -> list[str | None]:
    """Texts through the product's own expression, in order."""
    with task_connection() as con:
        rows = pa.table({"i": range(len(raw)), "raw": raw})
        query = f"SELECT {decoded_key_sql('raw')} AS key FROM rows ORDER BY i"
        return [row["key"] for row in duck.rows_of(duck.query(con, query, rows=rows))]


@examples(10, 500)
@given(keys=st.lists(KEYS, min_size=40, max_size=120))
def test_form_encoding_and_decoding_are_one_round_trip(keys: list[str]) -> None:
    written = [quote_plus(key, safe="/") for key in keys]
    percent_only = [quote(key, safe="/") for key in keys]
    assert decoded(written + percent_only) == keys + keys


@examples(10, 500)
@given(noise=st.lists(st.binary(min_size=1, max_size=6), min_size=40, max_size=120))
def test_escaped_bytes_are_a_key_exactly_if_they_are_utf8(noise: list[bytes]) -> None:
    def text(raw: bytes) -> str | None:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    assert decoded(["".join(f"%{byte:02x}" for byte in raw) for raw in noise]) == [text(raw) for raw in noise]


def test_decoding_happens_once() -> None:
    assert decoded(["%2541", "a%252Fb", "%2B+%2b"]) == ["%41", "a%2Fb", "+ +"]


@examples(2, 50)
@given(keys=st.lists(KEYS.filter(lambda key: "\x00" not in key), min_size=30, max_size=60, unique=True))
def test_a_key_is_the_same_through_every_format(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    found = {}
    for form, write in WRITERS.items():
        folder: Path = tmp_path_factory.mktemp(form)
        lay(into(folder), [write([Version(key) for key in keys])], form=form)
        found[form] = {(row["key"], row["presence"]) for row in stored_rows(read(folder / "inv"))}
    assert found["CSV"] == found["ORC"] == found["Parquet"] == {(key, "present") for key in keys}
