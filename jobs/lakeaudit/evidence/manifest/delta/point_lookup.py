"""Look up one file in a Delta log, without an engine: in the oldest readable state, and every commit after it."""

import json
import re
from base64 import b85decode, b85encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import copied, list_files, read_bytes
from lakeaudit.evidence.manifest.delta.log.layout import Log, Plan, parse, plan
from lakeaudit.evidence.manifest.delta.log.lines import in_commit_time
from lakeaudit.evidence.manifest.delta.log.listing import LOG_FOLDER
from lakeaudit.evidence.manifest.delta.log.metadata import NotReadable, understand
from lakeaudit.evidence.manifest.delta.log.paths import UUID_CHARS, Z85
from lakeaudit.keys import AZURE_NAME, MOUNTS, Aliases, Location, place_by_name, true_place, walked
from lakeaudit.runtime.connections.aws import Clients

Row = dict[str, Any]
Answer = tuple[str, list[Row], str]

_DID = {"add": "added", "remove": "removed", "cdc": "written as change data"}
_WHOLE = ("sidecar.path", "protocol.minReaderVersion", "metaData.id")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_S3 = re.compile(r"(?is)(?:s3|s3a|s3n|gs)://([^/@]+)(?:/(.*))?")
_AZURE = re.compile(rf"(?s){AZURE_NAME}(?:/(.*))?")
_FILE = re.compile(r"(?is)file:(?://[^/]*)?/(.*)")
_MOUNTED = re.compile(rf"(?is){MOUNTS}/+(.*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_ODD_PARTS = re.compile(r"(^|/)\.{0,2}(/|$)")
_VECTOR = re.compile(r"deletion_vector_([0-9a-f-]{36})\.bin")
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits in Python's `base64` for those of `Z85`."""
_AT_ONCE = 16
_LEAVES = (
    *("path", "size", "dataChange"),
    *("deletionVector.storageType", "deletionVector.pathOrInlineDv", "deletionVector.offset"),
)
_STATE = ("protocol", "metaData")


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    folder = table.location.join(LOG_FOLDER)
    try:
        log = parse(folder, list_files(clients, folder, flat=True))
        chosen = plan(log)
        if chosen is None:
            return "unknown", [], f"no state can be rebuilt from {folder.uri}"
        return _answer(
            *FileReading(
                clients, log, chosen, RequestedFile(table.location, bucket, key, clients.names)
            ).acts()
        )
    except (SourceError, NotReadable) as error:
        return "unknown", [], str(error)


def _answer(acts: list[Row], unread: list[str], newest: Row) -> Answer:
    if not unread:
        require_understood(newest)
    listed = listed_entries(acts)
    history = [{name: value for name, value in act.items() if name != "entry"} for act in acts]
    if unread:
        return "unknown", history, "; ".join(unread[:3])
    return ("present" if listed else "deleted" if acts else "absent"), history, ""


def require_understood(newest: Row) -> None:
    """Raise NotReadable if the audit could not read the table either."""
    try:
        understand(*(json.dumps(newest[name], default=str) if name in newest else None for name in _STATE))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise NotReadable("its protocol and metaData cannot be understood") from error


def listed_entries(acts: list[Row]) -> set[Any]:
    """Return the entries that are left if removals of one version count before its additions, as in Delta."""
    listed: set[Any] = set()
    for _, of_version in groupby(acts, key=lambda act: act["version"]):
        removed: list[Any] = []
        others: list[Any] = []
        for act in of_version:
            (removed if act["file"] == "removed" else others).append(act["entry"])
        listed = listed - set(removed) | set(others)
    return listed


@dataclass(frozen=True)
class RequestedFile:
    """Looks for one file in the log of the table at `root`."""

    root: Location
    bucket: str
    key: str
    aliases: Aliases = ()

    def acts(self, action: Row) -> Iterator[Row]:
        """Yield the changes that an action makes to the file: mostly none."""
        for name, did in _DID.items():
            about = action.get(name)
            if not isinstance(about, dict) or not isinstance(about.get("path"), str):
                continue
            place, found = self._place(about["path"]), about.get("deletionVector")
            vector = found if isinstance(found, dict) else {}
            named = (str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset"))
            entry = (place, _spelling(about["path"]), *named)
            if place == (self.bucket, self.key):
                size, changes = about.get("size"), about.get("dataChange")
                yield {"file": did, "size": size, "data_change": changes, "entry": entry}
            if vector and self._vector_place(vector) == (self.bucket, self.key):
                yield {"file": did, "as": "deletion vector", "of": about["path"], "entry": entry}

    def may_be_in(self, actions: pa.RecordBatch) -> pa.BooleanArray:
        """Prefilter a checkpoint's rows: no writer escapes letters, digits, dots, dashes and underscores.

        Raises:
            ArrowInvalid: it has no paths, so it is not a checkpoint.
        """
        name = self.key.rpartition("/")[2]
        sought = ["%", max(_PLAIN.findall(name), key=len, default=""), *_vector_text(name)]
        flat = pa.Table.from_batches([actions]).flatten().flatten()
        texts = [flat[column] for column in flat.column_names if column.endswith((".path", "Dv"))]
        if not texts or not all(pa.types.is_string(text.type) for text in texts):
            raise pa.ArrowInvalid("no paths")
        found = [pc.match_substring(text, word) for text in texts for word in sought]
        found += [pc.is_valid(flat[name]) for name in flat.column_names if name in _WHOLE]
        return reduce(pc.or_, [pc.fill_null(each, False) for each in found]).combine_chunks()

    def rows_of(self, file: pq.ParquetFile) -> Iterator[Row]:
        """Yield the rows of a checkpoint that may be about the file, with the columns that identify it."""
        there = file.schema_arrow.names
        named = [
            f"{name}.{leaf}" for name in ("add", "remove", "sidecar") for leaf in _LEAVES if name in there
        ]
        return self._rows_with(file, [*named, *(name for name in _STATE if name in there)])

    def _rows_with(self, file: pq.ParquetFile, columns: list[str]) -> Iterator[Row]:
        for batch in file.iter_batches(8192, columns=columns):
            yield from batch.filter(self.may_be_in(batch)).to_pylist()

    def _place(self, path: str) -> tuple[str, str] | None:
        """Return bucket and key as `paths.bucket` and `paths.key` compute them."""
        if found := _S3.fullmatch(path):
            return true_place(self.aliases, unquote(found[1]), unquote(found[2] or ""))
        if found := _AZURE.fullmatch(path):
            return true_place(self.aliases, f"{found[1]}@{found[2]}", unquote(found[3] or ""))
        if found := _MOUNTED.fullmatch(path):
            return true_place(self.aliases, MOUNTS, unquote(found[1]))
        if found := _FILE.fullmatch(path):
            return true_place(self.aliases, "", unquote(found[1]))
        if _SCHEME.match(path):
            return place_by_name(self.aliases, unquote(path))
        if path.startswith("/"):
            return true_place(self.aliases, "", unquote(path[1:]))
        key = self.root.prefix + unquote(path)
        odd = any(part in path for part in ("./", "//", "%2"))
        return self.root.bucket, walked(key) if odd and _ODD_PARTS.search(key) else key

    def _vector_place(self, vector: Row) -> tuple[str, str] | None:
        """Apply the rule in "Derived Fields" of the Delta protocol."""
        text = str(vector.get("pathOrInlineDv"))
        if vector.get("storageType") == "p":
            return self._place(text)
        folder = f"{text[:-UUID_CHARS]}/" if text[:-UUID_CHARS] else ""
        try:
            uuid = UUID(bytes=b85decode(text[-UUID_CHARS:].translate(str.maketrans(Z85, _B85))))
        except ValueError:
            return None
        return self.root.bucket, f"{self.root.prefix}{folder}deletion_vector_{uuid}.bin"


@dataclass(frozen=True)
class FileReading:
    """Reads one file's acts from a listed log."""

    clients: Clients
    log: Log
    plan: Plan
    sought: RequestedFile

    def acts(self) -> tuple[list[Row], list[str], Row]:
        """Return the acts on the file, oldest first, the unreadable files, and the newest protocol and metaData."""
        unread = [f"the files of commits {gap.first} to {gap.last} are missing" for gap in self.plan.gaps]
        acts: list[Row] = []
        newest: Row = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda file: self._commit(file[0], file[2]), self.plan.commits.files())
            for found, state, trouble in [self._base(), *read]:
                acts += found
                newest |= state
                unread += [trouble] if trouble else []
        return acts, unread, newest

    def _commit(self, version: int, listed_at: datetime) -> tuple[list[Row], Row, str]:
        place = self.log.commit_place(version)
        body = read_bytes(self.clients, place)
        actions, torn = _actions(body or b"")
        info: Row = next((a["commitInfo"] for a in actions if isinstance(a.get("commitInfo"), dict)), {})
        stamp = in_commit_time((body or b"").partition(b"\n")[0].decode("utf-8", "replace"))
        at = min(_time(stamp, listed_at), listed_at)
        about = {
            "version": version,
            "at": at,
            "operation": info.get("operation"),
            "by": info.get("engineInfo"),
        }
        acts = [about | act for action in actions for act in self.sought.acts(action)]
        return acts, _state(actions), f"{place.uri} is missing or incomplete" if torn or body is None else ""

    def _base(self) -> tuple[list[Row], Row, str]:
        """Read the base state, which the commits continue."""
        tops = [part.place for part in self.plan.base.parts] if self.plan.base else []
        read = [(place, *self._checkpoint(place)) for place in tops]
        top = [action for _, actions, _ in read for action in actions]
        sidecars = dict.fromkeys(name for action in top if (name := _sidecar(action)) is not None)
        read += [(place, *self._checkpoint(place)) for place in map(self._sidecar_place, sidecars)]
        about = {"version": self.plan.base_version, "operation": "checkpoint"}
        broken = [place.uri for place, _, whole in read if not whole]
        acts = [about | act for _, actions, _ in read for a in actions for act in self.sought.acts(a)]
        return acts, _state(top), f"{broken[0]} is missing or damaged" if broken else ""

    def _sidecar_place(self, name: str) -> Location:
        return self.log.folder.join("_sidecars", unquote(name.rpartition("/")[2]))

    def _checkpoint(self, place: Location) -> tuple[list[Row], bool]:
        """Return the actions of a checkpoint's file that may be about the file, and whether it could be read."""
        if place.key.endswith(".json"):
            actions, torn = _actions(read_bytes(self.clients, place) or b"")
            return actions, bool(actions) and not torn
        with copied(self.clients, place) as body:
            try:
                return (list(self.sought.rows_of(pq.ParquetFile(body))), True) if body else ([], False)
            except (pa.ArrowException, OSError, ValueError, OverflowError):
                return [], False


def _time(stamp: int | None, otherwise: datetime) -> datetime:
    if stamp is None:
        return otherwise
    try:
        return datetime.fromtimestamp(stamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return otherwise


def _state(actions: list[Row]) -> Row:
    """Return the last protocol and metaData of these actions."""
    found = {name: a[name] for a in actions for name in _STATE if isinstance(a.get(name), dict)}
    settings = found.get("metaData", {}).get("configuration")
    if isinstance(settings, list):  # Parquet's maps are pairs
        found["metaData"] = found["metaData"] | {"configuration": dict(settings)}
    return found


def _sidecar(action: Row) -> str | None:
    named = action.get("sidecar")
    return str(named.get("path")) if isinstance(named, dict) else None


def _actions(body: bytes) -> tuple[list[Row], bool]:
    """Return the actions of a file of JSON lines, and whether one of its lines is not an action."""
    actions = [_action(line) for line in body.splitlines() if line.strip()]
    return [action for action in actions if action is not None], None in actions


def _action(line: bytes) -> Row | None:
    try:
        action = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return action if isinstance(action, dict) else None


def _spelling(path: str) -> str:
    """Return how a path is spelled, if in an unusual way: the same difference as `paths.SPELLED`."""
    if path.startswith("/") or _FILE.fullmatch(path):
        return "/"
    return path.lower() if "%" in path or _SCHEME.match(path) else ""


def _vector_text(name: str) -> list[str]:
    """Return how a log writes the UUID in the name of a deletion vector's file."""
    found = _VECTOR.fullmatch(name)
    try:
        uuids = [UUID(found[1])] if found else []
    except ValueError:
        return []
    return [b85encode(uuid.bytes).decode().translate(str.maketrans(_B85, Z85)) for uuid in uuids]
