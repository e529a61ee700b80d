"""Any key is the same key through every format of S3 Inventory, and CSV keys are decoded exactly once."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.evidence.storage.inventory_columns import decoded_key
from tests.builders.inventory import WRITERS, Version, into, lay
from tests.sources.test_s3_inventory import read

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text(min_size=1, max_size=40)
ODD = st.lists(
    st.sampled_from(["%", "+", " ", "/", "//", "%41", "%zz", "%25", "a", "é", "\ufffd", '"', ","]), min_size=1
)
KEYS = st.one_of(TEXT, ODD.map("".join))


def decoded(spark: SparkSession, raw: Iterable[str]) -> list[str | None]:
    """A few short texts through the product's own column, in order."""
    rows = spark.createDataFrame([(i, text) for i, text in enumerate(raw)], "i int, raw string")
    return [row[1] for row in rows.select("i", decoded_key(F.col("raw"))).orderBy("i").collect()]


@limits(max_examples=3)
@given(keys=st.lists(KEYS, min_size=40, max_size=120))
def test_form_encoding_and_decoding_are_one_round_trip(spark: SparkSession, keys: list[str]) -> None:
    written = [quote_plus(key, safe="/") for key in keys]
    percent_only = [quote(key, safe="/") for key in keys]
    assert decoded(spark, written + percent_only) == keys + keys


@limits(max_examples=3)
@given(noise=st.lists(st.binary(min_size=1, max_size=6), min_size=40, max_size=120))
def test_escaped_bytes_are_a_key_exactly_if_they_are_utf8(spark: SparkSession, noise: list[bytes]) -> None:
    def text(raw: bytes) -> str | None:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    assert decoded(spark, ["".join(f"%{byte:02x}" for byte in raw) for raw in noise]) == [
        text(raw) for raw in noise
    ]


def test_decoding_happens_once(spark: SparkSession) -> None:
    assert decoded(spark, ["%2541", "a%252Fb", "%2B+%2b"]) == ["%41", "a%2Fb", "+ +"]


@limits(max_examples=2)
@given(keys=st.lists(KEYS.filter(lambda key: "\x00" not in key), min_size=30, max_size=60, unique=True))
def test_a_key_is_the_same_through_every_format(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    found = {}
    for form, write in WRITERS.items():
        folder: Path = tmp_path_factory.mktemp(form)
        lay(into(folder), [write([Version(key) for key in keys])], form=form)
        frame = read(spark, folder / "inv").frame
        found[form] = {(row["key"], row["presence"]) for row in frame.select("key", "presence").collect()}
    assert found["CSV"] == found["ORC"] == found["Parquet"] == {(key, "present") for key in keys}
