"""The objects that a line of a delete list may name, for every way to spell a location."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit import keys
from lakeaudit.guard.named_keys import DOTS, FOLDER, NO_TABLE, named_keys
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import LISTED

Objects = set[tuple[str | None, str | None, str | None]]


def objects(
    text: str | None,
    bucket: str | None = None,
    *,
    encoded: bool = False,
    aliases: Aliases = (),
    below: tuple[Location, ...] = (),
    roots: tuple[Location, ...] = (),
) -> Objects:
    with task_connection() as con:
        listed = duck.small(LISTED, [(1, text, bucket, encoded, None)])
        rows = duck.rows_of(named_keys(con, listed, aliases, below, roots))
    return {(row["bucket"], row["key"], row["fault"]) for row in rows}


SPELLINGS = {
    "s3://b/t/x": {"b t/x"},
    "s3a://b/t/x": {"b t/x"},
    "S3N://b/t/x": {"b t/x"},
    "gs://b/t/x": {"b t/x"},
    "s3://b/t/a b": {"b t/a b"},
    "s3://b/t/a%20b": {"b t/a%20b", "b t/a b"},
    "s3://b/d=2026-11-28 10%3A00/x": {"b d=2026-11-28 10%3A00/x", "b d=2026-11-28 10:00/x"},
    "s3://b/t/100%": {"b t/100%"},
    "s3://b//t//x": {"b /t//x", "b t/x"},
    "s3://b/t/a%2F%2Fb": {"b t/a%2F%2Fb", "b t/a//b", "b t/a/b"},
    "s3://b/zürich/ü": {"b zürich/ü"},
    "abfss://c@acct.dfs.core.windows.net/t/x": {"c@acct t/x"},
    "wasbs://c@acct.blob.core.windows.net/t/x": {"c@acct t/x"},
    "/wh/t/x": {" wh/t/x"},
    "//wh/t//x": {" wh/t/x"},
    "file:/wh/t/x": {" wh/t/x"},
    "file:///wh/t/x": {" wh/t/x"},
    "file://localhost/wh/t/x": {" wh/t/x"},
    "dbfs:/mnt/t/x": {"dbfs: mnt/t/x"},
    "hdfs://nn:8020/wh/x": {"hdfs://nn:8020 wh/x"},
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_line_may_name_these_objects(text: str) -> None:
    assert {f"{bucket} {key}" for bucket, key, fault in objects(text) if fault is None} == SPELLINGS[text]


ROOTS = (Location("b", "wh/t"), Location("c@acct", "wh/u"), Location("", "data/v"))
OTHER_FORMS = {
    "a key of the bucket": ("wh/t/x", {"b wh/t/x"}),
    "a key of the container": ("wh/u/x", {"c@acct wh/u/x"}),
    "a path in the file system of the cleaner": ("/wh//t/x", {"b wh/t/x"}),
    "a path on the local disk": ("/data/v/x", {" data/v/x"}),
    "a path outside of all tables": ("/tmp/x", {" tmp/x"}),
    "the bucket in the path": ("https://s3.eu-central-1.amazonaws.com/b/wh/t/x", {"b wh/t/x"}),
    "a server of another vendor": ("http://127.0.0.1:9000/b/wh/t/a%20b", {"b wh/t/a%20b", "b wh/t/a b"}),
    "the bucket in the host": ("https://b.s3.amazonaws.com/wh/t/x", {"b wh/t/x"}),
    "the scheme of another vendor": ("oss://b/wh/t/x", {"b wh/t/x"}),
    "the container in the path": ("abfss://acct.dfs.core.windows.net/c/wh/u/x", {"c@acct wh/u/x"}),
    "the container by HTTPS": ("https://acct.blob.core.windows.net/c/wh/u/x", {"c@acct wh/u/x"}),
    "the container without its account": ("az://c/wh/u/x", {"c@acct wh/u/x"}),
    "the container of another account": (
        "https://other.blob.core.windows.net/c/wh/u/x", {"https://other.blob.core.windows.net c/wh/u/x"},
    ),
    "another file system": ("hdfs://b/wh/t/x", {"hdfs://b wh/t/x"}),
    "backslashes": ("s3://b/wh/t\\d=1\\x", {"b wh/t\\d=1\\x", "b wh/t/d=1/x"}),
    "backslashes in a key of the bucket": ("wh\\t\\x", {"b wh/t/x"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_a_line_that_does_not_name_its_store_names_objects_of_tables(name: str) -> None:
    text, found = OTHER_FORMS[name]
    assert {f"{bucket} {key}" for bucket, key, fault in objects(text, roots=ROOTS) if fault is None} == found


def test_a_relative_path_in_no_table_has_a_fault() -> None:
    assert {fault for _, _, fault in objects("x/part-0.parquet", roots=ROOTS)} == {NO_TABLE}


FAULTS = {
    "part-0.parquet": NO_TABLE,
    "s3://b/t/../x": DOTS,
    "s3://b/./x": DOTS,
    "s3://b": FOLDER,
    "s3://b/": FOLDER,
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_line_that_names_no_object_has_a_fault(text: str) -> None:
    assert {fault for _, _, fault in objects(text)} == {FAULTS[text]}


def test_a_relative_path_belongs_to_each_given_table() -> None:
    below = (Location("b", "wh/t"), Location("b", "wh/u"))
    assert objects("d=1/x", below=below) == {("b", "wh/t/d=1/x", None), ("b", "wh/u/d=1/x", None)}


def test_a_key_of_s3_batch_operations_is_encoded() -> None:
    assert objects("t/a%20b", "bucket", encoded=True) == {("bucket", "t/a b", None)}
    assert objects("t/a+b", "bucket", encoded=True) == {("bucket", "t/a+b", None), ("bucket", "t/a b", None)}


def test_another_name_of_a_location_is_the_location() -> None:
    aliases = ((Location("replica", "wh"), Location("b", "wh")),)
    assert objects("s3a://replica/wh/x", aliases=aliases) == {("b", "wh/x", None)}


@given(st.text(min_size=1), st.sampled_from(("s3://b/", "s3a://b/t/", "gs://b/", "/", "file:///")))
def test_the_object_that_lakeaudit_itself_reads_is_among_them(path: str, begin: str) -> None:
    uri = begin + path.replace("\x00", "")
    if not keys.is_utf8(uri):
        return
    place = keys.place_by_name((), uri)
    found = objects(uri)
    named = {(bucket, key) for bucket, key, _ in found}
    assert place is not None
    assert place in named or (place[0] == "" and (place[0], keys.collapsed(place[1])) in named)
