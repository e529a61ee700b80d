"""Reports that lack files which storage had before their cutoff, or are of another bucket: they do not show all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakeaudit.confirm.incomplete_reports import lacking
from lakeaudit.errors import GateFailed
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders import inventory
from tests.builders.audits import audited, results_of
from tests.builders.backdate import age_all
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

HEALTHY = ("lost", "rewritten")


def test_a_report_that_storage_contradicts_is_not_complete(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Its filter cuts through a table. One other table lost a file; a file of another was written again."""
    shop = Shop(aws.s3, s3, bucket)
    for name in ("cut", *HEALTHY):
        shop.write(name, commits=1)
    gone, again = (shop.keys(f"{name}/")[0] for name in HEALTHY)
    body = aws.s3.get_object(Bucket=bucket, Key=again)["Body"].read()
    (lacks,) = (key for key in shop.keys("cut/") if "11-03" in key)
    for table in ("cut", *HEALTHY):
        aws.s3.put_object(
            Bucket=bucket, Key=f"warehouse/{table}/day=2026-11-03/unlisted.parquet", Body=b"left over"
        )
    age_all(bucket, timedelta(days=6))
    aws.s3.delete_object(Bucket=bucket, Key=gone)
    aws.s3.delete_object(Bucket=bucket, Key=again)
    unseen = (lacks, "warehouse/cut/day=2026-11-03/unlisted.parquet")
    shop.take_inventory(at=datetime.now(UTC) - timedelta(hours=2), lacks=unseen)
    aws.s3.put_object(Bucket=bucket, Key=again, Body=body)
    lake = shop.lake(tmp_path, defaults="grace: 1h")
    outcome = audited(lake, run_id="one")
    found = [(row["table_name"], row["axis"]) for row in rows_of(results_of(lake).findings("one"))]
    assert sorted(found) == [(name, axis) for name in HEALTHY for axis in ("content", "leftover")]
    rows = {(row["table_name"], row["axis"]): row for row in results_of(lake).coverage("one")}
    assert {axis: rows["cut", axis]["status"] for axis in ("content", "leftover", "duplicate")} == {
        "content": "complete", "leftover": "partial", "duplicate": "partial"
    }  # fmt: skip
    reason = rows["cut", "leftover"]["reason"]
    assert reason.startswith(
        f"s3_inventory s3://{bucket}/inventories lacks 1 file of the table that storage has"
    )
    assert lacks in reason
    assert {rows[name, axis]["status"] for name in HEALTHY for axis in ("leftover", "duplicate")} == {
        "complete"
    }
    assert (outcome.status, outcome.exit_code) == ("partial", 3)


@pytest.mark.parametrize("says", [True, False], ids=["manifest", "rows"])
def test_a_report_of_another_bucket_names_both(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, says: bool
) -> None:
    """The report is of the pond: its manifest says so, or only its rows do."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    rows = inventory.csv([replace(row, Bucket="pond") for row in shop.objects()])

    def put(key: str, body: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=body)

    at = datetime.now(UTC) - timedelta(seconds=2)
    inventory.lay(put, [rows], at=at, under="inventories", source="pond" if says else bucket)
    lake = shop.lake(tmp_path)
    where = f"the table is in bucket {bucket}, and the sources cover s3://pond/"
    if says:
        outcome = audited(lake, run_id="one")
        (row,) = (one for one in results_of(lake).coverage("one") if one["axis"] == "content")
        assert row["reason"] == f"no storage source covers the table: {where}"
        assert f"gate `sources`: orders: no storage source covers this table ({where})" in outcome.warnings
        return
    with pytest.raises(
        GateFailed, match=f"row of another bucket: pond, not {bucket}\\); at most 50 % is allowed"
    ):
        audited(lake, run_id="one")


CUTOFF = datetime(2026, 11, 20, 12, tzinfo=UTC).replace(tzinfo=None)
SUSPECT = {
    "axis": "content", "judged_table": "t", "s_source": "storage:0", "s_presence": "absent", "bucket": "b", "key": "k",
    "s_delete_marker": None, "s_from": CUTOFF + timedelta(minutes=10), "s_margin": timedelta(minutes=10),
    "l_confirmation": "none", "o_max_upload": timedelta(hours=24),
}  # fmt: skip
ANSWER = {
    "bucket": "b", "key": "k", "l_confirmation": "live", "l_presence": "present", "l_multipart": False,
    "l_modified_at": CUTOFF - timedelta(hours=1), "l_version_id": None,
}  # fmt: skip
_TYPES = {"s_delete_marker": pa.bool_(), "l_multipart": pa.bool_(), "l_version_id": pa.string()}


def _rows(rows: list[dict[str, object]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    fields = [pa.field(f.name, _TYPES.get(f.name, f.type)) for f in table.schema]
    return table.cast(pa.schema(fields))


@pytest.mark.parametrize(
    ("suspect", "answer", "files", "proved"),
    [
        ({}, {}, 1, True),
        ({}, {"l_version_id": "null"}, 1, True),
        ({}, {"l_version_id": "v1"}, 1, False),  # one deletion may have been undone
        ({}, {"l_version_id": "v1"}, 2, True),
        ({}, {"l_modified_at": CUTOFF}, 1, False),  # written again since, or just before
        ({}, {"l_modified_at": CUTOFF + timedelta(days=1)}, 3, False),
        ({}, {"l_multipart": True}, 1, False),  # its upload may have been completed after the cutoff
        ({}, {"l_multipart": None}, 1, False),
        ({}, {"l_multipart": True, "l_modified_at": CUTOFF - timedelta(hours=25)}, 1, True),
        ({}, {"l_presence": "absent"}, 2, False),
        ({}, {"l_confirmation": "denied", "l_presence": None}, 2, False),
        ({"s_delete_marker": True}, {}, 2, False),  # the report shows the deletion that was undone since
        ({"s_presence": "present"}, {}, 2, False),
        ({"axis": "metastore"}, {}, 2, False),
    ],
)
def test_what_proves_that_a_report_is_not_complete(
    suspect: dict[str, object], answer: dict[str, object], files: int, *, proved: bool
) -> None:
    named = [{"key": f"k{n}"} for n in range(files)]
    marked = _rows([SUSPECT | suspect | name for name in named])
    answers = _rows([ANSWER | answer | name for name in named])
    with duck.task_connection() as con:
        found = duck.rows_of(lacking(con, marked, answers))
    assert [row["files"] for row in found] == ([files] if proved else [])
