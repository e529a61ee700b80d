"""Look up one file in plain writer manifests: now, on this machine. `fold` describes how rows fold."""

from collections.abc import Iterable, Iterator
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.file_list.discover import find, numbered
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.parse_rows import event
from lakeaudit.evidence.manifest.file_list.read_lines import ListFile, lines
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

Row = dict[str, Any]
Answer = tuple[str, list[Row], str]


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    table_lists = find([table], clients)
    if refused := next((lists.refused for lists in table_lists if lists.refused), None):
        return "unknown", [], refused
    return fold_one(_rows(numbered(table_lists, clients.names), clients), bucket, key)


def _rows(lists: Iterable[ListFile], clients: Clients) -> Iterator[Row]:
    for listed in lists:
        for line in lines(listed, clients):
            yield dict(zip(EVENT, event(line, listed), strict=True)) | {"list": listed.place.uri}


def fold_one(rows: Iterable[Row], bucket: str, key: str) -> Answer:
    """Return the newest state of one path: rows of fold.EVENT, in any order, each with its `list`."""
    answer, doubt = "absent", ""
    acts, history = set(), []
    concerned = (row for row in rows if _concerns(row, bucket, key))
    for row in sorted(concerned, key=lambda row: (row["at"], row["list_no"], row["line"])):
        if row["fault"] is not None:
            doubt = f"{row['list']} line {row['line']}: {row['fault']}"
            continue
        act = (row["list_no"], row["at"], row["scope_bucket"], row["scope_key"])
        emptied = _empties(row, bucket, key) and act not in acts and answer == "present"
        acts.add(act)
        if did := _did(row, bucket, key) or ("replaced by others" if emptied else None):
            state = "present" if did == "written" else "deleted"
            doubt = "" if did == "written" or answer != state else doubt
            answer = state
            history.append(_entry(row, did))
    return ("unknown" if doubt else answer), history, doubt


def _did(row: Row, bucket: str, key: str) -> str | None:
    if (row["bucket"], row["key"]) != (bucket, key):
        return None
    return "removed" if row["action"] == "remove" else "written"


def _entry(row: Row, did: str) -> Row:
    named = {name: row[name] for name in ("size", "commit_id")} if did == "written" else {}
    return {"at": row["at"], "file": did, **named, "list": row["list"], "line": row["line"]}


def _concerns(row: Row, bucket: str, key: str) -> bool:
    """Return whether a row names the file, empties a place that holds it, or has a fault and may be about it."""
    named = (row["bucket"], row["key"]) == (bucket, key)
    if row["fault"] is not None:
        return named or row["key"] is None
    return named or _empties(row, bucket, key)


def _empties(row: Row, bucket: str, key: str) -> bool:
    scope = row["scope_key"]
    return scope is not None and Location(row["scope_bucket"], scope).holds(bucket, key)
