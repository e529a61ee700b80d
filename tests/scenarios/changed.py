"""Objects that are not what the table lists: size, content, version, time and storage class."""

from datetime import timedelta
from typing import Any

from lakeaudit.config.lake import Archived
from tests.builders.evidence import ago, claim, stored
from tests.builders.scenario import DELTA, LISTS, Row, after, case, table

A = "orders/a"
MD5 = "0cc175b9c0f1b6a831c399e269772661"
OTHER_MD5 = "92eb5ffee6ae2fec3ad71c777531578f"
WELL = "content ok, duplicate ok, leftover ok"


def listed(**given: Any) -> Row:
    """The record of a plain writer's own list."""
    return {"manifest_kind": "file_list", "source": "manifest:file_list", **given}


NOW_THERE = {
    "l_confirmation": "live",
    "l_presence": "present",
    "l_size": 100,
    "l_modified_at": ago(20),
    "l_at": after(7),
}

VERSIONS = (
    case("written again with the bytes of the version that was current at the commit: put back", WELL,
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20))],
         live={A: NOW_THERE | {"l_versus_claimed": "same"}}),
    case("written again with other bytes than the version that was current at the commit",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20))],
         live={A: NOW_THERE | {"l_versus_claimed": "differs"}}),
    case("written again, and no version of then is left", "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20))], live={A: NOW_THERE}),
    case("written again, and its footer counts other rows than the table recorded",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20))],
         live={A: NOW_THERE | {"l_footer_fault": "its footer counts 9 rows, and the table recorded 10"}}),
    case("a new version id over the same bytes", WELL,
         claims=[claim(A, version_id="v1")], objects=[stored(A, version_id="v3")],
         live={A: NOW_THERE | {"l_version_id": "v3", "l_modified_at": ago(72.1), "l_versus_claimed": "same"}}),
    case("the writer's own ETag goes before what the versions say",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, modified_at=ago(20))],
         live={A: NOW_THERE | {"l_etag": OTHER_MD5, "l_multipart": False, "l_encryption": "NONE",
                               "l_versus_claimed": "same"}}),
)  # fmt: skip

