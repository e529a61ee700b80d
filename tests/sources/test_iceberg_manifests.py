"""Manifests of every codec are read; hostile ones are an evidence gap each, print nothing, and cost little."""

import json
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.evidence.avro.blocks import LARGEST_BLOCK, file_head, header_of, packed_block, plain_blocks
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.slowness import slowness
from tests.sources.test_iceberg import A, B, read, states_of

SYNC = b"0123456789abcdef"


def parts_of(content: bytes) -> tuple[dict[str, bytes], int, bytes]:
    """Return the header of a manifest of one block, the number of its records and its unpacked bytes."""
    header = header_of(content)
    ((count, block),) = plain_blocks(content, header)
    return dict(header.values), count, block


def rewritten(content: bytes, change: Callable[[dict[str, bytes], int, bytes], bytes]) -> bytes:
    return change(*parts_of(content))


def plain(values: Mapping[str, bytes], count: int, block: bytes, sync: bytes = SYNC) -> bytes:
    return file_head({**values, "avro.codec": b"null"}, sync) + packed_block(count, block, sync)


def deflated(block: bytes) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(block) + packing.flush()


def with_codec(
    codec: bytes, pack: Callable[[bytes], bytes]
) -> Callable[[dict[str, bytes], int, bytes], bytes]:
    return lambda values, count, block: (
        file_head({**values, "avro.codec": codec}, SYNC) + packed_block(count, pack(block), SYNC)
    )


CODECS: Mapping[str, Callable[[dict[str, bytes], int, bytes], bytes]] = {
    "null": plain,
    "deflate": with_codec(b"deflate", deflated),
    "snappy": with_codec(
        b"snappy",
        lambda block: pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big"),
    ),
    "zstandard": with_codec(b"zstandard", lambda block: pa.compress(block, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_manifests_of_every_codec_are_read(tmp_path: Path, codec: str, version: int) -> None:
    write_metadata(tmp_path, {1: Snapshot({"m1": [A, B]})}, version=version)
    path = tmp_path / "metadata" / "m1.avro"
    path.write_bytes(rewritten(path.read_bytes(), CODECS[codec]))
    assert states_of(tmp_path) == {"a": "live", "b": "live"}


def schema_with(values: Mapping[str, bytes], *more: dict[str, Any]) -> dict[str, bytes]:
    schema = json.loads(values["avro.schema"])
    schema["fields"] += more
    return {**values, "avro.schema": json.dumps(schema).encode()}


HOSTILE: Mapping[str, Callable[[dict[str, bytes], int, bytes], bytes]] = {
    "too many records": lambda values, count, block: plain(values, count + 1, block),
    "too few records": lambda values, count, block: plain(values, count - 1, block + block),
    "no record": lambda values, _, block: plain(values, 0, block),
    "endless records": lambda values, _, block: plain(values, 1 << 61, block),
    "less than no record": lambda values, _, block: plain(values, -1 & (1 << 62) - 1, block),
    "a torn record": lambda values, count, block: plain(values, count, block[:-1]),
    "noise": lambda values, count, block: plain(values, count, b"\xff" * len(block)),
    "an endless text": lambda values, count, block: plain(
        values, count, block[:3] + b"\xfe\xff\xff\xff\x7f" + block[8:]
    ),
    "another mark": lambda values, count, block: plain(values, count, block)[:-1] + b"x",
    "no mark": lambda values, count, block: plain(values, count, block)[:-16],
    "an unknown codec": with_codec(b"lzma", bytes),
    "a bomb of deflate": with_codec(b"deflate", lambda _: deflated(bytes(LARGEST_BLOCK + 1))),
    "a bomb of zstandard":
        with_codec(b"zstandard", lambda _: pa.compress(bytes(LARGEST_BLOCK + 1), codec="zstd", asbytes=True)),
    "a bomb of records": with_codec(b"deflate", lambda _: deflated(bytes(LARGEST_BLOCK - 1))),
    "a schema of many fields": lambda values, count, block: plain(
        schema_with(values, *({"name": f"f{n}", "type": "long"} for n in range(200_000))), count, block
    ),
    "a schema that contains itself": lambda values, count, block: plain(
        schema_with(values, {"name": "next", "type": ["null", json.loads(values["avro.schema"])["name"]]}), count, block
    ),
    "no schema": lambda values, count, block: plain({**values, "avro.schema": b"{"}, count, block),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_manifest_is_one_gap(tmp_path: Path, case: str, capfd: pytest.CaptureFixture[str]) -> None:
    write_metadata(tmp_path, {1: Snapshot({"m1": [A], "m2": [B]})})
    path = tmp_path / "metadata" / "m2.avro"
    path.write_bytes(rewritten(path.read_bytes(), HOSTILE[case]))
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    holes = read(tmp_path).holes
    took = time.process_time() - began
    assert took < 20 * slowness()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
    assert [hole.subject.rpartition("/")[2] for hole in holes] == ["m2.avro"]
    assert set(states_of(tmp_path)) == {"a"}
    assert capfd.readouterr().err == ""


def test_a_manifest_of_impossible_size_is_one_gap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: Snapshot({"m1": [A], "m2": [Entry(f"b{n}") for n in range(2000)]})})
    size = (tmp_path / "metadata" / "m2.avro").stat().st_size
    monkeypatch.setattr("lakeaudit.evidence.avro.blocks.LARGEST", size - 1)
    (hole,) = read(tmp_path).holes
    assert hole.reason == f"it has {size} bytes, which no such file has"
    assert set(states_of(tmp_path)) == {"a"}


def test_a_process_that_reads_no_manifest_does_not_import_datafusion() -> None:
    code = (
        "import sys; from lakeaudit.evidence import registry; registry.import_readers();"
        " print({'datafusion', 'fastavro'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
