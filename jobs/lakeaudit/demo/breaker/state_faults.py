"""Acts on what says which state of a table is the newest one: the state itself is lost, cut off or contradicted.

Each act ruins a table of its own, since nothing else can be concluded about a table whose newest state is in doubt.
"""

import json
from typing import Any

from lakeaudit.demo.breaker.commit_faults import NewFile, append_info, missing_metadata
from lakeaudit.demo.breaker.faults import Expected, Fault
from lakeaudit.demo.breaker.lake_state import Site, Table
from lakeaudit.demo.breaker.s3guard_rows import now_ms

CUT_OFF = "demo/cut-off/"
"""The server cuts off the listings of prefixes that objects in this folder name."""


def lose_newest_commit(site: Site) -> Fault:
    """The newest commit of a Delta log is deleted: readers get the version before it."""
    table = site.whole_table("broken_log")
    key = site.commits(table)[-1]
    site.delete(key)
    what = f"deleted {key}, the newest commit"
    return missing_metadata(table, "lose_newest_commit", what, key, recoverable="yes")


def leave_checksum_above(site: Site) -> Fault:
    """A Delta log has the checksum of a version that is gone without a trace."""
    table = site.whole_table("broken_log")
    lost = f"{table.location}/_delta_log/{len(site.commits(table)):020}"
    site.put(f"{lost}.crc", json.dumps({"numFiles": 12, "tableSizeBytes": 99_000}).encode())
    what = f"wrote the checksum file {lost}.crc, as if this commit had existed and was lost"
    return missing_metadata(table, "leave_checksum_above", what, f"{lost}.json")


def cut_off_listing(site: Site) -> Fault:
    """The store cuts off the listing of a Delta log: it says that the list goes on, and not where."""
    table = site.whole_table("broken_log")
    prefix = f"{table.location}/_delta_log/"
    site.put(CUT_OFF + prefix, b"")
    return Fault("cut_off_listing", f"made the listing of {prefix} end too early", (), gap=table.name)


def lose_table(site: Site) -> Fault:
    """Every object of a table is deleted."""
    table = site.whole_table("broken_log")
    keys = site.below(table)
    for key in keys:
        site.delete(key)
    expected = Expected("content", "table_missing", table.name, severity="critical")
    return Fault("lose_table", f"deleted all {len(keys)} objects of {table.name}", (expected,), table.name)


def shorten_checkpoint(site: Site) -> Fault:
    """A checkpoint has the content of an older one: readers that begin there miss what was added between."""
    table = site.whole_table("checkpointed")
    older, newer = [key for key in site.below(table) if key.endswith(".checkpoint.parquet")]
    site.put(newer, site.body(older))
    return missing_metadata(table, "shorten_checkpoint", f"copied {older} over {newer}", newer)


def lose_newest_metadata(site: Site) -> Fault:
    """The newest metadata.json of an Iceberg table is deleted."""
    table = site.whole_table("broken_line")
    key = _states(site, table)[-1]
    site.delete(key)
    return missing_metadata(table, "lose_newest_metadata", f"deleted {key}", key, recoverable="yes")


def list_manifest_twice(site: Site) -> Fault:
    """A writer appends to an Iceberg table, and its list names the manifests of the state before twice."""
    table = site.whole_table("broken_line")
    newest = _states(site, table)[-1]
    content = json.loads(site.body(newest))
    parent = content["snapshots"][-1]
    body = site.body(parent["manifest-list"].removeprefix(f"s3://{site.bucket}/"))
    number = parent["snapshot-id"] + 1
    key = f"{table.location}/metadata/snap-{number}-1.avro"
    site.put(key, body + _blocks(body))
    snapshot = {
        "snapshot-id": number,
        "parent-snapshot-id": number - 1,
        "sequence-number": number,
        "timestamp-ms": now_ms(),
        "manifest-list": f"s3://{site.bucket}/{key}",
        "summary": {"operation": "append"},
    }
    _commit_state(site, table, newest, content, snapshot)
    expected = Expected("duplicate", "duplicate_entry", table.name, key, severity="error")
    return Fault("list_manifest_twice", f"committed {key}, which lists each manifest twice", (expected,))


def fall_behind(site: Site) -> Fault:
    """A commit of Delta is not converted to the Iceberg metadata in the same folder."""
    table = site.whole_table("twin")
    key = site.commit(table, append_info(), NewFile.new(site, table).add)
    expected = Expected("pointer", "stale_pointer", table.name, key, severity="warning")
    return Fault(
        "fall_behind", f"committed {key}, but did not convert it to the Iceberg metadata", (expected,)
    )


def lose_instant(site: Site) -> Fault:
    """The newest instant of a Hudi table is deleted, whose files stay."""
    table = site.whole_table("broken_timeline")
    timeline = site.below(table, ".hoodie/2")
    key = max(key for key in timeline if key.endswith(".commit"))
    for each in timeline:
        if each.startswith(key.removesuffix("commit")):
            site.delete(each)
    return missing_metadata(
        table, "lose_instant", f"deleted {key}, the file of an instant", key, recoverable="yes"
    )


def _states(site: Site, table: Table) -> list[str]:
    """Keys of the metadata.json files of an Iceberg table, in the order of their numbers, which have one digit."""
    return [key for key in site.below(table) if key.endswith(".metadata.json")]


def _blocks(body: bytes) -> bytes:
    """The blocks of an Avro file: its header ends with the marker that ends the whole file, too."""
    marker = body[-16:]
    return body[body.index(marker) + len(marker) :]


def _commit_state(
    site: Site, table: Table, newest: str, content: dict[str, Any], snapshot: dict[str, Any]
) -> None:
    """Write the next metadata.json of a Hadoop catalog's table, with one more snapshot, and then the hint."""
    number, folder = len(_states(site, table)) + 1, f"{table.location}/metadata"
    before = {"metadata-file": f"s3://{site.bucket}/{newest}", "timestamp-ms": content["last-updated-ms"]}
    content["metadata-log"].append(before)
    content["snapshots"].append(snapshot)
    content["refs"]["main"]["snapshot-id"] = content["current-snapshot-id"] = snapshot["snapshot-id"]
    content["last-updated-ms"] = snapshot["timestamp-ms"]
    site.put(f"{folder}/v{number}.metadata.json", json.dumps(content).encode())
    site.put(f"{folder}/version-hint.text", str(number).encode())