CHANGED = (
    case("a truncated object", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, size=99)]),
    case("an emptied object", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, size=0)]),
    case("another size and another ETag: the size is reported", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, size=99, etag=OTHER_MD5)]),
    case("another size and archived: the size is reported", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, size=99, archived=True)]),
    case("another size though the version id is the writer's",
         "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, version_id="v1")], objects=[stored(A, size=99, version_id="v1")]),
    case("another size, restored under a new version, written again",
         "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, version_id="v1")], objects=[stored(A, size=99, version_id="v2",
         modified_at=ago(20))]),
    case("same size, other MD5-class ETag", "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5)]),
    case("same size, other MD5 under no encryption", "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, encryption="NONE")]),
    case("other content and archived: the content is reported",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, archived=True)]),
    case("the writer's checksum is not the object's MD5-class ETag",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A)]),
    case("the writer's checksum is not the MD5-class ETag of an object that is not encrypted",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, encryption="NONE")]),
    case("the writer's checksum is not the ETag, and the report does not say how it was uploaded",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, multipart=None)]),
    case("full checksums of one algorithm differ", "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, checksum="sha256:aa")], objects=[stored(A, checksum="sha256:bb")]),
    case("full checksums differ though the version id is the writer's",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, checksum="sha256:aa", version_id="v1")],
         objects=[stored(A, checksum="sha256:bb", version_id="v1")]),
    case("checksums of two algorithms say nothing of each other", WELL,
         claims=[claim(A, checksum="sha256:aa")], objects=[stored(A, checksum="crc32:bb")]),
    case("a sha256 is not compared with an ETag", WELL, claims=[claim(A, checksum="sha256:aa")],
         objects=[stored(A)]),
    case("an MD5 is not compared with the ETag of a KMS object", WELL,
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, encryption="SSE-KMS")]),
    case("an MD5 is not compared with a multipart ETag", WELL,
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, etag="beef-2")]),
    case("an MD5 is not compared with an ETag where the encryption is not known",
         "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, encryption=None)]),
    case("an MD5 is not compared with the ETag of a file that was uploaded in parts", WELL,
         claims=[claim(A, checksum=f"md5:{OTHER_MD5}")], objects=[stored(A, multipart=True)]),
    case("ETags differ, storage's is of a multipart upload: another object, content unknown",
         "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag="beef-2", multipart=True)]),
    case("ETags differ, the claim's is of a multipart upload", "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, etag="beef-2")], objects=[stored(A)]),
    case("ETags differ under KMS encryption", "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, encryption="SSE-KMS")]),
    case("ETags differ and the report has no encryption column",
         "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, encryption=None)]),
    case("ETags differ, and the report says the object was uploaded in parts",
         "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, multipart=True)]),
    case("ETags differ and the report does not say how it was uploaded",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, multipart=None)]),
    case("another version id, nothing else known", "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A, version_id="v1")], objects=[stored(A, version_id="v2")]),
    case("the claim has a version id and the bucket's inventory has none", WELL,
         claims=[claim(A, version_id="v1")], objects=[stored(A, version_id=None)]),
    case("written again after its commit, nothing else known", "content overwritten, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20))]),
    case("moved to an archive class", "content archived, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, archived=True)]),
    case("archived on purpose: older than the lake file expects", WELL, claims=[claim(A)],
         objects=[stored(A, archived=True)], tables=[table(archived=Archived(expected_after=timedelta(days=3)))]),
    case("archived just when the table itself says so", WELL, claims=[claim(A)],
         objects=[stored(A, archived=True, modified_at=ago(80))], tables=[table(state={"archived_after":
         timedelta(hours=80)})]),
    case("archived before its time", "content archived, duplicate ok, leftover ok", claims=[claim(A)],
         objects=[stored(A, archived=True)], tables=[table(archived=Archived(expected_after=timedelta(days=365)))]),
    case("archived on purpose, by the earlier of two words", WELL, claims=[claim(A)],
         objects=[stored(A, archived=True)], tables=[table(archived=Archived(expected_after=timedelta(days=365)),
         state={"archived_after": timedelta(days=1)})]),
    case("old enough to be archived, and read at once", WELL, claims=[claim(A)],
         objects=[stored(A)], tables=[table(state={"archived_after": timedelta(days=1)})]),
    case("archived on purpose and of another content", "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, etag=OTHER_MD5, archived=True)],
         tables=[table(state={"archived_after": timedelta(days=1)})]),
    case("archived with the writer's own ETag", "content archived, duplicate ok, leftover ok",
         claims=[claim(A, etag=MD5)], objects=[stored(A, archived=True)]),
    case("archived under another version id", "content archived, duplicate ok, leftover ok",
         claims=[claim(A, version_id="v1")], objects=[stored(A, version_id="v2", archived=True)]),
    case("archived and written again", "content archived, duplicate ok, leftover ok",
         claims=[claim(A)], objects=[stored(A, modified_at=ago(20), archived=True)]),
    case("archived before the cut and written again and committed after it",
         "content young, duplicate ok, leftover ok",
         claims=[claim(A, claimed_at=after(1))], objects=[stored(A, archived=True)]),
    case("the writer's list beside the Delta log brings the ETag that the log lacks",
         "content content_mismatch, duplicate ok, leftover ok",
         claims=[claim(A), claim(A, etag=MD5, **listed())], objects=[stored(A, etag=OTHER_MD5)],
         tables=[table(manifests=[DELTA, LISTS])]),
    case("what the Delta log itself says of the size stands", WELL,
         claims=[claim(A), claim(A, size=99, **listed())], objects=[stored(A)],
         tables=[table(manifests=[DELTA, LISTS])]),
    case("a retired list fills no gaps", WELL,
         claims=[claim(A), claim(A, state="gone", etag=OTHER_MD5, **listed())], objects=[stored(A)],
         tables=[table(manifests=[DELTA, LISTS])]),
)  # fmt: skip

HISTORY: dict[str, Any] = {"state": "history", "removed_at": ago(30)}
"""A claim that only an older state makes, which readers may still read."""

PROMISED = (
    case("a promised file of other size", "content size_mismatch:warning, leftover ok",
         claims=[claim(A, **HISTORY)], objects=[stored(A, size=10)]),
    case("a promised file of other size and content", "content size_mismatch:warning, leftover ok",
         claims=[claim(A, etag=MD5, **HISTORY)], objects=[stored(A, size=10, etag=OTHER_MD5, archived=True)]),
    case("a promised file of other content", "content content_mismatch:warning, leftover ok",
         claims=[claim(A, etag=MD5, **HISTORY)], objects=[stored(A, etag=OTHER_MD5)]),
    case("a promised file of other content in the archive", "content content_mismatch:warning, leftover ok",
         claims=[claim(A, etag=MD5, **HISTORY)], objects=[stored(A, etag=OTHER_MD5, archived=True)]),
    case("a promised file in the archive", "content archived:info, leftover ok",
         claims=[claim(A, **HISTORY)], objects=[stored(A, archived=True)]),
    case("a promised file in the archive, and another version of it", "content archived:info, leftover ok",
         claims=[claim(A, version_id="v1", **HISTORY)], objects=[stored(A, archived=True, version_id="v2")]),
    case("a promised file as it was written", "content ok, leftover ok",
         claims=[claim(A, etag=MD5, **HISTORY)], objects=[stored(A)]),
    case("a promised file of another version", "content ok, leftover ok",
         claims=[claim(A, version_id="v1", **HISTORY)], objects=[stored(A, version_id="v2")]),
    case("a promised file of which storage says no class", "content ok, leftover ok",
         claims=[claim(A, **HISTORY)], objects=[stored(A, storage_class=None, archived=None)]),
    case("a file of another size, still promised until the log's own VACUUM released it", "content ok, leftover ok",
         claims=[claim(A, explained=True, **HISTORY)], objects=[stored(A, size=10)]),
)  # fmt: skip

P, ORC, V, PUFFIN = "orders/a.parquet", "orders/a.orc", "orders/a.avro", "orders/a.puffin"


def sized(key: str, size: int, **given: Any) -> Any:
    """A file that is as long as its writer recorded."""
    return {"claims": [claim(key, size=size, **given)], "objects": [stored(key, size=size)]}


_NOT_YET: tuple[tuple[str, str, Row], ...] = (
    ("that a gap in the log may have freed", "undecided", {"certain": False}),
    ("of a young commit", "young", {"claimed_at": ago(0.5)}),
    ("of a young commit that a gap in the log may have freed", "undecided",
     {"claimed_at": ago(0.5), "certain": False}),
)  # fmt: skip
TOO_SHORT = "content unreadable_content, duplicate ok, leftover ok"
UNREADABLE = (
    case("a Parquet file of 11 bytes, as recorded", TOO_SHORT, **sized(P, 11)),
    case("a Parquet file of 12 bytes, as recorded", WELL, **sized(P, 12)),
    case("an empty Parquet file, as recorded", TOO_SHORT, **sized(P, 0)),
    case("a short file of deletes", TOO_SHORT, **sized(P, 4, category="deletes")),
    case("a short file of changes", TOO_SHORT, **sized(P, 4, category="changes")),
    case("an ORC file of 7 bytes, as recorded", TOO_SHORT, **sized(ORC, 7)),
    case("an ORC file of 8 bytes, as recorded", WELL, **sized(ORC, 8)),
    case("an ORC file of 1 byte, as recorded", TOO_SHORT, **sized(ORC, 1)),
    case("an empty ORC file has no rows", WELL, **sized(ORC, 0)),
    case("an Avro file of 36 bytes, as recorded", TOO_SHORT, **sized(V, 36)),
    case("an Avro file of 37 bytes, as recorded", WELL, **sized(V, 37)),
    case("a Puffin file of 31 bytes, as recorded", TOO_SHORT, **sized(PUFFIN, 31, category="deletes")),
    case("a Puffin file of 32 bytes, as recorded", WELL, **sized(PUFFIN, 32, category="deletes")),
    case("a short file whose name says no format", WELL, **sized("orders/a.parquet.csv", 3)),
    case("a short file of the table's log", WELL, **sized("orders/_delta_log/5.checkpoint.parquet", 3, category="log")),
    case("a short file whose size nobody recorded", TOO_SHORT,
         claims=[claim(P, size=None)], objects=[stored(P, size=11)]),
    case("a short file whose size is not recorded, and storage has it whole", WELL,
         claims=[claim(P, size=None)], objects=[stored(P)]),
    case("cut down since it was written: another size is reported", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(P)], objects=[stored(P, size=11)]),
    case("recorded as too short, and stored with more bytes", "content size_mismatch, duplicate ok, leftover ok",
         claims=[claim(P, size=11)], objects=[stored(P)]),
    case("recorded as too short, and gone", "content dropped, duplicate ok", claims=[claim(P, size=11)]),
    case("too short and of other content", TOO_SHORT,
         claims=[claim(P, size=11, etag=MD5)], objects=[stored(P, size=11, etag=OTHER_MD5)]),
    case("too short and in the archive", TOO_SHORT,
         claims=[claim(P, size=11)], objects=[stored(P, size=11, archived=True)]),
    case("a short promised file", "content unreadable_content:warning, leftover ok", **sized(P, 11, **HISTORY)),
    case("a short promised file of other content", "content unreadable_content:warning, leftover ok",
         claims=[claim(P, size=11, etag=MD5, **HISTORY)], objects=[stored(P, size=11, etag=OTHER_MD5)]),
    case("a short promised file in the archive", "content unreadable_content:warning, leftover ok",
         claims=[claim(P, size=11, **HISTORY)], objects=[stored(P, size=11, archived=True)]),
    case("a short promised file that is gone", "content dropped_history", claims=[claim(P, size=11, **HISTORY)]),
    *(case(f"a short file {where}", f"content {verdict}, duplicate ok, leftover ok", **sized(P, 11, **given))
      for where, verdict, given in _NOT_YET),
    *(case(f"a short promised file {where}", f"content {verdict}, leftover ok", **sized(P, 11, **HISTORY, **given))
      for where, verdict, given in _NOT_YET),
)  # fmt: skip

SCENARIOS = (*VERSIONS, *CHANGED, *PROMISED, *UNREADABLE)
