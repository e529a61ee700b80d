"""Where the paths in a log point, as keys; deletion vector names; partition values."""

import base64
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lakeaudit.evidence.manifest.delta_paths import Z85, decoded, place, z85_uuid

_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

PATHS: dict[str, tuple[str, str | None]] = {
    "part-0.parquet": ("lake", "t/part-0.parquet"),
    "p=a%20b/f": ("lake", "t/p=a b/f"),
    "p=a b/f": ("lake", "t/p=a b/f"),
    "p=50%2525/f": ("lake", "t/p=50%25/f"),
    "p=12%253A30/f": ("lake", "t/p=12%3A30/f"),
    "a+b": ("lake", "t/a+b"),
    "a%2Bb": ("lake", "t/a+b"),
    "Zürich/%E6%97%A5": ("lake", "t/Zürich/日"),
    "a//b": ("lake", "t/a//b"),
    "./a/../b": ("lake", "t/./a/../b"),
    "12:30/f": ("lake", "t/12:30/f"),
    "line\nbreak": ("lake", "t/line\nbreak"),
    "s3://other/k%20k": ("other", "k k"),
    "s3a://lake/t/x": ("lake", "t/x"),
    "S3N://lake//double": ("lake", "/double"),
    "s3://lake": ("lake", ""),
    "file:/data/a%20b": ("", "data/a b"),
    "file:///data/a": ("", "data/a"),
    "/data/a%20b": ("", "data/a b"),
    "hdfs://name:8020/w/a": ("hdfs://name:8020", "w/a"),
    "dbfs:/w/a": ("dbfs:", "w/a"),
    "abfss://c@x.example/w": ("abfss://c@x.example", "w"),
    "bad%zz": ("lake", None),
    "bad%2": ("lake", None),
    "bad%": ("lake", None),
    "bad%FF": ("lake", None),
    "s3://other/bad%zz": ("other", None),
    "good%EF%BF%BD": ("lake", "t/good\ufffd"),
}


@pytest.fixture(scope="module")
def placed(spark: SparkSession) -> dict[str, tuple[str, str | None]]:
    frame = spark.createDataFrame([(path,) for path in PATHS], "path string")
    rows = frame.select("path", place(F.col("path"), F.lit("lake"), F.lit("t/")).alias("at")).collect()
    return {row.path: (row.at.bucket, row.at.key) for row in rows}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_decoded_once(path: str, placed: dict[str, tuple[str, str | None]]) -> None:
    assert placed[path] == PATHS[path]


@settings(max_examples=2)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=30, max_size=40))
def test_every_key_comes_back_from_its_escapes(spark: SparkSession, keys: list[str]) -> None:
    escaped = [(key, "".join(f"%{byte:02X}" for byte in key.encode())) for key in keys]
    rows = spark.createDataFrame(escaped, "key string, path string").select(
        "key", decoded(F.col("path")).alias("back")
    )
    assert [row.back for row in rows.collect()] == keys


@settings(max_examples=2)
@given(st.lists(st.uuids(), min_size=30, max_size=40))
def test_uuids_are_read_from_z85(spark: SparkSession, ids: list[uuid.UUID]) -> None:
    texts = [(base64.b85encode(one.bytes).decode().translate(str.maketrans(_B85, Z85)),) for one in ids]
    assert _uuids(spark, texts) == [str(one) for one in ids]


def test_the_protocols_own_example(spark: SparkSession) -> None:
    assert _uuids(spark, [("^-aqEH.-t@S}K{vb[*k^",)]) == ["d2c639aa-8816-431a-aaf6-d3fe2512ff61"]


@pytest.mark.parametrize("text", ["", "short", "^-aqEH.-t@S}K{vb[*k~", "#" * 20, "^-aqEH.-t@S}K{vb[*k^^"])
def test_what_is_no_uuid(text: str, spark: SparkSession) -> None:
    assert _uuids(spark, [(text,)]) == [None]


def _uuids(spark: SparkSession, texts: list[tuple[str]]) -> list[str | None]:
    rows: list[Row] = (
        spark.createDataFrame(texts, "text string").select(z85_uuid(F.col("text")).alias("id")).collect()
    )
    return [row.id for row in rows]
