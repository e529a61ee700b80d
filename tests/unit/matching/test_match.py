"""Match alone: the cases that scenarios cannot show, since all scenarios share one match. Others test the rules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.audit.kernel import removals
from lakeaudit.collect.source_facts import Sources, deciding_places, source_facts
from lakeaudit.confirm.apply_gaps import assumed_vacuums, with_gaps
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.protocol import Claims, Entries, SnapshotWindow, Stored
from lakeaudit.keys import Location
from lakeaudit.matching.leftovers import folders_of_logs
from lakeaudit.matching.metastore_tree import folder_rows, parent_rows, tree_rows, tree_verdicts, with_folders
from lakeaudit.matching.pairs import SourceFacts, pairs
from lakeaudit.matching.share import under_own_root
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import ANSWERS, CLAIM, ENTRY, PAIR, STORED
from tests.builders.connections import connection
from tests.builders.evidence import (
    BUCKET,
    CUT,
    ago,
    claim,
    claims_of,
    entries_of,
    entry,
    folded_objects,
    folder,
    part_of,
    rows_by_kind,
    rows_table,
    stored,
    stored_of,
)
from tests.builders.scenario import DELTA, LISTS, table
from tests.builders.scenario_lake import TODAY

A, B = "orders/a", "orders/b"
Rows = Iterable[Mapping[str, Any]]


@pytest.fixture
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def claims(rows: Rows, kind: str = "delta") -> Claims:
    return claims_of(rows, [], kind)


def facts_of(
    tables: list[TableFacts],
    claimed: tuple[Claims, ...] = (),
    storage: tuple[Stored, ...] = (),
    metastores: tuple[Entries, ...] = (),
    authoritative: Mapping[str, Any] | None = None,
) -> SourceFacts:
    """Return facts about whole sources, not about single keys."""
    sources = {
        store.info.id: S3Guard(
            kind="s3guard", table="guard", authoritative=(authoritative or {}).get(store.info.id, "none")
        )
        for store in metastores
    }
    evidence = Sources(claimed, storage, metastores, sources)
    return replace(source_facts(evidence, [fact.table for fact in tables], tables), objects=folded_objects)


def matched(
    con: Connection,
    tables: list[TableFacts],
    *,
    claimed: tuple[Claims, ...] = (),
    storage: tuple[Stored, ...] = (),
    metastores: tuple[Entries, ...] = (),
    authoritative: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Return PAIR rows of these sources."""
    sources = [*(source.rows for source in storage), *(source.rows for source in metastores)]
    rows = rows_by_kind(con, [*sources, *(rows for read in claimed for rows in read.rows)])
    return duck.table(pairs(con, rows, facts_of(tables, claimed, storage, metastores, authoritative)))


def by_key(rows: pa.Table, *columns: str) -> dict[Any, Any]:
    """Return {key: value, or values} of the named columns."""
    values = [tuple(row[name] for name in columns) for row in rows.to_pylist()]
    keys = rows["key"].to_pylist()
    return {key: row[0] if len(columns) == 1 else row for key, row in zip(keys, values, strict=True)}


def test_nothing_at_all_gives_no_rows_of_the_right_shape(con: Connection) -> None:
    rows = matched(con, [table()])
    spans = {pa.duration("us"): pa.month_day_nano_interval()}  # DuckDB has no span in microseconds alone
    assert rows.schema.names == PAIR.names
    assert rows.schema.types == [spans.get(field.type, field.type) for field in PAIR]
    assert rows.num_rows == 0


def test_a_list_alone_beside_a_log_that_could_not_be_read_stays_a_list(con: Connection) -> None:
    """Only the file_list reader answered: its claims must not pass for the state of a table that has a Delta log."""
    found = matched(
        con,
        [table(manifests=[DELTA, LISTS])],
        claimed=(claims([claim(A, manifest_kind="file_list")], "file_list"),),
        storage=(stored_of([]),),
    )
    assert by_key(found, "c_state", "e_state", "r_live") == {A: (None, "live", False)}


def test_a_list_alone_is_the_state_of_a_table_that_has_nothing_else(con: Connection) -> None:
    rows = [claim(A, manifest_kind="file_list"), claim(B, manifest_kind="file_list", state="gone")]
    found = matched(con, [table(manifests=[LISTS])], claimed=(claims(rows, "file_list"),))
    assert by_key(found, "c_state", "e_state", "r_live", "r_gone") == {
        A: ("live", None, True, False), B: ("gone", None, False, True)
    }  # fmt: skip


