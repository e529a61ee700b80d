"""Match by itself: what no scenario shows, since all scenarios share one match. Judging is tested elsewhere."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeaudit.compare.apply_gaps import assumed_vacuums, with_holes
from lakeaudit.compare.match import Evidence, deciding_places, pairs
from lakeaudit.compare.metastore_tree import tree
from lakeaudit.compare.table_facts import TableFacts, roots, table_frame
from lakeaudit.config import S3Guard
from lakeaudit.evidence.protocol import Claims, Cut, Entries, Stored
from lakeaudit.keys import Location
from lakeaudit.pipeline.dataframes import small
from lakeaudit.schemas import CLAIM, ENTRY, PAIR, STORED
from tests.builders.evidence import (
    BUCKET,
    CUT,
    ago,
    claim,
    claims_of,
    entries_of,
    entry,
    folder,
    stored,
    stored_of,
)
from tests.builders.scenario import DELTA, LISTS, table

A, B = "orders/a", "orders/b"
Rows = Iterable[Mapping[str, Any]]


def claims(spark: SparkSession, rows: Rows, kind: str = "delta") -> Claims:
    return claims_of(spark, rows, [], kind)


def matched(
    spark: SparkSession,
    tables: list[TableFacts],
    *,
    claimed: tuple[Claims, ...] = (),
    storage: tuple[Stored, ...] = (),
    metastores: tuple[Entries, ...] = (),
    authoritative: Mapping[str, Any] | None = None,
) -> DataFrame:
    sources = {
        store.info.id: S3Guard(
            kind="s3guard", table="guard", authoritative=(authoritative or {}).get(store.info.id, "none")
        )
        for store in metastores
    }
    evidence = Evidence(claimed, storage, metastores, sources)
    return pairs(spark, evidence, table_frame(spark, tables), roots([fact.table for fact in tables]))


def told(frame: DataFrame, *columns: str) -> dict[Any, Any]:
    """{key: value, or values} of the named columns."""
    rows = frame.select("key", *columns).collect()
    return {row["key"]: row[columns[0]] if len(columns) == 1 else tuple(row)[1:] for row in rows}


def test_nothing_at_all_gives_no_rows_of_the_right_shape(spark: SparkSession) -> None:
    frame = matched(spark, [table()])
    assert frame.schema.simpleString() == PAIR.simpleString()
    assert frame.isEmpty()


def test_a_list_alone_beside_a_log_that_could_not_be_read_stays_a_list(spark: SparkSession) -> None:
    """Only the file_list reader answered: its claims must not pass for the state of a table that has a Delta log."""
    frame = matched(
        spark,
        [table(manifests=[DELTA, LISTS])],
        claimed=(claims(spark, [claim(A, manifest_kind="file_list")], "file_list"),),
        storage=(stored_of(spark, []),),
    )
    assert told(frame, "c_state", "e_state", "r_live") == {A: (None, "live", False)}


def test_a_list_alone_is_the_state_of_a_table_that_has_nothing_else(spark: SparkSession) -> None:
    rows = [claim(A, manifest_kind="file_list"), claim(B, manifest_kind="file_list", state="gone")]
    frame = matched(spark, [table(manifests=[LISTS])], claimed=(claims(spark, rows, "file_list"),))
    assert told(frame, "c_state", "e_state", "r_live", "r_gone") == {
        A: ("live", None, True, False), B: ("gone", None, False, True)
    }  # fmt: skip


def test_the_log_and_the_list_of_one_table_make_one_row_a_key(spark: SparkSession) -> None:
    logged = claims(spark, [claim(A), claim(B, size=7)])
    listed = claims(spark, [claim(A, manifest_kind="file_list", etag="e", size=9), claim("orders/c",
    manifest_kind="file_list")],
                    "file_list")  # fmt: skip
    frame = matched(spark, [table(manifests=[DELTA, LISTS])], claimed=(logged, listed))
    assert told(frame, "c_state", "c_size", "c_etag", "e_state") == {
        A: ("live", 100, "e", "live"), B: ("live", 7, None, None), "orders/c": (None, 100, None, "live")
    }  # fmt: skip


def test_references_are_those_of_all_tables(spark: SparkSession) -> None:
    rows = [claim(A, state="gone", removed_at=ago(9)), claim(A, "copy", own_root=False),
            claim(A, "third", state="history", removed_at=ago(5), own_root=False)]  # fmt: skip
    frame = matched(spark, [table(), table("copy"), table("third")], claimed=(claims(spark, rows),))
    found = frame.select("table_name", "r_live", "r_history", "r_gone", "first").collect()
    assert {row["table_name"]: tuple(row)[1:] for row in found} == {
        "copy": (True, True, True, True), "orders": (True, True, True, False), "third": (True, True, True,
        False)
    }  # fmt: skip


def test_the_youngest_cut_that_covers_a_place_decides_there(spark: SparkSession) -> None:
    whole, part = Location(BUCKET, ""), Location(BUCKET, "orders/new")
    old = stored_of(spark, [], cut=Cut(ago(24)), source="old", covers=(whole,))
    young = stored_of(spark, [], cut=Cut(CUT), source="young", covers=(part,))
    older = stored_of(spark, [], cut=Cut(ago(48)), source="older", covers=(part,))
    assert deciding_places([old, young, older]) == {whole: "old", part: "young"}
    assert deciding_places([old, older]) == {whole: "old", part: "old"}


def test_presence_is_the_word_of_the_deciding_source(spark: SparkSession) -> None:
    new = "orders/new/a"
    old = stored_of(
        spark, [stored(A, source="old"), stored(new, source="old")], cut=Cut(ago(24)), source="old"
    )
    young = stored_of(
        spark, [stored(B, source="young")], source="young", covers=(Location(BUCKET, "orders/new"),)
    )
    keys = [claim(key) for key in (A, B, new)]
    frame = matched(spark, [table()], claimed=(claims(spark, keys),), storage=(old, young))
    assert told(frame, "s_presence", "s_source") == {
        A: ("present", "old"),
        B: ("absent", "old"),
        new: ("absent", "young"),
    }


def test_the_longest_scope_names_the_metadata_store_that_answers(spark: SparkSession) -> None:
    every = entries_of(spark, [entry(A, source="all"), entry("orders/x/a", source="all")], source="all")
    part = entries_of(
        spark, [entry("orders/x/b", source="x", size=7)], source="x", scope=(Location(BUCKET, "orders/x"),)
    )
    objects = [stored(key) for key in (A, B, "orders/x/a", "orders/x/b", "orders/x/c")]
    frame = matched(spark, [table()], storage=(stored_of(spark, objects),), metastores=(every, part))
    assert told(frame, "m_state", "m_source", "m_size") == {
        A: ("file", "all", 100), B: ("none", "all", None), "orders/x/a": ("none", "x", None),
        "orders/x/b": ("file", "x", 7), "orders/x/c": ("none", "x", None),
    }  # fmt: skip


def test_readers_trust_a_store_everywhere_below_a_prefix_or_nowhere(spark: SparkSession) -> None:
    """Of an entry its reader has said so; the rest follows from the lake file."""
    objects = stored_of(spark, [stored(A), stored("orders/x/a"), stored("orders/xy/a")])
    store = entries_of(spark, [entry("orders/x/b", honoured=True), entry(B)])
    trusted = {"all": {A, "orders/x/a", "orders/x/b", "orders/xy/a"}, "none": {"orders/x/b"},
               (Location(BUCKET, "orders/x"),): {"orders/x/a", "orders/x/b"}}  # fmt: skip
    for authoritative, where in trusted.items():
        frame = matched(spark, [table()], storage=(objects,), metastores=(store,),
                        authoritative={"metastore:0": authoritative})  # fmt: skip
        assert {key for key, honoured in told(frame, "m_honoured").items() if honoured} == where


def test_an_entry_is_a_file_a_folder_or_a_tombstone(spark: SparkSession) -> None:
    store = entries_of(spark, [entry(A), folder("orders/x"), entry(B, tombstone=True)])
    frame = matched(spark, [table()], metastores=(store,))
    assert told(frame, "m_state") == {A: "file", "orders/x": "dir", B: "tombstone"}


def test_an_object_that_nobody_claims_is_named_by_its_key(spark: SparkSession) -> None:
    names = {
        "orders/a": ("data", ""), "orders/d=1/h=2/a": ("data", "d=1/h=2"), "orders/d=1/x/h=2/a": ("data",
        "d=1"),
        "orders/d=1/": ("marker", "d=1"), "orders/_temporary/0/a": ("temporary", ""),
        "orders/_delta_log/1.json": ("log", ""),
        "orders/_change_data/a": ("changes", ""), "orders/deletion_vector_0a-1.bin": ("deletes", ""),
        "orders/_SUCCESS": ("other", ""), "orders/d=/a": ("data", "d="),
    }  # fmt: skip
    frame = matched(spark, [table()], storage=(stored_of(spark, [stored(key) for key in names]),))
    assert told(frame, "category", "partition_path") == names


def test_a_key_is_relative_to_its_owner_in_letters_not_bytes(spark: SparkSession) -> None:
    name = "\U0001d4b3/Ä"
    frame = matched(
        spark,
        [table("orders", at=name)],
        storage=(stored_of(spark, [stored(f"{name}/\U0001d4b3a"), stored("x")]),),
    )
    assert told(frame, "relative", "owner") == {
        f"{name}/\U0001d4b3a": ("\U0001d4b3a", "orders"),
        "x": ("x", None),
    }


def test_holes_are_put_where_they_belong(spark: SparkSession) -> None:
    facts = [table(holed=True), table("copy")]
    storage = (stored_of(spark, [stored(A), stored("copy/a")]),)
    frame = matched(spark, facts, storage=storage, metastores=(entries_of(spark, []),))
    none = with_holes(frame, (), facts)
    assert told(none, "h_storage", "h_metastore", "h_references") == {
        A: (False, False, True), "copy/a": (False, False, False)
    }  # fmt: skip
    both = with_holes(frame, ("storage:0", "metastore:0"), facts)
    assert told(both, "h_storage", "h_metastore") == {A: (True, True), "copy/a": (True, True)}


def test_a_vacuum_is_assumed_per_table_up_to_its_youngest_absent_removal(spark: SparkSession) -> None:
    rows = [claim(A, state="history", removed_at=ago(60)), claim(B, state="history", removed_at=ago(50)),
            claim("orders/c", state="history", removed_at=ago(40)),
            claim("copy/a", "copy", state="history", removed_at=ago(60)),
            claim("copy/b", "copy", state="gone", removed_at=ago(300))]  # fmt: skip
    storage = stored_of(spark, [stored("orders/c"), stored("copy/b")])
    frame = matched(spark, [table(), table("copy")], claimed=(claims(spark, rows),), storage=(storage,))
    found = [tuple(row) for row in assumed_vacuums(frame).select("vacuumed", "vacuumed_files").collect()]
    assert found == [("orders", 2)]


def test_a_parent_is_only_spared_by_the_store_that_was_read_from_there_on(spark: SparkSession) -> None:
    narrow, wide = "metastore:0", "metastore:1"
    stores = (
        entries_of(spark, [entry(A)], scope=(Location(BUCKET, "orders"),)),
        entries_of(spark, [entry(A, source=wide)], source=wide, scope=(Location(BUCKET, ""),)),
    )
    known = [table()]
    tables, places = table_frame(spark, known), roots([fact.table for fact in known])
    rows = tree(spark, stores, matched(spark, known, metastores=stores), tables, places, set())
    parents = {row["source"]: (row["parent"], row["parent_found"]) for row in rows.collect()}
    assert parents == {narrow: ("", False), wide: ("orders", False)}


def test_rows_beside_the_schemas_are_cut_to_them(spark: SparkSession) -> None:
    """Readers may keep columns of their own; match takes the contract's alone."""
    frames = [small(spark, [], schema).selectExpr("*", "1 AS extra") for schema in (CLAIM, STORED, ENTRY)]
    claimed = Claims(claims(spark, []).info, frames[0], {})
    storage = Stored(stored_of(spark, []).info, frames[1], (Location(BUCKET, ""),))
    store = Entries(entries_of(spark, []).info, frames[2], (), None)
    assert (
        matched(spark, [table()], claimed=(claimed,), storage=(storage,), metastores=(store,)).columns
        == PAIR.names
    )
