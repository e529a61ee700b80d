"""Look up versions of missing, torn or truncated files of a table's own log or metadata.

No manifest describes such a file, so its older versions are looked up, and read if the file itself exists. Only
damaged tables cause requests.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import Finding
from lakeaudit.collect.lifecycles import ends
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.keys import Location
from lakeaudit.kinds import NEWER_TORN
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import OLDER_VERSIONS
from lakeaudit.storage_classes import restore_takes

KINDS = {"missing_metadata": "file", "dropped_history": "file", "incomplete_commit": "commit"}
"""By kind the `subject_type` of findings about one file of a log."""
MOST = 1000
"""Files that are looked up in one run."""
LARGEST = 16 << 20
"""Bytes of an older version that is read to see whether it is whole."""
NAMED = 10

_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])


def with_versions(evidence: Evidence, rows: Sequence[Finding]) -> list[Finding]:
    """Return the rows; rows of log files get the current object in storage and a version that can be restored."""
    tables = {table.name for table in evidence.scope if evidence.confirms(table)}
    lost = [row for row in rows if _is_lost_file(row) and row["table_name"] in tables][:MOST]
    places = list(dict.fromkeys((row["bucket"], row["key"]) for row in lost))
    if not places:
        return list(rows)
    columns = [list(column) for column in zip(*places, strict=True)]
    answers = evidence.look(pa.table(columns, schema=_KEYS)).to_pylist()
    known = {place: answer for place, answer in zip(places, answers, strict=True) if answer["l_presence"]}
    looked = {id(row) for row in lost}
    clients = evidence.context.clients
    answered = [
        row | _columns(clients, row, known[row["bucket"], row["key"]])
        if id(row) in looked and (row["bucket"], row["key"]) in known
        else row
        for row in rows
    ]
    torn = _torn_files(answered)
    rows_with_versions = _with_common_losses([_with_torn_note(row, torn) for row in answered])
    return _with_ends(evidence, rows_with_versions, known)


def _with_ends(
    evidence: Evidence, rows: Sequence[Finding], answers: Mapping[tuple[str, str], Mapping[str, Any]]
) -> list[Finding]:
    """Return the rows; those with a version that can be restored get the time until which it is kept."""
    restorable = {
        (row["bucket"], row["key"], version)
        for row in rows
        if _is_lost_file(row) and (version := row.get("recovery_version_id")) and "storage_version_id" in row
    }
    versions = [
        (*version, *(answers[version[:2]].get(f"l_older_{name}") for name in ("size", "since", "newer")))
        for version in sorted(restorable)
        if version[:2] in answers
    ]
    if not versions:
        return list(rows)
    ended, _ = ends(evidence.con, duck.small(OLDER_VERSIONS, versions), evidence.lifecycles)
    by_version = {(row["bucket"], row["key"], row["version_id"]): row for row in duck.rows_of(ended)}
    return [_with_end(row, by_version) for row in rows]


def _with_end(row: Finding, ended: Mapping[tuple[str, str, str], Finding]) -> Finding:
    end = ended.get((row.get("bucket"), row.get("key"), row.get("recovery_version_id")))  # type: ignore[arg-type]
    if end is None or not _is_lost_file(row):
        return row
    explanation = f"{row['explanation']}; {end['kept_words']}"
    return row | {"recoverable_until": end["recoverable_until"], "explanation": explanation}


def _torn_files(rows: Sequence[Finding]) -> set[tuple[str, str]]:
    """Return the places of torn files that have a whole older version."""
    return {
        (row["bucket"], row["key"])
        for row in rows
        if _is_lost_file(row)
        and row.get("storage_size") is not None
        and row.get("recovery")
        and row["recoverable"] == "yes"
    }


def _with_torn_note(row: Finding, torn: Collection[tuple[str, str]]) -> Finding:
    """Note that restoring a commit that a torn file overwrote loses no newer content."""
    if row["kind"] != "overwritten_commit" or (row.get("bucket"), row.get("key")) not in torn:
        return row
    return row | {"explanation": f"{row['explanation']}; {NEWER_TORN}"}


def _is_lost_file(row: Finding) -> bool:
    return (
        row["kind"] in KINDS
        and row.get("subject_type") == KINDS[row["kind"]]
        and row.get("category") == "log"
        and row.get("bucket") is not None
        and bool(row.get("key"))
    )


def _columns(clients: Clients, row: Finding, answer: Mapping[str, Any]) -> Finding:
    """Return the columns of a row that follow from storage's answer."""
    older = answer["l_older_version_id"]
    known: Finding = {"storage_version_id": answer["l_version_id"]}
    if older:
        known |= {"recovery_version_id": older, "cause_at": answer["l_older_since"]}
    if answer["l_presence"] == "present":
        known |= {"storage_size": answer["l_size"], "storage_etag": answer["l_etag"], "cause_at": None}
        known |= {"storage_time": answer["l_modified_at"], "storage_class": answer["l_storage_class"]}
        if answer["l_archived"]:
            return known | {"recoverable": "yes", "recovery_version_id": None}
        if "lost_state" in row and _is_whole_now(clients, row, answer):
            there = f"{row['explanation']}; its file exists, and does not have to be restored"
            none = {"recovery": None, "recovery_version_id": None}
            return known | none | {"recoverable": "unknown", "explanation": there}
        known |= {"recovery": "older_version"} if older else {}
        return known | {"recoverable": _of_torn(clients, row, answer)}
    if older:
        beneath = bool(answer["l_older_beneath_marker"] or answer["l_delete_marker"])
        recovery = "delete_marker" if beneath else "older_version"
        return known | {"recoverable": "yes", "recovery": recovery} | _archived_class(answer)
    return known | {"recoverable": "no" if answer["l_versions_known"] else "unknown"}


