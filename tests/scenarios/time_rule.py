"""Every boundary of the time rule, at equality and one second to either side.

A claim, an object or an entry is judged only where it lies clearly before the storage cut (less its margin). Each
table reads: what the moment is, the moment, the verdict.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from tests.builders.evidence import CUT, READ_AT, ago, claim, entry, folder, stored
from tests.builders.scenario import DELTA, LISTS, Row, Scenario, Storage, Store, after, case, table

A, B = "orders/a", "orders/b"
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
MD5, OTHER_MD5 = "0cc175b9c0f1b6a831c399e269772661", "92eb5ffee6ae2fec3ad71c777531578f"
FUZZY = Storage(margin=DAY)
BOTH = ("at the cut exactly", [Storage()], CUT), ("with a day's margin", [FUZZY], CUT - DAY)
AROUND = (("a second early", -SECOND), ("to the second", timedelta(0)), ("a second late", SECOND))


def around(edge: datetime, early: str, exact: str, late: str) -> Iterable[tuple[str, datetime, str]]:
    """The moment a second before the edge, the edge, and a second after it, each with its verdict."""
    return [
        (word, edge + step, said) for (word, step), said in zip(AROUND, (early, exact, late), strict=True)
    ]


def _absent() -> Iterable[Scenario]:
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge - HOUR, "dropped", "dropped", "young"):
            yield case(f"absent, claimed the grace before the cut, {word}, {margin}",
                       f"content {said}, duplicate ok",
                       claims=[claim(A, claimed_at=at)], storage=storage)  # fmt: skip
    for word, at, said in around(CUT - 5 * HOUR, "dropped", "dropped", "young"):
        yield case(f"absent, claimed a grace of 5 h before the cut, {word}", f"content {said}, duplicate ok",
                   claims=[claim(A, claimed_at=at)], tables=[table(grace=5 * HOUR)])  # fmt: skip


def _differs() -> Iterable[Scenario]:
    ways: tuple[tuple[str, str, Row, Row], ...] = (
        ("another size", "size_mismatch", {}, {"size": 7}),
        ("another content", "content_mismatch", {"etag": MD5}, {"etag": OTHER_MD5}),
        ("another version", "overwritten", {"version_id": "v1"}, {"version_id": "v2"}),
    )
    for what, kind, claimed, found in ways:
        for word, at, said in around(CUT - HOUR, kind, kind, "young"):
            yield case(f"{what}, claimed the grace before the cut, {word}",
                       f"content {said}, duplicate ok, leftover ok",
                       claims=[claim(A, claimed_at=at, **claimed)], objects=[stored(A, **found)])  # fmt: skip
        for margin, storage, edge in BOTH:
            for word, at, said in around(edge, kind, kind, "undecided"):
                same = "young" if said == "undecided" else "ok"
                yield case(f"{what}, object written when the cut began, {word}, {margin}",
                           f"content {said}, duplicate {same}, leftover ok", claims=[claim(A, **claimed)],
                           objects=[stored(A, modified_at=at, **found)], storage=storage)  # fmt: skip
        yield case(f"{what}, claimed after the cut, and written again an hour and more later",
                   "content young, duplicate young, leftover ok",
                   claims=[claim(A, claimed_at=after(1), **claimed)],
                   objects=[stored(A, modified_at=after(3), **found)])  # fmt: skip
    for word, at, said in around(CUT - HOUR, "archived", "archived", "young"):
        yield case(f"archived, claimed the grace before the cut, {word}",
                   f"content {said}, duplicate ok, leftover ok",
                   claims=[claim(A, claimed_at=at)], objects=[stored(A, archived=True)])  # fmt: skip


def _rewritten() -> Iterable[Scenario]:
    for grace, step in ((HOUR, HOUR), (timedelta(0), 2 * SECOND)):
        for word, at, said in around(ago(72) + step, "ok", "ok", "overwritten"):
            yield case(f"written again {step} after its commit, {word}, grace {grace}",
                       f"content {said}, duplicate ok, leftover ok", claims=[claim(A)],
                       objects=[stored(A, modified_at=at)], tables=[table(grace=grace)])  # fmt: skip
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge, "overwritten", "overwritten", "undecided"):
            same = "young" if said == "undecided" else "ok"
            yield case(f"written again when the cut began, {word}, {margin}",
                       f"content {said}, duplicate {same}, leftover ok",
                       claims=[claim(A)], objects=[stored(A, modified_at=at)], storage=storage)  # fmt: skip

    yield case("claimed after the cut, and written again after the grace",
               "content young, duplicate young, leftover ok",
               claims=[claim(A, claimed_at=after(1))], objects=[stored(A, modified_at=after(3))])  # fmt: skip


def _events() -> Iterable[Scenario]:
    beside = [table(manifests=[DELTA, LISTS])]
    for word, at, said in around(READ_AT - HOUR, "lost_commit", "lost_commit", "young"):
        yield case(f"recorded the grace before the table was read, {word}", f"content {said}",
                   claims=[claim(A, manifest_kind="file_list", claimed_at=at)], tables=beside)  # fmt: skip
    for word, at, said in around(ago(24 * 30), "undecided", "undecided", "lost_commit"):
        yield case(f"recorded when the oldest readable state was written, {word}", f"content {said}",
                   claims=[claim(A, manifest_kind="file_list", claimed_at=at)], tables=beside)  # fmt: skip


def _leftovers() -> Iterable[Scenario]:
    wholes: dict[str, Row] = {
        "a whole object": {},
        "a whole object whose upload is not known": {"multipart": None, "etag": None},
    }
    parts: dict[str, Row] = {
        "parts by the report": {"multipart": True},
        "parts by the ETag": {"multipart": None, "etag": "beef-12"},
    }
    for margin, storage, edge in BOTH:
        for age, ways in ((3 * DAY, wholes), (4 * DAY, parts)):
            for what, given in ways.items():
                for word, at, said in around(edge - age, "uncommitted", "uncommitted", "young"):
                    yield case(f"a stray, {what}, written {age.days} days before the cut, {word}, {margin}",
                               f"duplicate ok, leftover {said}", objects=[stored(A, modified_at=at, **given)],
                               storage=storage)  # fmt: skip
    for word, at, said in around(ago(24 * 30), "unreferenced", "unreferenced", "uncommitted"):
        yield case(f"a stray written when the oldest readable state was, {word}",
                   f"duplicate ok, leftover {said}",
                   objects=[stored(A, modified_at=at)])  # fmt: skip


def _removals() -> Iterable[Scenario]:
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge, "ok", "ok", "young"):
            yield case(f"removed when the cut began, {word}, {margin}", f"leftover {said}", storage=storage,
                       claims=[claim(A, state="gone", removed_at=at)],
                       objects=[stored(A, modified_at=ago(24 * 20))])  # fmt: skip
        for word, at, said in around(edge - 7 * DAY, "unvacuumed", "unvacuumed", "ok"):
            yield case(f"removed seven days before the cut, {word}, {margin}", f"leftover {said}",
                       storage=storage,
                       claims=[claim(A, state="gone", removed_at=at)],
                       objects=[stored(A, modified_at=ago(24 * 20))])  # fmt: skip
    for word, at, said in around(CUT - 2 * DAY, "unvacuumed", "unvacuumed", "ok"):
        yield case(f"removed two days before the cut, {word}, where the lake file's retention of two days holds",
                   f"leftover {said}", tables=[table(state={"retention": None}, retention=2 * DAY)],
                   claims=[claim(A, state="gone", removed_at=at)],
                   objects=[stored(A, modified_at=ago(24 * 20))])  # fmt: skip


def _entries() -> Iterable[Scenario]:
    """An entry against storage: its times and the object's, plus the grace, against the earlier of both cuts."""
    long_ago = {"mod_time": ago(200), "last_updated": ago(200)}
    stores = (
        ("both cuts at once", Storage(), Store(), CUT),
        ("storage with a day's margin", FUZZY, Store(), CUT - DAY),
        ("the store scanned a day earlier", Storage(), Store(cut=CUT - DAY), CUT - DAY),
        (
            "the store exported with a minute's margin",
            Storage(),
            Store(margin=60 * SECOND),
            CUT - 60 * SECOND,
        ),
        ("the store scanned six hours later", Storage(), Store(cut=READ_AT), CUT),
    )
    for cuts, storage, store, edge in stores:
        for field in ("mod_time", "last_updated"):
            for word, at, said in around(edge - HOUR, "phantom", "phantom", "young"):
                tree = "young" if field == "last_updated" and at + HOUR > store.cut - store.margin else "ok"
                yield case(f"an entry without object, {field} the grace before, {word}, {cuts}",
                           f"metastore {said}, metastore_tree {tree}", storage=[storage], store=store,
                           entries=[entry(A, **(long_ago | {field: at}))])  # fmt: skip
        for word, at, said in around(edge - HOUR, "hidden", "hidden", "young"):
            yield case(f"an object without entry, written the grace before, {word}, {cuts}",
                       f"leftover young, duplicate ok, metastore {said}", storage=[storage], store=store,
                       objects=[stored(A, modified_at=at)], tables=[table(manifests=[])])  # fmt: skip
    for word, at, said in around(CUT - HOUR, "metastore_stale", "metastore_stale", "young"):
        yield case(f"an entry of another size, object written the grace before, {word}",
                   f"leftover ok, metastore {said}, metastore_tree ok, content overwritten, duplicate ok",
                   claims=[claim(A)], objects=[stored(A, modified_at=at)], entries=[entry(A, size=7)])  # fmt: skip
    yield case("an entry with a time of its own alone, and that is young",
               "metastore young, metastore_tree young",
               entries=[entry(A, mod_time=None, last_updated=ago(0.1))])  # fmt: skip
    yield case("an entry with a modification time alone, and that is young",
               "metastore young, metastore_tree young",
               entries=[entry(A, mod_time=ago(0.1), last_updated_given=False)])  # fmt: skip
    yield case("an entry without any time is taken for long ago",
               "metastore phantom, metastore_tree metastore_broken",
               entries=[entry(A, mod_time=None, last_updated_given=False)])  # fmt: skip


