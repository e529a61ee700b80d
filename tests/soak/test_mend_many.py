"""A hundred thousand restores on the embedded server: at a bounded rate, with progress, and in flat memory."""

import io
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.delta_lake import add, metadata, protocol
from tests.builders.ledger import opened
from tests.builders.repair_plans import RepairPlans
from tests.builders.shop import Shop
from tests.conftest import Aws

STEPS = int(os.environ.get("LAKEAUDIT_STEPS", "100000"))
WROTE = datetime.now(UTC) - timedelta(hours=2)
BODY = b"rows"


def key_of(number: int) -> str:
    return f"warehouse/orders/part-{number:07}.parquet"


def lose_many(shop: Shop, count: int) -> None:
    """Write a table whose files have two delete markers each, so that their versions have to be copied."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    server: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    keys = server.buckets[shop.bucket].keys
    for number in range(count):
        key = key_of(number)
        server.put_object(shop.bucket, key, BODY)
        for _ in range(2):
            server.delete_object(shop.bucket, key)
        for age, version in enumerate(keys.getlist(key)):
            version.last_modified = (WROTE + timedelta(minutes=age)).replace(tzinfo=None)
    actions = [protocol(), metadata()]
    actions += [add(key_of(n).rpartition("/")[2], size=len(BODY)) for n in range(count)]
    log = "".join(json.dumps(action) + "\n" for action in actions)
    shop.s3.put_object(Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{0:020}.json", Body=log.encode())


def lost_files(bucket: str, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "kind": "dropped", "table_name": "orders", "bucket": bucket, "key": key_of(number), "rows_at_stake": 1,
            "manifest_size": len(BODY), "manifest_time": WROTE + timedelta(seconds=30), "bytes_at_stake": len(BODY),
        }  # fmt: skip


@pytest.fixture
def of_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make moto list the versions of one key directly; no key of the test is a prefix of another key."""
    from moto.s3.models import S3Backend

    listed: Any = S3Backend.list_object_versions

    def versions(self: Any, bucket_name: str, **given: Any) -> Any:
        bucket, prefix = self.get_bucket(bucket_name), given.get("prefix", "")
        if not prefix.endswith(".parquet"):
            return listed(self, bucket_name, **given)
        newest_first = bucket.keys.getlist(prefix, [])[::-1]
        for at, version in enumerate(newest_first):
            version.is_latest = at == 0
        objects = [each for each in newest_first if hasattr(each, "size")]
        return objects, [], [each for each in newest_first if not hasattr(each, "size")], None, None

    monkeypatch.setattr(S3Backend, "list_object_versions", versions)


@pytest.fixture
def lake(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Lake:
    shop = Shop(aws.s3, s3, bucket, ["orders"])
    lose_many(shop, STEPS)
    lake = shop.lake(tmp_path, defaults="grace: 0s, leftover_age: 0s, confirm: {rate: 2000}")
    opened(lake, lost_files(bucket, STEPS))
    return lake


def peak_of(command: list[str], folder: Path) -> tuple[float, float, int, str]:
    """Return elapsed seconds, CPU seconds, peak memory in MB, and the output."""
    begun, peak, spent = time.monotonic(), 0, sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(
                [peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))]
            )
            time.sleep(0.2)
    assert process.returncode == 0, (folder / "said").read_text()[-3000:]
    cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - spent
    return time.monotonic() - begun, cpu, peak >> 10, (folder / "said").read_text()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("of_one_key")
def test_many_restores(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = [sys.executable, "-m", "lakeaudit", "reconcile"]
    for step in (["plan", "lake.yaml", "-o", "plan.jsonl", "--allow", "restore"], ["apply", "plan.jsonl"]):
        seconds, cpu, peak, said = peak_of([*tool, *step, "--max-share", "1"], tmp_path)
        cost = f"{seconds:.0f} s, {cpu:.0f} s of CPU, {STEPS / seconds:.0f} a second, peak {peak} MB"
        with capsys.disabled():
            sys.stdout.write(f"{step[0]}: {STEPS} steps, {cost}\n  {said.strip().splitlines()[-1]}\n")
        assert peak < 1024
    assert set(RepairPlans(lake, tmp_path).statuses().values()) == {"applied"}


@pytest.mark.soak
@pytest.mark.usefixtures("of_one_key")
def test_requests_of_a_step(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of requests per step does not depend on the plan's length; a batch lists the table's log twice.

    The tests' server ignores the conditions of copies, so each file is restored by GET and PUT.
    """
    shop = Shop(aws.s3, s3, bucket, ["orders"])
    lose_many(shop, 400)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    opened(mending.lake, lost_files(bucket, 400))
    asked: Counter[str] = Counter()
    call: Any = vars(BaseClient)["_make_api_call"]

    def counting_call(self: Any, operation: str, given: dict[str, Any]) -> Any:
        asked[operation] += 1
        return call(self, operation, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", counting_call)
    mending.plan(io.StringIO(), max_share=1)
    of_plan = asked.copy()
    assert mending.apply(max_share=1).exit_code == 0
    of_apply = asked - of_plan
    assert of_plan == {"GetBucketVersioning": 1, "ListObjectVersions": 400}
    each_step = {"ListObjectVersions": 800, "HeadObject": 400, "GetObject": 400, "PutObject": 400}
    assert {name: of_apply[name] for name in each_step} == pytest.approx(each_step, abs=5)
    assert sum(of_apply.values()) < 5 * 400 + 40
    assert set(mending.statuses().values()) == {"applied"}
