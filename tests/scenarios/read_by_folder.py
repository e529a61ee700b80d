"""Files that readers of a folder read as data although no manifest lists them: `stale_visible`."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.evidence.protocol import CommittedNames
from tests.builders.evidence import ago, claim, stored
from tests.builders.scenario import LISTS, PARTIAL_LISTS, Storage, after, case, deleted, table

A, D = "orders/a", "orders/d=1/part-0.parquet"
OLD, OLDER = ago(200), ago(300)
LISTED = [table(manifests=[LISTS])]
PARTLY = [table(manifests=[PARTIAL_LISTS])]
BY_FOLDER = [table(readers="folder")]
STALE = "duplicate ok, leftover stale_visible"


NAMES = CommittedNames(("20261101100000000", "20261103100000000"), "20261101100000000", indexed=True)
HUDI = [HudiManifest(kind="hudi")]
BY_LISTING = [table(manifests=HUDI, state={"committed_names": NAMES})]
BY_INDEX = [table(manifests=HUDI, state={"committed_names": NAMES}, readers="metadata_table")]
WITHOUT_INDEX = [
    table(manifests=HUDI, state={"committed_names": replace(NAMES, indexed=False)}, readers="metadata_table")
]
TAKEN = "duplicate ok, leftover stale_visible:warning"


def base(instant: str) -> str:
    """The key of a base file of Hudi."""
    return f"orders/d=1/0f3c-0_0-1-2_{instant}.parquet"


SECONDS = base("20261031235959")
DONE, BETWEEN, ARCHIVED = base("20261103100000000"), base("20261102100000000"), base("20261031235959000")


def retired(key: str, hours: float = 200, **given: Any) -> dict[str, Any]:
    """A claim of a writer's list that a later list retired."""
    return claim(key, state="gone", removed_at=ago(hours), manifest_kind="file_list", **given)


def removed(key: str, hours: float = 200, state: str = "history", **given: Any) -> dict[str, Any]:
    """A file that a commit of the log removed."""
    return claim(key, state=state, removed_at=ago(hours), **given)


