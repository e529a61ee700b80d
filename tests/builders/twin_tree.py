"""The plain twin of the metadata store's tree."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakeaudit import keys
from lakeaudit.keys import owner_of
from tests.builders.scenario import Row, Scenario, Store
from tests.builders.twin_groups import matches


def tree_rows(s: Scenario, pairs: Sequence[Row]) -> Iterator[Row]:
    """TREE rows of the entries that a table owns."""
    by_key = {row["key"]: row for row in s.entries}
    places = {fact.table.location: fact.table.name for fact in s.tables}
    graces = {fact.table.name: fact.table.settings.grace for fact in s.tables}
    there = [row for row in pairs if row["s_presence"] == "present" and row["first"]]
    for row in _of_trees(s) if s.store else ():
        owner = owner_of(places, row["bucket"], row["key"])
        if owner is not None and s.store is not None:
            yield (
                row
                | _of_parent(by_key.get(row["parent"]))
                | _children(s, s.store, row, there)
                | {
                    "owner": owner,
                    "grace": graces[owner],
                    "touched_at": _changed_at(row),
                    "tree_edge": s.store.cut - s.store.margin,
                    "h_metastore": s.store.holed,
                    "field_absent": _lacks(s, s.store, row),
                }
            )


def _of_trees(s: Scenario) -> Sequence[Row]:
    """Return the entries of trees; a store that has only names has no tree."""
    return [row for row in s.entries if not row.get("bare")]


def _changed_at(row: Row) -> datetime | None:
    at = row.get("last_updated") if row["last_updated_given"] else row.get("mod_time")
    return at if isinstance(at, datetime) else None


def _of_parent(parent: Row | None) -> Row:
    if parent is None:
        return {
            "parent_found": False,
            "parent_is_tombstone": False,
            "parent_is_file": False,
            "parent_touched_at": None,
        }
    return {
        "parent_found": not (parent["tombstone"] and parent["expired"]),
        "parent_is_tombstone": parent["tombstone"] and not parent["expired"],
        "parent_is_file": not parent["tombstone"] and not parent["is_dir"],
        "parent_touched_at": _changed_at(parent),
    }


def _children(s: Scenario, store: Store, row: Row, there: Sequence[Row]) -> Row:
    """Return the facts of storage about the entry and the keys below it."""
    below = [r for r in there if r["key"].startswith(f"{row['key']}/")]
    children = [r for r in below if "/" not in r["key"].removeprefix(f"{row['key']}/").rstrip("/")]
    unentered = [r for r in children if _unentered(store, r)]
    return {
        "keys_below": bool(below),
        "object_there": row["is_dir"] and not row["tombstone"] and any(r["key"] == row["key"] for r in there),
        "children_missing": bool(unentered) and row["authoritative"] and row["honoured"],
    }


def _unentered(store: Store, row: Row) -> bool:
    edge = min(row["s_from"] - row["s_margin"], store.cut - store.margin)
    lacks = row["m_state"] == "none" and row["m_honoured"]
    legal = not matches(row["key"], keys.NOT_HADOOP)
    return bool(lacks and legal and row["s_modified_at"] + row["o_grace"] <= edge)


def _lacks(s: Scenario, store: Store, row: Row) -> bool:
    files = [r for r in s.entries if not r["tombstone"] and not r["is_dir"] and not r["expired"]]
    mostly = sum(r.get("etag") is not None for r in files) * 2 > len(files)
    untimed = row.get("mod_time") is None and row.get("last_updated") is None
    unupdated = store.ttl is not None and not row["last_updated_given"]
    return row["size"] is None or untimed or unupdated or (mostly and row["etag"] is None)
