"""Archives of Hudi timelines by hand, in both layouts, and commits in Avro as Hudi writes them."""

import copy
import io
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.hudi import LAYOUTS, PACKED

Archived = tuple[str, str | None, str, Mapping[str, Any]]
"""An instant of an archive: when it began, when it was completed, its action and its record."""
_ENTRY = {"commit": "hoodieCommitMetadata", "deltacommit": "hoodieCommitMetadata",
          "replacecommit": "hoodieReplaceCommitMetadata"}  # fmt: skip
_INSTANT = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
    ]
)


@cache
def commit_schema() -> Any:
    """Return the schema of a commit that Hudi's bundle wrote (tests/data/hudi)."""
    with zipfile.ZipFile(PACKED / LAYOUTS[2]) as packed:
        name = next(name for name in packed.namelist() if name.startswith("written/") and _is_commit(name))
        return fastavro.reader(io.BytesIO(packed.read(name))).writer_schema


def _is_commit(name: str) -> bool:
    return "/timeline/" in name and name.endswith(".commit") and "_" in Path(name).name


@cache
def replace_schema() -> Any:
    """Return the schema of a commit that also replaces file groups."""
    groups = {"type": "map", "values": {"type": "array", "items": "string"}}
    schema = copy.deepcopy(commit_schema())
    schema["name"] = "org.apache.hudi.avro.model.HoodieReplaceCommitMetadata"
    schema["fields"].append({"name": "partitionToReplaceFileIds", "type": ["null", groups], "default": None})
    return schema


def in_avro(action: str, record: Mapping[str, Any]) -> bytes:
    """Return the content of a write's file."""
    out = io.BytesIO()
    schema = replace_schema() if action == "replacecommit" else commit_schema()
    fastavro.writer(out, fastavro.parse_schema(schema), [record])
    return out.getvalue()


def archive_of_layout_2(instants: Sequence[tuple[str, str | None, str, bytes]]) -> bytes:
    """Return a file of the archive, given the contents of the instants' files."""
    out = io.BytesIO()
    rows = [dict(zip(_INSTANT.names, each, strict=True)) for each in instants]
    pq.write_table(pa.Table.from_pylist(rows, _INSTANT), out)
    return out.getvalue()


def archive_of_layout_1(instants: Sequence[Archived], behind: bytes = b"") -> bytes:
    """Return a file of the archive: a block for each instant, in Hudi's log format, with bytes behind each entry."""
    return b"".join(log_block([entry_of(each) + behind]) for each in instants)


def entry_of(instant: Archived) -> bytes:
    """Return an instant as an entry of the archive."""
    begin, _, action, record = instant
    out = io.BytesIO()
    entry = {"commitTime": begin, "actionType": action, "actionState": "COMPLETED", _ENTRY[action]: record}
    fastavro.schemaless_writer(out, fastavro.parse_schema(_entry_schema()), entry)
    return out.getvalue()


@cache
def _entry_schema() -> Any:
    own = commit_schema()
    groups = {"type": "map", "values": {"type": "array", "items": "string"}}
    stats = own["fields"][0]["type"][1]
    same = {**stats, "values": {"type": "array", "items": stats["values"]["items"]["name"]}}
    replaced = {
        "type": "record",
        "name": "HoodieReplaceCommitMetadata",
        "fields": [
            {"name": "partitionToWriteStats", "type": ["null", same], "default": None},
            *(field for field in own["fields"] if field["name"] in ("extraMetadata", "operationType")),
            {"name": "partitionToReplaceFileIds", "type": ["null", groups], "default": None},
        ],
    }
    text = ["null", "string"]
    fields = [
        {"name": "hoodieCommitMetadata", "type": ["null", own], "default": None},
        {"name": "hoodieReplaceCommitMetadata", "type": ["null", replaced], "default": None},
        *(
            {"name": name, "type": text, "default": None}
            for name in ("commitTime", "actionType", "actionState")
        ),
        {"name": "version", "type": ["int", "null"], "default": 1},
    ]
    return {"type": "record", "name": "HoodieArchivedMetaEntry", "fields": fields}


def log_block(entries: Sequence[bytes]) -> bytes:
    """Return a block of the log format."""
    schema = json.dumps(_entry_schema()).encode()
    header = struct.pack(">iii", 1, 2, len(schema)) + schema
    content = struct.pack(">ii", 3, len(entries)) + b"".join(
        struct.pack(">i", len(each)) + each for each in entries
    )
    body = struct.pack(">ii", 1, 3) + header + struct.pack(">q", len(content)) + content
    return b"#HUDI#" + struct.pack(">q", len(body)) + body