def _archived_class(answer: Mapping[str, Any]) -> Finding:
    """Return the storage class of the older version if it must be restored before it can be read."""
    older_class = answer["l_older_class"]
    return {"storage_class": older_class} if older_class else {}


def _is_whole_now(clients: Clients, row: Finding, answer: Mapping[str, Any]) -> bool:
    """Return whether the file of a lost state exists and is whole, so that it does not have to be restored."""
    if (answer["l_size"] or 0) > LARGEST:
        return False
    try:
        content = read_bytes(clients, Location(row["bucket"], row["key"]))
    except SourceError:
        return False
    return content is not None and is_whole(row["key"], content)


def _of_torn(clients: Clients, row: Finding, answer: Mapping[str, Any]) -> str:
    """Return whether a torn file is recoverable: its older version is whole, and it has no content of its own."""
    older = answer["l_older_version_id"]
    if not older:  # the files of a truncated commit may exist
        return "no" if answer["l_versions_known"] and row["kind"] != "incomplete_commit" else "unknown"
    if max(answer["l_older_size"] or 0, answer["l_size"] or 0) > LARGEST:
        return "unknown"
    place = Location(row["bucket"], row["key"])
    try:
        content, now = read_bytes(clients, place, older), read_bytes(clients, place)
    except SourceError:
        return "unknown"
    if not content or now is None or not is_whole(place.key, content):
        return "unknown"
    return "unknown" if is_whole(place.key, now) and not is_cut_from(content, now) else "yes"


def is_cut_from(content: bytes, now: bytes) -> bool:
    """Return whether the current content is the beginning of the older content, without its end."""
    return content.startswith(now) and content.rstrip() != now.rstrip()


def is_whole(key: str, content: bytes) -> bool:
    """Return whether the content of a log file is complete for its file type; False for other types."""
    if key.endswith(".parquet"):
        return len(content) >= 12 and content[:4] == content[-4:] == b"PAR1"
    if key.endswith(".avro"):
        return content.startswith(b"Obj\x01")
    if key.endswith(".json"):
        lines = [line for line in content.splitlines() if line.strip()]
        return _is_json(content) or (bool(lines) and all(map(_is_json, lines)))
    return False


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _with_common_losses(rows: Sequence[Finding]) -> list[Finding]:
    """Add to each row the files of the same loss and the versions that storage keeps of them."""
    losses: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for row in rows:
        if _is_lost_file(row):
            losses[_loss(row)].append(row)
    return [
        row | {"explanation": "; ".join([row["explanation"], *_versions(row, losses[_loss(row)])])}
        if _is_lost_file(row) and "storage_version_id" in row
        else row
        for row in rows
    ]


def _loss(row: Finding) -> tuple[str, str]:
    return row["table_name"], row["explanation"]


def _versions(row: Finding, lost: Sequence[Finding]) -> Iterator[str]:
    if _is_only_archived(row):
        yield f"the file is {_restore_note(row['storage_class'])}"
        return
    restorable = [each for each in lost if each.get("recovery_version_id")]
    noun = "object version" if row.get("storage_size") is None else "older object version"
    if row.get("recovery_version_id"):
        yield f"storage keeps the {noun} {row['recovery_version_id']} of this file"
    elif row.get("recoverable") == "no":
        yield f"storage keeps no {noun} of this file"
    if row.get("storage_size") is None and row.get("storage_class"):
        yield f"the version to restore is {_restore_note(row['storage_class'])}"
    if len(lost) > 1:
        yield f"{len(lost)} files are lost together: {_names(lost)}"
        names = f": {_names(restorable)}" if restorable else ""
        yield f"storage keeps an object version of {len(restorable)} of these {len(lost)} files{names}"


def _is_only_archived(row: Finding) -> bool:
    """Return whether the file exists, is not known to be torn, and must be restored before it can be read."""
    known = row.get("storage_size") is not None and row.get("recovery") is None
    return known and bool(row.get("recoverable") == "yes")


def _restore_note(storage_class: str) -> str:
    return f"in {storage_class} and must be restored first, which takes {restore_takes(storage_class)}"


def _names(rows: Sequence[Finding]) -> str:
    names = [str(row["key"]).rpartition("/")[2] for row in rows]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
