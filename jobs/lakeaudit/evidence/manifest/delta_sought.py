"""The one file that is sought in a Delta log: what an action says of it."""

import re
from base64 import b85decode, b85encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.keys import Location

Row = dict[str, Any]

_DID = {"add": "added", "remove": "removed", "cdc": "written as change data"}
_WHOLE = ("sidecar.path", "protocol.minReaderVersion", "metaData.id")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_S3 = re.compile(r"(?is)(?:s3|s3a|s3n)://([^/]+)/?(.*)")
_FILE = re.compile(r"(?is)file:(?://[^/]*)?/(.*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_VECTOR = re.compile(r"deletion_vector_([0-9a-f-]{36})\.bin")
_UUID_CHARS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits of Delta's deletion vectors, and those of Python's `base64` for the same numbers."""


@dataclass(frozen=True)
class Sought:
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
            place, found = self._place(about["path"]), about.get("deletionVector")
            vector = found if isinstance(found, dict) else {}
            absolute = bool(_SCHEME.match(about["path"])) or about["path"].startswith("/")
            named = (str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset"))
            entry = (place, absolute, *named)
            if place == (self.bucket, self.key):
                size, changes = about.get("size"), about.get("dataChange")
                yield {"file": did, "size": size, "data_change": changes, "entry": entry}
            if vector and self._vector_place(vector) == (self.bucket, self.key):
                yield {"file": did, "as": "deletion vector", "of": about["path"], "entry": entry}

    def may_be_in(self, actions: pa.RecordBatch) -> pa.BooleanArray:
        """A quick look at a checkpoint: no writer escapes letters, digits, dots, dashes and underscores.

        Raises:
            ArrowInvalid: it has no paths, so it is none.
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

    def _place(self, path: str) -> tuple[str, str] | None:
        """As `delta_paths.place` has it."""
        if found := _S3.fullmatch(path):
            return unquote(found[1]), unquote(found[2])
        if found := _FILE.fullmatch(path):
            return "", unquote(found[1])
        if _SCHEME.match(path):
            return None
        if path.startswith("/"):
            return "", unquote(path[1:])
        return self.root.bucket, self.root.prefix + unquote(path)

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


def _vector_text(name: str) -> list[str]:
    """How a log writes the UUID in the name of a deletion vector's file."""
    found = _VECTOR.fullmatch(name)
    try:
        uuids = [UUID(found[1])] if found else []
    except ValueError:
        return []
    return [b85encode(uuid.bytes).decode().translate(str.maketrans(_B85, _Z85)) for uuid in uuids]
