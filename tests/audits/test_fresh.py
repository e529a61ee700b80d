"""Files younger than the inventory: looked up in storage, up to a limit, and judged by the response."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

BUSY = "grace: 0s, leftover_age: 0s, max_upload: 0s"


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    return young(aws, s3, bucket, "orders", "customers")


def young(aws: Aws, s3: Endpoint, bucket: str, *tables: str) -> Shop:
    """Tables whose files were all committed after the report was begun."""
    made = Shop(aws.s3, s3, bucket)
    for table in tables:
        made.write(table)
    made.take_inventory(at=datetime.now(UTC) - timedelta(days=1), lacks=made.keys())
    return made


def counts_by_table(lake: Lake, outcome: Outcome) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of consistent files, findings and too young files, by table."""
    rows = results_of(lake).coverage(outcome.run_id)
    return {
        row["table_name"]: (row["consistent"], row["findings"], row["out_of_window"])
        for row in rows if row["axis"] == "content"
    }  # fmt: skip


def finding_keys(lake: Lake, outcome: Outcome) -> list[tuple[str, str, str]]:
    rows = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    return sorted((row["kind"], row["key"], row["confirmation"]) for row in rows)


QUIET = {"unasked": "confirm: {mode: none}", "within_grace": "grace: 2h"}
"""Tables whose files are not looked up, and why."""


@dataclass(frozen=True)
class Tonight:
    lake: Lake
    outcome: Outcome
    lost: str
    torn: str


@pytest.fixture(scope="module")
def tonight(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Tonight:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = young(aws, s3, bucket, "orders", "customers", *QUIET)
    lost, torn = shop.keys("orders")[:2]
    for key in (lost, *(shop.keys(table)[0] for table in QUIET)):
        shop.s3.delete_object(Bucket=bucket, Key=key)
    shop.s3.put_object(Bucket=bucket, Key=torn, Body=b"half")
    tables = [
        f"- {{name: {table}, location: 's3://{bucket}/warehouse/{table}', manifests: [{{kind: delta}}], {own}}}"
        for table, own in ({"orders": "grace: 0s", "customers": "grace: 0s"} | QUIET).items()
    ]
    lake = shop.lake(tmp_path_factory.mktemp("tonight"), tables=tables)
    return Tonight(lake, audited(lake), lost, torn)


def test_a_file_lost_within_the_hour_is_found_tonight(tonight: Tonight) -> None:
    lake, outcome = tonight.lake, tonight.outcome
    assert finding_keys(lake, outcome) == [
        ("dropped", tonight.lost, "live"),
        ("size_mismatch", tonight.torn, "live"),
    ]
    assert {table: counts_by_table(lake, outcome)[table] for table in ("orders", "customers")} == {
        "orders": (4, 2, 0), "customers": (6, 0, 0),
    }  # fmt: skip
    assert outcome.summary["coverage"]["orders"]["content"] == {
        "status": "complete", "decided_share": 1.0,
        "reason": "6 of 6 files younger than the evidence were checked live",
    }  # fmt: skip
    assert outcome.summary["states"] == {"open": 2}


@pytest.mark.parametrize("table", QUIET)
def test_files_that_are_not_looked_up_stay_too_young(tonight: Tonight, table: str) -> None:
    assert counts_by_table(tonight.lake, tonight.outcome)[table] == (0, 0, 6)
    reason = tonight.outcome.summary["coverage"][table]["content"]["reason"] or ""
    assert reason.startswith("6 files are too young to judge until a storage snapshot begins at ")


def test_the_limit_of_lookups_is_shared_fairly_by_tables(shop: Shop, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path, defaults=f"{BUSY}, confirm: {{fresh: 4}}")
    outcome = audited(lake)
    assert counts_by_table(lake, outcome) == {"orders": (2, 0, 4), "customers": (2, 0, 4)}
    assert outcome.exit_code == 0


def test_an_audit_of_the_past_looks_at_nothing(shop: Shop, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path)
    now = datetime.now(UTC)
    outcome = audited(lake, as_of=now, clock=lambda: now + timedelta(hours=1))
    assert counts_by_table(lake, outcome) == {"orders": (0, 0, 6), "customers": (0, 0, 6)}
