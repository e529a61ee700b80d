"""One lake with every situation in which a screen could go wrong: tables, stores, folders, odd keys, equal contents."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lakeaudit.keys import Location
from lakeaudit.matching.table_facts import TableFacts
from tests.builders.evidence import BUCKET, CUT, ago
from tests.builders.scenario import DELTA, LISTS, ORIGINAL, table
from tests.builders.screen_lake import ScreenLake, Source, moved
from tests.builders.screen_rows import (
    ENTRIES,
    MD5,
    ORIGINALS,
    OTHER_MD5,
    STEPS,
    VERSIONS,
    entry,
    event,
    folder,
    open_row,
    original,
    step,
    version,
)

PLAIN: Any = {"plain": [{}]}
FEW: Any = {"plain": [{}], "none": []}
ROOT, BARE, STRANGE, HABIT, COPIED = "root", "bare", "strange", "habit", "copied"
"""Buckets beside BUCKET: one table owns all of it; no store covers it; it has no table; it has its own store."""

ODD_KEYS = (
    *("a:b", "a//b", "./x", "../x", ".x", "a/./b", "a/../b", "a/.x"),
    *("/x", "z/", "a_$folder$", "", "_temporary/0/x"),
)
TOP = {"bucket": ROOT, "table_name": "top"}


def agreeing() -> ScreenLake:
    """A few files on which all agree."""
    lake = ScreenLake()
    lake.rows["entries"].append(folder("shop"))
    lake.plain(*(f"shop/p{n}" for n in range(6)))
    return lake


def tables() -> list[TableFacts]:
    """Tables of every standing towards the screen."""
    return [
        *(table("shop"), table("clone"), table("inner", at="shop/inner"), table("second"), table("split")),
        *(
            table("twice"),
            table("holed", holed=True),
            table("unjudged"),
            table("loose", ()),
            table("moved", moved=True),
        ),
        *(table("lists", (LISTS,)), table("both", (DELTA, LISTS)), table("patient", grace=timedelta(days=2))),
        *(table("copies", min_duplicate_size=50, readers="folder"), moved(table("top"), ROOT)),
        *(
            moved(table("bare"), BARE),
            moved(table("habit"), HABIT),
            moved(table("copied", (ORIGINAL,)), COPIED),
        ),
    ]


def everything() -> ScreenLake:
    """All situations in one lake."""
    storage = (
        Source(tuple(Location(bucket, "") for bucket in (BUCKET, ROOT, BARE, STRANGE, HABIT, COPIED))),
        Source((Location(BUCKET, "twice"), Location(BUCKET, "split/part")), start=CUT + timedelta(hours=1)),
    )
    stores = (
        Source(
            tuple(Location(bucket, "") for bucket in (BUCKET, ROOT, STRANGE)),
            ttl=timedelta(days=9),
            authoritative=(Location(BUCKET, "shop/trusted"),),
        ),
        Source((Location(BUCKET, "second"),), authoritative="all"),
        Source((Location(HABIT, ""),)),
    )
    found = tables()
    lake = ScreenLake(found, [f.table.name for f in found if f.table.name != "unjudged"], storage, stores)
    lake.kept, lake.torn = ("steps",), True
    for part in (
        _products,
        _every_table,
        _sources,
        _habits,
        _claims_elsewhere,
        _lists,
        _folders,
        _copies,
        _ledger,
        _originals,
    ):
        part(lake)
    for key in ODD_KEYS:
        lake.plain(f"shop/{key}")
        lake.plain(key, **TOP)
    lake.rows["versions"] += [{"source": "storage:0", "reject": f"row {n}"} for n in range(3)]
    lake.rows["entries"] += [{"source": "metastore:1", "reject": "no size"}]
    lake.rows["uploads"] += [
        {
            "source": "storage:0",
            "bucket": BUCKET,
            "key": f"shop/u{n}",
            "upload_id": "1",
            "initiated_at": ago(999),
        }
        for n in range(3)
    ]
    return lake


def _products(lake: ScreenLake) -> None:
    """Add combinations of rows of two sources, with a few rows of a third one, or none."""
    lake.grid("shop/vs/", VERSIONS, FEW, STEPS)
    lake.grid("shop/ve/", VERSIONS, ENTRIES, PLAIN)
    lake.grid("shop/es/", FEW, ENTRIES, STEPS)
    lake.grid("bare/", VERSIONS, {"none": []}, STEPS, bucket=BARE, table_name="bare")
    lake.plain("top/x", "top/y/z", **TOP)
    short: Any = [{"size": 36}]
    lake.add("shop/short.avro", short, short, short)
    long_ago = {"modified_at": ago(24 * 9 + 0.1 + 1 / 6)}  # a ttl and the margin before the store was read
    for name, given in {"pruned": long_ago, "not_pruned": {"modified_at": ago(24 * 9)}}.items():
        lake.add(f"shop/inner/{name}", [given], [], [{}], table_name="inner")
        lake.add(f"shop/{name}", [given], [], [{}])
        lake.add(f"second/{name}", [given], [], [{}], table_name="second")
        lake.add(f"shop/inner/{name}_and_lost", [], [], [{}], table_name="inner")


def _every_table(lake: ScreenLake) -> None:
    for name in (
        "second",
        "moved",
        "split",
        "twice",
        "holed",
        "unjudged",
        "loose",
        "both",
        "patient",
        "inner",
    ):
        where = {"inner": "shop/inner/"}.get(name, f"{name}/")
        lake.star(where, table_name=name)
    for row in lake.rows["versions"]:
        if row["key"].startswith("twice/"):
            row["source"] = "storage:1"
    for row in lake.rows["entries"]:
        if row["key"].startswith("second/"):
            row["source"] = "metastore:1"
    below = ("vs", "ve", "es", "inner")
    tops = [
        "shop",
        "moved",
        "split",
        "twice",
        "holed",
        "unjudged",
        "loose",
        "both",
        "patient",
        "lists",
        "copies",
        "elsewhere",
    ]
    lake.rows["entries"] += [folder(top) for top in (*tops, *(f"shop/{name}" for name in below))]


def _sources(lake: ScreenLake) -> None:
    """Add rows of a source about a place that another source decides."""
    lake.rows["versions"] += [
        version("twice/plain,plain,plain", size=9),  # storage:0 does not decide there
        version("twice/plain,other_size,plain/below"),
        version("split/part/x"),
    ]
    lake.plain("split/part/x", "split/part/y")
    lake.plain("second/both", "second/this", table_name="second")  # by metastore:0, which does not answer
    lake.rows["entries"] += [
        entry("second/both", source="metastore:1"),
        entry("second/plain,plain,plain", size=None),
        folder("second"),
    ]


def _habits(lake: ScreenLake) -> None:
    """A store in which most entries have an ETag, because of those that are cleared."""
    store = {"source": "metastore:2"}
    for n in range(4):
        lake.add(f"{n}", [{}], [store], [{}], bucket=HABIT, table_name="habit")
    for n in range(2):
        lake.add(f"lacks{n}", [{}], [store | {"etag": None}], [{}], bucket=HABIT, table_name="habit")


def _claims_elsewhere(lake: ScreenLake) -> None:
    """Claims of files that lie outside of the claiming table's own place."""
    lake.plain("shop/inner/of_shop", "elsewhere/of_shop", "clone/of_shop", table_name="shop")
    lake.plain("shop/of_shop", bucket=STRANGE, table_name="shop")
    lake.rows["steps"] += [step("shop/inner/plain,plain,plain", "clone")]