def test_the_log_and_the_list_of_one_table_make_one_row_a_key(con: Connection) -> None:
    logged = claims([claim(A), claim(B, size=7)])
    listed = claims([claim(A, manifest_kind="file_list", etag="e", size=9), claim("orders/c",
    manifest_kind="file_list")],
                    "file_list")  # fmt: skip
    found = matched(con, [table(manifests=[DELTA, LISTS])], claimed=(logged, listed))
    assert by_key(found, "c_state", "c_size", "c_etag", "e_state") == {
        A: ("live", 100, "e", "live"), B: ("live", 7, None, None), "orders/c": (None, 100, None, "live")
    }  # fmt: skip


def test_what_two_event_manifests_say_of_one_file_is_one_claim(con: Connection) -> None:
    """The last event counts; columns that it lacks come from other events of that hour, never from older ones."""
    c = "orders/c"
    listed = [
        claim(A, manifest_kind="file_list", size=9, etag="old", claimed_at=ago(216)),
        claim(B, manifest_kind="file_list", state="gone", claimed_at=ago(216), removed_at=ago(72)),
        claim(
            c, manifest_kind="file_list", size=5, etag="e", records=None, claimed_at=ago(96), certain=False
        ),
    ]
    logged = [
        claim(A, manifest_kind="spark_event_log", size=None, records=7, claimed_at=ago(96)),
        claim(B, manifest_kind="spark_event_log", claimed_at=ago(96)),
        claim(c, manifest_kind="spark_event_log", size=None, records=3, claimed_at=ago(96)),
    ]
    found = matched(
        con,
        [table(manifests=[LISTS])],
        claimed=(claims(listed, "file_list"), claims(logged, "spark_event_log")),
    )
    assert found.num_rows == 3
    assert by_key(found, "c_state", "c_size", "c_etag", "c_records", "c_certain") == {
        A: ("live", None, None, 7, True), B: ("gone", 100, None, 10, True), c: ("live", 5, "e", 3, False)
    }  # fmt: skip


def test_references_are_those_of_all_tables(con: Connection) -> None:
    rows = [claim(A, state="gone", removed_at=ago(9)), claim(A, "copy", own_root=False),
            claim(A, "third", state="history", removed_at=ago(5), own_root=False)]  # fmt: skip
    found = matched(con, [table(), table("copy"), table("third")], claimed=(claims(rows),))
    columns = ("table_name", "r_live", "r_history", "r_gone", "first")
    assert sorted(tuple(row[name] for name in columns) for row in found.to_pylist()) == [
        ("copy", True, True, True, True), ("orders", True, True, True, False), ("third", True, True, True, False)
    ]  # fmt: skip


def test_the_youngest_cut_that_covers_a_place_decides_there(con: Connection) -> None:
    whole, part = Location(BUCKET, ""), Location(BUCKET, "orders/new")
    old = stored_of([], cut=SnapshotWindow(ago(24)), source="old", covers=(whole,))
    young = stored_of([], cut=SnapshotWindow(CUT), source="young", covers=(part,))
    older = stored_of([], cut=SnapshotWindow(ago(48)), source="older", covers=(part,))
    assert deciding_places([old, young, older]) == {whole: "old", part: "young"}
    assert deciding_places([old, older]) == {whole: "old", part: "old"}


def test_presence_is_the_word_of_the_deciding_source(con: Connection) -> None:
    new = "orders/new/a"
    old = stored_of(
        [stored(A, source="old"), stored(new, source="old")], cut=SnapshotWindow(ago(24)), source="old"
    )
    young = stored_of([stored(B, source="young")], source="young", covers=(Location(BUCKET, "orders/new"),))
    keys = [claim(key) for key in (A, B, new)]
    found = matched(con, [table()], claimed=(claims(keys),), storage=(old, young))
    assert by_key(found, "s_presence", "s_source") == {
        A: ("present", "old"),
        B: ("absent", "old"),
        new: ("absent", "young"),
    }


def test_the_longest_scope_names_the_metadata_store_that_answers(con: Connection) -> None:
    every = entries_of([entry(A, source="all"), entry("orders/x/a", source="all")], source="all")
    part = entries_of(
        [entry("orders/x/b", source="x", size=7)], source="x", scope=(Location(BUCKET, "orders/x"),)
    )
    objects = [stored(key) for key in (A, B, "orders/x/a", "orders/x/b", "orders/x/c")]
    found = matched(con, [table()], storage=(stored_of(objects),), metastores=(every, part))
    assert by_key(found, "m_state", "m_source", "m_size") == {
        A: ("file", "all", 100), B: ("none", "all", None), "orders/x/a": ("none", "x", None),
        "orders/x/b": ("file", "x", 7), "orders/x/c": ("none", "x", None),
    }  # fmt: skip


