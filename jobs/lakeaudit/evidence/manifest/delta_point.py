"""What a Delta log says of one file, without Spark: the oldest readable state, and every commit after it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import copied, list_files, read_bytes
from lakeaudit.evidence.manifest.delta_lines import in_commit_time
from lakeaudit.evidence.manifest.delta_listing import LOG_FOLDER
from lakeaudit.evidence.manifest.delta_log import Log, Plan, commit_times, parse, plan
from lakeaudit.evidence.manifest.delta_meta import NotReadable, understand
from lakeaudit.evidence.manifest.delta_sought import Row, Sought
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

Answer = tuple[str, list[Row], str]

_AT_ONCE = 16
_LEAVES = (
    *("path", "size", "dataChange"),
    *("deletionVector.storageType", "deletionVector.pathOrInlineDv", "deletionVector.offset"),
)
_STATE = ("protocol", "metaData")


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """(answer, history, reason) as `point.Told` has them."""
    folder = table.location.join(LOG_FOLDER)
    try:
        log = parse(folder, list_files(clients, folder, flat=True))
        chosen = plan(log)
        if chosen is None:
            return "unknown", [], f"no state can be rebuilt from {folder.uri}"
        return _answer(*_Reading(clients, log, chosen, Sought(table.location, bucket, key)).acts())
    except (SourceError, NotReadable) as error:
        return "unknown", [], str(error)


def _answer(acts: list[Row], unread: list[str], newest: Row) -> Answer:
    if not unread:
        _understood(newest)
    listed = _listed(acts)
    history = [{name: value for name, value in act.items() if name != "entry"} for act in acts]
    if unread:
        return "unknown", history, "; ".join(unread[:3])
    return ("present" if listed else "deleted" if acts else "absent"), history, ""


def _understood(newest: Row) -> None:
    """NotReadable where the audit could not read the table either."""
    try:
        understand(*(json.dumps(newest[name], default=str) if name in newest else None for name in _STATE))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise NotReadable("its protocol and metaData cannot be understood") from error


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
class _Reading:
    """A listed log, what is to be read of it, and for which file."""

    clients: Clients
    log: Log
    plan: Plan
    sought: Sought

    def acts(self) -> tuple[list[Row], list[str], Row]:
        """The acts that name the file, oldest first, what could not be read, and the newest protocol and metaData."""
        unread = [f"commits {gap.first} to {gap.last} are gone" for gap in self.plan.gaps]
        acts: list[Row] = []
        newest: Row = {}
        times = commit_times(self.log)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda version: self._commit(version, times[version]), self.plan.commits)
            for found, state, trouble in [self._base(), *read]:
                acts += found
                newest |= state
                unread += [trouble] if trouble else []
        return acts, unread, newest

    def _commit(self, version: int, listed_at: datetime) -> tuple[list[Row], Row, str]:
        place = self.log.commits[version].place
        body = read_bytes(self.clients, place)
        actions, torn = _actions(body or b"")
        info: Row = next((a["commitInfo"] for a in actions if isinstance(a.get("commitInfo"), dict)), {})
        stamp = in_commit_time((body or b"").partition(b"\n")[0].decode("utf-8", "replace"))
        at = _time(stamp, listed_at)
        about = {
            "version": version,
            "at": at,
            "operation": info.get("operation"),
            "by": info.get("engineInfo"),
        }
        acts = [about | act for action in actions for act in self.sought.acts(action)]
        return acts, _state(actions), f"{place.uri} is gone or torn" if torn or body is None else ""

    def _base(self) -> tuple[list[Row], Row, str]:
        """What the state says from which the commits go on."""
        tops = [part.place for part in self.plan.base.parts] if self.plan.base else []
        read = [(place, *self._checkpoint(place)) for place in tops]
        top = [action for _, actions, _ in read for action in actions]
        sidecars = dict.fromkeys(name for action in top if (name := _sidecar(action)) is not None)
        read += [(place, *self._checkpoint(place)) for place in map(self._sidecar_place, sidecars)]
        about = {"version": self.plan.base_version, "operation": "checkpoint"}
        broken = [place.uri for place, _, whole in read if not whole]
        acts = [about | act for _, actions, _ in read for a in actions for act in self.sought.acts(a)]
        return acts, _state(top), f"{broken[0]} is gone or damaged" if broken else ""

    def _sidecar_place(self, name: str) -> Location:
        return self.log.folder.join("_sidecars", unquote(name.rpartition("/")[2]))

    def _checkpoint(self, place: Location) -> tuple[list[Row], bool]:
        """The actions of a checkpoint's file that may be about the sought one, and whether it could be read."""
        if place.key.endswith(".json"):
            actions, torn = _actions(read_bytes(self.clients, place) or b"")
            return actions, bool(actions) and not torn
        with copied(self.clients, place) as body:
            try:
                return (list(_rows(pq.ParquetFile(body), self.sought)), True) if body else ([], False)
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
    """The last protocol and metaData of these actions."""
    found = {name: a[name] for a in actions for name in _STATE if isinstance(a.get(name), dict)}
    settings = found.get("metaData", {}).get("configuration")
    if isinstance(settings, list):  # Parquet's maps are pairs
        found["metaData"] = found["metaData"] | {"configuration": dict(settings)}
    return found


def _sidecar(action: Row) -> str | None:
    named = action.get("sidecar")
    return str(named.get("path")) if isinstance(named, dict) else None


def _rows(file: pq.ParquetFile, sought: Sought) -> Iterator[Row]:
    there = file.schema_arrow.names
    wanted = [f"{name}.{leaf}" for name in ("add", "remove", "sidecar") for leaf in _LEAVES if name in there]
    for batch in file.iter_batches(8192, columns=[*wanted, *(name for name in _STATE if name in there)]):
        yield from batch.filter(sought.may_be_in(batch)).to_pylist()


def _actions(body: bytes) -> tuple[list[Row], bool]:
    """The actions of a file of JSON lines, and whether a line of it is none."""
    actions = [_action(line) for line in body.splitlines() if line.strip()]
    return [action for action in actions if action is not None], None in actions


def _action(line: bytes) -> Row | None:
    try:
        action = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return action if isinstance(action, dict) else None