def _trees() -> Iterable[Scenario]:
    """The store's own tree: entry and parent, each touched the grace before the store's cut less its margin."""
    broken = "metastore phantom, metastore_tree"
    for cuts, store, edge in (
        ("a scan", Store(), CUT),
        ("an export", Store(margin=60 * SECOND), CUT - 60 * SECOND),
    ):
        late = Storage(cut=READ_AT)
        for word, at, said in around(edge - HOUR, "metastore_broken", "metastore_broken", "young"):
            seen = "phantom" if said != "young" else "young"
            yield case(f"an entry without parent, updated the grace before {cuts}, {word}",
                       f"metastore {seen}, metastore_tree {said}", storage=[late], store=store,
                       entries=[entry("orders/x/a", last_updated=at)])  # fmt: skip
            yield case(f"an entry whose parent was deleted the grace before {cuts}, {word}",
                       {"orders/x/a": f"{broken} {said}",
                       "orders/x": "metastore ok" if said != "young" else "metastore young"},
                       storage=[late], store=store,
                       entries=[entry("orders/x", tombstone=True, last_updated=at), entry("orders/x/a")])  # fmt: skip
    yield case("last_updated 0 is given and counts as long ago, whatever the modification time",
               "metastore young, metastore_tree metastore_broken",
               entries=[entry("orders/x/a", mod_time=ago(0.1), last_updated=None)])  # fmt: skip
    yield case("last_updated absent: the modification time counts", "metastore young, metastore_tree young",
               entries=[entry("orders/x/a", mod_time=ago(0.1), last_updated_given=False)])  # fmt: skip
    yield case("a folder with neither time counts as long ago",
               {"orders/x/y": "metastore_tree metastore_broken"},
               entries=[folder("orders/x/y", last_updated_given=False)])  # fmt: skip
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge - HOUR, "metastore_broken", "metastore_broken", "ok"):
            seen = "hidden:error" if said != "ok" else "young"
            yield case(f"a child not entered in a complete folder, written the grace before, {word}, {margin}",
                       {"orders/x/a": f"leftover young, duplicate ok, metastore {seen}",
                       "orders/x": f"metastore_tree {said}"},
                       entries=[folder("orders/x", authoritative=True, honoured=True)], storage=storage,
                       store=Store(authoritative=("orders",)), tables=[table(manifests=[])],
                       objects=[stored("orders/x/a", modified_at=at)])  # fmt: skip


