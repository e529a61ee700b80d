"""Possible rows of each source about a key, by name, as changes to the row of a plain key, on which sources agree."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.builders.evidence import BUCKET, CUT, ago

Row = dict[str, Any]
Named = Mapping[str, Sequence[Mapping[str, Any]]]

MD5, OTHER_MD5 = "0cc175b9c0f1b6a831c399e269772661", "92eb5ffee6ae2fec3ad71c777531578f"
MARGIN = timedelta(minutes=10)
"""Margin of every source."""

VERSIONS: Named = {
    "plain": [{}],
    "none": [],
    "not latest": [{"is_latest": False}],
    "latest unknown": [{"is_latest": None}],
    "marker": [{"is_delete_marker": True, "size": None, "etag": None}],
    "marker with a size": [{"is_delete_marker": True}],
    "marker unknown": [{"is_delete_marker": None}],
    "no size": [{"size": None}],
    "other size": [{"size": 101}],
    "no time": [{"modified_at": None}],
    "as late as may be": [{"modified_at": ago(71)}],
    "written again": [{"modified_at": ago(70.9)}],
    "at the edge": [{"modified_at": CUT - MARGIN}],
    "after the edge": [{"modified_at": CUT - MARGIN + timedelta(seconds=1)}],
    "within the grace": [{"modified_at": ago(1)}],
    "archived": [{"archived": True, "storage_class": "GLACIER"}],
    "class unknown": [{"archived": None}],
    "no class": [{"storage_class": None, "archived": None}],
    "of no class": [{"storage_class": None}],
    "no etag": [{"etag": None}],
    "other etag": [{"etag": OTHER_MD5}],
    "multipart": [{"etag": f"{MD5}-3", "multipart": True}],
    "encrypted": [{"encryption": "SSE-KMS"}],
    "version": [{"version_id": "v1"}],
    "older version": [{"version_id": "v2"}, {"version_id": "v1", "is_latest": False, "modified_at": ago(99)}],
    "latest twice": [{"version_id": "v1"}, {"version_id": "v2"}],
    "latest thrice": [{"version_id": "v1"}, {"version_id": "v2"}, {"version_id": "v3"}],
}  # fmt: skip
"""Return storage's row of a key; a plain one was written six minutes before its claim."""

OPAQUE: Mapping[str, Any] = {"bare": True, "opaque": True, "size": None, "etag": None, "mod_time": None}

ENTRIES: Named = {
    "plain": [{}],
    "none": [],
    "tombstone": [{"tombstone": True}],
    "bare tombstone": [{"tombstone": True, "size": 0, "etag": None}],
    "folder": [{"is_dir": True}],
    "bare folder": [{"is_dir": True, "size": None, "etag": None}],
    "expired": [{"expired": True}],
    "expired tombstone": [{"expired": True, "tombstone": True}],
    "no size": [{"size": None}],
    "other size": [{"size": 102}],
    "no etag": [{"etag": None}],
    "other etag": [{"etag": OTHER_MD5}],
    "version": [{"version_id": "v1"}],
    "other version": [{"version_id": "v2"}],
    "no times": [{"mod_time": None, "last_updated": None}],
    "written late": [{"mod_time": ago(0.5)}],
    "updated late": [{"last_updated": ago(0.5)}],
    "never updated": [{"last_updated": None}],
    "update not given": [{"last_updated": None, "last_updated_given": False}],
    "named": [{"bare": True, "size": None, "etag": None, "mod_time": None}],
    "named without a time": [{"bare": True, "size": None, "etag": None, "mod_time": None, "last_updated": None}],
    "named folder": [{"bare": True, "is_dir": True, "size": None, "etag": None}],
    "named tombstone": [{"bare": True, "tombstone": True, "size": None, "etag": None}],
    "named, update not given": [
        {"bare": True, "size": None, "etag": None, "last_updated": None, "last_updated_given": False}
    ],
    "opaque": [OPAQUE],
    "opaque, as old as may be": [{**OPAQUE, "last_updated": ago(72.1) - timedelta(seconds=2)}],
    "opaque and older": [{**OPAQUE, "last_updated": ago(72.1) - timedelta(seconds=3)}],
    "opaque, with a time of the object": [{**OPAQUE, "last_updated": None, "mod_time": ago(72)}],
    "opaque and expired": [{**OPAQUE, "expired": True}],
}  # fmt: skip

