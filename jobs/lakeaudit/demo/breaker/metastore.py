"""Acts on the rows of S3Guard, and on objects behind its back."""

from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site, folder_of
from lakeaudit.demo.breaker.s3guard_rows import DAY_MS, Guard, file_row, now_ms, tombstone_row


def forget_live_file(site: Site) -> Fault:
    """The row of a live file is lost."""
    key, guard = _guarded(site)
    guard.delete(key)
    return _fault(
        site,
        "forget_live_file",
        f"deleted the metadata store's entry of {key}",
        "hidden",
        key,
        severity="info",
    )


def forget_trusted_file(site: Site) -> Fault:
    """The row of a file is lost where readers trust the store alone, and its folder claims to be complete."""
    key, guard = _trusted(site)
    guard.delete(key)
    return Fault("forget_trusted_file", f"deleted the metadata store's entry of {key}", _unseen(site, key))


def write_behind_the_store(site: Site) -> Fault:
    """An unguarded client writes a file where readers trust the store alone."""
    neighbour, _ = _trusted(site)
    key = site.new_key(folder_of(neighbour))
    site.put(key, site.rng.randbytes(900))
    return Fault(
        "write_behind_the_store", f"wrote {key} without an entry in the metadata store", _unseen(site, key)
    )


def copy_behind_the_store(site: Site) -> Fault:
    """The same with the bytes of a file that is there already: readers without the store see its rows twice."""
    source, _ = _trusted(site)
    key = site.new_key(folder_of(source))
    site.put(key, site.body(source))
    double = Expected("duplicate", "duplicate_content", site.owner(key).name, key)
    return Fault(
        "copy_behind_the_store",
        f"copied {source} to {key} without an entry in the metadata store",
        (*_unseen(site, key), double),
    )


def bury_live_file(site: Site) -> Fault:
    """A live file gets a tombstone."""
    key, guard = _guarded(site)
    guard.put(key, tombstone_row(now_ms()))
    return _fault(
        site,
        "bury_live_file",
        f"replaced the metadata store's entry of {key} by a tombstone",
        "tombstoned",
        key,
    )


def bury_live_file_long_ago(site: Site) -> Fault:
    """A trap: the same, but the tombstone is older than its time to live, so no reader heeds it."""
    key, guard = _guarded(site)
    guard.put(key, tombstone_row(now_ms() - 3 * DAY_MS))
    return Fault(
        "bury_live_file_long_ago", f"replaced the metadata store's entry of {key} by an expired tombstone", ()
    )


def bury_removed_file(site: Site) -> Fault:
    """A trap: a tombstone for a file that the table did remove, though it is still in storage."""
    tables = [table for table in site.tables.values() if table.kind == "delta" and table.guard]
    removed = {
        key for table in tables for key in site.log(table).removed if site.entry(key) and site.is_free(key)
    }
    key = site.pick(sorted(key for key in removed if not site.live_in(key)))
    _guard(site, key).put(key, tombstone_row(now_ms()))
    return Fault(
        "bury_removed_file",
        f"replaced the metadata store's entry of {key} by a tombstone; its table had removed the file",
        (),
    )


def invent_file(site: Site) -> Fault:
    """The store gets the row of a file that never was."""
    neighbour, guard = _guarded(site)
    key = site.new_key(folder_of(neighbour))
    guard.put(key, file_row(4321, "0" * 32, now_ms()))
    return _fault(
        site,
        "invent_file",
        f"wrote an entry in the metadata store for {key}, which does not exist",
        "phantom",
        key,
    )


def delete_behind_the_store(site: Site) -> Fault:
    """An unguarded client deletes a file of a table without a manifest: only the store still lists it."""
    key, _ = _trusted(site)
    site.delete(key)
    return _fault(
        site,
        "delete_behind_the_store",
        f"deleted {key}, but not its entry in the metadata store",
        "phantom",
        key,
    )


def falsify_size(site: Site) -> Fault:
    """The row of a file has another size."""
    key, guard = _guarded(site)
    guard.change(key, file_length={"N": str(site.objects[key]["size"] + 7)})
    return _fault(
        site,
        "falsify_size",
        f"changed the size in the metadata store's entry of {key}",
        "metastore_stale",
        key,
    )


def falsify_etag(site: Site) -> Fault:
    """The row of a file has another ETag: readers fail with RemoteFileChangedException."""
    key, guard = _guarded(site)
    guard.change(key, etag={"S": f"{site.rng.getrandbits(128):032x}"})
    return _fault(
        site,
        "falsify_etag",
        f"changed the ETag in the metadata store's entry of {key}",
        "metastore_stale",
        key,
    )


def falsify_version(site: Site) -> Fault:
    """The row of a file names a version that storage does not serve."""
    key, guard = _guarded(site, needs="version_id")
    guard.change(key, version_id={"S": f"{site.rng.getrandbits(128):032x}"})
    return _fault(
        site,
        "falsify_version",
        f"changed the version in the metadata store's entry of {key}",
        "metastore_stale",
        key,
    )


def falsify_expired_size(site: Site) -> Fault:
    """A trap: a row with another size that has outlived its time, so no reader heeds it."""
    key, guard = _guarded(site)
    old = {"N": str(now_ms() - 3 * DAY_MS)}
    guard.change(key, file_length={"N": "1"}, last_updated=old)
    return Fault(
        "falsify_expired_size",
        f"changed the size in the metadata store's entry of {key} and made the entry expire",
        (),
    )


def overwrite_behind_the_store(site: Site) -> Fault:
    """An unguarded client replaces a file of a table without a manifest: only the store knows the old one."""
    key, _ = _trusted(site)
    site.put(key, site.rng.randbytes(site.objects[key]["size"]))
    return Fault("overwrite_behind_the_store", f"overwrote {key}", tuple(site.entry_differs(key)))


def _fault(site: Site, act: str, what: str, kind: str, key: str, severity: str | None = None) -> Fault:
    return Fault(act, what, (Expected("metastore", kind, site.owner(key).name, key, severity),))


def _guarded(site: Site, needs: str = "etag") -> tuple[str, Guard]:
    """A live file with a sound row outside the places where the store is trusted alone."""
    rows = {key: site.entry(key) for key in site.live_files()}
    key = site.pick(sorted(key for key, row in rows.items() if row and needs in row))
    return key, _guard(site, key)


def _trusted(site: Site) -> tuple[str, Guard]:
    """A file of the table whose readers trust the store alone."""
    key = site.pick([key for key in site.plain_files("exports") if site.entry(key)])
    return key, _guard(site, key)


def _unseen(site: Site, key: str) -> tuple[Expected, ...]:
    """A file without a row in a folder that readers take to be complete."""
    table = site.owner(key).name
    return (
        Expected("metastore", "hidden", table, key, severity="error"),
        Expected("metastore_tree", "metastore_broken", table, folder_of(key)),
    )


def _guard(site: Site, key: str) -> Guard:
    guard = site.guard_of(key)
    if guard is None:
        raise NoVictim
    return guard