def _duplicates() -> Iterable[Scenario]:
    twin: Row = {"size": 5000, "etag": MD5}
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge, "duplicate_content", "duplicate_content", "young"):
            yield case(f"two files with the same bytes, the second written when the cut began, {word}, {margin}",
                       {A: "content ok, duplicate ok, leftover ok",
                       B: f"content ok, duplicate {said}, leftover ok"},
                       claims=[claim(A, size=5000), claim(B, size=5000, claimed_at=after(1))], storage=storage,
                       objects=[stored(A, **twin), stored(B, modified_at=at, **twin)])  # fmt: skip


def _uploads() -> Iterable[Scenario]:
    for margin, storage, edge in BOTH:
        for word, at, said in around(edge - 4 * DAY, "unfinished_upload", "unfinished_upload", ""):
            upload = {
                "source": "storage:0",
                "bucket": "lake",
                "key": A,
                "upload_id": "u1",
                "initiated_at": at,
            }
            yield case(f"an upload begun four days before the cut, {word}, {margin}",
                       {A: f"leftover {said}" if said else ""}, uploads=[upload], storage=storage)  # fmt: skip


SCENARIOS = (
    *_absent(), *_differs(), *_rewritten(), *_events(), *_leftovers(), *_removals(), *_entries(), *_trees(),
    *_duplicates(), *_uploads(),
)  # fmt: skip
