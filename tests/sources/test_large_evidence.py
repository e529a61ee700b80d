"""Evidence that becomes very large once it is unpacked: little of it is held, and its size is named."""

import base64
import gzip
import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.evidence.events import event_files
from lakeaudit.evidence.files import list_files, read_bytes
from lakeaudit.evidence.manifest.delta.log import actions as acts
from lakeaudit.evidence.manifest.iceberg.state import lists
from lakeaudit.evidence.metastore.dynamodb import export_files
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.artefacts import KINDS, Artefact, put
from tests.builders.damage import damaged, read_all
from tests.builders.delta_lake import BORN, add, checkpoint_rows
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.s3guard import with_checksum
from tests.sources.manifest_contract import claim_table
from tests.sources.test_iceberg import read as read_iceberg

MIB = 1 << 20


def checkpoint(values: int, size: int) -> bytes:
    """A checkpoint of one long text that many files have: it is stored once."""
    rows = checkpoint_rows(
        [*BORN, *(add(f"f{n}", stats='{"numRecords":1,"x":"' + "x" * size) for n in range(values))]
    )
    out = io.BytesIO()
    pq.write_table(rows, out, compression="zstd")
    return out.getvalue()


@pytest.mark.parametrize(("largest", "fits"), [(64 * MIB, True), (8 * MIB, False)])
def test_rows_of_a_small_checkpoint_are_bounded(largest: int, fits: bool) -> None:
    content = checkpoint(20, MIB)
    assert len(content) < 100_000
    file = pq.ParquetFile(pa.BufferReader(content))
    if fits:
        assert acts.read_parquet(file, largest=largest).num_rows == 22
        return
    with pytest.raises(acts.TooLargeError, match="its rows have more than 8 MiB in memory"):
        acts.read_parquet(file, largest=largest)


def one_line(size: int, begin: bytes = b'{"Item": {"x": {"S": "') -> bytes:
    """A gzip file of a single line."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed:
        packed.write(begin)
        for _ in range(size // MIB):
            packed.write(b"x" * MIB)
    return out.getvalue()


def export(folder: Path, content: bytes) -> None:
    """The export with another content of its first data file, checksums included."""
    (home,) = (folder / "export" / "AWSDynamoDB").iterdir()
    lines = [json.loads(line) for line in (home / "manifest-files.json").read_text().splitlines()]
    put(folder / "export" / lines[0]["dataFileS3Key"], content)
    lines[0]["md5Checksum"] = base64.b64encode(hashlib.md5(content).digest()).decode()
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with_checksum(lambda key, body: put(Path(key), body), str(home / "manifest-files"), text)


def test_a_line_of_an_export_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_files, "LONGEST_LINE", 2 * MIB)
    kind = KINDS["dynamodb export"]
    lake = kind.write_lake(tmp_path)
    export(tmp_path, one_line(4 * MIB))
    gaps = read_all(lake, kind.rows).gaps
    assert any("has a line of more than 2 MiB" in gap for gap in gaps), gaps


def test_a_line_of_events_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "LONGEST", 2 * MIB)
    monkeypatch.setattr(event_files, "BLOCK", MIB)
    kind = KINDS["journal json"]
    lake = kind.write_lake(tmp_path)
    with damaged(kind.files(tmp_path)[0], one_line(5 * MIB)):
        gaps = read_all(lake, kind.rows).gaps
    assert any("has a line of more than 2 MiB" in gap for gap in gaps), gaps


def test_a_small_file_that_unpacks_to_much_is_not_held_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines come block by block, as those of a large file do, and all of them come."""
    monkeypatch.setattr(event_files, "BLOCK", 1 << 12)
    lines = b"".join(b'{"n": %d}\n' % n for n in range(20_000))
    put(tmp_path / "x.json.gz", gzip.compress(lines))
    file = next(list_files(Clients(), Location.parse(str(tmp_path))))
    monkeypatch.setattr(event_files, "PACKED", 0)  # it is taken for a small one
    found = list(event_files.contents(Clients(), [file]))
    assert max(len(content.text) for content in found) < 3 << 12
    assert "\n".join(content.text for content in found if content.text).encode() == lines.rstrip()


