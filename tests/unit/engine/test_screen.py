"""The prefilter clears no key on which the kernel would report, and its sums equal those of the kernel.

One lake has every situation (`screen_worlds.everything`). It is matched with and without a
projection pass before, and the rules in plain Python judge each cleared key.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta.state import replay
from lakeaudit.evidence.manifest.replica_source import originals
from lakeaudit.keys import Location
from lakeaudit.matching import metastore_tree, prefilter, prefilter_fingerprints
from lakeaudit.runtime import duck
from tests.builders.both_readings import FirstAnswers, differences, in_full, narrowly
from tests.builders.connections import connection
from tests.builders.evidence import CUT
from tests.builders.scenario import table
from tests.builders.screen_lake import ScreenLake, Source, moved
from tests.builders.screen_rows import ENTRIES, MARGIN, STEPS, VERSIONS, etag_of, folder, version
from tests.builders.screen_truth import Truth, bucket_of, hash_of
from tests.builders.screen_worlds import BARE, COPIED, ROOT, agreeing, everything
from tests.builders.spilling import SharingEngine

PLAINEST = {
    ("lake", "shop/vs/plain,plain,plain"), ("lake", "shop/inner/plain,plain,deletion_vector"),
    ("lake", "twice/plain,plain,plain"), ("lake", "second/plain,expired,plain"), (ROOT, "top/x"),
    (BARE, "bare/as_late_as_may_be,none,plain"), ("lake", "shop/inner/pruned"), ("lake", "shop/ve/plain,named,plain"),
    ("lake", "shop/inner/plain,opaque,_as_old_as_may_be,plain"), ("lake", "shop/inner/plain,opaque,plain"),
    ("lake", "shop/inner/plain,named,_update_not_given,plain"), (COPIED, "plain,plain"),
    (COPIED, "plain,no_etag"), ("lake", "moved/written_again,plain,plain"),
}  # fmt: skip
"""Files that a useful prefilter clears."""


@pytest.fixture(scope="module")
def lake() -> ScreenLake:
    return everything()


@pytest.fixture(scope="module")
def full(lake: ScreenLake) -> FirstAnswers:
    return in_full(lake)


@pytest.fixture(scope="module")
def truth(lake: ScreenLake) -> Iterator[Truth]:
    truth = Truth(lake)
    yield truth
    truth.con.close()


# --- the same answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "bits", "joined"),
    [
        (1, prefilter.BITS, prefilter.RANGE),
        pytest.param(1, prefilter.BITS, 100, marks=pytest.mark.variant),
        (2, 13, prefilter.RANGE),
    ],
    ids=["as it runs", "in ranges", "shared out, with buckets that collide"],
)
def test_a_projection_pass_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, lake: ScreenLake, full: FirstAnswers, shares: int, bits: int, joined: int
) -> None:
    monkeypatch.setattr(prefilter, "RANGE", joined)
    engine = InProcessEngine(2) if shares == 1 else SharingEngine(shares)
    narrow = narrowly(lake, engine, bits)
    assert narrow.files > 100
    assert differences(full, narrow) == {}


def test_the_lake_has_what_a_screen_could_get_wrong(full: FirstAnswers) -> None:
    answers = full.answers
    assert set(answers["entries"]["rule"].to_pylist()) == {
        f"metastore_tree.{name}"
        for name in ("parent_missing", "parent_tombstone", "parent_file", "keys_below", "object_there", "field_absent",
                     "children_missing")
    }  # fmt: skip
    assert len(set(answers["suspects"]["rule"].to_pylist())) > 10
    copies = answers["copies"]["key"].to_pylist()
    assert sorted(key.removeprefix("copies/") for key in copies) == [
        "day=1/three",
        "parts2",
        "sum",
        "two",
        "unclaimed-1",
        "unclaimed-3",
    ]
    assert answers["counts"]["storage:0"]["rejected"] == 3
    assert answers["counts"]["metastore:1"]["rejected"] == 1
    assert [hole.reason for hole in answers["holes"] if hole.subject == "part"] == ["cannot be read"]
    assert answers["uploads"]["rule"].to_pylist() == ["leftover.unfinished_upload"] * 3
    old = [row for row in answers["suspects"].to_pylist() if row["key"].startswith("lists/old")]
    assert old == []  # an act of a writer's list retired them all
    assert sum(row["known_as"] is not None for row in answers["suspects"].to_pylist()) == 1


@pytest.mark.soak
def test_one_bucket_with_nearly_all_keys() -> None:
    """The rows are in memory; one key has thousands of versions, and two files of that bucket are equal."""
    by_bucket: dict[int, list[str]] = {n: [] for n in range(16)}
    for n in range(300):
        by_bucket[bucket_of("lake", f"shop/p{n}", 4)].append(f"shop/p{n}")
    full = next(n for n in (1, 3) if n != bucket_of("lake", "shop", 4))
    lake = ScreenLake(
        tables=[table("shop", min_duplicate_size=1), table("clone")], kept=("versions", "entries", "steps")
    )
    lake.rows["entries"].append(folder("shop"))
    lake.plain(*by_bucket[full], *(key for n, keys in by_bucket.items() if n != full for key in keys[:1]))
    spoilt = by_bucket[2][0]
    lake.rows["versions"] += [version(spoilt, is_latest=False, version_id=f"v{n}") for n in range(3000)]
    first, second = by_bucket[full][:2]
    for row in (*lake.rows["versions"], *lake.rows["entries"]):
        if row["key"] == second:
            row["etag"] = etag_of(first)
    narrow = narrowly(lake, SharingEngine(2), bits=4)
    assert narrow.files >= len(by_bucket[full]) > 10
    assert narrow.answers["copies"].num_rows == 1
    assert differences(in_full(lake), narrow) == {}


drawn_source = st.builds(
    Source,
    start=st.integers(-90, 90).map(lambda minutes: CUT + timedelta(minutes=minutes)),
    margin=st.sampled_from([timedelta(0), MARGIN]),
    ttl=st.sampled_from([None, timedelta(minutes=15)]),
    authoritative=st.sampled_from(["none", "all"]),
)
drawn_settings = st.fixed_dictionaries(
    {
        "grace": st.sampled_from([timedelta(0), timedelta(hours=1), timedelta(hours=48)]),
        "leftover_age": st.sampled_from([timedelta(0), timedelta(days=3)]),
        "min_duplicate_size": st.sampled_from([1, 4096]),
    }
)


Drawn = Sequence[tuple[Source, Source, dict[str, Any]]]
any_lakes = given(
    st.lists(st.tuples(drawn_source, drawn_source, drawn_settings), min_size=3, max_size=3), st.randoms()
)


QUARTER, HOUR, DAY = timedelta(minutes=15), timedelta(hours=1), timedelta(days=1)
SOURCES_AND_SETTINGS: Drawn = [
    # a storage source, a metadata store, the settings of a table; each has a bucket of its own
    (Source(start=CUT - HOUR, margin=timedelta(0)), Source(start=CUT, margin=MARGIN, ttl=QUARTER),
     {"grace": timedelta(0), "leftover_age": 3 * DAY, "min_duplicate_size": 1}),
    (Source(start=CUT, margin=MARGIN), Source(start=CUT + HOUR, margin=timedelta(0), authoritative="all"),
     {"grace": HOUR, "leftover_age": timedelta(0), "min_duplicate_size": 4096}),
    (Source(start=CUT + HOUR, margin=MARGIN), Source(start=CUT - QUARTER, ttl=QUARTER, authoritative="all"),
     {"grace": 2 * DAY, "leftover_age": 3 * DAY, "min_duplicate_size": 1}),
]  # fmt: skip


def test_whatever_sources_and_settings_are() -> None:
    """The soak draws five hundred others."""
    _read_both_ways(SOURCES_AND_SETTINGS, random.Random(7))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=167, deadline=None, phases=[Phase.generate])
@any_lakes
def test_five_hundred_generated_lakes(drawn: Drawn, chance: random.Random) -> None:
    _read_both_ways(drawn, chance)


def _read_both_ways(drawn: Drawn, chance: random.Random) -> None:
    """Every bucket has sources and a table of its own; one store covers all buckets that no other covers."""
    names = [f"b{n}" for n in range(len(drawn))]
    places = [(Location(name, ""),) for name in names]
    lake = ScreenLake(
        [moved(table(name, **each[2]), name) for name, each in zip(names, drawn, strict=True)] + [table("clone")],
        storage=[_at(each[0], place) for each, place in zip(drawn, places, strict=True)],
        metastores=[_at(each[1], place) for each, place in zip(drawn, [(), *places[1:]], strict=True)],
    )  # fmt: skip
    for number, name in enumerate(names):
        _draw_keys(lake, number, name, chance)
    narrow = narrowly(lake)
    assert narrow.files > 20
    assert differences(in_full(lake), narrow) == {}


def _draw_keys(lake: ScreenLake, number: int, name: str, chance: random.Random) -> None:
    store = {"source": f"metastore:{number}"}
    for key in range(90):
        rows = [
            chance.choice([*named.values(), *[named["plain"]] * 20]) for named in (VERSIONS, ENTRIES, STEPS)
        ]
        versions = [{"source": f"storage:{number}", **row} for row in rows[0]]
        entries = [store | dict(row) for row in rows[1]]
        lake.add(f"day={key % 3}/{key}", versions, entries, rows[2], bucket=name, table_name=name)
    folders = [folder(f"day={n}", bucket=name, **store) for n in range(3)]
    lake.rows["entries"] += chance.sample(folders, 2)


def _at(source: Source, places: tuple[Location, ...]) -> Source:
    return Source(places, source.start, source.margin, source.ttl, source.authoritative)


# --- by the rules ----------------------------------------------------------------------------------------------------


def test_cleared_files_are_consistent_on_every_axis(truth: Truth) -> None:
    gone = truth.cleared_keys()
    assert gone.keys >= PLAINEST
    assert truth.faults(gone) == []


def test_files_that_are_open_in_the_ledger_are_not_cleared(truth: Truth) -> None:
    assert not truth.cleared_keys().keys & {("lake", "shop/open"), ("lake", "shop/open_leftover")}


def test_tables_of_lists_and_those_out_of_scope_are_not_cleared(truth: Truth) -> None:
    names = set(truth.cleared_keys().sums)
    assert names == {
        "shop",
        "inner",
        "second",
        "twice",
        "patient",
        "copies",
        "top",
        "bare",
        "habit",
        "copied",
        "moved",
    }


def without(conditions: Sequence[str], at: int) -> tuple[str, ...]:
    return (*conditions[:at], *conditions[at + 1 :])


def negated_at(conditions: Sequence[str], at: int) -> tuple[str, ...]:
    return (*conditions[:at], f"NOT ({conditions[at]})", *conditions[at + 1 :])


MUTABLE = [
    (prefilter, "AGREEMENT"),
    (prefilter_fingerprints, "OBJECT_PLAIN"),
    (prefilter_fingerprints, "ENTRY_PLAIN"),
    (prefilter_fingerprints, "ODD"),
    (replay, "PLAIN"),
    (originals, "PLAIN"),
]


@pytest.mark.parametrize("change", [without, pytest.param(negated_at, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("module", "name", "at"),
    [(module, name, at) for module, name in MUTABLE for at in range(len(getattr(module, name)))],
    ids=lambda value: getattr(value, "__name__", str(value)).rpartition(".")[2],
)
def test_every_condition_of_the_screen_is_needed(
    truth: Truth, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, at: int, change: Any
) -> None:
    monkeypatch.setattr(module, name, change(getattr(module, name), at))
    gone = truth.cleared_keys()
    assert truth.faults(gone) or not gone.keys >= PLAINEST, getattr(module, name)


# --- hashes that collide ---------------------------------------------------------------------------------------------


def _collided(lake: ScreenLake, *keys: str) -> dict[str, pa.Table]:
    """Return the prefilter's answer about these keys if all of them have one hash."""
    con = connection()
    held = Truth(lake).fingerprints()["traces"]
    hashes = ", ".join(str(hash_of("lake", key)) for key in keys)
    one = duck.query(
        con, f"SELECT * REPLACE (CAST(7 AS UBIGINT) AS h) FROM input WHERE h IN ({hashes})", input=held
    )
    traces = {"traces": duck.table(one)}
    return {kind: duck.table(rows) for kind, rows in prefilter.cleared_keys(lake.screen(), con, traces)}


