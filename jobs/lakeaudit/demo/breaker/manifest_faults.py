"""Acts on what writers say: logs, lists, and files that they name twice."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site, Table, folder_of


def lose_commit_file(site: Site) -> Fault:
    """A commit in the middle of a Delta log is deleted."""
    key = _middle_commit(site)
    site.delete(key)
    return _missing_metadata(site, "lose_commit_file", f"deleted {key}", key)


def tear_commit_file(site: Site) -> Fault:
    """A commit in the middle of a Delta log ends within a line."""
    key = _middle_commit(site)
    site.put(key, site.body(key)[:-40])
    return _missing_metadata(site, "tear_commit_file", f"cut the last line of {key}", key)


def promise_file(site: Site) -> Fault:
    """A writer's list records a file that the table never got: neither its commit nor the file is there."""
    table = site.table("vacuumed")
    key = site.new_key(folder_of(site.pick(site.live_files("vacuumed"))))
    _record(site, table, key, 5000)
    return Fault("promise_file", f"recorded {key}", (Expected("content", "lost_commit", table.name, key),))


def lose_commit_of_file(site: Site) -> Fault:
    """A writer's list records a file that is there, but its commit never reached the table."""
    table = site.table("vacuumed")
    key = site.new_key(folder_of(site.pick(site.live_files("vacuumed"))))
    site.put(key, site.rng.randbytes(3000))
    _record(site, table, key, 3000)
    expected = (
        Expected("content", "lost_commit", table.name, key),
        Expected("leftover", "uncommitted", table.name, key),
    )
    return Fault("lose_commit_of_file", f"wrote and recorded {key}, never committed", expected)


def promise_plain_file(site: Site) -> Fault:
    """The list of a plain table records a file that was never written."""
    table = site.table("events")
    key = site.new_key(folder_of(site.pick(site.live_files("events"))))
    _record(site, table, key, 5000)
    return Fault("promise_plain_file", f"recorded {key}",
                 (Expected("content", "dropped", table.name, key, recoverable="no"),))  # fmt: skip


def record_wrong_size(site: Site) -> Fault:
    """A writer records another size than it wrote."""
    table = site.table("uploads")
    key = site.pick(site.live_files("uploads"))
    _record(site, table, key, site.objects[key]["size"] + 1)
    return Fault(
        "record_wrong_size",
        f"recorded one byte too many for {key}",
        tuple(site.content("size_mismatch", key)),
    )


def claim_neighbours_file(site: Site) -> Fault:
    """A plain table's list claims a file of the table that lies inside it."""
    table = site.table("events")
    key = site.pick([key for key in site.live_files("nested") if key not in site.claims(table)])
    _record(site, table, key, site.objects[key]["size"])
    expected = Expected("duplicate", "conflicting_owner", site.owner(key).name, key)
    return Fault("claim_neighbours_file", f"recorded {key} for {table.name}", (expected,))


def commit_copy(site: Site) -> Fault:
    """A retry commits a copy of a file that is committed already: its rows count twice."""
    table = site.table("open")
    source = site.pick([key for key in site.live_files("open") if site.objects[key]["size"] >= 4096])
    key = site.new_key(folder_of(source))
    site.put(key, site.body(source))
    site.commit(table, {"add": _add(site, table, source) | {"path": quote(key[len(table.location) + 1 :])}})
    expected = Expected("duplicate", "duplicate_content", table.name, key)
    return Fault("commit_copy", f"copied {source} to {key} and committed it", (expected,))


def commit_twice(site: Site) -> Fault:
    """A file is committed once more by its full address: its rows count twice."""
    table = site.table("open")
    key = site.pick(site.live_files("open"))
    site.commit(table, {"add": _add(site, table, key) | {"path": f"s3a://{site.bucket}/{quote(key)}"}})
    expected = Expected("duplicate", "duplicate_entry", table.name, key)
    return Fault("commit_twice", f"committed {key} again by its full address", (expected,))


def remove_and_keep(site: Site) -> Fault:
    """A trap: the table removes a file and leaves it in storage, as every DELETE does."""
    table = site.table("open")
    key = site.pick(site.live_files("open"))
    add = _add(site, table, key)
    now = int(datetime.now(UTC).timestamp() * 1000)
    remove = {"path": add["path"], "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
    site.commit(table, {"remove": remove | {"partitionValues": add["partitionValues"], "size": add["size"]}})
    return Fault("remove_and_keep", f"removed {key} from its table by a commit", ())


def _add(site: Site, table: Table, key: str) -> dict[str, Any]:
    return {name: value for name, value in site.log(table).live[key].items() if name != "vector_key"}


def _middle_commit(site: Site) -> str:
    """A commit of the table that is there for this, neither its first nor its last."""
    table = site.table("broken_log")
    prefix = f"{table.location}/_delta_log/"
    commits = sorted(key for key in site.objects if key.startswith(prefix) and key.endswith(".json"))
    if table.name in site.taken:
        raise NoVictim
    site.taken.add(table.name)
    return site.pick(commits[1:-1])


def _missing_metadata(site: Site, act: str, what: str, key: str) -> Fault:
    return Fault(act, what, (Expected("content", "missing_metadata", site.owner(key).name, key),))


def _record(site: Site, table: Table, key: str, size: int) -> None:
    """One more list of the writer: JSON Lines with an end line."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    row = {"path": key, "size": size, "committed_at": now, "job_id": f"job-{site.rng.getrandbits(32):08x}"}
    lines = [row, {"end": True, "lines": 1}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    site.put(f"{table.lists}z-{now.replace(':', '')}-{site.rng.getrandbits(32):08x}.jsonl", text.encode())