def test_a_list_that_many_snapshots_share_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_metadata(tmp_path, {1: Snapshot({"m1": [Entry("a"), Entry("b")]})})
    told = json.loads(path.read_text())
    first = told["snapshots"][0]
    told["snapshots"] = [
        {**first, "snapshot-id": n, "timestamp-ms": first["timestamp-ms"] + n, "parent-snapshot-id": n - 1}
        for n in range(1, 2001)
    ]
    told |= {"current-snapshot-id": 2000, "refs": {"main": {"snapshot-id": 2000, "type": "branch"}}}
    path.write_text(json.dumps(told))
    read: list[object] = []

    def counting(clients: Clients, place: Location, size: int = 0) -> bytes | None:
        read.append(place)
        return read_bytes(clients, place, size=size)

    monkeypatch.setattr(lists, "read_bytes", counting)
    claims = read_iceberg(tmp_path)
    assert (len(read), claims.holes) == (1, ())
    rows = [row for row in claim_table(claims).to_pylist() if row["category"] == "data"]
    assert sorted((row["key"][-1], row["state"]) for row in rows) == [("a", "live"), ("b", "live")]


# --- real ones: a process of its own each, whose memory is measured --------------------------------------------------


def _trail(folder: Path, artefact: Artefact) -> None:
    record = b'{"eventSource": "s3.amazonaws.com", "eventName": "PutObject", "x": "' + b"x" * 1000 + b'"},'
    with gzip.open(artefact.files(folder)[0], "wb", compresslevel=1) as out:
        out.write(b'{"Records": [')
        for _ in range(2048):
            out.write(record * 1000)
        out.write(b"{}]}")


def _export(folder: Path, _: Artefact) -> None:
    export(folder, one_line(6 << 30))


def _checkpoint(folder: Path, artefact: Artefact) -> None:
    put(artefact.files(folder)[0], checkpoint(2048, MIB))


def _list(folder: Path, _: Artefact) -> None:
    path = next((folder / "wh/t/metadata").glob("*.json"))
    told = json.loads(path.read_text())
    first = told["snapshots"][0]
    at = first["timestamp-ms"]
    told["snapshots"] = [{**first, "snapshot-id": n, "timestamp-ms": at + n} for n in range(1, 50_001)]
    told |= {"current-snapshot-id": 50_000, "refs": {"main": {"snapshot-id": 50_000, "type": "branch"}}}
    path.write_text(json.dumps(told))


BOMBS: dict[str, tuple[str, Callable[[Path, Artefact], None], str]] = {
    "a CloudTrail file of 2 GB": ("cloudtrail", _trail, ""),
    "an export file of 6 GB": ("dynamodb export", _export, "has a line of more than 16 MiB"),
    "a checkpoint with a column of 2 GB": (
        "delta checkpoint",
        _checkpoint,
        "its rows have more than 256 MiB in memory",
    ),
    "50,000 snapshots of one list": ("iceberg metadata", _list, ""),
}
MEASURED = """
import resource, sys, time
from pathlib import Path
from lakeaudit.config import load_lake
from tests.builders.artefacts import KINDS
from tests.builders.damage import read_all
kind, folder = sys.argv[1:]
calm = KINDS[kind].write_lake(Path(folder) / "calm")
read_all(calm, KINDS[kind].rows)
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.monotonic()
read = read_all(load_lake(Path(folder) / "lake.yaml", {}), KINDS[kind].rows)
took = time.monotonic() - begun
print(len(read.rows), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle, took, *sorted(read.gaps), sep="\\n")
"""


@pytest.mark.soak
@pytest.mark.parametrize("name", BOMBS)
def test_real_bombs_take_little_memory(name: str, tmp_path: Path) -> None:
    kind, lay, reason = BOMBS[name]
    KINDS[kind].write_lake(tmp_path)
    lay(tmp_path, KINDS[kind])
    line = [sys.executable, "-c", MEASURED, kind, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-2000:]
    _, grown, took, *gaps = done.stdout.splitlines()
    assert int(grown) < 1 << 20, "KiB above the idle process"
    assert any(reason in gap for gap in gaps) or not reason, gaps
    if kind == "iceberg metadata":
        assert float(took) < 10