def test_two_sound_files_of_one_hash_are_both_read_again() -> None:
    answers = _collided(agreeing(), "shop/p1", "shop/p2")
    assert (answers["buckets"].num_rows, answers["settled"].num_rows) == (1, 0)


@pytest.mark.timeout(60)
def test_a_key_that_each_side_has_often_is_not_multiplied() -> None:
    """A join of all its rows would have 40 thousand million."""
    con = connection()
    often = duck.query(con, "SELECT unnest([1, 2])::TINYINT AS side FROM range(200_000)")
    columns = "7::UBIGINT AS h, side, 0 AS owner, 100 AS size, NULL::BIGINT AS etag, NULL::BIGINT AS version"
    traces = duck.query(con, f"SELECT {columns}, TIMESTAMP '2026-01-01' AS time FROM often", often=often)
    lake = agreeing().screen()
    answers = {
        kind: duck.table(rows)
        for kind, rows in prefilter.cleared_keys(lake, con, {"traces": duck.table(traces)})
    }
    assert (answers["buckets"].num_rows, answers["settled"].num_rows) == (1, 0)


def test_a_lost_file_and_a_stray_one_of_one_hash_pass_for_one() -> None:
    """The only harm a collision can do; the module says how rare it is."""
    lake = agreeing()
    lake.metastores, lake.rows["entries"] = (), []
    lake.add("shop/lost", [], [], [{}])
    lake.add("shop/stray", [{}], [], [])
    lake.add("shop/larger", [{"size": 101}], [], [])
    assert _collided(lake, "shop/lost", "shop/stray")["settled"].num_rows == 1
    assert _collided(lake, "shop/lost", "shop/larger")["settled"].num_rows == 0


