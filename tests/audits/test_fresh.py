"""Files younger than the inventory: looked at now, as many as may be, and judged by that look."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Lake
from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

BUSY = "grace: 0s, leftover_age: 0s, max_upload: 0s"


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """Two tables whose files were all committed after the report was begun."""
    made = Shop(aws.s3, s3, bucket)
    for table in ("orders", "customers"):
        made.write(table)
    made.take_inventory(at=datetime.now(UTC) - timedelta(days=1), lacks=made.keys())
    return made


def counted(lake: Lake, outcome: Outcome) -> dict[str, tuple[int, int, int]]:
    """By table files that are consistent, findings, and too young."""
    rows = results_of(lake).coverage(outcome.run_id)
    return {
        row["table_name"]: (row["consistent"], row["findings"], row["out_of_window"])
        for row in rows if row["axis"] == "content"
    }  # fmt: skip


def found(lake: Lake, outcome: Outcome) -> list[tuple[str, str, str]]:
    rows = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    return sorted((row["kind"], row["key"], row["confirmation"]) for row in rows)


def test_a_file_lost_within_the_hour_is_found_tonight(shop: Shop, tmp_path: Path) -> None:
    lost, torn = shop.keys("orders")[:2]
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"half")
    lake = shop.lake(tmp_path)
    outcome = audited(lake)
    assert found(lake, outcome) == [("dropped", lost, "live"), ("size_mismatch", torn, "live")]
    assert counted(lake, outcome) == {"orders": (4, 2, 0), "customers": (6, 0, 0)}
    assert outcome.summary["coverage"]["orders"]["content"] == {
        "status": "complete", "decided_share": 1.0,
        "reason": "6 of 6 files younger than the evidence were looked at now",
    }  # fmt: skip
    assert outcome.summary["states"] == {"open": 2}


def test_as_many_as_may_be_are_looked_at_fairly_over_tables(shop: Shop, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path, defaults=f"{BUSY}, confirm: {{fresh: 4}}")
    outcome = audited(lake)
    assert counted(lake, outcome) == {"orders": (2, 0, 4), "customers": (2, 0, 4)}
    assert outcome.exit_code == 0


@pytest.mark.parametrize(
    "defaults",
    [f"{BUSY}, confirm: {{mode: none}}", "grace: 2h, leftover_age: 0s"],
    ids=["storage may not be asked", "within their grace"],
)
def test_files_that_are_not_looked_at_stay_too_young(shop: Shop, tmp_path: Path, defaults: str) -> None:
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    lake = shop.lake(tmp_path, defaults=defaults)
    outcome = audited(lake)
    assert found(lake, outcome) == []
    assert counted(lake, outcome) == {"orders": (0, 0, 6), "customers": (0, 0, 6)}
    assert outcome.summary["coverage"]["orders"]["content"]["reason"] is None


def test_an_audit_of_the_past_looks_at_nothing(shop: Shop, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path)
    now = datetime.now(UTC)
    outcome = audited(lake, as_of=now, clock=lambda: now + timedelta(hours=1))
    assert counted(lake, outcome) == {"orders": (0, 0, 6), "customers": (0, 0, 6)}
