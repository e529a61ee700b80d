"""Where the paths in a log point, as keys; deletion vector names; partition values."""

import base64
import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.delta.log import paths
from lakeaudit.evidence.manifest.delta.log.actions import ACTION
from lakeaudit.evidence.manifest.delta.log.paths import Z85
from lakeaudit.evidence.manifest.delta.point_lookup import RequestedFile
from lakeaudit.keys import Aliases, Location, identify
from lakeaudit.runtime import duck
from tests.builders.connections import connection
from tests.builders.evidence import CUT
from tests.builders.examples import examples

_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

CON = connection()

PATHS: dict[str, tuple[str, str | None]] = {
    "part-0.parquet": ("lake", "t/part-0.parquet"),
    "p=a%20b/f": ("lake", "t/p=a b/f"),
    "p=a b/f": ("lake", "t/p=a b/f"),
    "p=50%2525/f": ("lake", "t/p=50%25/f"),
    "p=12%253A30/f": ("lake", "t/p=12%3A30/f"),
    "a+b": ("lake", "t/a+b"),
    "a%2Bb": ("lake", "t/a+b"),
    "Zürich/%E6%97%A5": ("lake", "t/Zürich/日"),
    "a//b": ("lake", "t/a/b"),
    "./a/../b": ("lake", "t/b"),
    "../u/a": ("lake", "u/a"),
    "p=1/../../u/p=a%20b/f": ("lake", "u/p=a b/f"),
    "%2E%2E/u/a": ("lake", "u/a"),
    "../../../a": ("lake", "../../a"),
    "..a/b..c/.d/e.": ("lake", "t/..a/b..c/.d/e."),
    "p=%252E%252E/f": ("lake", "t/p=%2E%2E/f"),
    "s3://other/a/../b": ("other", "a/../b"),
    "12:30/f": ("lake", "t/12:30/f"),
    "line\nbreak": ("lake", "t/line\nbreak"),
    "s3://other/k%20k": ("other", "k k"),
    "s3a://lake/t/x": ("lake", "t/x"),
    "S3N://lake//double": ("lake", "/double"),
    "s3://lake": ("lake", ""),
    "file:/data/a%20b": ("", "data/a b"),
    "file:///data/a": ("", "data/a"),
    "/data/a%20b": ("", "data/a b"),
    "/data/a": ("", "data/a"),
    "/": ("", ""),
    "hdfs://name:8020/w/a": ("hdfs://name:8020", "w/a"),
    "dbfs:/w/a": ("dbfs:", "w/a"),
    "abfss://c@x.example/w": ("abfss://c@x.example", "w"),
    "abfss://wh@acme.dfs.core.windows.net/a%20b": ("wh@acme", "a b"),
    "wasbs://wh@acme.blob.core.windows.net//a%2540": ("wh@acme", "/a%40"),
    "abfss://wh@acme.dfs.core.windows.net": ("wh@acme", ""),
    "abfss://wh:x@acme.dfs.core.windows.net/a": ("abfss://wh:x@acme.dfs.core.windows.net", "a"),
    "s3://wh@acme/a": ("s3://wh@acme", "a"),
    "bad%zz": ("lake", None),
    "bad%2": ("lake", None),
    "bad%": ("lake", None),
    "bad%FF": ("lake", None),
    "s3://other/bad%zz": ("other", None),
    "good%EF%BF%BD": ("lake", "t/good\ufffd"),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_decoded_once(path: str) -> None:
    where = (
        f"{paths.bucket('text', chr(39) + 'lake' + chr(39))}, {paths.key('text', chr(39) + 't/' + chr(39))}"
    )
    assert _each(f"[{where}]", [path]) == [list(PATHS[path])]


def test_explain_opens_a_relative_path_as_audits_do() -> None:
    found = RequestedFile(Location("lake", "t"), "lake", "t/b")
    relative = {
        path: place for path, place in PATHS.items() if place[0] == "lake" and place[1] and "://" not in path
    }
    places = {path: next(iter(found.acts({"add": {"path": path}})), None) for path in relative}
    assert {path for path, row in places.items() if row} == {
        path for path, place in relative.items() if place[1] == "t/b"
    }
    assert "./a/../b" in relative


@pytest.mark.parametrize(
    ("path", "absolute"),
    [("a/b", False), ("12:30/f", False), ("/a", True), ("s3://b/k", True), ("x:y", True)],
)
def test_absolute_paths(path: str, absolute: bool) -> None:
    assert _each(paths.is_absolute("text"), [path]) == [absolute]


STORES = st.sampled_from(
    [
        *("s3://lake", "s3a://la.ke", "gs://lake", "s3://wh@acme", "abfss://w@a.dfs.core.windows.net"),
        *("abfss://wh@acme.dfs.core.windows.net", "wasb://$web@acme1.blob.core.windows.net"),
        *("abfss://u:p@acme.dfs.core.windows.net", "abfss://wh@acme.dfs.core.windows.netx"),
    ]
)


@examples(3, 300)
@given(st.lists(st.tuples(STORES, st.text("ab/@:.-", max_size=6)), min_size=1, max_size=30))
def test_names_of_stores_are_distinguished_as_everywhere_else(named: list[tuple[str, str]]) -> None:
    uris = [f"{store}/{key}" for store, key in named]
    sql = f"[{paths.bucket('text', chr(39) + chr(39))}, {paths.key('text', chr(39) + chr(39))}]"
    known = [identify(uri) for uri in uris]
    found = [(bucket, key) if "://" not in bucket else None for bucket, key in _each(sql, uris)]
    assert found == known


@examples(3, 300)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=40))
def test_every_key_comes_back_from_its_escapes(keys: list[str]) -> None:
    assert (
        _each(paths.decoded("text"), ["".join(f"%{byte:02X}" for byte in key.encode()) for key in keys])
        == keys
    )


