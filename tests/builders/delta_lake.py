"""Delta logs written by hand, file by file, and real tables by delta-rs.

Unless said, version v was committed v hours after `START`; a removal carries the time of its commit.
"""

import base64
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.config import Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta.state.notes import gap_of
from lakeaudit.evidence.protocol import Claims, Context, EvidenceGap
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
START = NOW - timedelta(hours=100)
Action = dict[str, Any]

_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def at(version: float) -> datetime:
    """When a version was committed."""
    return START + timedelta(hours=version)


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def protocol(reader: int = 1, writer: int = 2, **features: Any) -> Action:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer} | features}


def features(*names: str) -> Action:
    return protocol(3, 7, readerFeatures=list(names), writerFeatures=list(names))


def metadata(
    *partition_columns: str, schema: str = '{"type":"struct","fields":[]}', **settings: str
) -> Action:
    return {
        "metaData": {
            "id": "0" * 32,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partition_columns),
            "configuration": {f"delta.{name.replace('_', '.')}": value for name, value in settings.items()},
        }
    }


def add(path: str, vector: Action | None = None, **given: Any) -> Action:
    fields: Action = {
        "path": path,
        "partitionValues": {},
        "size": 100,
        "modificationTime": 1,
        "dataChange": True,
    }
    fields |= {"stats": '{"numRecords":10}'} | ({"deletionVector": vector} if vector else {})
    return {"add": fields | given}


def remove(path: str, vector: Action | None = None, removed: datetime | None = None, **given: Any) -> Action:
    fields: Action = {"path": path, "dataChange": True} | ({"deletionVector": vector} if vector else {})
    return {"remove": fields | ({"deletionTimestamp": millis(removed)} if removed else {}) | given}


def change(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 50, "dataChange": False}}


def info(operation: str = "WRITE", **given: Any) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation, "operationParameters": {}} | given}


def vacuum(hours: float) -> Action:
    """The record of a VACUUM RETAIN n HOURS."""
    kept = {"specifiedRetentionMillis": int(hours * 3_600_000), "defaultRetentionMillis": 604_800_000}
    return info("VACUUM START", operationParameters={"retentionCheckEnabled": False} | kept)


def vector(number: int, offset: int | None = 1, prefix: str = "") -> Action:
    """A deletion vector in the table's own file `vector_file(number)`."""
    text = base64.b85encode(_uuid(number).bytes).decode().translate(str.maketrans(_B85, _Z85))
    placed = {} if offset is None else {"offset": offset}
    return {"storageType": "u", "pathOrInlineDv": prefix + text, "sizeInBytes": 34, "cardinality": 1} | placed


def vector_file(number: int) -> str:
    return f"deletion_vector_{_uuid(number)}.bin"


def _uuid(number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, str(number))


BORN = (protocol(), metadata())
"""The first actions of commit 0 of a plain table."""