def _lists(lake: ScreenLake) -> None:
    """Writers' lists alone and beside a log; an act retires what lies below its place, whichever share holds it."""
    for n in range(9):
        for name in ("lists/new", "lists/old", "both/new"):
            lake.add(f"{name}/{n}", [{}], [{}], [], table_name=name)
            lake.rows["events"].append(event(f"{name}/{n}", name.partition("/")[0]))
        lake.rows["steps"].append(step(f"both/new/{n}", "both", size=100 + n % 2))
    lake.rows["entries"] += [folder(f"{place}") for place in ("lists/new", "lists/old", "both/new")]
    act = {"source": "manifest:file_list", "table_name": "lists", "list_no": 1, "line": 1, "at": ago(50)}
    lake.rows["acts"] = [act | {"scope_bucket": BUCKET, "scope_key": "lists/old"}]


PARENTS: Mapping[str, Mapping[str, Any] | None] = {
    "sound": {},
    "missing": None,
    "tombstone": {"tombstone": True},
    "expired tombstone": {"tombstone": True, "expired": True},
    "expired": {"expired": True},
    "file": {"is_dir": False, "size": 1, "etag": MD5},
    "late": {"last_updated": ago(0.5)},
    "late by mod_time": {"last_updated_given": False, "mod_time": ago(0.5)},
    "no times": {"last_updated": None, "mod_time": None},
    "no field": {"last_updated": None, "last_updated_given": False},
}
"""The possible entries of a folder."""


