"""The plain twin of match: PAIR rows of a scenario. Small, obvious and slow."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from lakeaudit.keys import Location, owner_of
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.schemas import PAIR
from tests.builders.evidence import BUCKET
from tests.builders.scenario import Row, Scenario

EVENT_KINDS = ("file_list",)


def pair_rows(s: Scenario) -> list[Row]:
    """Return PAIR rows of every key that a source names, before gaps and vacuums are known."""
    places = sorted({(row["bucket"], row["key"]) for row in (*s.claims, *s.objects, *s.entries)})
    return [row for bucket, key in places for row in _rows_of(s, bucket, key)]


def _rows_of(s: Scenario, bucket: str, key: str) -> Iterator[Row]:
    here = [row for row in s.claims if (row["bucket"], row["key"]) == (bucket, key)]
    facts = {fact.table.name: fact for fact in s.tables}
    owner = owner_of({fact.table.location: name for name, fact in facts.items()}, bucket, key)
    shared = {"bucket": bucket, "key": key, "owner": owner, **_references(s, here, owner)}
    shared |= _of_storage(s, bucket, key) | _of_store(s, bucket, key) | _of_owner(facts.get(owner or ""))
    shared["o_slice"] = _is_slice(facts.get(owner or ""), key)
    shared["relative"] = key.removeprefix(facts[owner].table.location.prefix) if owner else key
    for number, name in enumerate(sorted({row["table_name"] for row in here}) or [None]):
        claimed = _of_claim(here, facts.get(name or ""), shared["r_speaker"], number == 0)
        row: Row = {column: (shared | claimed).get(column) for column in PAIR.names}
        row["category"] = row["category"] or _category(row["relative"])
        if row["partition_path"] is None:
            row["partition_path"] = _partition(row["relative"])
        yield row | {"h_references": _has_gap(s, key), **LATE}


LATE: Row = {"h_storage": False, "h_metastore": False, "v_assumed": False, "l_confirmation": "none"}
"""Columns that have no value yet during the match."""


def _has_gap(s: Scenario, key: str) -> bool:
    """Return whether a manifest that could list the key has an evidence gap."""
    return any(fact.has_gap and fact.table.location.holds(BUCKET, key) for fact in s.tables)


def _references(s: Scenario, here: Sequence[Row], owner: str | None) -> Row:
    """Return the facts about the key from all tables together."""
    stated = [row for row in here if not _beside_state(s, row)]
    removals = [row.get("removed_at") for row in stated if row["state"] in ("gone", "history")]
    own = sorted(row["table_name"] for row in stated if row["state"] == "live" and row["own_root"])
    speaker = owner if owner in own else next(iter(own), None)
    strangers = [name for name in own if name != speaker and not _share(s, name, speaker)]
    return {
        "r_live": any(row["state"] == "live" for row in stated),
        "r_history": any(row["state"] == "history" for row in stated),
        "r_gone": any(row["state"] == "gone" for row in stated),
        "r_removed_at": max((at for at in removals if at), default=None),
        "r_speaker": speaker if strangers else None,
    }


def _share(s: Scenario, one: str, other: str | None) -> bool:
    shares = {fact.table.name: fact.table.shares for fact in s.tables}
    return other in shares[one] or (other is not None and one in shares[other])


def _beside_state(s: Scenario, row: Row) -> bool:
    """A writer's own list beside a state manifest is checked against it and does not count as a reference."""
    stateful = {fact.table.name for fact in s.tables if fact.stateful}
    return row["manifest_kind"] in EVENT_KINDS and row["table_name"] in stateful


def _of_claim(here: Sequence[Row], fact: TableFacts | None, speaker: str | None, first: bool) -> Row:
    if fact is None:
        return {"first": True, "r_conflict": False, "t_holed": False, "t_moved": False}
    mine = [row for row in here if row["table_name"] == fact.table.name]
    events = [row for row in mine if row["manifest_kind"] in EVENT_KINDS and fact.stateful]
    event: Row = next(iter(events), {})
    state: Row = next((row for row in mine if row not in events), {})
    gaps = {name: event.get(name) for name in ("size", "etag", "version_id", "checksum")}
    told = gaps if event.get("state") == "live" else {}
    return {
        "table_name": fact.table.name,
        "first": first,
        "category": state.get("category") or event.get("category"),
        "partition_path": state.get("partition_path", event.get("partition_path")),
        **{f"c_{name}": value for name, value in state.items()},
        "c_kind": state.get("manifest_kind"),
        **{
            f"c_{name}": state[name] if state.get(name) is not None else value for name, value in told.items()
        },
        "e_state": event.get("state"),
        "e_claimed_at": event.get("claimed_at"),
        "r_conflict": fact.table.name == speaker,
        "t_grace": fact.table.settings.grace,
        "t_archived_after": fact.archived_after,
        "t_read_at": fact.read_at,
        "t_horizon": fact.horizon,
        "t_holed": fact.has_gap,
        "t_moved": fact.table.moved,
    }


