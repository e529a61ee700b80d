"""Acts on the file lists of writers: files that were never written, or never deleted."""

import json
from datetime import UTC, datetime

from lakeaudit.demo.breaker.faults import Expected, Fault
from lakeaudit.demo.breaker.lake_state import Site, Table, folder_of


def promise_file(site: Site) -> Fault:
    """A writer's list records a file, but neither its commit nor the file exists."""
    table = site.table("vacuumed")
    key = site.new_key(folder_of(site.pick(site.live_files("vacuumed"))))
    _record(site, table, key, 5000)
    return Fault(
        "promise_file",
        f"recorded {key} in the list of its writer, but did not write it",
        (Expected("content", "lost_commit", table.name, key),),
    )


def lose_commit_of_file(site: Site) -> Fault:
    """A writer's list records a file that exists, but its commit never reached the table."""
    table = site.table("vacuumed")
    key = site.new_key(folder_of(site.pick(site.live_files("vacuumed"))))
    site.put(key, site.rng.randbytes(3000))
    _record(site, table, key, 3000)
    expected = (
        Expected("content", "lost_commit", table.name, key),
        Expected("leftover", "uncommitted", table.name, key),
    )
    what = f"wrote {key} and recorded it in the list of its writer, but did not commit it to the table"
    return Fault("lose_commit_of_file", what, expected)


def promise_plain_file(site: Site) -> Fault:
    """The list of a plain table records a file that was never written."""
    table = site.table("events")
    key = site.new_key(folder_of(site.pick(site.live_files("events"))))
    _record(site, table, key, 5000)
    return Fault("promise_plain_file", f"recorded {key} in the list of its writer, but did not write it",
                 (Expected("content", "dropped", table.name, key, recoverable="no"),))  # fmt: skip


def retire_and_keep(site: Site) -> Fault:
    """A writer's list retires a file that nobody deletes: readers of the folder still read it."""
    key = site.pick(site.live_files(kinds=("file_list",)))
    _record(site, site.owner(key), key, action="remove")
    expected = Expected("leftover", "stale_visible", site.owner(key).name, key)
    return Fault(
        "retire_and_keep",
        f"recorded the removal of {key} in the list of its writer, but left the file in its folder",
        (expected,),
    )


def retire_and_delete(site: Site) -> Fault:
    """A trap: a writer's list retires a file, which is then deleted."""
    key = site.pick(site.live_files(kinds=("file_list",)))
    _record(site, site.owner(key), key, action="remove")
    site.delete(key)
    return Fault(
        "retire_and_delete",
        f"recorded the removal of {key} in the list of its writer and deleted the file",
        (),
    )


def replace_and_keep(site: Site) -> Fault:
    """A job rewrites a partition and fails before it deletes the old files: both are read."""
    folder = site.pick_folder(site.live_files("events", "uploads"))
    table = site.owner(folder)
    old = [key for key in site.claims(table) if key.startswith(folder)]
    key = site.new_key(folder)
    site.put(key, site.rng.randbytes(5000))
    _record(site, table, key, 5000, action="replace", scope=folder)
    expected = tuple(Expected("leftover", "stale_visible", table.name, each) for each in old)
    return Fault(
        "replace_and_keep",
        f"recorded that a new file replaces all files of {folder}, but did not delete the {len(old)} old files",
        expected,
    )


def record_wrong_size(site: Site) -> Fault:
    """A writer records a size that differs from the written one."""
    table = site.table("uploads")
    key = site.pick(site.live_files("uploads"))
    _record(site, table, key, site.objects[key]["size"] + 1)
    return Fault(
        "record_wrong_size",
        f"recorded one byte too many for {key} in the list of its writer",
        tuple(site.content("size_mismatch", key)),
    )


def claim_neighbours_file(site: Site) -> Fault:
    """A plain table's list claims a file of the table inside its folder."""
    table = site.table("events")
    key = site.pick([key for key in site.live_files("nested") if key not in site.claims(table)])
    _record(site, table, key, site.objects[key]["size"])
    expected = Expected("duplicate", "conflicting_owner", site.owner(key).name, key)
    return Fault("claim_neighbours_file", f"recorded {key} in a list as a file of {table.name}", (expected,))


def _record(site: Site, table: Table, key: str, size: int | None = None, **more: str) -> None:
    """Write one more list of the writer: JSON Lines with an end line."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    row = {"path": key, "committed_at": now, "job_id": f"job-{site.rng.getrandbits(32):08x}"} | more
    lines = [row if size is None else row | {"size": size}, {"end": True, "lines": 1}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    site.put(f"{table.lists}z-{now.replace(':', '')}-{site.rng.getrandbits(32):08x}.jsonl", text.encode())
