"""Live audits beside other audits: they read without the lease of the results, and hold it only to publish."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.config import Lake
from lakeaudit.errors import Busy
from lakeaudit.ledger import lease
from lakeaudit.ledger.lease import leased
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def lake(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Lake:
    """A lake of two tables that were whole in its first audit, and have lost a file each since then."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    shop.write("lines", commits=1)
    made = shop.lake(tmp_path)
    audited(made, run_id="first", live=True)
    for table in ("orders", "lines"):
        shop.s3.delete_object(Bucket=bucket, Key=shop.keys(table)[0])
    return made


def open_tables(lake: Lake) -> set[str]:
    rows = rows_of(results_of(lake).discrepancies(["open"]))
    return {str(row["table_name"]) for row in rows if row["kind"] == "dropped"}


def test_a_live_audit_reads_while_another_audit_holds_the_lease_and_publishes_after_it(lake: Lake) -> None:
    waits: list[float] = []
    holder = leased(lake.results, Clients(), "nightly", SilentProgress())
    holder.__enter__()

    def pause(seconds: float) -> None:
        assert all(run["run_id"] != "live" for run in results_of(lake).runs())
        waits.append(seconds)
        if len(waits) == 3:
            holder.__exit__(None, None, None)

    outcome = audited(lake, run_id="live", live=True, tables=("orders",), pause=pause)
    assert waits == [lease.WAIT] * 3
    assert outcome.summary["findings"] == {"dropped": 1}
    assert open_tables(lake) == {"orders"}


def test_a_lease_that_is_never_released_ends_the_audit(lake: Lake) -> None:
    with leased(lake.results, Clients(), "nightly", SilentProgress()), pytest.raises(Busy) as raised:
        audited(lake, run_id="live", live=True, tables=("orders",), pause=lambda _: None)
    assert "another audit writes here (nightly)" in str(raised.value)
    assert [run["run_id"] for run in results_of(lake).runs()] == ["first"]


def test_several_live_audits_at_once_all_publish(lake: Lake) -> None:
    found: dict[str, dict[str, int]] = {}

    def run(table: str) -> None:
        found[table] = audited(lake, run_id=table, live=True, tables=(table,)).summary["findings"]

    threads = [threading.Thread(target=run, args=(table,)) for table in ("orders", "lines")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {"orders": {"dropped": 1}, "lines": {"dropped": 1}}
    assert open_tables(lake) == {"orders", "lines"}
    assert [run["status"] for run in results_of(lake).runs()] == ["complete"] * 3


@pytest.mark.parametrize(
    ("requested", "meanwhile", "exit_code"),
    [
        pytest.param(DAYS[0], DAYS[1], 0, id="another partition"),
        pytest.param(DAYS[0], DAYS[0], 13, id="the same partition"),
        pytest.param(DAYS[0], None, 13, id="the whole table"),
    ],
)
def test_audits_of_two_partitions_of_a_table_at_once_all_publish(
    lake: Lake, requested: str, meanwhile: str | None, exit_code: int
) -> None:
    """The lost file is in the first partition."""
    holder = leased(lake.results, Clients(), "nightly", SilentProgress())
    holder.__enter__()
    early = datetime.now(UTC)

    def pause(_: float) -> None:
        holder.__exit__(None, None, None)
        parts = (f"day={meanwhile}",) if meanwhile else ()
        audited(lake, run_id="other", live=True, tables=("orders",), partitions=parts, clock=lambda: early)

    outcome = audited(
        lake, run_id="waiting", live=True, tables=("orders",), partitions=(f"day={requested}",), pause=pause
    )
    assert outcome.exit_code == exit_code
    assert open_tables(lake) == {"orders"}


def test_what_another_audit_has_judged_meanwhile_stays_as_it_is(lake: Lake, aws: Aws) -> None:
    """The older evidence has the file, the newer one does not: whatever the times of the runs, the loss stays open."""
    table = next(each for each in lake.tables if each.name == "orders")
    bucket = table.location.bucket
    key = next(
        entry["Key"] for entry in aws.s3.list_objects_v2(Bucket=bucket, Prefix="warehouse/orders/")["Contents"]
        if entry["Key"].endswith(".parquet")
    )  # fmt: skip
    holder = leased(lake.results, Clients(), "nightly", SilentProgress())
    holder.__enter__()
    early = datetime.now(UTC)

    def pause(_: float) -> None:
        holder.__exit__(None, None, None)
        aws.s3.delete_object(Bucket=bucket, Key=key)
        audited(lake, run_id="other", live=True, tables=("orders",), clock=lambda: early)

    outcome = audited(lake, run_id="waiting", live=True, pause=pause)
    assert outcome.exit_code == 13
    reasons = {row["reason"] for row in results_of(lake).coverage("waiting") if row["table_name"] == "orders"}
    assert reasons == {"the newer run other has already judged this table"}
    rows = rows_of(results_of(lake).discrepancies(["open"]))
    assert key in {row["key"] for row in rows}
    assert open_tables(lake) == {"orders", "lines"}