def deciding(s: Scenario, key: str) -> int | None:
    """Number of the storage source whose cut is the youngest of those that cover the key."""
    covering = [n for n, source in enumerate(s.storage) if any(_under(key, place) for place in source.covers)]
    return max(covering, key=lambda n: s.storage[n].cut, default=None)


def _under(key: str, prefix: str) -> bool:
    return Location(BUCKET, prefix).holds(BUCKET, key)


def _of_storage(s: Scenario, bucket: str, key: str) -> Row:
    number = deciding(s, key)
    if number is None:
        return {"s_presence": "uncovered"}
    source = s.storage[number]
    found: Row = next(
        (r for r in s.objects if r["key"] == key and r["source"] == f"storage:{number}"),
        {"presence": "absent"},
    )
    cut = {"s_source": f"storage:{number}", "s_from": source.cut, "s_margin": source.margin}
    return cut | {f"s_{name}": value for name, value in found.items() if name != "source"}


def _of_store(s: Scenario, bucket: str, key: str) -> Row:
    if s.store is None:
        return {"m_state": "unscoped", "m_expired": False, "m_honoured": False}
    entry = next((row for row in s.entries if row["key"] == key), None)
    trusted = any(_under(key, place) for place in s.store.authoritative)
    cut = {"m_source": "metastore:0", "m_from": s.store.cut, "m_margin": s.store.margin, "m_ttl": s.store.ttl}
    if entry is None:
        return cut | {"m_state": "none", "m_expired": False, "m_honoured": trusted}
    named = "opaque" if entry.get("opaque") else "named" if entry.get("bare") else "file"
    state = "tombstone" if entry["tombstone"] else "dir" if entry["is_dir"] else named
    return (
        cut | {"m_state": state} | {f"m_{name}": value for name, value in entry.items() if name != "source"}
    )


def _of_owner(fact: TableFacts | None) -> Row:
    if fact is None:
        return dict.fromkeys(
            ("o_manifest", "o_complete", "o_logged", "o_by_folder", "o_by_index", "o_slice"), False
        )
    settings, names = fact.table.settings, fact.committed_names
    return {
        "o_grace": settings.grace,
        "o_leftover_age": settings.leftover_age,
        "o_max_upload": settings.max_upload,
        "o_retention": next(
            (s.retention for s in fact.states if s.retention is not None), settings.retention
        ),
        "o_manifest": bool(fact.table.manifests),
        "o_complete": fact.table.complete and not fact.refusal,
        "o_logged": fact.stateful,
        "o_by_folder": fact.table.read_by_folder,
        "o_by_index": fact.table.read_by_metadata_table and names is not None and names.indexed,
        "o_horizon": fact.horizon,
    }


def _is_slice(fact: TableFacts | None, key: str) -> bool:
    """Whether the name bears an instant that is completed, or older than the timeline of the table."""
    names = None if fact is None else fact.committed_names
    parts = key.rpartition("/")[2].partition(".")[0].split("_")
    if names is None or len(parts) != 3 or not key.endswith((".parquet", ".orc")):
        return False
    instant = parts[2] if len(parts[2]) == 17 else f"{parts[2]}999"
    return instant in names.instants or instant < names.first


def _partition(relative: str) -> str:
    """The leading `x=y` folders of a key below its table."""
    folders = relative.split("/")[:-1]
    return "/".join(takewhile(lambda part: part.partition("=")[0] and "=" in part, folders))


def _category(relative: str) -> str:
    """Return the category of an object by its name."""
    starts = {"_delta_log/": "log", "_change_data/": "changes", "deletion_vector_": "deletes"}
    return next((what for start, what in starts.items() if relative.startswith(start)), "data")
