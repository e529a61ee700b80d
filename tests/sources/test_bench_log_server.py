"""The bench's own server of logs answers what the embedded S3 server does: else figures would be of another lake."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from lakeaudit.evidence.files import Ranged, folders, list_files, read_bytes, stat
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.bench.log_server import PAGE
from tests.bench.server import serving
from tests.bench.spec import BUCKET
from tests.conftest import Aws

AT = 1_793_000_000
LOG = "warehouse/a b=é&c/_delta_log"
FILES = {
    **{f"{LOG}/{version:020}.json": b"{}" * version for version in range(4)},
    f"{LOG}/_sidecars/one.parquet": b"sidecar",
    "warehouse/other/_delta_log/00000000000000000000.json": b"0123456789",
}
MANY = [f"warehouse/many/_delta_log/{version:020}.json" for version in range(2 * PAGE + 1)]


Server = tuple[Clients, str]
"""How a server is reached, and the bucket that holds the files there."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, clients: Clients, aws: Aws) -> Iterator[list[Server]]:
    """Both, with the same files; `MANY` has the bench's server alone."""
    folder, bucket = tmp_path_factory.mktemp("lake"), f"logs-{uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    for name, content in {**FILES, **dict.fromkeys(MANY, b"")}.items():
        path = folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, content in FILES.items():
        aws.s3.put_object(Bucket=bucket, Key=name, Body=content)
    (folder / "log_times.json").write_text(json.dumps(dict.fromkeys([*FILES, *MANY], AT)))
    with serving(str(folder)) as endpoint:
        yield [(Clients(Endpoint(endpoint, "us-east-1", path_style=True)), BUCKET), (clients, bucket)]


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("start_after", ["", f"{1:020}.json", f"{3:020}.json", "~"])
@pytest.mark.parametrize("folder", [LOG, "warehouse/a b=é&c", "warehouse/other", "nothing"])
def test_lists_are_equal(servers: list[Server], folder: str, start_after: str, flat: bool) -> None:
    ours, embedded = (
        [
            (file.place.key, file.size)
            for file in list_files(clients, Location(bucket, folder), start_after=start_after, flat=flat)
        ]
        for clients, bucket in servers
    )
    assert ours == embedded


def test_folders_are_equal(servers: list[Server]) -> None:
    found = [folders(clients, Location(bucket, "warehouse/a b=é&c")) for clients, bucket in servers]
    assert found == [["_delta_log"]] * 2


def test_a_list_of_many_pages_is_whole(servers: list[Server]) -> None:
    (ours, bucket), _ = servers
    log = Location(bucket, "warehouse/many/_delta_log")
    assert [file.place.key for file in list_files(ours, log, flat=True)] == MANY
    assert [file.place.key for file in list_files(ours, log, start_after=f"{1500:020}.json")] == MANY[1501:]
    assert [file.etag and file.modified_at.timestamp() for file in list_files(ours, log)] == [AT] * len(MANY)


@pytest.mark.parametrize("key", ["warehouse/other/_delta_log/00000000000000000000.json", "warehouse/nothing"])
def test_files_are_equal(servers: list[Server], key: str) -> None:
    places = [(clients, Location(bucket, key)) for clients, bucket in servers]
    assert [read_bytes(*place) for place in places] == [FILES.get(key)] * 2
    sizes = [None if (file := stat(*place)) is None else file.size for place in places]
    assert sizes == [len(FILES[key]) if key in FILES else None] * 2


def test_ranges_are_equal(servers: list[Server]) -> None:
    for clients, bucket in servers:
        ranged = Ranged(clients, Location(bucket, "warehouse/other/_delta_log/00000000000000000000.json"), 10)
        ranged.seek(4)
        assert ranged.read(3) == b"456"
        assert ranged.read() == b"789"
