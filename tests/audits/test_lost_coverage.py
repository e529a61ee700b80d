"""Nights on which audits cannot judge tables that they judged before: whole audits of a real lake. No JVM."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.alert import after_audit
from lakeaudit.commands.check import check
from lakeaudit.commands.discrepancies import acknowledge
from lakeaudit.config import Lake
from lakeaudit.explain import text_output
from lakeaudit.formatting import second
from lakeaudit.report.gather import gather
from lakeaudit.results.acknowledgements import Ack
from lakeaudit.results.summaries import last_judged
from lakeaudit.results.summaries.change_summary import changes_of
from lakeaudit.results.summaries.table_answers import Demand
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.catcher import catching
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    made.write("events", days=("2026-11-01",))
    return made


def ledger(lake: Lake) -> dict[str, dict[str, Any]]:
    rows = rows_of(results_of(lake).discrepancies())
    return {str(row["table_name"]): row for row in rows if row["kind"] == "coverage_lost"}


def states(lake: Lake) -> dict[str, str]:
    return {name: row["state"] for name, row in ledger(lake).items()}


def lose_report(shop: Shop) -> None:
    """Remove the checksum, which an inventory writes last: audits ignore the report without it."""
    for entry in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix="inventories/")["Contents"]:
        if entry["Key"].endswith("manifest.checksum"):
            shop.s3.delete_object(Bucket=shop.bucket, Key=entry["Key"])


def entry(shop: Shop, name: str, more: str = "", *, folder: str = "") -> str:
    """Return the entry of a table in the lake file."""
    location = f"s3://{shop.bucket}/warehouse/{folder or name}"
    return f"- {{name: {name}, location: '{location}', manifests: [{{kind: delta}}]{more}}}"


def verdict_of(lake: Lake, outcome: Outcome) -> str:
    results, names = results_of(lake), [table.name for table in lake.tables]
    page = gather(results, results.run(outcome.run_id), "lake.yaml", datetime.now(UTC), 9, names, drawn=False)
    return text_output.verdict_line(page)


@pytest.mark.variant
def test_lost_coverage_is_one_discrepancy_a_table_until_an_audit_judges_the_table_again(
    shop: Shop, tmp_path: Path
) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    first = audited(lake, run_id="r1")
    assert states(lake) == {}
    lose_report(shop)
    night = datetime.now(UTC)
    blind = audited(lake, run_id="r2", clock=lambda: night)
    assert states(lake) == {"events": "open", "orders": "open"}
    assert blind.summary["coverage_lost"] == 2
    row = ledger(lake)["orders"]
    assert (row["severity"], row["files"], row["cause_at"].isoformat()) == ("error", 8, _iso(first))
    (change,) = [each for each in changes_of(results_of(lake), "r2") if each.table == "orders"]
    assert change.since <= row["cause_at"] < row["first_seen_at"], (
        "blind since the end of the last good evidence"
    )
    assert f"an audit last judged the table at {second(row['cause_at'])}" in row["explanation"]
    place = f"s3://{shop.bucket}/inventories"
    assert "missing and changed files, unused files, duplicates" in row["explanation"]
    assert place in row["cause"]
    line = verdict_of(lake, blind)
    assert "coverage lost in 2 tables (events, orders)" in line.lower()
    assert place in line
    audited(lake, run_id="r3", clock=lambda: night + timedelta(days=1))
    later = night + timedelta(days=2)
    assert [row["last_run_id"] for row in ledger(lake).values()] == ["r2", "r2"]
    one = audited(lake, run_id="one", clock=lambda: later, tables=("orders",))
    assert one.summary["coverage_lost"] == 1, "events is not in the scope of this audit"
    answers = check(lake, results_of(lake), ["orders"], Demand(timedelta(hours=1)), datetime.now(UTC))
    assert [answer.answer for answer in answers] == ["unknown"]
    live = audited(lake, run_id="r4", clock=lambda: later, live=True, tables=("orders",))
    assert live.summary["coverage_lost"] == 0, (
        "it can judge its table, and another blind table is not its matter"
    )
    assert states(lake) == {"events": "open", "orders": "open"}, "a live audit of one table cannot tell"
    shop.take_inventory()
    audited(lake, run_id="r5", clock=lambda: later + timedelta(hours=1))
    assert states(lake) == {"events": "resolved", "orders": "resolved"}


def _iso(outcome: Outcome) -> str:
    return str(outcome.run_row["as_of"].isoformat())


@pytest.mark.variant
@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param("expect: [{reason: moving, tables: [orders], refused: could be read}]", {"events": "open"},
                     id="expected gap"),
        pytest.param("ignore: [{tables: [orders], kinds: [coverage_lost], reason: known}]", {"events": "open"},
                     id="ignored"),
        pytest.param("severity: {coverage_lost: off}", {}, id="off"),
        pytest.param("severity: {coverage_lost: critical}", {"events": "open", "orders": "open"}, id="critical"),
    ],
)  # fmt: skip
def test_the_lake_file_decides_which_lost_coverage_is_reported(
    shop: Shop, tmp_path: Path, extra: str, expected: dict[str, str]
) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path, extra=extra)
    audited(lake, run_id="r1")
    lose_report(shop)
    audited(lake, run_id="r2")
    assert states(lake) == expected
    if "critical" in extra:
        assert {row["severity"] for row in ledger(lake).values()} == {"critical"}


@pytest.mark.variant
@pytest.mark.parametrize(
    ("of_lake", "of_orders", "expected"),
    [
        pytest.param("", "critical", {"events": "error", "orders": "critical"}, id="critical"),
        pytest.param(
            "critical", "error", {"events": "critical", "orders": "error"}, id="lower than the lake"
        ),
        pytest.param("", "off", {"events": "error"}, id="off"),
    ],
)
def test_a_table_has_a_severity_of_its_own_for_lost_coverage(
    shop: Shop, tmp_path: Path, of_lake: str, of_orders: str, expected: dict[str, str]
) -> None:
    shop.take_inventory()
    own = {"orders": f", severity: {{coverage_lost: {of_orders}}}", "events": ""}
    extra = f"severity: {{coverage_lost: {of_lake}}}" if of_lake else ""
    lake = shop.lake(tmp_path, tables=[entry(shop, name, more) for name, more in own.items()], extra=extra)
    audited(lake, run_id="r1")
    lose_report(shop)
    blind = audited(lake, run_id="r2")
    assert {name: row["severity"] for name, row in ledger(lake).items()} == expected
    assert blind.summary["coverage_lost"] == len(expected)


EXPECTED = "expect: [{reason: moving, tables: ['*'], refused: could be read}]\n"


@pytest.mark.variant
@pytest.mark.parametrize(
    ("change", "state"),
    [
        pytest.param("", "open", id="nothing"),
        pytest.param("accept", "open", id="accepted"),
        pytest.param("expect", "resolved", id="expected"),
        pytest.param("remove", "resolved", id="removed from the lake file"),
    ],
)
def test_a_heartbeat_is_sent_if_the_lake_file_or_somebody_accepts_the_lost_coverage(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, state: str
) -> None:
    beat = "heartbeat_url_env: BEAT\n"
    shop.take_inventory()
    lake, warnings = shop.lake(tmp_path, extra=beat), []
    with catching() as receiver:
        monkeypatch.setenv("BEAT", receiver.url)
        for run in ("r1", "r2", "r3"):
            audited(lake, run_id=run)
            warnings.append(after_audit(lake, "lake.yaml", clients_of(lake), datetime.now(UTC)))
            if run == "r1":
                lose_report(shop)
            elif run == "r2" and change == "accept":
                now, ids = datetime.now(UTC), [row["discrepancy_id"] for row in ledger(lake).values()]
                ack = Ack("ann", "the report moves", now + timedelta(days=1))
                acknowledge(lake, results_of(lake), ids, ack, now)
            elif run == "r2" and change == "expect":
                lake = shop.lake(tmp_path, extra=beat + EXPECTED)
            elif run == "r2" and change == "remove":
                shop.write("customers")
                lake = shop.lake(tmp_path, tables=[entry(shop, "customers")], extra=beat)
    reason = ("no heartbeat was sent, because coverage is lost in 2 tables",)
    assert warnings == [(), reason, () if change else reason]
    assert len(receiver.gets) == (2 if change else 1)
    assert states(lake) == {"events": state, "orders": state}


@pytest.mark.variant
def test_a_table_that_was_never_judged_has_lost_nothing(shop: Shop, tmp_path: Path) -> None:
    lake = shop.lake(tmp_path)
    for run in ("r1", "r2"):
        audited(lake, run_id=run)
    assert states(lake) == {}


@pytest.mark.variant
def test_a_live_audit_of_the_whole_lake_judges_a_blind_table(shop: Shop, tmp_path: Path) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    audited(lake, run_id="r1")
    lose_report(shop)
    for run in ("r2", "r3"):
        audited(lake, run_id=run)
    assert states(lake) == {"events": "open", "orders": "open"}
    audited(lake, run_id="live", live=True)
    assert states(lake) == {"events": "resolved", "orders": "resolved"}, (
        "a live audit of the whole lake judges it"
    )
    audited(lake, run_id="r4")
    assert states(lake) == {"events": "open", "orders": "open"}, "the next night is blind again"


@pytest.mark.variant
def test_a_live_audit_of_a_table_that_no_report_covers_is_not_a_baseline(shop: Shop, tmp_path: Path) -> None:
    shop.take_inventory()
    lose_report(shop)
    lake = shop.lake(tmp_path)
    audited(lake, run_id="r1")
    audited(lake, run_id="live", live=True, tables=("orders",))
    audited(lake, run_id="r2")
    assert states(lake) == {}


@pytest.mark.variant
def test_an_expected_gap_of_more_audits_than_are_searched_hides_no_later_loss(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_judged, "MOST_RUNS", 2)
    shop.take_inventory()
    audited(shop.lake(tmp_path), run_id="r1")
    lose_report(shop)
    expected = shop.lake(tmp_path, extra="expect: [{reason: moving, tables: ['*'], refused: could be read}]")
    for number in range(2, 6):
        audited(expected, run_id=f"r{number}")
    assert states(expected) == {}
    lake = shop.lake(tmp_path)
    audited(lake, run_id="r6")
    assert states(lake) == {"events": "open", "orders": "open"}


@pytest.mark.variant
def test_a_renamed_table_stays_blind_under_its_new_name(shop: Shop, tmp_path: Path) -> None:
    shop.take_inventory()
    lake = shop.lake(tmp_path)
    first = audited(lake, run_id="r1")
    lose_report(shop)
    audited(lake, run_id="r2")
    before = ledger(lake)["orders"]
    renamed = shop.lake(tmp_path, tables=[entry(shop, "sales", folder="orders"), entry(shop, "events")])
    audited(renamed, run_id="r3")
    assert states(renamed) == {"events": "open", "orders": "resolved", "sales": "open"}
    after = ledger(renamed)["sales"]
    assert (after["cause_at"], after["files"]) == (before["cause_at"], before["files"])
    assert after["cause_at"].isoformat() == _iso(first)
    audited(renamed, run_id="r4")
    assert states(renamed)["sales"] == "open"


def test_a_table_that_is_renamed_on_the_night_of_the_loss_is_blind(shop: Shop, tmp_path: Path) -> None:
    shop.take_inventory()
    audited(shop.lake(tmp_path), run_id="r1")
    lose_report(shop)
    renamed = shop.lake(tmp_path, tables=[entry(shop, "sales", folder="orders")])
    audited(renamed, run_id="r2")
    assert states(renamed) == {"sales": "open"}
