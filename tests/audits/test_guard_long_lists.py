"""`lakeaudit guard` with a long list, whose live files are found by hashes: the same answers as for a short list."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.guard import answer, long_lists
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import guarded
from tests.builders.delta_lake import add, metadata, protocol
from tests.builders.guarded import printed
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def listed(aws: Aws, s3: Endpoint, bucket: str) -> tuple[Shop, list[str]]:
    """Two tables, a clone and an overwritten table, and a list with files of every status in several spellings."""
    shop = Shop(aws.s3, s3, bucket)
    for table in ("orders", "customers", "old"):
        shop.write(table)
    old = shop.keys("old")
    write_deltalake(f"s3://{bucket}/warehouse/old", pa.table({"day": ["2026-11-01"], "amount": [1]}),
                    mode="overwrite", storage_options=shop.options)  # fmt: skip
    cloned = guarded.put(aws.s3, bucket, "warehouse/orders/of_clone.parquet")
    commit = [protocol(), metadata(), add(cloned), add(f"s3://{bucket}/{shop.keys('customers')[0]}")]
    log = f"warehouse/clone/_delta_log/{0:020}.json"
    guarded.put(aws.s3, bucket, log, body="\n".join(map(json.dumps, commit)).encode())
    shop.tables.append("clone")
    live = [f"s3://{bucket}/{key}" for key in (*shop.keys("orders"), *shop.keys("customers"))]
    dead = [guarded.put(aws.s3, bucket, f"warehouse/orders/day={n}/dead.parquet") for n in range(3)]
    twice = [live[1], live[1].replace("s3:", "s3a:"), live[2].replace("/day", "//day"), dead[1]]
    other = [f"s3://{bucket}/warehouse/orders/missing.parquet", "relative.parquet", f"s3://{bucket}/{log}"]
    return shop, [*live, *dead, *twice, *other, cloned, *(f"s3://{bucket}/{key}" for key in old)]


@pytest.mark.parametrize("shown", [0, 1000])
def test_a_long_list_has_the_answers_of_a_short_one(
    listed: tuple[Shop, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: int
) -> None:
    shop, lines = listed
    lake = shop.lake(tmp_path)
    short = json.loads(printed(lake, tmp_path, lines, "json").rpartition("}")[0] + "}")
    monkeypatch.setattr(long_lists, "LONG", 1)
    monkeypatch.setattr(answer, "SHOWN_OF_LONG", shown)
    long = json.loads(printed(lake, tmp_path, lines, "json").rpartition("}")[0] + "}")
    assert long["counts"] == short["counts"]
    assert {"live", "referenced", "promised", "free", "absent", "unknown"} <= {
        status for status, files in short["counts"].items() if files
    }
    some = long["files"] if shown else [row for row in long["files"] if row["status"] != "live"]
    wanted = short["files"] if shown else [row for row in short["files"] if row["status"] != "live"]
    assert [row for row in some if row in wanted] == wanted


def test_files_without_references_are_free_in_a_long_list(
    listed: tuple[Shop, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, lines = listed
    dead = sorted({line for line in lines if line.endswith("dead.parquet")})
    safe = tmp_path / "safe.csv"
    monkeypatch.setattr(long_lists, "LONG", 1)
    printed(shop.lake(tmp_path), tmp_path, lines, "json", safe)
    assert [line.split(",")[2] for line in safe.read_text().splitlines()[1:]] == dead