@dataclass
class Log:
    """The `_delta_log` of a local table."""

    table: Path

    @property
    def folder(self) -> Path:
        return self.table / "_delta_log"

    def commit(self, version: int, *actions: Action, when: datetime | None = None) -> "Log":
        written = actions or (info("SET TBLPROPERTIES"),)  # no writer leaves a commit without an action
        lines = [json.dumps(_dated(action, version), ensure_ascii=False) for action in written]
        return self.put(f"{version:020}.json", "".join(line + "\n" for line in lines), when or at(version))

    def commits(self, *commits: Sequence[Action]) -> "Log":
        """Versions 0, 1, 2 and so on, the first with protocol and metadata of a plain table."""
        for version, actions in enumerate(commits):
            self.commit(version, *(BORN if version == 0 else ()), *actions)
        return self

    def put(self, name: str, content: str | bytes, when: datetime = START) -> "Log":
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (when.timestamp(), when.timestamp()))
        return self

    def drop(self, *names: str) -> "Log":
        for name in names:
            (self.folder / name).unlink()
        return self

    def checkpoint(self, version: int, *actions: Action, parts: int = 1) -> "Log":
        """A classic checkpoint, or a multi-part one."""
        for part in range(parts):
            name = f"{version:020}.checkpoint.parquet"
            if parts > 1:
                name = f"{version:020}.checkpoint.{part + 1:010}.{parts:010}.parquet"
            self._parquet(name, actions[part::parts], version)
        return self

    def sidecar_checkpoint(self, version: int, *actions: Action, form: str) -> "Log":
        """A V2 checkpoint: file actions in two sidecars, the others at the top (`form` json or parquet)."""
        files = [action for action in actions if action.keys() & {"add", "remove"}]
        top = [action for action in actions if action not in files]
        names = [f"{version}-{half}.parquet" for half in range(2)]
        for half, name in enumerate(names):
            self._parquet(f"_sidecars/{name}", files[half::2], version)
        sizes = [(self.folder / "_sidecars" / name).stat().st_size for name in names]
        top += [
            {"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1}}
            for name, size in zip(names, sizes, strict=True)
        ]
        name = f"{version:020}.checkpoint.{uuid.UUID(int=version)}.{form}"
        if form == "json":
            return self.put(name, "".join(json.dumps(action) + "\n" for action in top), at(version))
        return self._parquet(name, top, version)

    def _parquet(self, name: str, actions: Sequence[Action], version: int) -> "Log":
        sink = pa.BufferOutputStream()
        pq.write_table(checkpoint_rows([_dated(action, version) for action in actions]), sink)
        return self.put(name, sink.getvalue().to_pybytes(), at(version))


def checkpoint_rows(actions: Sequence[Action]) -> Any:
    """Actions as a Parquet checkpoint holds them."""
    return pa.Table.from_pylist([_row(action) for action in actions], schema=_CHECKPOINT)


def _dated(action: Action, version: int) -> Action:
    if "remove" not in action:
        return action
    return {"remove": {"deletionTimestamp": millis(at(version))} | action["remove"]}


def _row(action: Action) -> Action:
    """An action as a checkpoint's row: maps are lists of pairs there."""
    return {
        kind: {
            name: list(value.items()) if name in ("partitionValues", "configuration", "options") else value
            for name, value in fields.items()
        }
        for kind, fields in action.items()
    }


_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32()),
     ("sizeInBytes", pa.int32()), ("cardinality", pa.int64())]
)  # fmt: skip
_FILE = [("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()), ("deletionVector", _VECTOR)]
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string())])),
        ("add", pa.struct([*_FILE, ("modificationTime", pa.int64()), ("stats", pa.string())])),
        ("remove", pa.struct([*_FILE, ("deletionTimestamp", pa.int64())])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string()), ("configuration", _MAP),
                                ("partitionColumns", pa.list_(pa.string()))])),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                                ("readerFeatures", pa.list_(pa.string())),
                                ("writerFeatures", pa.list_(pa.string()))])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])),
    ]
)  # fmt: skip


def table(name: str, root: Path | str) -> Table:
    return Table(name=name, location=Location.parse(str(root)))


def context(clients: Clients | None = None, as_of: datetime = NOW) -> Context:
    """A run at `NOW`, live unless it looks at the past."""
    return Context(InProcessEngine(), clients or Clients(), as_of, NOW, live=as_of == NOW)


def claim_rows(claims: Claims) -> list[dict[str, Any]]:
    """The claims, read and folded here, as plain rows."""
    return claims_and_gaps(claims)[0]


def claims_and_gaps(claims: Claims) -> tuple[list[dict[str, Any]], list[EvidenceGap]]:
    """Return the claims, and the evidence gaps that are known only after large checkpoints were read."""
    parts = [one for source in claims.rows for one in (source if isinstance(source, tuple) else (source,))]
    found: dict[str, list[dict[str, Any]]] = {"notes": [], "folded": []}
    for kind, batch in InProcessEngine().run(parts, [_Fold(claims)]):
        found[kind] += batch.to_pylist()
    return found["folded"], [hole for note in found["notes"] if (hole := gap_of(note)) is not None]


@dataclass(frozen=True)
class _Fold:
    """A stage that only folds."""

    claims: Claims

    def __call__(self, con: Connection, rows: Mapping[str, pa.Table]) -> Iterator[tuple[str, Rows]]:
        yield "folded", self.claims.fold(con, rows)


def frozen() -> datetime:
    """The clock of a run that takes no time."""
    return NOW


def claim_summary(claim: Mapping[str, Any], root: Path, version_at: Mapping[datetime, int | str]) -> str:
    """Summarize a claim: `live since 0`, `history since 0 removed 2`, and its unusual properties."""
    words = [claim["state"], "since", version_at.get(_utc(claim["claimed_at"]), "?")]
    words += ["removed", version_at.get(_utc(claim["removed_at"]), "?")] if claim["removed_at"] else []
    words += [claim["category"]] if claim["category"] != "data" else []
    words += ["explained"] if claim["explained"] else []
    words += ["uncertain"] if not claim["certain"] else []
    words += [f"listed {claim['listed']}"] if claim["listed"] != (claim["state"] == "live") else []
    words += ["elsewhere"] if claim["own_root"] != claim["key"].startswith(f"{str(root)[1:]}/") else []
    return " ".join(str(word) for word in words)


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC)
