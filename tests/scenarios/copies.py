"""Comparison of a copied table with its original in another place, which serves as its manifest.

The original is claimed since it was written, 72 h before the cut; its copy was written a day before the cut.
"""

from typing import Any

from tests.builders.evidence import ago, claim, stored
from tests.builders.scenario import ORIGINAL, Row, after, case, deleted, table

A = "orders/a"
WELL = "content ok, duplicate ok, leftover ok"
MD5, OTHER_MD5 = "0cc175b9c0f1b6a831c399e269772661", "92eb5ffee6ae2fec3ad71c777531578f"
PARTS = f"{MD5}-3"


def original(**given: Any) -> Row:
    """An object of the other place, whose ETag surely is its MD5."""
    told = {"etag": MD5, "checksum": f"md5:{MD5}"}
    whole = {
        "manifest_kind": "s3_inventory",
        "source": "manifest:s3_inventory",
        "records": None,
        "commit_id": None,
    }
    return claim(A, **{**whole, **told, "table_version": None} | given)


def by_parts(**given: Any) -> Row:
    """An object that was uploaded in parts: its ETag does not depend only on the content."""
    return original(etag=PARTS, checksum=None, **given)


def listed(**given: Any) -> Row:
    """One of which nobody says how it is encrypted: its ETag may be no MD5."""
    return original(checksum=None, manifest_kind="listing", **given)


def copy(**given: Any) -> Row:
    """What lies here."""
    return stored(A, **{"modified_at": ago(24), "version_id": "v2"} | given)


def copied(name: str, verdict: str, claimed: Row, *here: Row) -> Any:
    return case(name, verdict, claims=[claimed], objects=here, tables=[table("orders", (ORIGINAL,))])


def content(verdict: str) -> str:
    return f"content {verdict}, duplicate ok, leftover ok"


HEALTHY = (
    copied("a copy is younger than its original by two days, and another version", WELL, original(), copy()),
    copied("a copy in parts of an object in one piece has another ETag", WELL,
           original(), copy(etag=PARTS, multipart=True)),
    copied("a copy in parts, of which a listing says no encryption", WELL,
           original(), copy(etag=PARTS, multipart=True, encryption=None)),
    copied("a copy in one piece of an object in parts", WELL, by_parts(), copy()),
    copied("a copy in other parts", WELL, by_parts(), copy(etag=f"{MD5}-9", multipart=True)),
    copied("a copy under a key of KMS, with an ETag that is not an MD5", WELL,
           original(), copy(etag=OTHER_MD5, encryption="SSE-KMS")),
    copied("an original of which nobody knows the encryption, and a copy under KMS", WELL,
           listed(), copy(etag=OTHER_MD5, encryption="SSE-KMS")),
    copied("an original under KMS", WELL, original(etag=None, checksum=None), copy()),
    copied("equal ETags of listings, which say no encryption", WELL, listed(), copy(encryption=None)),
    copied("a report here has no ETags: sizes are compared", WELL, original(), copy(etag=None, encryption=None)),
    copied("a report that tells parts apart, whose ETags have no number of parts", WELL,
           original(), copy(etag=OTHER_MD5, encryption=None, multipart=True)),
    copied("equal checksums under other ETags", WELL,
           original(checksum="sha256:aa"), copy(etag=OTHER_MD5, encryption=None, checksum="sha256:aa")),
    copied("written to the other place just before the cut: it may be copied yet", "content young, duplicate ok",
           original(claimed_at=ago(0.5))),
)  # fmt: skip

FAULTS = (
    copied("never copied", "content dropped, duplicate ok", original()),
    copied("copied and removed since", "content dropped, duplicate ok", original(), deleted(A)),
    copied("cut off while it was copied", content("size_mismatch"), original(), copy(size=60)),
    copied("copied with another content, as MD5s show", content("content_mismatch"), original(), copy(etag=OTHER_MD5)),
    copied("copied with another content, as checksums show", content("content_mismatch"),
           original(checksum="sha256:aa"), copy(etag=OTHER_MD5, checksum="sha256:bb")),
    copied("copied to an archive class", content("archived"), original(), copy(archived=True)),
    copied("a missing file of a log", "content missing_metadata, duplicate ok", original(category="log")),
)  # fmt: skip

CANNOT_TELL = (
    copied("other ETags, of which those here may be no MD5s", content("undecided"),
           original(), copy(etag=OTHER_MD5, encryption=None)),
    copied("other ETags, of which those there may be no MD5s", content("undecided"), listed(), copy(etag=OTHER_MD5)),
    copied("other ETags, and a report there says no encryption", content("undecided"),
           original(checksum=None), copy(etag=OTHER_MD5, encryption="NONE")),
    copied("other ETags, and nobody says whether the copy was stored in parts", content("undecided"),
           original(), copy(etag=OTHER_MD5, encryption=None, multipart=None)),
    copied("other ETags of two listings", content("undecided"), listed(), copy(etag=OTHER_MD5, encryption=None)),
    copied("nobody knows whether a copy can be read", content("undecided"),
           original(), copy(storage_class=None, archived=None)),
    copied("two originals of one copy that are not alike", "content undecided, duplicate ok", original(certain=False)),
    copied("other ETags, and the copy was stored after the cut",
           "content undecided, duplicate young, leftover ok", listed(),
           copy(etag=OTHER_MD5, modified_at=after(0.2))),
)  # fmt: skip


def moved(name: str, verdict: str, claimed: Row, *here: Row) -> Any:
    """Return a case of a table with its own log, which was moved here unchanged."""
    return case(name, verdict, claims=[claimed], objects=here, tables=[table(moved=True)])


MOVED = (
    moved("a log with the times of before the move", WELL, claim(A), copy()),
    moved("a list with the version ids of the old bucket", WELL, claim(A, version_id="v1"), copy()),
    moved("a list with the ETag of an upload in parts", WELL, claim(A, etag=PARTS), copy()),
    moved("a list with an ETag that may be an MD5, of which the copy has another", content("undecided"),
          claim(A, etag=MD5), copy(etag=OTHER_MD5)),
    moved("a list with an MD5, which the copy has not", content("content_mismatch"),
          claim(A, checksum=f"md5:{MD5}"), copy(etag=OTHER_MD5)),
    moved("lost on the way", "content dropped, duplicate ok", claim(A)),
    moved("of a moved table, cut off on the way", content("size_mismatch"), claim(A), copy(size=60)),
)  # fmt: skip

SCENARIOS = (*HEALTHY, *FAULTS, *CANNOT_TELL, *MOVED)