def _originals(lake: ScreenLake) -> None:
    """A table that should be a copy of another place."""
    for v, of_version in VERSIONS.items():
        for o, of_original in ORIGINALS.items():
            key = f"{v},{o}".replace(" ", "_")
            lake.add(key, of_version, [], [], bucket=COPIED)
            lake.rows["originals"] += [original(key, bucket=COPIED, **given) for given in of_original]


def _folders(lake: ScreenLake) -> None:
    """Files below every folder; a file below a file; a folder whose listing is trusted and lacks a child."""
    for name, given in PARENTS.items():
        place = f"shop/{name}".replace(" ", "_")
        lake.rows["entries"] += [] if given is None else [folder(place, **given)]
        lake.plain(*(f"{place}/{n}" for n in range(3)))
        lake.grid(f"{place}/", {"plain": [{}], "none": []}, {"other": [{"size": 7}]}, PLAIN)
    lake.plain("shop/file_and_folder", "shop/file_of_entry", "shop/file_of_file", "shop/file_of_file/x")
    lake.add("shop/file_and_folder/deep/x", [{}], [], [])
    lake.add("shop/file_of_entry/x", [], [{}], [])
    lake.rows["entries"] += [folder("shop/trusted", authoritative=True, honoured=True)]
    lake.plain("shop/trusted/a")
    lake.add("shop/trusted/b", [{}], [], [{}])


def _copies(lake: ScreenLake) -> None:
    """Equal contents, each group of its own size: cleared or not, in one or several places, visible and hidden."""
    groups: Mapping[int, tuple[str, ...]] = {
        1000: ("one", "two", "day=1/three", "day=1/four", "day=2/five"),
        1001: ("unclaimed-1", "six"),
        1002: ("_hidden/seven", "eight", ".nine"),
        40: ("small", "smaller"),
        1003: ("ten",),
        1004: ("unclaimed-2", "unclaimed-3"),
    }
    for size, names in groups.items():
        for name in names:
            _copy(lake, f"copies/{name}", size, "copies")
    _copy(lake, "patient/ten", 1003, "patient")
    parts = {"size": 1005, "etag": f"{MD5}-2"}
    for name in ("copies/parts1", "copies/parts2"):
        lake.add(name, [parts | {"multipart": True}], [parts], [{"size": 1005}], table_name="copies")
    for name, checksum in {
        "other_sum": "md5:aa",
        "sum": "md5:aa",
        "crc": "crc32c:aa",
        "other_crc": "crc32c:aa",
    }.items():
        summed = {"size": 1006, "etag": None, "checksum": checksum}
        lake.add(f"copies/{name}", [summed], [{"size": 1006}], [{"size": 1006}], table_name="copies")
    places = ("day=1", "day=2", "_hidden")
    lake.rows["entries"] += [folder(f"copies/{place}") for place in places]


def _copy(lake: ScreenLake, key: str, size: int, name: str) -> None:
    same = {"size": size, "etag": OTHER_MD5}
    day = key.partition("day=")[2].partition("/")[0]
    claim = [] if "unclaimed" in key else [{"size": size, "partition": f'{{"day":"{day}"}}' if day else "{}"}]
    lake.add(key, [same], [same], claim, table_name=name)


def _ledger(lake: ScreenLake) -> None:
    """Files that are open in the ledger and were repaired since, and one that no source lists."""
    lake.plain("shop/open", "shop/open_leftover", "bare/open")
    lake.known += [
        open_row("shop/open"),
        open_row("shop/gone"),
        open_row("shop/open_leftover", axis="leftover"),
    ]