# --- folders ---------------------------------------------------------------------------------------------------------


def test_folders_of_traces_are_all_those_that_have_keys_below() -> None:
    keys = [
        "a",
        "a/b",
        "a/b/c",
        "/",
        "/a",
        "//a",
        "a//b",
        "a/b/",
        "a/b//",
        "a/./b",
        "é/ü/x",
        "",
        "a b/c:d/e",
        "///",
    ]
    con = connection()
    rows = pa.table({"bucket": ["lake"] * len(keys), "key": keys})
    stored = duck.query(con, _STORED, input=rows)
    below = duck.rows_of(metastore_tree.folder_rows(con, stored))
    covered = duck.rows_of(metastore_tree.folders_of(con, rows))
    assert {row["key"] for row in below} - {row["key"] for row in covered} == set()
    assert {"a", "a/b", "é", "é/ü", "a b", "a b/c:d"} <= {row["key"] for row in covered}
    con.close()


_STORED = """
    SELECT *, 'present' AS s_presence, true AS first, 'file' AS m_state, false AS m_honoured,
        NULL::TIMESTAMP AS s_from, NULL::INTERVAL AS s_margin, NULL::TIMESTAMP AS m_from, NULL::INTERVAL AS m_margin,
        NULL::TIMESTAMP AS s_modified_at, NULL::INTERVAL AS o_grace FROM input
"""