def test_readers_trust_a_store_everywhere_below_a_prefix_or_nowhere(con: Connection) -> None:
    """The reader of an entry decides about that entry; the rest follows from the lake file."""
    objects = stored_of([stored(A), stored("orders/x/a"), stored("orders/xy/a")])
    store = entries_of([entry("orders/x/b", honoured=True), entry(B)])
    trusted = {"all": {A, "orders/x/a", "orders/x/b", "orders/xy/a"}, "none": {"orders/x/b"},
               (Location(BUCKET, "orders/x"),): {"orders/x/a", "orders/x/b"}}  # fmt: skip
    for authoritative, where in trusted.items():
        found = matched(con, [table()], storage=(objects,), metastores=(store,),
                        authoritative={"metastore:0": authoritative})  # fmt: skip
        assert {key for key, honoured in by_key(found, "m_honoured").items() if honoured} == where


def test_an_entry_is_a_file_a_folder_or_a_tombstone(con: Connection) -> None:
    store = entries_of([entry(A), folder("orders/x"), entry(B, tombstone=True)])
    found = matched(con, [table()], metastores=(store,))
    assert by_key(found, "m_state") == {A: "file", "orders/x": "dir", B: "tombstone"}


def test_an_object_that_nobody_claims_is_named_by_its_key(con: Connection) -> None:
    names = {
        "orders/a": ("data", ""), "orders/d=1/h=2/a": ("data", "d=1/h=2"), "orders/d=1/x/h=2/a": ("data",
        "d=1"),
        "orders/d=1/": ("marker", "d=1"), "orders/_temporary/0/a": ("temporary", ""),
        "orders/_delta_log/1.json": ("log", ""),
        "orders/_change_data/a": ("changes", ""), "orders/deletion_vector_0a-1.bin": ("deletes", ""),
        "orders/_SUCCESS": ("other", ""), "orders/d=/a": ("data", "d="),
    }  # fmt: skip
    found = matched(con, [table()], storage=(stored_of([stored(key) for key in names]),))
    assert by_key(found, "category", "partition_path") == names


def test_a_key_is_relative_to_its_owner_in_letters_not_bytes(con: Connection) -> None:
    name = "\U0001d4b3/Ä"
    found = matched(
        con,
        [table("orders", at=name)],
        storage=(stored_of([stored(f"{name}/\U0001d4b3a"), stored("x")]),),
    )
    assert by_key(found, "relative", "owner") == {
        f"{name}/\U0001d4b3a": ("\U0001d4b3a", "orders"),
        "x": ("x", None),
    }


def test_the_folders_of_a_partition_are_unescaped_where_they_can_be(con: Connection) -> None:
    names = {
        "orders/d=%41%2F1/a": "d=A/1",
        "orders/d=a+b%20c/a": "d=a+b c",
        "orders/d=%zz/a": "d=%zz",
        "orders/d=%C3%84/a": "d=Ä",
    }
    found = matched(con, [table()], storage=(stored_of([stored(key) for key in names]),))
    assert by_key(found, "partition_path") == names


def test_gaps_are_put_where_they_belong(con: Connection) -> None:
    storage = (stored_of([stored(A), stored("copy/a")]),)
    found = matched(con, [table(holed=True), table("copy")], storage=storage, metastores=(entries_of([]),))
    none = duck.table(with_gaps(con, found, ()))
    assert by_key(none, "h_storage", "h_metastore", "h_references") == {
        A: (False, False, True), "copy/a": (False, False, False)
    }  # fmt: skip
    both = duck.table(with_gaps(con, found, ("storage:0", "metastore:0")))
    assert by_key(both, "h_storage", "h_metastore") == {A: (True, True), "copy/a": (True, True)}


def test_a_gap_hides_references_below_every_root_that_the_log_names(con: Connection) -> None:
    facts = [table(holed=True, state={"roots": (Location(BUCKET, "shallow/clone"),)}), table("copy")]
    keys = (A, "shallow/clone/a", "shallow/clone_2/a", "copy/a")
    found = matched(con, facts, storage=(stored_of([stored(key) for key in keys]),))
    assert [key for key, holed in sorted(by_key(found, "h_references").items()) if holed] == [
        A, "shallow/clone/a"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "holed"),
    [
        ([table(shares=("copy",)), table("copy", holed=True)], ["copy/a", "orders/a"]),
        ([table(), table("copy", holed=True, shares=("orders",))], ["copy/a", "orders/a"]),
        ([table(), table("copy", holed=True)], ["copy/a"]),
        (
            [table(), table("copy", holed=True, state={"roots": (Location(BUCKET, "orders/ab"),)})],
            ["copy/a", "orders/a"],
        ),
        ([table(), table("copy", state={"roots": (Location(BUCKET, "orders/ab"),)})], []),
        ([table(), table("copy", shares=("orders",))], []),
    ],
)
def test_a_clone_that_cannot_be_read_is_a_gap_for_its_source(
    con: Connection, facts: list[TableFacts], holed: list[str]
) -> None:
    stores = (stored_of([stored(key) for key in ("orders/a", "copy/a")]),)
    found = matched(con, facts, storage=stores)
    assert sorted(key for key, is_holed in by_key(found, "h_references").items() if is_holed) == holed


