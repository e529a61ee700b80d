"""Acts on files that a table lists: deleted, cut, archived."""

from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site
from lakeaudit.demo.breaker.rewrites import recorded
from lakeaudit.demo.breaker.s3guard_rows import now_ms, tombstone_row


def delete_live_file(site: Site) -> Fault:
    """A client deletes a file that a Delta table lists; the versioned bucket keeps it below a delete marker."""
    key = site.pick(_listed_once(site, site.live_files("vacuumed", "vectors", "open", "cleaned")))
    site.delete(key)
    return _fault("delete_live_file", f"deleted {key}", site.content("dropped", key, recoverable="yes"))


def purge_live_file(site: Site) -> Fault:
    """Every version of a listed file is deleted for good."""
    key = site.pick(_listed_once(site, site.live_files()))
    site.purge(key)
    return _fault(
        "purge_live_file", f"deleted every version of {key}", site.content("dropped", key, recoverable="no")
    )


def delete_and_tell_the_store(site: Site) -> Fault:
    """A guarded client deletes a listed file: the store gets its tombstone, the table is never told."""
    key = site.pick([key for key in _listed_once(site, site.live_files()) if site.entry(key)])
    site.delete(key)
    guard = site.guard_of(key)
    if guard is None:
        raise NoVictim
    guard.put(key, tombstone_row(now_ms()))
    return _fault(
        "delete_and_tell_the_store",
        f"deleted {key} and its entry in the metadata store",
        site.content("dropped", key, recoverable="yes"),
    )


def delete_recorded_file(site: Site) -> Fault:
    """A file that a writer's list records is deleted."""
    key = site.pick(_listed_once(site, site.live_files(kinds=("file_list",))))
    site.delete(key)
    return _fault("delete_recorded_file", f"deleted {key}", site.content("dropped", key, recoverable="yes"))


def lose_in_commit(site: Site) -> Fault:
    """A task's file is lost, as by a rename after a list that lags; the job reports success."""
    table = site.table("spark_job")
    files = [key for key in site.objects if key.startswith(f"{table.location}/part-") and site.is_free(key)]
    key = site.pick(sorted(files))
    site.purge(key)
    lost = Expected("content", "dropped", table.name, key, recoverable="no")
    return _fault(
        "lose_in_commit",
        f"deleted {key}, a file of a job that had reported success, with all its versions",
        [lost],
    )


def delete_deletion_vector(site: Site) -> Fault:
    """The file of a live deletion vector is deleted: deleted rows come back, or the table cannot be read."""
    table = site.table("vectors")
    key = site.pick(sorted(key for key in site.log(table).vectors if site.is_free(key)))
    site.delete(key)
    # the log tells neither its size nor its ETag: the version that was current at the commit is it
    return _fault("delete_deletion_vector", f"deleted {key}",
                  [Expected("content", "dropped", table.name, key, recoverable="yes")])  # fmt: skip


def truncate_deletion_vector(site: Site) -> Fault:
    """The file of a live deletion vector ends within the vector: readers fail, or deleted rows come back."""
    table = site.table("vectors")
    key = site.pick(sorted(key for key in site.log(table).vectors if site.is_free(key)))
    site.put(key, site.body(key)[:-8])
    expected = [Expected("content", "size_mismatch", table.name, key), *site.entry_differs(key)]
    return _fault("truncate_deletion_vector", f"removed the last 8 bytes of {key}", expected)


def delete_under_clone(site: Site) -> Fault:
    """A file that a table and its shallow clone both list is deleted: both have lost it."""
    key = site.pick([key for key in site.live_files("clone") if len(site.live_in(key)) == 2])
    site.delete(key)
    return _fault("delete_under_clone", f"deleted {key}", site.content("dropped", key, recoverable="yes"))


def remove_under_clone(site: Site) -> Fault:
    """The source removes a file that its shallow clone still lists: the source's next VACUUM will delete it."""
    key = site.pick([key for key in site.live_files("clone") if len(site.live_in(key)) == 2])
    site.remove(site.table("history"), key)
    expected = Expected("hazard", "clone_at_risk", site.table("clone").name, severity="error")
    return _fault(
        "remove_under_clone",
        f"removed {key} from its own table, but a clone still lists the file",
        [expected],
    )


def vacuum_under_clone(site: Site) -> Fault:
    """A file that the source removed and its clone still lists is deleted, as a VACUUM of the source would."""
    clone, source = site.table("clone"), site.table("history")
    # one that was removed before stays, so that no VACUUM explains the loss
    site.pick(sorted(key for key in site.log(source).removed if site.is_free(key)))
    key = site.pick([key for key in site.live_files("clone") if len(site.live_in(key)) == 2])
    site.remove(source, key)
    site.delete(key)
    lost = Expected("content", "dropped", clone.name, key, recoverable="yes")
    return _fault(
        "vacuum_under_clone",
        f"removed {key} from its own table and deleted the file, but a clone still lists it",
        [lost, Expected("content", "dropped_history", source.name, key)],
    )


def delete_history_file(site: Site) -> Fault:
    """A removed file that readers of older states are still promised is deleted, while older removals are there."""
    removed = {
        key for table in site.tables.values() if table.kind == "delta" for key in site.log(table).removed
    }
    owned = [
        key for key in removed if site.is_free(key) and site.owner(key).role in ("vectors", "history", "open")
    ]
    key = _pick_promised(site, [key for key in sorted(owned) if not site.live_in(key)])
    expected = [Expected("content", "dropped_history", name, key) for name in site.history_in(key)]
    expected += site.entry_unneeded(key)
    site.delete(key)
    return _fault("delete_history_file", f"deleted {key}", expected)