@given(st.lists(st.text(alphabet="%aF0 +\u00e9", max_size=8), min_size=1, max_size=40))
def test_escapes_are_undone_as_python_does_or_not_at_all(texts: list[str]) -> None:
    whole = [re.sub("%[0-9A-Fa-f]{2}", "", text).count("%") == 0 for text in texts]
    expected = [_unquoted(text) if known else None for text, known in zip(texts, whole, strict=True)]
    assert _each(paths.decoded("text"), texts) == expected


def _unquoted(text: str) -> str | None:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


@given(st.lists(st.uuids(), min_size=1, max_size=40))
def test_uuids_are_read_from_z85(ids: list[uuid.UUID]) -> None:
    texts = [base64.b85encode(one.bytes).decode().translate(str.maketrans(_B85, Z85)) for one in ids]
    assert _each(paths.z85_uuid("text"), texts) == [str(one) for one in ids]


def test_the_protocols_own_example() -> None:
    assert _each(paths.z85_uuid("text"), ["^-aqEH.-t@S}K{vb[*k^"]) == ["d2c639aa-8816-431a-aaf6-d3fe2512ff61"]


@pytest.mark.parametrize("text", ["", "short", "^-aqEH.-t@S}K{vb[*k~", "#" * 20, "^-aqEH.-t@S}K{vb[*k^^"])
def test_an_invalid_uuid(text: str) -> None:
    assert _each(paths.z85_uuid("text"), [text]) == [None]


@pytest.mark.parametrize(
    ("kind", "text", "key"),
    [
        ("u", "^-aqEH.-t@S}K{vb[*k^", "t/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "too short", None),
        ("p", "s3://far/dv%20file.bin", "dv file.bin"),
        ("x", "?", None),
    ],
)
def test_where_deletion_vectors_lie(kind: str, text: str, key: str | None) -> None:
    assert _each(paths.vector_key(f"'{kind}'", "text", "'t/'"), [text]) == [key]


FILE = {
    "file": 0, "table_name": "t", "reading": 1, "version": 7, "time": CUT, "in_commit_time": None,
    "checkpoint": True, "root_bucket": "lake", "root_prefix": "t/",
}  # fmt: skip
ALIASES = ((Location("lake", "t/p"), Location("moved", "")), (Location("other", ""), Location("lake", "")))


@examples(20, 300)
@given(
    st.lists(
        st.sampled_from([*PATHS]) | st.text("ab/.:%+é ", min_size=1, max_size=6), min_size=1, max_size=9
    ),
    st.sampled_from([(), ALIASES, ALIASES[1:]]),
)
def test_plain_paths_have_the_same_steps(texts: list[str], aliases: Aliases) -> None:
    actions = partial(_adds, texts)
    files = pa.Table.from_pylist([FILE])
    if not paths.survey(CON, actions(), files).plain:
        return
    same = _rows(paths.file_steps(CON, actions(), files, aliases))
    plain = paths.plain_steps(CON, actions, FILE, aliases)
    assert _rows(plain) == same
    if plain.narrowed:
        wanted = pa.table({"text": ["t/a", "t/part-0.parquet", "t/p=a b/f"]})
        some = plain.narrowed(lambda _, key: f"{key} IN (SELECT text FROM wanted)", {"wanted": wanted})
        assert _rows(some) == [row for row in same if row["key"] in wanted["text"].to_pylist()]
    assert (plain.narrowed is None) == (aliases == ALIASES)


PLAIN = {"part-0.parquet", "p=a b/f", "a+b", "..a/b..c/.d/e.", "line\nbreak"}


@pytest.mark.parametrize("path", PATHS)
def test_which_paths_are_plain(path: str) -> None:
    assert paths.survey(CON, _adds([path]), pa.Table.from_pylist([FILE])).plain == (path in PLAIN)


def _adds(
    texts: list[str], among: Callable[[str], str] = lambda _: "true", **tables: duck.Rows
) -> duck.Relation:
    rows = [
        {"file": 0, "action": "add", "path": text, "size": n, "has_vector": False}
        for n, text in enumerate(texts)
    ]
    given = pa.Table.from_pylist(rows, ACTION)
    return duck.query(CON, f"SELECT * FROM given WHERE {among('path')}", given=given, **tables)


def _rows(steps: duck.Relation) -> list[dict[str, Any]]:
    return sorted(duck.rows_of(steps), key=lambda row: (row["key"], row["size"]))


def _each(sql: str, texts: list[str]) -> list[Any]:
    """The value of an expression for each text."""
    rows = pa.table({"number": pa.array(range(len(texts))), "text": pa.array(texts, pa.string())})
    found = duck.query(CON, f"SELECT {sql} AS value FROM rows ORDER BY number", rows=rows)
    return [row["value"] for row in duck.rows_of(found)]