STEPS: Named = {
    "plain": [{}],
    "none": [],
    "no size": [{"size": None}],
    "other size": [{"size": 101}],
    "no time": [{"time": None}],
    "now": [{"time": CUT}],
    "removed": [{"added": False, "removed_at": ago(5)}],
    "removed long ago": [{"added": False, "removed_at": ago(900)}],
    "added and removed": [{}, {"version": 5, "added": False, "time": ago(50)}],
    "removed and added": [{"added": False, "time": ago(90)}, {"version": 5}],
    "added twice": [{}, {"version": 5}],
    "listed twice": [{"checkpoint": True}, {"checkpoint": True}],
    "listed five times": [{"checkpoint": True}] * 5,
    "deletion vector": [{"pair": "u1@1"}],
    "new deletion vector": [{}, {"version": 5, "added": False}, {"version": 5, "pair": "u1@1"}],
    "file of deletion vectors": [{"category": "deletes", "pair": "u1@1", "size": None}],
    "file that lacks deletion vectors": [
        {"category": "deletes", "pair": "u1@1", "size": None, "least_size": 101}
    ],
    "changes": [{"category": "changes", "added": False}],
    "another reading": [{"reading": 0}],
    "time of the commit": [{"in_commit_time": ago(60)}],
    "time of a checkpoint": [{"in_commit_time": ago(60), "checkpoint": True}],
    "a clone": [{}, {"table_name": "clone"}],
    "a clone alone": [{"table_name": "clone"}],
    "a clone that removed it": [{}, {"table_name": "clone", "added": False}],
}


def etag_of(key: str) -> str:
    """No two keys have the same content."""
    return hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()


def version(key: str, **given: Any) -> Row:
    """A current object of 100 bytes, written just before its claim."""
    return {
        "source": "storage:0", "bucket": BUCKET, "key": key, "is_latest": True, "is_delete_marker": False, "size": 100,
        "etag": etag_of(key), "modified_at": ago(72.1), "storage_class": "STANDARD", "archived": False,
        "multipart": False, "encryption": "SSE-S3",
    } | given  # fmt: skip


def entry(key: str, **given: Any) -> Row:
    """A file entry that agrees with `version`."""
    return {
        "source": "metastore:0", "bucket": BUCKET, "key": key, "parent": key.rpartition("/")[0], "is_dir": False,
        "tombstone": False, "expired": False, "honoured": False, "authoritative": False, "size": 100,
        "etag": etag_of(key), "mod_time": ago(72.1), "last_updated": ago(72), "last_updated_given": True,
    } | given  # fmt: skip


ORIGINALS: Named = {
    "plain": [{}],
    "none": [],
    "no size": [{"size": None}],
    "other size": [{"size": 101}],
    "no etag": [{"etag": None, "checksum": None}],
    "other etag": [{"etag": OTHER_MD5, "checksum": None}],
    "other md5": [{"etag": OTHER_MD5, "checksum": f"md5:{OTHER_MD5}"}],
    "another checksum": [{"checksum": "sha256:aa"}],
    "a checksum alone": [{"etag": None, "checksum": f"md5:{OTHER_MD5}"}],
    "unsure": [{"certain": False}],
    "now": [{"claimed_at": CUT}],
    "twice": [{}, {}],
    "of two places": [{}, {"size": 101}],
}


def original(key: str, table_name: str = "copied", **given: Any) -> Row:
    """An object of another place that agrees with `version`."""
    etag = etag_of(key)
    return {
        "source": "manifest:s3_inventory", "manifest_kind": "s3_inventory", "table_name": table_name, "bucket": BUCKET,
        "key": key, "state": "live", "certain": True, "category": "data", "size": 100, "etag": etag,
        "checksum": f"md5:{etag}", "claimed_at": ago(90), "explained": False, "listed": 1, "own_root": True,
    } | given  # fmt: skip


def folder(key: str, **given: Any) -> Row:
    """A folder's entry."""
    return entry(key, **{"is_dir": True, "size": None, "etag": None} | given)


def step(key: str, table_name: str = "shop", **given: Any) -> Row:
    """The add of a file of 100 bytes."""
    return {
        "table_name": table_name, "reading": 1, "bucket": BUCKET, "key": key, "version": 3, "checkpoint": False,
        "time": ago(72), "added": True, "pair": "", "size": 100, "records": 10, "partition": "{}", "category": "data",
    } | given  # fmt: skip


def event(key: str, table_name: str, **given: Any) -> Row:
    """A line of a writer's list."""
    return {
        "source": "manifest:file_list", "table_name": table_name, "list_no": 0, "line": 1, "at": ago(72),
        "action": "add", "bucket": BUCKET, "key": key, "partition_path": "", "own_root": True, "size": 100,
    } | given  # fmt: skip


def open_row(key: str, table_name: str = "shop", **given: Any) -> Row:
    """Return a row of a file that is open in the ledger."""
    return {
        "axis": "content", "judged_table": table_name, "bucket": BUCKET, "key": key, "known_as": f"d-{key}",
        "known_at": CUT,
    } | given  # fmt: skip
