"""A Delta table on Azure, audited whole: its log read and its files asked for in Azurite, its report laid by us.

Needs Azurite: `npm install azurite` somewhere, and AZURITE_BLOB or the path to name its `azurite-blob`.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.config import load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence import files
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import azure_reports as built
from tests.builders.audits import audited, results_of
from tests.builders.azure_reports import Blob
from tests.builders.azurite import ACCOUNT, COMMAND, KEY, account, azurite

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(COMMAND is None, reason="Azurite is not installed"),
]
BUCKET = f"lake@{ACCOUNT}"
URI = f"abfss://{BUCKET}.dfs.core.windows.net"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with azurite() as found:
        yield found


@pytest.fixture
def site(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "Site":
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    return Site(endpoint, tmp_path / "orders")


class Site:
    """The container `lake` with the table `warehouse/orders`, and reports of it."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.folder, self.copied = folder, set[Path]()
        self.endpoint, self.store = endpoint, account(endpoint)
        self.clients = Clients(azure=((r".*@.*", endpoint),))
        for container in ("lake", "reports"):
            if self.store.get_file_info([container])[0].type.name == "Directory":
                self.store.delete_dir(container)
                time.sleep(1)
            self.store.create_dir(container)
        for number in range(4):
            self.append(number)

    def append(self, number: int) -> None:
        """By delta-rs into a folder, of which what is new is copied: its own client does not list at Azurite."""
        rows = pa.table({"day": [f"2026-11-0{number + 1}"] * 3, "amount": [number, 2, 3]})
        write_deltalake(self.folder, rows, mode="append", partition_by=["day"])
        for path in sorted(
            each for each in self.folder.rglob("*") if each.is_file() and each not in self.copied
        ):
            self.copied.add(path)
            self.put(f"lake/warehouse/orders/{path.relative_to(self.folder)}", path.read_bytes())

    def keys(self, end: str = ".parquet") -> list[str]:
        return [each.place.key for each in files.list_files(self.clients, Location(BUCKET, "warehouse"))
                if each.place.key.endswith(end)]  # fmt: skip

    def put(self, path: str, content: bytes) -> None:
        with self.store.open_output_stream(path) as out:
            out.write(content)

    def report(self, form: str = "csv") -> None:
        time.sleep(1.1)
        listed = files.list_files(self.clients, Location(BUCKET, ""))
        blobs = [Blob(f"lake/{each.place.key}", each.size, each.modified_at, None, None) for each in listed]
        now = datetime.now(UTC)
        built.lay(lambda key, body: self.put(f"reports/{key}", body), [blobs[::2], blobs[1::2]], form=form, at=now,
                  took=timedelta(0), endpoint=f"https://{ACCOUNT}.blob.core.windows.net")  # fmt: skip

    def audit(self, folder: Path) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
        (folder / "lake.yaml").write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
            f"buckets: [{{match: '*@{ACCOUNT}', endpoint: '{self.endpoint}'}}]\n"
            f"inventories: [{{kind: azure_inventory, location: 'abfss://reports@{ACCOUNT}.dfs.core.windows.net/'}}]\n"
            f"tables: [{{name: orders, location: '{URI}/warehouse/orders', manifests: [{{kind: delta}}]}}]\n"
            "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s}\n"
        )
        lake = load_lake(folder / "lake.yaml", {})
        outcome = audited(lake)
        found = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
        covered = {row["axis"]: row for row in results_of(lake).coverage(outcome.run_id)}
        return sorted((row["kind"], row["key"], row["confirmation"]) for row in found), covered


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_healthy_lake_is_quiet(site: Site, tmp_path: Path, form: str) -> None:
    site.report(form)
    found, covered = site.audit(tmp_path)
    assert found == []
    assert covered["content"]["decided_share"] == 1.0
    assert {covered[axis]["status"] for axis in ("content", "leftover")} == {"complete"}


def test_faults_are_found_and_confirmed_live(site: Site, tmp_path: Path) -> None:
    lost, cut, back, *_ = site.keys()
    content = files.read_bytes(site.clients, Location(BUCKET, back)) or b""
    site.store.delete_file(f"lake/{lost}")
    site.put(f"lake/{cut}", b"short")
    site.store.delete_file(f"lake/{back}")
    site.report()
    site.put(f"lake/{back}", content)
    found, _ = site.audit(tmp_path)
    assert found == [("dropped", lost, "live"), ("size_mismatch", cut, "live")]


def test_files_are_read_as_everywhere_else(site: Site) -> None:
    clients, home = site.clients, Location(BUCKET, "a b")
    for name in ("x+y%20.txt", "sub/z"):
        site.put(f"lake/a b/{name}", b"hello\n" * 3)
    assert [each.place.key for each in files.list_files(clients, home)] == ["a b/sub/z", "a b/x+y%20.txt"]
    assert [each.name for each in files.list_files(clients, home, flat=True)] == ["x+y%20.txt"]
    assert [each.name for each in files.list_files(clients, home, start_after="sub/z")] == ["x+y%20.txt"]
    assert files.folders(clients, home) == ["sub"]
    assert list(files.list_files(clients, Location(BUCKET, "none"))) == []
    one = home.join("sub", "z")
    assert files.read_bytes(clients, one) == b"hello\n" * 3
    with files.seekable(clients, one, 18) as stream:
        stream.seek(6)
        assert stream.read(5) == b"hello"
    with files.fetched(clients, one) as path:
        assert path is not None
        assert path.read_bytes() == b"hello\n" * 3
    found = files.stat(clients, one)
    assert found is not None
    assert found.size == 18
    gone = home.join("gone")
    assert (files.stat(clients, gone), files.read_bytes(clients, gone)) == (None, None)
    missing = Location(f"nothing@{ACCOUNT}", "")
    for place in (missing, missing.join("x")):
        with pytest.raises(SourceError, match="the container does not exist"):
            list(files.list_files(clients, place))
    with pytest.raises(SourceError, match="the container does not exist"):
        files.stat(clients, missing.join("x"))