def test_a_vacuum_is_assumed_per_table_up_to_its_youngest_absent_removal(con: Connection) -> None:
    rows = [claim(A, state="history", removed_at=ago(60)), claim(B, state="history", removed_at=ago(50)),
            claim("orders/c", state="history", removed_at=ago(40)),
            claim("copy/a", "copy", state="history", removed_at=ago(60)),
            claim("copy/b", "copy", state="gone", removed_at=ago(300)),
            # below its source's root: no VACUUM of the copy deleted it
            claim("orders/d", "copy", own_root=False, state="history", removed_at=ago(30))]  # fmt: skip
    storage = stored_of([stored("orders/c"), stored("copy/b")])
    found = matched(con, [table(), table("copy")], claimed=(claims(rows),), storage=(storage,))
    homes = {name: Location(BUCKET, name) for name in ("orders", "copy")}
    assert assumed_vacuums(con, removals(con, under_own_root(con, found, homes))) == [
        {"vacuumed": "orders", "vacuumed_to": ago(50).replace(tzinfo=None), "vacuumed_files": 2}
    ]


def test_a_vacuum_is_assumed_from_what_all_shares_of_the_keys_say(con: Connection) -> None:
    """One share alone shows a removed file that is older than what is absent."""
    parts = [{"table_name": "orders", "present_from": present, "absent_until": absent, "absent_files": files}
             for present, absent, files in ((ago(40), ago(60), 2), (None, ago(50), 3), (ago(30), None, 0))]  # fmt: skip
    schema = ANSWERS["removals"]
    assert [row["vacuumed_files"] for row in assumed_vacuums(con, rows_table(schema, parts))] == [5]
    old = {"table_name": "orders", "present_from": ago(55), "absent_until": None, "absent_files": 0}
    assert assumed_vacuums(con, rows_table(schema, [*parts, old])) == []
    alone = {"table_name": "orders", "present_from": None, "absent_until": ago(60), "absent_files": 1}
    assert assumed_vacuums(con, rows_table(schema, [alone | {"expired_files": 0}])) == []
    assert assumed_vacuums(con, rows_table(schema, [alone | {"expired_files": 1}])) != []
    assert assumed_vacuums(con, rows_table(schema, [alone, alone])) != []


def test_the_log_of_a_table_at_the_root_of_a_bucket_is_seen(con: Connection) -> None:
    keys = (
        "_delta_log/00000000000000000000.json",
        "a/_delta_log/1.json",
        "not_delta_log/1",
        "a/b",
        "x_delta_log/0",
    )
    objects = pa.table({"bucket": [BUCKET] * len(keys), "key": [*keys]})
    assert {(row["bucket"], row["key"]) for row in duck.rows_of(folders_of_logs(con, objects))} == {
        (BUCKET, ""), (BUCKET, "a"),
    }  # fmt: skip


def test_a_parent_is_only_spared_by_the_store_that_was_read_from_there_on(con: Connection) -> None:
    narrow, wide = "metastore:0", "metastore:1"
    stores = (
        entries_of([entry(A)], scope=(Location(BUCKET, "orders"),)),
        entries_of([entry(A, source=wide)], source=wide, scope=(Location(BUCKET, ""),)),
    )
    facts = [table()]
    sources, entries = (
        facts_of(facts, metastores=stores),
        rows_by_kind(con, [s.rows for s in stores])["entries"],
    )
    world = matched(con, facts, metastores=stores)
    tree = with_folders(con, tree_rows(con, entries, world, sources), folder_rows(con, world))
    said = finding_policy([fact.table for fact in facts], (), TODAY)
    judged = duck.rows_of(tree_verdicts(con, tree, parent_rows(con, entries), sources, said))
    assert {row["source"]: (row["parent"], row["parent_found"]) for row in judged} == {
        narrow: ("", False), wide: ("orders", False)
    }  # fmt: skip
    assert {row["source"]: row["rule"] for row in judged} == {
        narrow: "metastore_tree.sound", wide: "metastore_tree.parent_missing"
    }  # fmt: skip


def test_rows_beside_the_schemas_are_cut_to_them(con: Connection) -> None:
    """Readers may keep columns of their own; match takes the contract's alone."""

    def wider(schema: pa.Schema) -> pa.Table:
        return schema.empty_table().append_column("extra", pa.array([], pa.int64()))

    claimed = replace(claims([]), rows=(part_of({"steps": wider(CLAIM)}),))
    storage = replace(stored_of([]), rows=part_of({"versions": wider(STORED)}))
    store = replace(entries_of([]), rows=part_of({"entries": wider(ENTRY)}))
    found = matched(con, [table()], claimed=(claimed,), storage=(storage,), metastores=(store,))
    assert found.schema.names == PAIR.names
