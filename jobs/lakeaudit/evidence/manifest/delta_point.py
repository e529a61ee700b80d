"""What a Delta log says of one file, without Spark: the oldest readable state, and every commit after it."""

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

from lakeaudit.aws import Clients
from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import copied, list_files, read_bytes
from lakeaudit.evidence.manifest.delta_lines import in_commit_time
from lakeaudit.evidence.manifest.delta_log import Log, Plan, commit_times, parse, plan
from lakeaudit.keys import Location, identify

Row = dict[str, Any]
Answer = tuple[str, list[Row], str]

_AT_ONCE = 16
_DID = {"add": "added", "remove": "removed", "cdc": "written as change data"}
_LEAVES = (
    *("path", "size", "dataChange"),
    *("deletionVector.storageType", "deletionVector.pathOrInlineDv", "deletionVector.offset"),
)
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_VECTOR = re.compile(r"deletion_vector_([0-9a-f-]{36})\.bin")
_UUID_CHARS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits of Delta's deletion vectors, and those of Python's `base64` for the same numbers."""


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """(answer, history, reason) as `point.Told` has them."""
    folder = table.location.join("_delta_log")
    try:
        log = parse(folder, list_files(clients, folder, flat=True))
        chosen = plan(log)
        if chosen is None:
            return "unknown", [], f"no state can be rebuilt from {folder.uri}"
        return _answer(*_Reading(clients, log, chosen, _Sought(table.location, bucket, key)).acts())
    except SourceError as error:
        return "unknown", [], str(error)


def _answer(acts: list[Row], unread: list[str]) -> Answer:
    listed = _listed(acts)
    history = [{name: value for name, value in act.items() if name != "entry"} for act in acts]
    if unread:
        return "unknown", history, "; ".join(unread[:3])
    return ("present" if listed else "deleted" if acts else "absent"), history, ""


def _listed(acts: list[Row]) -> set[Any]:
    """The entries that are left when removals of one version count before its additions, as Delta has it."""
    listed: set[Any] = set()
    for _, of_version in groupby(acts, key=lambda act: act["version"]):
        removed: list[Any] = []
        others: list[Any] = []
        for act in of_version:
            (removed if act["file"] == "removed" else others).append(act["entry"])
        listed = listed - set(removed) | set(others)
    return listed


@dataclass(frozen=True)
class _Sought:
    """The file that is sought in the log of the table at `root`."""

    root: Location
    bucket: str
    key: str

    def acts(self, action: Row) -> Iterator[Row]:
        """What an action does to the file: nothing, mostly."""
        for name, did in _DID.items():
            about = action.get(name)
            if not isinstance(about, dict) or not isinstance(about.get("path"), str):
                continue
            place, vector = self._place(about["path"]), about.get("deletionVector") or {}
            absolute = bool(_SCHEME.match(about["path"])) or about["path"].startswith("/")
            entry = (place, absolute, *map(vector.get, ("storageType", "pathOrInlineDv", "offset")))
            if place == (self.bucket, self.key):
                size, changes = about.get("size"), about.get("dataChange")
                yield {"file": did, "size": size, "data_change": changes, "entry": entry}
            if vector and self._vector_place(vector) == (self.bucket, self.key):
                yield {"file": did, "as": "deletion vector", "of": about["path"], "entry": entry}

    def may_be_in(self, actions: pa.RecordBatch) -> pa.BooleanArray:
        """A quick look at a checkpoint: no writer escapes letters, digits, dots, dashes and underscores."""
        name = self.key.rpartition("/")[2]
        sought = [max(_PLAIN.findall(name), key=len, default=""), *_vector_text(name)]
        flat = pa.Table.from_batches([actions]).flatten().flatten()
        texts = [flat[column] for column in flat.column_names if column.endswith((".path", "Dv"))]
        found = [pc.match_substring(text, word) for text in texts for word in sought]
        found += [pc.is_valid(flat[column]) for column in flat.column_names if column == "sidecar.path"]
        return reduce(pc.or_, [pc.fill_null(each, False) for each in found]).combine_chunks()

    def _place(self, path: str) -> tuple[str, str] | None:
        plain = unquote(path)
        if _SCHEME.match(path) or path.startswith("/"):
            return identify(plain)
        return self.root.bucket, self.root.prefix + plain

    def _vector_place(self, vector: Row) -> tuple[str, str] | None:
        """Rule: "Derived Fields" of the Delta protocol."""
        text = str(vector.get("pathOrInlineDv"))
        if vector.get("storageType") == "p":
            return self._place(text)
        folder = f"{text[:-_UUID_CHARS]}/" if text[:-_UUID_CHARS] else ""
        try:
            uuid = UUID(bytes=b85decode(text[-_UUID_CHARS:].translate(str.maketrans(_Z85, _B85))))
        except ValueError:
            return None
        return self.root.bucket, f"{self.root.prefix}{folder}deletion_vector_{uuid}.bin"


@dataclass(frozen=True)
class _Reading:
    """A listed log, what is to be read of it, and for which file."""

    clients: Clients
    log: Log
    plan: Plan
    sought: _Sought

    def acts(self) -> tuple[list[Row], list[str]]:
        """The acts that name the file, oldest first, and what could not be read."""
        unread = [f"commits {gap.first} to {gap.last} are gone" for gap in self.plan.gaps]
        acts: list[Row] = []
        times = commit_times(self.log)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda version: self._commit(version, times[version]), self.plan.commits)
            for found, trouble in [self._base(), *read]:
                acts += found
                unread += [trouble] if trouble else []
        return acts, unread

    def _commit(self, version: int, listed_at: datetime) -> tuple[list[Row], str]:
        place = self.log.commits[version].place
        body = read_bytes(self.clients, place)
        actions, torn = _actions(body or b"")
        info: Row = next((a["commitInfo"] for a in actions if isinstance(a.get("commitInfo"), dict)), {})
        stamp = in_commit_time((body or b"").partition(b"\n")[0].decode("utf-8", "replace"))
        at = listed_at if stamp is None else datetime.fromtimestamp(stamp / 1000, UTC)
        about = {
            "version": version,
            "at": at,
            "operation": info.get("operation"),
            "by": info.get("engineInfo"),
        }
        acts = [about | act for action in actions for act in self.sought.acts(action)]
        return acts, f"{place.uri} is gone or torn" if torn or body is None else ""

    def _base(self) -> tuple[list[Row], str]:
        """What the state says from which the commits go on."""
        acts: list[Row] = []
        broken: list[Location] = []
        places = [part.place for part in self.plan.base.parts] if self.plan.base else []
        for place in places:  # grows by sidecars
            actions, whole = self._state(place)
            broken += [] if whole else [place]
            named = [action["sidecar"]["path"] for action in actions if action.get("sidecar")]
            places += [self.log.folder.join("_sidecars", unquote(name.rpartition("/")[2])) for name in named]
            about = {"version": self.plan.base_version, "operation": "checkpoint"}
            acts += [about | act for action in actions for act in self.sought.acts(action)]
        return acts, f"{broken[0].uri} is gone or damaged" if broken else ""

    def _state(self, place: Location) -> tuple[list[Row], bool]:
        """The actions of a checkpoint's file that may be about the sought one, and whether it could be read."""
        if place.key.endswith(".json"):
            actions, torn = _actions(read_bytes(self.clients, place) or b"")
            return actions, bool(actions) and not torn
        with copied(self.clients, place) as body:
            try:
                return (list(_rows(pq.ParquetFile(body), self.sought)), True) if body else ([], False)
            except (pa.ArrowException, OSError):
                return [], False


def _rows(file: pq.ParquetFile, sought: _Sought) -> Iterator[Row]:
    kept = [name for name in ("add", "remove", "sidecar") if name in file.schema_arrow.names]
    for batch in file.iter_batches(8192, columns=[f"{name}.{leaf}" for name in kept for leaf in _LEAVES]):
        yield from batch.filter(sought.may_be_in(batch)).to_pylist()


def _actions(body: bytes) -> tuple[list[Row], bool]:
    """The actions of a file of JSON lines, and whether a line of it is none."""
    actions = [_action(line) for line in body.splitlines() if line.strip()]
    return [action for action in actions if action is not None], None in actions


def _action(line: bytes) -> Row | None:
    try:
        action = json.loads(line)
    except ValueError:
        return None
    return action if isinstance(action, dict) else None


def _vector_text(name: str) -> list[str]:
    """How a log writes the UUID in the name of a deletion vector's file."""
    uuids = [UUID(found[1]) for found in [_VECTOR.fullmatch(name)] if found]
    return [b85encode(uuid.bytes).decode().translate(str.maketrans(_B85, _Z85)) for uuid in uuids]
