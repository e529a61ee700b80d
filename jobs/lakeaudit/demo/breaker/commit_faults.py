"""Acts on Delta logs: commits that are lost, torn or overwritten, and files and batches that are committed twice."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lakeaudit.demo.breaker.faults import Expected, Fault
from lakeaudit.demo.breaker.lake_state import Site, Table, folder_of
from lakeaudit.demo.breaker.s3guard_rows import now_ms


def lose_commit_file(site: Site) -> Fault:
    """A commit in the middle of a Delta log is deleted."""
    key = _middle_commit(site)
    site.delete(key)
    return missing_metadata(site.owner(key), "lose_commit_file", f"deleted {key}", key)


def tear_commit_file(site: Site) -> Fault:
    """A commit in the middle of a Delta log ends within a line."""
    key = _middle_commit(site)
    whole = site.body(key)
    site.put(key, whole[:-40])
    # the bucket still has the complete commit; it counts as overwritten if the lost line added a file
    lost = "add" in json.loads(whole.splitlines()[-1])
    what = f"cut the last line of {key}"
    return missing_metadata(site.owner(key), "tear_commit_file", what, key, overwritten=lost)


def blank_commit_file(site: Site) -> Fault:
    """A commit in the middle of a Delta log contains only blanks."""
    key = _middle_commit(site)
    site.put(key, b" " * site.objects[key]["size"])
    what = f"replaced the content of {key} by blanks"
    return missing_metadata(site.owner(key), "blank_commit_file", what, key, overwritten=True)


def empty_newest_commit(site: Site) -> Fault:
    """The newest commit of a Delta log has 0 bytes."""
    table = site.whole_table("broken_log")
    key = site.commits(table)[-1]
    site.put(key, b"")
    what = f"emptied {key}, the newest commit"
    return missing_metadata(table, "empty_newest_commit", what, key, overwritten=True)


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
    return Fault("commit_twice", f"committed {key} a second time, with its full address", (expected,))


def overwrite_commit(site: Site) -> Fault:
    """Two writers write the same commit without put-if-absent: the second one replaces the first."""
    table = site.table("open")
    lost, kept = (NewFile.new(site, table) for _ in range(2))
    site.commit(table, append_info(), lost.add)
    key = site.commit(table, append_info(), kept.add, again=True)
    expected = (_overwritten_commit(table, key), Expected("leftover", "uncommitted", table.name, lost.key))
    return Fault(
        "overwrite_commit",
        f"made {_commit(key)}, which adds {lost.key}, and then overwrote {_name(key)} with another commit",
        expected,
    )


def overwrite_removal(site: Site) -> Fault:
    """The same, and the removal of a file is lost: the file is still listed."""
    table = site.table("open")
    key = site.pick(site.live_files("open"))
    site.remove(table, key)
    commit = site.commit(table, append_info(), NewFile.new(site, table).add, again=True)
    what = (
        f"made {_commit(commit)}, which removes {key}, and then overwrote {_name(commit)} with another commit"
    )
    return Fault("overwrite_removal", what, (_overwritten_commit(table, commit),))


def overwrite_and_repeat(site: Site) -> Fault:
    """A trap: a commit is overwritten, and its writer notices it and commits its file again."""
    table = site.table("open")
    lost, kept = (NewFile.new(site, table) for _ in range(2))
    site.commit(table, append_info(), lost.add)
    key = site.commit(table, append_info(), kept.add, again=True)
    site.commit(table, append_info(), lost.add)
    return Fault("overwrite_and_repeat", f"overwrote the commit {key}, then wrote the lost commit again", ())


def append_twice(site: Site) -> Fault:
    """A job runs twice and appends its batch twice: new files with equal statistics, and both are live."""
    table = site.table("open")
    batch = [NewFile.new(site, table) for _ in range(2)]
    site.commit(table, append_info(), *(file.add for file in batch))
    key = site.commit(table, append_info(), *(file.written_again(site, table).add for file in batch))
    expected = Expected("commit", "duplicate_commit", table.name, key, severity="warning")
    what = f"appended the same rows to {table.name} twice, the second time in {_commit(key)}"
    return Fault("append_twice", what, (expected,))


def append_habitually(site: Site) -> Fault:
    """A trap: a job regularly appends the same few rows on purpose."""
    table = site.table("open")
    beat = NewFile.new(site, table)
    for file in (beat, *(beat.written_again(site, table) for _ in range(4))):
        site.commit(table, append_info(), file.add)
    return Fault("append_habitually", f"appended equal rows to {table.name} five times", ())


def remove_and_keep(site: Site) -> Fault:
    """A trap: the table removes a file and leaves it in storage, as every DELETE does."""
    key = site.pick(site.live_files("open"))
    site.remove(site.table("open"), key)
    return Fault("remove_and_keep", f"removed {key} from its table by a commit", ())


def reload_batch(site: Site) -> Fault:
    """A trap: a rerun job removes its batch and appends it again, so that the batch exists once."""
    table = site.table("open")
    first = NewFile.new(site, table)
    site.commit(table, append_info(), first.add)
    site.remove(table, first.key)
    key = site.commit(table, append_info(), first.written_again(site, table).add)
    return Fault("reload_batch", f"appended a batch again in {key} after it was removed", ())


@dataclass(frozen=True)
class NewFile:
    """A new data file, and the action that adds it."""

    key: str
    add: dict[str, Any]

    @classmethod
    def new(cls, site: Site, table: Table) -> "NewFile":
        """Return a file in the folder of a live one, with statistics that no other file has."""
        other = site.pick(site.live_files(table.role))
        first, rows = site.rng.getrandbits(40), site.rng.randint(50, 500)
        stats = {
            "numRecords": rows,
            "minValues": {"id": first},
            "maxValues": {"id": first + rows - 1},
            "nullCount": {"id": 0},
        }
        fields = {"partitionValues": _add(site, table, other)["partitionValues"], "stats": json.dumps(stats)}
        return cls._put(site, table, folder_of(other), 4500 + site.rng.randrange(500), fields)

    def written_again(self, site: Site, table: Table) -> "NewFile":
        """Return another file with the same rows: equal size and statistics, but other bytes."""
        fields = {name: self.add["add"][name] for name in ("partitionValues", "stats")}
        return self._put(site, table, folder_of(self.key), self.add["add"]["size"], fields)

    @classmethod
    def _put(cls, site: Site, table: Table, folder: str, size: int, fields: dict[str, Any]) -> "NewFile":
        key = site.new_key(folder)
        site.put(key, site.rng.randbytes(size))
        path = quote(key[len(table.location) + 1 :])
        return cls(
            key,
            {"add": fields | {"path": path, "size": size, "modificationTime": now_ms(), "dataChange": True}},
        )


def append_info() -> dict[str, Any]:
    """Return the commit info of an append."""
    return {
        "commitInfo": {
            "timestamp": now_ms(),
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
        }
    }


def missing_metadata(
    table: Table, act: str, what: str, key: str, *, overwritten: bool = False, recoverable: str | None = None
) -> Fault:
    """Return the fault of a lost or damaged log file; `overwritten`: its older version is a commit that added files."""
    expected = Expected("content", "missing_metadata", table.name, key, "critical", recoverable)
    more = [_overwritten_commit(table, key)] if overwritten else []
    return Fault(act, what, (expected, *more), gap=table.name)


def _overwritten_commit(table: Table, key: str) -> Expected:
    return Expected("commit", "overwritten_commit", table.name, key, severity="critical", recoverable="yes")


def _add(site: Site, table: Table, key: str) -> dict[str, Any]:
    return {name: value for name, value in site.log(table).live[key].items() if name != "vector_key"}


def _commit(key: str) -> str:
    """Return a commit by its number and its file."""
    return f"commit {int(_name(key).removesuffix('.json'))} ({key})"


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _middle_commit(site: Site) -> str:
    """Return a commit of a table for this act, neither the first nor the last."""
    table = site.whole_table("broken_log")
    return site.pick(site.commits(table)[1:-1])
