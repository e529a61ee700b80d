"""Acts that rewrite a listed file with the same or other bytes, or restore a lost file.

The bucket is versioned, so an audit can compare the current bytes with those from when the file was listed.
"""

from lakeaudit.demo.breaker.faults import Expected, Fault
from lakeaudit.demo.breaker.lake_state import Site


def change_recorded_bytes(site: Site) -> Fault:
    """One byte is changed in a file whose ETag the writer recorded."""
    return _change(site, "change_recorded_bytes", site.pick(recorded(site)))


def change_unrecorded_bytes(site: Site) -> Fault:
    """One byte is changed in a file without a recorded ETag: its older version proves the change."""
    return _change(site, "change_unrecorded_bytes", site.pick(site.live_files(kinds=("delta",))))


def change_forgotten_bytes(site: Site) -> Fault:
    """The same, and the older versions are purged, so that nothing proves whether the content changed."""
    key = site.pick(site.live_files(kinds=("delta",)))
    body = _other_bytes(site.body(key))
    site.purge(key)
    site.put(key, body)
    return _fault("change_forgotten_bytes", f"changed one byte of {key} and deleted its older versions",
                  site.content("overwritten", key) + site.entry_differs(key))  # fmt: skip


def rewrite_unrecorded_bytes(site: Site) -> Fault:
    """A trap: a file is rewritten with the same bytes, as its older version shows."""
    key = site.pick(site.live_files(kinds=("delta",)))
    site.put(key, site.body(key))
    return _fault(
        "rewrite_unrecorded_bytes", f"wrote {key} again with the same content", site.entry_differs(key)
    )


def rewrite_recorded_bytes(site: Site) -> Fault:
    """A trap: a file is rewritten with the same bytes, and the recorded ETag proves that nothing changed."""
    key = site.pick(recorded(site))
    site.put(key, site.body(key))
    return _fault(
        "rewrite_recorded_bytes", f"wrote {key} again with the same content", site.entry_differs(key)
    )


def restore_by_marker(site: Site) -> Fault:
    """A trap: a listed file is deleted and restored by removing its delete marker, so it is the same as before."""
    key = site.pick(site.live_files())
    site.undelete(key, site.delete(key))
    return _fault(
        "restore_by_marker", f"deleted {key} and removed its delete marker", site.entry_differs(key)
    )


def restore_by_copy(site: Site) -> Fault:
    """A trap: a listed file is deleted and restored by copying its older version, with a new time and version."""
    key = site.pick(site.live_files())
    before = site.version_of(key)
    site.delete(key)
    site.copy_version(key, before)
    return _fault(
        "restore_by_copy",
        f"deleted {key} and restored it by a copy of its older version",
        site.entry_differs(key),
    )


def restore_overwritten(site: Site) -> Fault:
    """A trap: a listed file is overwritten with random bytes, and its older version is copied back."""
    key = site.pick(site.live_files())
    before = site.version_of(key)
    site.put(key, site.rng.randbytes(site.objects[key]["size"]))
    site.copy_version(key, before)
    return _fault(
        "restore_overwritten",
        f"overwrote {key} and restored it by a copy of its older version",
        site.entry_differs(key),
    )


def recorded(site: Site) -> list[str]:
    """Return free files whose ETag is in a writer's list."""
    tables = [table for table in site.tables.values() if table.kind == "file_list"]
    return sorted(
        key for t in tables for key, line in site.claims(t).items() if "etag" in line and site.is_free(key)
    )


def _change(site: Site, act: str, key: str) -> Fault:
    site.put(key, _other_bytes(site.body(key)))
    return _fault(
        act, f"changed one byte of {key}", site.content("content_mismatch", key) + site.entry_differs(key)
    )


def _fault(act: str, what: str, expected: list[Expected]) -> Fault:
    return Fault(act, what, tuple(expected))


def _other_bytes(body: bytes) -> bytes:
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 0xFF]) + body[middle + 1 :]