def sweep_history(site: Site) -> Fault:
    """Every removed file of a table is deleted: just what a VACUUM looks like on S3, so only a note is due."""
    table = site.whole_table("swept")
    swept = sorted(site.log(table).removed)
    for key in swept:
        site.delete(key)
    return _fault("sweep_history", f"deleted all {len(swept)} files that {table.name} had removed",
                  [Expected("content", "dropped_history", table.name, severity="info")])  # fmt: skip


def leave_out_of_reports(site: Site) -> Fault:
    """Reports are made for some prefixes alone, and a table lies below none: nothing of it is lost."""
    table = site.whole_table("swept")
    site.report_all_but(table)
    what = f"wrote inventory reports without the prefix {table.location}/"
    return Fault("leave_out_of_reports", what, (), gap=table.name)


def let_files_expire(site: Site) -> Fault:
    """A lifecycle rule that was meant for something else will delete a table's live files."""
    table = site.table("vectors")
    if (fate := f"fate of {table.name}") in site.taken:
        raise NoVictim
    site.taken.add(fate)
    data = f"{table.location}/part-"
    rule = site.add_lifecycle_rule(data, Expiration={"Days": 30})
    expected = Expected("hazard", "will_expire", table.name, severity="error")
    return _fault(
        "let_files_expire",
        f"created the lifecycle rule {rule}, which deletes objects under {data}",
        [expected],
    )


def let_large_files_be_archived(site: Site) -> Fault:
    """A trap: a lifecycle rule archives a table, but S3 archives no file below 128 KiB by a rule that names no size."""
    table = site.table("history")
    archive = {"Days": 90, "StorageClass": "GLACIER"}
    rule = site.add_lifecycle_rule(f"{table.location}/", Transitions=[archive])
    return _fault(
        "let_large_files_be_archived",
        f"created the lifecycle rule {rule}, which archives only large files",
        [],
    )


def let_versions_expire(site: Site) -> Fault:
    """A trap: lifecycle rules for older versions and for a folder of temporary files, which concern no live file."""
    site.add_lifecycle_rule("", NoncurrentVersionExpiration={"NoncurrentDays": 30})
    rule = site.add_lifecycle_rule("warehouse/_temporary/", Expiration={"Days": 1})
    return _fault(
        "let_versions_expire", f"created the lifecycle rule {rule} and a rule that deletes older versions", []
    )


def truncate_file(site: Site) -> Fault:
    """The tail of a listed file is cut off."""
    key = site.pick(site.live_files())
    site.put(key, site.body(key)[:-200])
    return _fault("truncate_file", f"removed the last 200 bytes of {key}", _resized(site, key))


def append_to_file(site: Site) -> Fault:
    """Bytes are written behind a listed file's end."""
    key = site.pick(site.live_files())
    site.put(key, site.body(key) + b"PAR1")
    return _fault("append_to_file", f"added 4 bytes to {key}", _resized(site, key))


def empty_file(site: Site) -> Fault:
    """A listed file is overwritten with nothing."""
    key = site.pick(site.live_files())
    site.put(key, b"")
    return _fault("empty_file", f"emptied {key}", _resized(site, key))


def archive_file(site: Site) -> Fault:
    """A listed file is moved to a class that has to be restored before it can be read."""
    key = site.pick(site.live_files())
    site.put(key, site.body(key), StorageClass="GLACIER")
    return _fault(
        "archive_file", f"moved {key} to GLACIER", site.content("archived", key) + site.entry_differs(key)
    )


def deep_archive_file(site: Site) -> Fault:
    """The same with the deepest class."""
    key = site.pick(site.live_files())
    site.put(key, site.body(key), StorageClass="DEEP_ARCHIVE")
    expected = site.content("archived", key) + site.entry_differs(key)
    return _fault("deep_archive_file", f"moved {key} to DEEP_ARCHIVE", expected)


def cool_recorded_file(site: Site) -> Fault:
    """A trap: a cold class that is still read at once, and the recorded ETag proves that nothing changed."""
    key = site.pick(recorded(site))
    site.put(key, site.body(key), StorageClass="GLACIER_IR")
    return _fault("cool_recorded_file", f"moved {key} to GLACIER_IR", site.entry_differs(key))


def _fault(act: str, what: str, expected: list[Expected]) -> Fault:
    return Fault(act, what, tuple(expected))


def _listed_once(site: Site, keys: list[str]) -> list[str]:
    """Without files that a second table lists or still promises."""
    return [key for key in keys if len(site.live_in(key)) == 1 and not site.history_in(key)]


def _pick_promised(site: Site, candidates: list[str]) -> str:
    """A removed file whose loss no VACUUM explains: one removed no later is there, and is taken so that it stays."""
    able = [key for key in candidates if _witnesses(site, key)]
    key = site.pick(able)
    site.taken.add(_witnesses(site, key)[0])
    return key


def _witnesses(site: Site, key: str) -> list[str]:
    removed = site.log(site.owner(key)).removed
    return sorted(k for k, at in removed.items() if k != key and at <= removed[key] and site.is_free(k))


def _resized(site: Site, key: str) -> list[Expected]:
    return site.content("size_mismatch", key) + site.entry_differs(key)