SCENARIOS = (
    # healthy: what a careful lake looks like
    case("lists and folder agree", "content ok, duplicate ok, leftover ok",
         claims=[claim(A, manifest_kind="file_list")], objects=[stored(A)], tables=LISTED),
    case("retired and deleted", {A: ""}, claims=[retired(A)], objects=[deleted(A)], tables=LISTED),
    case("retired, written again and listed again", "content ok, duplicate ok, leftover ok",
         claims=[claim(A, manifest_kind="file_list", claimed_at=ago(100))],
         objects=[stored(A, modified_at=ago(100.1))], tables=LISTED),
    case("retired half an hour ago: the job is about to delete it", "leftover young",
         claims=[retired(A, 0.5)], objects=[stored(A, modified_at=OLDER)], tables=LISTED),
    case("retired shortly before a picture of which nobody knows the hour", "leftover young", claims=[retired(A, 2)],
         objects=[stored(A, modified_at=OLDER)], tables=LISTED, storage=[Storage(margin=timedelta(hours=1.5))]),
    case("retired after the storage snapshot was taken", "leftover young",
         claims=[claim(A, state="gone", removed_at=after(1), manifest_kind="file_list")],
         objects=[stored(A, modified_at=OLDER)], tables=LISTED),
    case("written lately and not listed yet", "duplicate ok, leftover young",
         objects=[stored(A, modified_at=ago(10))], tables=LISTED),
    case("nobody says that the lists are whole", "duplicate ok, leftover ok",
         objects=[stored(A, modified_at=OLD)], tables=PARTLY),
    case("a table without manifests has nothing to compare with", "duplicate ok, leftover ok",
         objects=[stored(A, modified_at=OLD)], tables=[table(manifests=[])]),
    case("a job's success file", "duplicate ok, leftover ok",
         objects=[stored("orders/_SUCCESS", size=0, modified_at=ago(24 * 60))], tables=LISTED),
    case("a hidden file beside a data file", "duplicate ok, leftover unreferenced",
         objects=[stored("orders/.a.bak", modified_at=ago(24 * 60))], tables=LISTED),
    case("the checksum that Hadoop keeps beside a data file", "duplicate ok, leftover ok",
         objects=[stored("orders/.a.crc", modified_at=ago(24 * 60))], tables=LISTED),
    case("an empty file has no rows that anybody could read", "duplicate ok, leftover uncommitted",
         objects=[stored(A, size=0, modified_at=OLD)], tables=LISTED),
    case("a retired folder marker", "leftover ok", claims=[retired("orders/d=1/")],
         objects=[stored("orders/d=1/", modified_at=OLDER)], tables=LISTED),
    case("a retired deletion vector has no rows", "leftover unvacuumed",
         claims=[removed("orders/deletion_vector_0a.bin", state="gone", category="deletes")],
         objects=[stored("orders/deletion_vector_0a.bin", modified_at=OLDER)], tables=BY_FOLDER),
    case("the log of a table that is read by folder", "duplicate ok, leftover ok",
         objects=[stored("orders/_delta_log/00000000000000000001.json", modified_at=OLD)], tables=BY_FOLDER),
    case("the stream's checkpoint below a table that is read by folder", "duplicate ok, leftover ok",
         objects=[stored("orders/checkpoint/offsets/1", modified_at=OLD)], tables=BY_FOLDER),
    case("a temporary file of a table that is read by folder", "duplicate ok, leftover temporary",
         objects=[stored("orders/_temporary/0/part-0", modified_at=OLD)], tables=LISTED),
    case("temporary work that a promised state lists", "content ok, leftover ok",
         claims=[removed("orders/_temporary/part-0")],
         objects=[stored("orders/_temporary/part-0", modified_at=OLDER)], tables=BY_FOLDER),
    case("retired here, live in another table", {A: "leftover ok", f"copy: {A}": "content ok, duplicate ok"},
         claims=[retired(A), claim(A, "copy", own_root=False)], objects=[stored(A, modified_at=OLDER)],
         tables=[*LISTED, table("copy")]),
    case("removed from a log, and readers go by the log", "content ok, leftover ok",
         claims=[removed(A)], objects=[stored(A, modified_at=OLDER)]),
    case("a list with a gap may have listed it", "duplicate ok, leftover undecided",
         objects=[stored(A, modified_at=OLD)], tables=[table(manifests=[LISTS], holed=True)]),
    case("a base file of Hudi of an instant that is not completed", {BETWEEN: "duplicate ok, leftover uncommitted"},
         objects=[stored(BETWEEN, modified_at=OLD)], tables=BY_LISTING),
    case("the same where readers go by the metadata table", {BETWEEN: "duplicate ok, leftover uncommitted"},
         objects=[stored(BETWEEN, modified_at=OLD)], tables=BY_INDEX),
    case("a base file of Hudi that the timeline lists", {DONE: "content ok, duplicate ok, leftover ok"},
         claims=[claim(DONE, manifest_kind="hudi")], objects=[stored(DONE)], tables=BY_LISTING),
    case("a base file of Hudi that a clean removed, which is there for a while", {DONE: "leftover ok"},
         claims=[removed(DONE, 20, state="gone")], objects=[stored(DONE, modified_at=OLDER)], tables=BY_LISTING),
    case("the same where readers go by the metadata table, after a clean", {DONE: "leftover ok"},
         claims=[removed(DONE, 20, state="gone")], objects=[stored(DONE, modified_at=OLDER)], tables=BY_INDEX),
    case("a base file of Hudi that was written lately", {DONE: "duplicate ok, leftover young"},
         objects=[stored(DONE, modified_at=ago(10))], tables=BY_LISTING),
    case("a name of Hudi in a table of Delta", {DONE: "duplicate ok, leftover uncommitted"},
         objects=[stored(DONE, modified_at=OLD)]),
    case("a gap in the timeline may hide who lists the base file", {DONE: "duplicate ok, leftover undecided"},
         objects=[stored(DONE, modified_at=OLD)],
         tables=[table(manifests=HUDI, state={"committed_names": NAMES}, holed=True)]),
    # faults
    case("a base file of Hudi of a completed instant", {DONE: TAKEN},
         objects=[stored(DONE, modified_at=OLD)], tables=BY_LISTING),
    case("a base file of Hudi that is older than the timeline", {ARCHIVED: TAKEN},
         objects=[stored(ARCHIVED, modified_at=OLD)], tables=BY_LISTING),
    case("a base file of Hudi whose instant has no milliseconds", {SECONDS: TAKEN},
         objects=[stored(SECONDS, modified_at=OLD)], tables=BY_LISTING),
    case("readers go by a metadata table that nobody keeps", {DONE: TAKEN},
         objects=[stored(DONE, modified_at=OLD)], tables=WITHOUT_INDEX),
    case("readers go by the metadata table", {DONE: "duplicate ok, leftover stale_visible:info"},
         objects=[stored(DONE, modified_at=OLD)], tables=BY_INDEX),
    case("a later list retired it and nobody deleted it", "leftover stale_visible",
         claims=[retired(A)], objects=[stored(A, modified_at=OLDER)], tables=LISTED),
    case("retired long ago: still read, whatever the retention", "leftover stale_visible",
         claims=[retired(A, 24 * 30)], objects=[stored(A, modified_at=ago(24 * 40))], tables=LISTED),
    case("retired just longer ago than the grace", "leftover stale_visible",
         claims=[retired(A, 1)], objects=[stored(A, modified_at=OLDER)], tables=LISTED),
    case("retired at a time that nobody recorded", "leftover stale_visible",
         claims=[claim(A, state="gone", manifest_kind="file_list")], objects=[stored(A, modified_at=OLDER)],
         tables=LISTED),
    case("a retirement can be read even where the lists are not whole", "leftover stale_visible",
         claims=[retired(A)], objects=[stored(A, modified_at=OLDER)], tables=PARTLY),
    case("never listed by lists that are whole", STALE, objects=[stored(D, modified_at=OLD)], tables=LISTED),
    case("never listed, and older than the oldest list", STALE,
         objects=[stored(A, modified_at=ago(24 * 60))], tables=LISTED),
    case("a file of a byte", STALE, objects=[stored(A, size=1, modified_at=OLD)], tables=LISTED),
    case("an inventory without sizes, so it is unknown whether the file is empty", "leftover stale_visible",
         claims=[retired(A)], objects=[stored(A, size=None, modified_at=OLDER)], tables=LISTED),
    case("a partition whose name begins with an underscore", STALE,
         objects=[stored("orders/_day=1/part-0", modified_at=OLD)], tables=LISTED),
    case("removed from a log and not vacuumed, read by folder", "content ok, leftover stale_visible",
         claims=[removed(A)], objects=[stored(A, modified_at=OLDER)], tables=BY_FOLDER),
    case("removed from a log after the picture, read by folder", "content ok, leftover young",
         claims=[claim(A, state="history", removed_at=after(1))], objects=[stored(A, modified_at=OLDER)],
         tables=BY_FOLDER),
    case("the promise is over and no vacuum came, read by folder", "leftover stale_visible",
         claims=[removed(A, state="gone")], objects=[stored(A, modified_at=OLDER)], tables=BY_FOLDER),
    case("a failed task's file beside a log, read by folder", STALE,
         objects=[stored(D, modified_at=OLD)], tables=BY_FOLDER),
    case("promised by another table's history only, in a folder that readers list",
         {A: "leftover stale_visible", f"copy: {A}": "content ok"},
         claims=[removed(A, table="copy", own_root=False)], objects=[stored(A, modified_at=OLDER)],
         tables=[*BY_FOLDER, table("copy")]),
)  # fmt: skip
