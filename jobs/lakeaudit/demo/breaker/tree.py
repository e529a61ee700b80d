"""Acts on the shape of S3Guard's tree: parents, types and fields of its rows."""

from typing import Any

from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site, folder_of
from lakeaudit.demo.breaker.s3guard_rows import (
    Guard,
    file_row,
    folder_row,
    is_folder,
    is_old,
    now_ms,
    tombstone_row,
)

FEW = 12


def orphan_folder(site: Site) -> Fault:
    """The row of a folder is lost: its live children are orphans."""
    folder, guard, children = _folder(site)
    guard.delete(folder)
    return Fault(
        "orphan_folder",
        f"deleted the metadata store's entry of the folder {folder}",
        _orphans(site, folder, children),
    )


def bury_folder(site: Site) -> Fault:
    """The row of a folder becomes a tombstone above live children."""
    folder, guard, children = _folder(site)
    guard.put(folder, tombstone_row(now_ms()))
    return Fault(
        "bury_folder",
        f"replaced the metadata store's entry of the folder {folder} by a tombstone",
        _orphans(site, folder, children),
    )


def flatten_folder(site: Site) -> Fault:
    """The row of a folder becomes a file's: wrong as a parent, wrong above keys, and a file that is not there."""
    folder, guard, children = _folder(site)
    guard.put(folder, file_row(10, "0" * 32, now_ms()))
    table = site.owner(f"{folder}/").name
    expected = (
        *_orphans(site, folder, children),
        Expected("metastore_tree", "metastore_broken", table, folder),
        Expected("metastore", "phantom", table, folder),
    )
    return Fault(
        "flatten_folder", f"changed the metadata store's entry of the folder {folder} to a file", expected
    )


def write_below_file(site: Site) -> Fault:
    """A client writes a key below a file's own key, which no file system could hold."""
    file, guard = _file(site)
    key = site.new_key(f"{file}/")
    site.put(key, site.rng.randbytes(700))
    owner = site.owner(key).name
    expected = (
        Expected("metastore_tree", "metastore_broken", owner, file),
        Expected("leftover", "uncommitted", owner, key),
    )
    return Fault(
        "write_below_file",
        f"wrote the file {key}, a path below another file, and its entry in the metadata store {guard.table}",
        expected,
    )


def turn_file_into_folder(site: Site) -> Fault:
    """The row of a file becomes a folder's."""
    key, guard = _file(site)
    guard.put(key, folder_row(now_ms()))
    return _broken(
        site, "turn_file_into_folder", f"changed the metadata store's entry of {key} to a folder", f"{key}/"
    )


def lose_length(site: Site) -> Fault:
    """The row of a file loses its length."""
    return _without(site, "lose_length", file_length=None)


def lose_etag(site: Site) -> Fault:
    """The row of a file loses its ETag, which its neighbours have."""
    return _without(site, "lose_etag", etag=None)


def lose_update_time(site: Site) -> Fault:
    """The row of a file loses the time that decides when it expires."""
    return _without(site, "lose_update_time", last_updated=None)


def lose_every_time(site: Site) -> Fault:
    """A renamed file's row, never stamped, loses its modification time as well."""
    return _without(site, "lose_every_time", mod_time=None, last_updated={"N": "0"})


def garble_row(site: Site) -> Fault:
    """A row becomes unreadable: its length is a word."""
    table = site.table("unreadable")
    guard = site.guards[table.guard or ""]
    if any(row.get("file_length") == {"S": "many"} for row in guard.rows.values()):
        raise NoVictim
    key = site.pick(site.plain_files("unreadable"))
    guard.change(key, file_length={"S": "many"})
    return Fault(
        "garble_row",
        f"made the metadata store's entry of {key} unreadable",
        (Expected("source", "unreadable_evidence", ""),),
    )


def _without(site: Site, act: str, **attributes: dict[str, Any] | None) -> Fault:
    key, guard = _file(site)
    guard.change(key, **attributes)
    return _broken(
        site, act, f"removed {' and '.join(attributes)} from the metadata store's entry of {key}", key
    )


def _broken(site: Site, act: str, what: str, key: str) -> Fault:
    return Fault(act, what, (Expected("metastore_tree", "metastore_broken", site.owner(key).name, key),))


def _file(site: Site) -> tuple[str, Guard]:
    """A live file of a Delta table with a sound row."""
    key = site.pick([key for key in site.live_files(kinds=("delta",)) if site.entry(key)])
    guard = site.guard_of(key)
    if guard is None:
        raise NoVictim
    return key, guard


def _folder(site: Site) -> tuple[str, Guard, list[str]]:
    """A folder of data files with few live rows in it, none of them used yet, taken with everything in it."""
    files = [
        key for key in site.live_files("vacuumed", "history", "exports", kinds=("delta",)) if site.entry(key)
    ]
    for folder in site.rng.sample(found := sorted({folder_of(key) for key in files}), len(found)):
        guard = site.guard_of(folder)
        children = guard.children(folder.rstrip("/")) if guard else []
        if guard and len(children) <= FEW and all(_unused(site, guard, child) for child in children):
            site.taken.update([folder, *children])
            return folder.rstrip("/"), guard, children
    raise NoVictim


def _unused(site: Site, guard: Guard, key: str) -> bool:
    row = guard.rows[key]
    return key not in site.taken and not is_folder(row) and not is_old(row)


def _orphans(site: Site, folder: str, children: list[str]) -> tuple[Expected, ...]:
    """Every live child, and once the folder itself."""
    table = site.owner(f"{folder}/").name
    keys = [*children, f"{folder}/"]
    return tuple(Expected("metastore_tree", "metastore_broken", table, key) for key in keys)
