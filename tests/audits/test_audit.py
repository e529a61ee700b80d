"""Whole audits on a real lake: findings, tables that cannot be judged, and the audit's own record."""

import itertools
import json
import re
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, Busy, CannotPublish, GateFailed
from lakeaudit.evidence.manifest.delta.state import readings
from lakeaudit.gates import expectation_suites
from lakeaudit.ledger.lease import leased
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.results.leftover_groups import expand_groups
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, includes_soak, results_of
from tests.builders.shop import DAYS, Shop
from tests.builders.submit import submitted
from tests.conftest import Aws


def new_shop(aws: Aws, s3: Endpoint, *tables: str) -> Shop:
    """Write the tables into a bucket of their own."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    made = Shop(aws.s3, s3, bucket)
    for table in tables:
        made.write(table)
    return made


@pytest.fixture(scope="module")
def untouched(aws: Aws, s3: Endpoint) -> Shop:
    """For tests that change nothing of it."""
    return new_shop(aws, s3, "orders")


def finding_keys(lake: Lake, run_id: str) -> list[tuple[str, str, str]]:
    """Return (table, kind, key) of a run's findings."""
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return sorted((row["table_name"] or "", row["kind"], row["key"] or row["subject"]) for row in rows)


NOW_READ = "; storage as of"
"""The rest of the explanation is the time of the live check."""


def findings(lake: Lake, run_id: str) -> list[str]:
    batches = results_of(lake).findings(run_id)
    rows = [row | {"run_id": "any"} for batch in batches for row in batch.to_pylist()]
    kept = [row | {"explanation": row["explanation"].partition(NOW_READ)[0]} for row in rows]
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in kept)


def ledger_rows(results: Results) -> list[dict[str, Any]]:
    """Return the whole ledger."""
    return [row for batch in results.again().discrepancies() for row in batch.to_pylist()]


def states(outcome: Outcome, axis: str = "content") -> dict[str, str]:
    return {table: axes[axis]["status"] for table, axes in outcome.summary["coverage"].items()}


@dataclass(frozen=True)
class Damaged:
    """A lake with one damage of each sort, audited as `nightly`."""

    file: Path
    lake: Lake
    gone: str
    torn: str
    copy: str
    outcome: Outcome


@pytest.fixture(scope="module")
def damaged(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    shop = new_shop(aws, s3, "orders", "customers")
    bucket = shop.bucket
    gone, torn = shop.keys("orders")[:2]
    twin = shop.keys("customers")[0]
    copy = twin.replace(".parquet", "-copy.parquet")
    time.sleep(1.1)  # S3 times have whole seconds: the copy has to be younger than the table
    shop.s3.delete_object(Bucket=bucket, Key=gone)
    shop.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    shop.s3.copy_object(Bucket=bucket, Key=copy, CopySource=f"{bucket}/{twin}")
    shop.take_inventory()
    defaults = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B"
    folder = tmp_path_factory.mktemp("damaged")
    lake = shop.lake(folder, defaults=defaults)
    return Damaged(folder / "lake.yaml", lake, gone, torn, copy, audited(lake, run_id="nightly"))


def test_each_damage_is_named_by_its_key(damaged: Damaged) -> None:
    assert_reported(damaged, damaged.outcome)
    dropped = next(row for row in results_of(damaged.lake).worst("nightly", 9) if row["kind"] == "dropped")
    assert (dropped["rows_at_stake"], dropped["confirmation"], dropped["partition_path"]) == (
        50, "live", damaged.gone.split("/")[2],
    )  # fmt: skip


def assert_reported(damaged: Damaged, outcome: Outcome) -> None:
    results = results_of(damaged.lake)
    leftovers = results.leftover_files("nightly")
    assert [row["key"] for batch in leftovers for row in batch.to_pylist()] == [damaged.copy]
    assert finding_keys(damaged.lake, "nightly") == [
        ("customers", "uncommitted", "customers#uncommitted"),
        ("orders", "dropped", damaged.gone),
        ("orders", "size_mismatch", damaged.torn),
    ]
    assert sum(outcome.summary["findings"].values()) == 3
    (debris,) = (row for row in results.worst("nightly", 9) if row["kind"] == "uncommitted")
    assert "an unlisted file only costs storage; the format's own clean-up" in debris["explanation"]
    assert [row["run_id"] for row in results.runs()] == ["nightly"]


def test_what_a_gate_refuses_is_not_published(
    damaged: Damaged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = json.loads((expectation_suites.SUITES / "findings.json").read_text())
    unwanted = {
        "type": "expect_column_values_to_not_be_in_set",
        "kwargs": {"column": "kind", "value_set": ["dropped"]},
        "severity": "critical",
        "description": "nothing is lost",
    }
    edited = Path(shutil.copytree(str(expectation_suites.SUITES), tmp_path / "expectations"))
    (edited / "findings.json").write_text(json.dumps(suite | {"expectations": [unwanted]}))
    monkeypatch.setattr(expectation_suites, "SUITES", edited)
    results = results_of(damaged.lake)
    before = ledger_rows(results)
    with pytest.raises(GateFailed, match="nothing is lost") as refusal:
        audited(damaged.lake, run_id="refused")
    assert refusal.value.exit_code == 11
    row = next(row for row in results.again().runs() if row["run_id"] == "refused")
    assert (row["status"], row["gates"]) == (
        "failed",
        ["gate `findings`: nothing is lost (not so: dropped, critical)"],
    )
    assert (results.published(None)["run_id"], ledger_rows(results)) == ("nightly", before)


@pytest.mark.soak
def test_spark_submit_gives_the_same_findings(damaged: Damaged, tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    done = submitted(tmp_path, str(damaged.file), "--run-id", "there", "--status-file", str(status))
    assert (done.returncode, done.stderr) == (1, ""), done.stdout  # critical findings, and Spark is quiet
    counts = {"dropped": 1, "size_mismatch": 1, "uncommitted": 1}
    assert json.loads(status.read_text())["findings"] == counts
    assert findings(damaged.lake, "there") == findings(damaged.lake, "nightly")


def test_a_live_audit_of_one_table_or_partition_lists_just_that(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    """It needs no inventory, and of other tables and partitions it says nothing."""
    shop = new_shop(aws, s3, "orders", "customers")
    lake, bucket, days = shop.lake(tmp_path), shop.bucket, "warehouse/customers"
    written = len(shop.keys("customers"))
    here, there = (f"day={day}" for day in DAYS[:2])
    lost = [shop.keys(f"customers/{day}")[0] for day in (here, there)]
    shop.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    markers = {key: shop.s3.delete_object(Bucket=bucket, Key=key)["VersionId"] for key in lost}
    shop.s3.delete_object(Bucket=bucket, Key=shop.keys("orders")[0])
    time.sleep(1.1)  # younger than the log's first commit, in whole seconds
    shop.s3.put_object(Bucket=bucket, Key=f"{days}/{there}/unknown.parquet", Body=b"unknown")
    outcome = audited(lake, tables=("customers",), live=True)
    assert list(outcome.summary["tables"]) == ["customers"]
    opened = {f"s3://{bucket}/{key}": "open" for key in lost} | {"customers": "open"}
    assert states_of(lake) == opened
    (kept,) = [batch.to_pylist() for batch in results_of(lake).batches("commits", pc.scalar(True))]
    assert {row["table_name"] for row in kept} == {"customers"}, "only of the audited table"
    assert sum(row["files_added"] for row in kept) == written

    for key, marker in markers.items():
        shop.s3.delete_object(Bucket=bucket, Key=key, VersionId=marker)
    shop.s3.delete_object(Bucket=bucket, Key=f"{days}/{there}/unknown.parquet")
    outcome = audited(lake, tables=("customers",), live=True, partitions=(here,))
    assert (outcome.exit_code, outcome.status) == (0, "complete")
    assert outcome.summary["coverage"]["customers"]["content"] == {
        "status": "partial", "decided_share": 1.0,
        "reason": f"only s3://{bucket}/{days}/{here} was requested and checked",
    }  # fmt: skip
    assert states_of(lake) == opened | {f"s3://{bucket}/{lost[0]}": "resolved"}

    shop.s3.delete_object(Bucket=bucket, Key=lost[0])
    outcome = audited(lake, tables=("customers",), live=True, partitions=(here, "day=1970-01-01"))
    assert (outcome.exit_code, outcome.status) == (3, "partial"), "no table knows the other partition"
    assert outcome.summary["findings"] == {"dropped": 1}
    assert states_of(lake) == opened


def states_of(lake: Lake) -> dict[str, str]:
    """The ledger: states by file, partition or table."""
    return {row["subject"].partition("#")[0]: row["state"] for row in ledger_rows(results_of(lake))}


LACKS = {"returned": "one", "accepted": "one", "silenced": "one", "stale": "one", "unfinished": "one", "torn": "one",
         "blind": "one", "wiped": "all", "halved": "none", "mixed": "half", "doubted": "none"}  # fmt: skip
"""Tables with an inventory of their own, by the files that are gone; the last four have very many.

The inventories of `halved`, `mixed` and `doubted` lack every file, and storage of `doubted` may not be read.
"""
SMALL = ("small0", "small1", "small2", "well")
"""Tables of one report: it has every file of the last one, and of the others, none of which has 100, no data file."""
MANY = [f"day-{number:03}" for number in range(105)]
GONE = {"one": slice(0, 1), "all": slice(None), "half": slice(None, None, 2), "none": slice(0, 0)}


@pytest.mark.variant
def test_every_table_is_judged_by_its_own_evidence(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Lost files are reported only for tables whose evidence is credible."""
    shop = Shop(aws.s3, s3, bucket)
    few = [table for table, lacks in LACKS.items() if lacks == "one"]
    for template, days, rows, tables in (
        ("few", DAYS, 50, [*few, "unseen"]),
        ("many", MANY, 1, [table for table in LACKS if table not in few]),
        ("a_third", MANY[:36], 1, SMALL[:-1]),
        ("all_there", DAYS, 1, SMALL[-1:]),
    ):
        shop.write(template, commits=1, days=days, rows=rows)
        shop.copy(template, *tables, own_ids=True)
    gone = {table: shop.keys(f"{table}/")[GONE[which]] for table, which in LACKS.items()}
    (returned,) = gone["returned"]
    body = shop.s3.get_object(Bucket=bucket, Key=returned)["Body"].read()
    for key in itertools.chain(*gone.values()):
        shop.s3.delete_object(Bucket=bucket, Key=key)
    _lay_reports(shop)
    time.sleep(3.1)  # more than 2 s after the commit, in whole seconds, is an overwrite
    shop.s3.put_object(Bucket=bucket, Key=returned, Body=body)
    lake = shop.lake(tmp_path, tables=_tables(bucket), inventories=_reports(bucket), extra=_DOES_NOT_MATTER)
    outcome = audited(lake)
    keys = finding_keys(lake, outcome.run_id)
    assert [kind for table, kind, _ in keys if not table] == ["unreadable_evidence"] * 4
    assert [row for row in keys if row[0]] == [
        *[("mixed", "dropped", key) for key in gone["mixed"]],
        ("returned", "overwritten", returned),
        *[("stale", "dropped", key) for key in gone["stale"]],  # too young for its report: looked at now
        ("torn", "dropped", *gone["torn"]),
        *[("wiped", "dropped", key) for key in gone["wiped"]],
    ]
    assert (outcome.exit_code, outcome.status) == (12, "suspect")
    assert states(outcome) == {
        "returned": "complete", "accepted": "complete", "silenced": "complete", "stale": "partial",
        "unfinished": "partial", "torn": "complete", "blind": "partial", "unseen": "partial",
        "wiped": "complete", "halved": "partial", "mixed": "partial", "doubted": "partial",
        "small0": "partial", "small1": "partial", "small2": "partial", "well": "complete",
    }  # fmt: skip
    content = {table: axes["content"] for table, axes in outcome.summary["coverage"].items()}
    assert content["unseen"]["decided_share"] == 0
    assert {table: row["reason"] for table, row in content.items() if table in _SAID} == {
        table: words % f"s3_inventory s3://{bucket}/reports/{table}" for table, words in _SAID.items()
    }
    assert re.search("a live check of 50 found [0-9]+ missing", content["mixed"]["reason"] or "")
    _check_ledger(lake, gone)


def _check_ledger(lake: Lake, gone: dict[str, list[str]]) -> None:
    """Evidence that cannot be true opened nothing; the loss is open, and so is what was seen with one's own eyes."""
    rows = rows_of(results_of(lake).discrepancies())
    held = {(row["table_name"], row["key"], row["state"]) for row in rows if row["kind"] == "dropped"}
    assert held == {
        (table, key, "open") for table in ("wiped", "mixed", "torn", "stale") for key in gone[table]
    }
    (last,) = results_of(lake).runs()
    assert [f"files of {table}," in last["error"] for table in ("wiped", "halved", "mixed", "doubted")] == [
        False, True, True, True,
    ]  # fmt: skip
    small = [words for words in last["error"].split("; ") if "/reports/small" in words]
    assert [words.partition("/reports/small ")[2] for words in small] == [
        "lacks 108 of 111 files of 4 tables (in small0, small1, small2), but a live check of 50 found 0 missing"
    ], "all of them together have more than 100"


_SAID = {
    "wiped": "mass loss: %s lacks 105 of 105 files of wiped, and a live check of 50 found 50 missing",
    "halved": "%s lacks 105 of 105 files of halved, but a live check of 50 found 0 missing",
    "doubted": "%s lacks 105 of 105 files of doubted, and confirm.mode forbids requests to storage",
}
_DOES_NOT_MATTER = "ignore: [{tables: [accepted], kinds: [dropped], reason: known}]\nceiling: {sample: 50}\n"
_OWN = {
    "silenced": "severity: {dropped: 'off'}",
    "blind": "confirm: {mode: none}",
    "doubted": "confirm: {mode: none}",
}


def _tables(bucket: str) -> list[str]:
    return [
        f"- {{name: {table}, location: 's3://{bucket}/warehouse/{table}', manifests: [{{kind: delta}}]"
        f"{', ' + _OWN[table] if table in _OWN else ''}}}"
        for table in (*LACKS, "unseen", *SMALL)
    ]


def _reports(bucket: str) -> str:
    told = {table: [table] for table in LACKS} | {"small": list(SMALL)}
    entries = (
        f"{{kind: s3_inventory, location: 's3://{bucket}/reports/{name}/', margin: 0s,"
        f" covers: {[f's3://{bucket}/warehouse/{table}/' for table in tables]}}}"
        for name, tables in told.items()
    )
    return f"[{', '.join(entries)}]"


def _lay_reports(shop: Shop) -> None:
    time.sleep(1.1)
    now, long_ago = datetime.now(UTC), datetime.now(UTC) - timedelta(days=9)
    listed = shop.objects()
    for table in LACKS:
        laid = shop.take_inventory(
            files=3, under=f"reports/{table}", at=long_ago if table == "stale" else now,
            checksum=table != "unfinished",
            lacks=shop.keys(f"{table}/") if table in ("halved", "mixed", "doubted") else (),
            listed=[row for row in listed if row.Key.startswith(f"warehouse/{table}/")],
        )  # fmt: skip
        if table in ("torn", "blind"):
            shop.s3.put_object(Bucket=shop.bucket, Key=laid.data[0], Body=b"torn")
            shop.s3.delete_object(Bucket=shop.bucket, Key=laid.data[1])
    shop.take_inventory(under="reports/small", at=now, lacks=shop.keys("small"))


@dataclass(frozen=True)
class Nights:
    """Live audits of a lake: broken, then put right where it can be, and for the long tests once more."""

    shop: Shop
    lost: str
    wrong: str
    written_again: str
    stray: list[str]
    """Two files of no table; the second is laid after the first night, before an audit that fails."""
    found: list[list[tuple[str, str, str]]]
    """(kind, table, key) by night."""
    leftovers: list[str]
    warnings: tuple[str, ...]
    """Both of the first night."""
    ledger: list[dict[str, Any]]
    behind: list[list[str]]
    """The files behind the first night's groups once the failed audit has been, and behind the second's."""
    kept: set[str]
    """The runs whose files are kept after the second night."""

    def findings_for(self, table: str, night: int) -> list[tuple[str, str]]:
        return [(kind, key) for of, kind, key in self.found[night] if of == table]


@pytest.fixture(scope="module")
def nights(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Nights:
    shop = new_shop(aws, s3)
    bucket = shop.bucket
    for table in ("orders", "customers", "outer", "outer/archive"):
        shop.write(table, commits=1 if "outer" in table else 2)
    shop.tables.remove("outer/archive")
    lost, wrong, _ = shop.keys("orders")[:3]
    written_again, stray = shop.keys("customers")[0], [f"warehouse/outer/stray-{n}.parquet" for n in "ab"]
    body = {
        key: shop.s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in (lost, wrong, written_again)
    }
    shop.s3.delete_object(Bucket=bucket, Key=lost)
    upload = shop.s3.create_multipart_upload(Bucket=bucket, Key=lost)["UploadId"]
    shop.s3.put_object(Bucket=bucket, Key=wrong, Body=b"short")
    time.sleep(3.1)  # more than a clock's step
    for key, content in ((written_again, body[written_again]), (stray[0], b"x")):
        shop.s3.put_object(Bucket=bucket, Key=key, Body=content)
    time.sleep(1.1)
    lake = shop.lake(tmp_path_factory.mktemp("nights"))
    first = audited(lake, live=True)
    every = [finding_keys(lake, first.run_id)]
    leftovers = [row["key"] for row in rows_of(results_of(lake).leftover_files(first.run_id))]
    shop.s3.put_object(Bucket=bucket, Key=stray[1], Body=b"x")
    time.sleep(1.1)
    fail(lake)
    behind = [files_behind(lake, first.run_id)]

    for key in (lost, wrong):
        shop.s3.put_object(Bucket=bucket, Key=key, Body=body[key])
    shop.s3.abort_multipart_upload(Bucket=bucket, Key=lost, UploadId=upload)
    shop.write("customers", commits=1)
    DeltaTable(f"s3://{bucket}/warehouse/customers", storage_options=shop.options).create_checkpoint()
    time.sleep(1.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "HISTORY", timedelta(days=-8))  # nothing before the checkpoint is needed
        second = audited(lake, live=True, run_id="second")
        kept = {row["run_id"] for row in rows_of(results_of(lake).batches("leftover_files", pc.scalar(True)))}
        behind.append(files_behind(lake, second.run_id))
        every.append(finding_keys(lake, second.run_id))
        if includes_soak(request):
            every.append(finding_keys(lake, audited(lake, live=True).run_id))
    ledger = ledger_rows(results_of(lake))
    return Nights(
        shop, lost, wrong, written_again, stray, every, leftovers, first.warnings, ledger, behind, kept
    )


def fail(lake: Lake) -> None:
    """Run an audit that cannot publish its findings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerTables, "publish", _refuse_publish)
        with pytest.raises(CannotPublish):
            audited(lake, live=True, run_id="failed")


def _refuse_publish(*_: object) -> NoReturn:
    raise CannotPublish("results", "cannot be written", "")


def files_behind(lake: Lake, run_id: str) -> list[str]:
    """Return the unused files of the table `outer` from the run's groups."""
    files = [row["key"] for row in expand_groups(results_of(lake), run_id) if row["axis"] == "leftover"]
    return sorted(key for key in files if "/outer/" in key)


@pytest.mark.variant
def test_a_run_that_fails_leaves_the_files_of_the_last_good_one(nights: Nights) -> None:
    """Its groups can still be expanded; the next good run replaces those of both."""
    assert nights.behind == [nights.stray[:1], nights.stray]
    assert nights.kept == {"second"}


def test_an_open_upload_is_reported_in_addition_to_the_loss_of_the_file_at_its_key(nights: Nights) -> None:
    """A HEAD of the key, which has no object, does not show the parts of an upload."""
    day = nights.lost.split("/")[2]
    assert ("dropped", nights.lost) in nights.findings_for("orders", 0)
    assert ("unfinished_upload", f"{day}#unfinished_upload") in nights.findings_for("orders", 0)


def test_what_was_found_stays_found_when_the_log_no_longer_reaches_back_to_the_claim(nights: Nights) -> None:
    by_night = [nights.findings_for("customers", night) for night in range(len(nights.found))]
    assert by_night == [[("overwritten", nights.written_again)]] * len(nights.found)


@pytest.mark.soak
def test_the_night_after_that_finds_the_same(nights: Nights) -> None:
    assert len(nights.found) == 3
    test_what_was_found_stays_found_when_the_log_no_longer_reaches_back_to_the_claim(nights)
    test_a_file_that_was_lost_and_put_back_is_restored_and_stays_so(nights)


def test_a_file_that_was_lost_and_put_back_is_restored_and_stays_so(nights: Nights) -> None:
    """A copy has a new time, by which it would seem to have been overwritten."""
    content = [row for row in nights.findings_for("orders", 0) if "#" not in row[1]]
    assert content == [("dropped", nights.lost), ("size_mismatch", nights.wrong)]
    later = range(1, len(nights.found))
    assert [nights.findings_for("orders", night) for night in later] == [[] for _ in later]
    ends = {
        row["key"]: (row["state"], row["resolution"]) for row in nights.ledger if row["axis"] == "content"
    }
    assert ends == dict.fromkeys((nights.lost, nights.wrong), ("resolved", "restored")) | {
        nights.written_again: ("open", None)
    }


def test_an_unnamed_table_inside_another_is_reported_and_its_files_are_not_unused(nights: Nights) -> None:
    assert nights.findings_for("outer", 0) == [("uncommitted", "outer#uncommitted")]
    assert [key for key in nights.leftovers if "/outer/" in key] == nights.stray[:1]
    (warning,) = [each for each in nights.warnings if "table of its own" in each]
    assert f"s3://{nights.shop.bucket}/warehouse/outer/archive " in warning


@dataclass(frozen=True)
class ReportAudits:
    """Three audits by reports alone: one bucket has two reports; the report of the other lacks two files.

    After the first audit, a data file of one of the two reports is deleted. Only the first has the tables with gaps.
    """

    lost: dict[str, str]
    """The file that is gone, by table of the first bucket."""
    dropped: list[list[tuple[str, str, str]]]
    """(table, kind, key) of the first bucket, by audit."""
    states: dict[str, str]
    warnings: tuple[str, ...]
    """States and warnings of the first audit."""
    gaps: "Gaps"
    seen: list[dict[str, tuple[str, str]]]
    """(confirmation of the finding, state in the ledger) by audit and key of the other bucket."""


@pytest.fixture(scope="module")
def audits(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> ReportAudits:
    shop, other = new_shop(aws, s3, "orders", "customers"), new_shop(aws, s3, "stock")
    time.sleep(1.1)
    lost = {table: shop.keys(table)[0] for table in ("orders", "customers")}
    for key in lost.values():
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    lay_two_reports(shop)
    missed, folder = other.keys("stock")[:2], tmp_path_factory.mktemp("looks")
    broken = new_shop(aws, s3)
    unlisted = lay_gaps(broken)
    outcomes: list[Outcome] = []
    dropped, seen = [], []
    for look in ("mode: head, limit: 1", "mode: none", "mode: none"):
        other.take_inventory(lacks=missed)
        lake = lake_of_reports(shop, other, folder, look, None if outcomes else broken)
        outcomes.append(audited(lake))
        keys = finding_keys(lake, outcomes[-1].run_id)
        dropped.append([row for row in keys if row[1] == "dropped" and row[0] in lost])
        seen.append(confirmed(lake, outcomes[-1].run_id))
        if len(outcomes) == 1:
            shop.s3.delete_object(Bucket=shop.bucket, Key=_data_file(shop, "inventories/customers"))
    gaps = Gaps(lake, unlisted, outcomes[0])
    return ReportAudits(lost, dropped, states(outcomes[0]), outcomes[0].warnings, gaps, seen)


def lay_two_reports(shop: Shop) -> None:
    """Write two reports: each lists one table, with its log."""
    tables = ("orders", "customers")
    for table, other in itertools.permutations(tables):
        entries = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=f"warehouse/{other}/")["Contents"]
        shop.take_inventory(lacks=[entry["Key"] for entry in entries], under=f"inventories/{table}")


def lake_of_reports(shop: Shop, other: Shop, folder: Path, look: str, broken: Shop | None) -> Lake:
    """Return a lake of both: the first bucket confirms nothing, `look` is the confirm setting of the other.

    `broken` is a shop with gaps.
    """
    reports = [f"{shop.bucket}/inventories/{table}/" for table in shop.tables]
    reports.append(f"{other.bucket}/inventories/")
    places = [f"{{kind: s3_inventory, location: 's3://{at}', margin: 0s}}" for at in reports]
    of, quiet = "manifests: [{kind: delta}]", "confirm: {mode: none}"
    tables = [
        f"- {{name: {table}, location: 's3://{shop.bucket}/warehouse/{table}', {of}, {quiet}}}"
        for table in shop.tables
    ]
    tables.append(f"- {{name: stock, location: 's3://{other.bucket}/warehouse/stock', {of}}}")
    if broken:
        places.append(f"{{kind: s3_inventory, location: 's3://{broken.bucket}/inventories/', margin: 0s}}")
        tables += tables_of_gaps(broken)
    times = "grace: 0s, leftover_age: 0s, max_upload: 0s"
    return shop.lake(
        folder,
        inventories=f"[{', '.join(places)}]",
        tables=tables,
        defaults=f"{times}, confirm: {{{look}}}",
    )


def confirmed(lake: Lake, run_id: str) -> dict[str, tuple[str, str]]:
    """Return confirmation and ledger state of the findings in `stock`, by key."""
    results = results_of(lake)
    held = {row["key"]: row["state"] for row in rows_of(results.discrepancies())}
    mine = [row for row in rows_of(results.findings(run_id)) if row["table_name"] == "stock"]
    return {row["key"]: (row["confirmation"], held[row["key"]]) for row in mine}


@pytest.mark.variant
def test_two_reports_of_parts_of_a_bucket_that_do_not_say_so_are_read_as_one(audits: ReportAudits) -> None:
    """Each names the files of one table. A file in neither is lost; a gap in one is a gap in both."""
    lost = sorted((table, "dropped", key) for table, key in audits.lost.items())
    assert audits.dropped[:2] == [lost, []]
    tables = ("orders", "customers", "stock")
    assert {table: audits.states[table] for table in tables} == dict.fromkeys(tables, "complete")
    (warning,) = [line for line in audits.warnings if "are read as one" in line]
    assert "let `covers` say" in warning


def test_a_finding_and_the_ledger_agree_on_the_confirmation_by_a_second_snapshot(
    audits: ReportAudits,
) -> None:
    """The first look confirms that one of two files is present; the other one needs a second snapshot."""
    waiting = next(iter(audits.seen[0]))  # of the other one the first look has said that it is there
    assert [look[waiting] for look in audits.seen] == [
        ("limit", "pending"), ("none", "pending"), ("second_cut", "open"),
    ]  # fmt: skip


def _data_file(shop: Shop, under: str) -> str:
    listed = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=under)["Contents"]
    return next(entry["Key"] for entry in listed if entry["Key"].endswith(".csv.gz"))


@dataclass(frozen=True)
class Gaps:
    """Tables of which one is whole; the others' logs have gaps, or the report does not name them."""

    lake: Lake
    lost: str
    """A file of the whole table, whose files may not be confirmed in storage."""
    outcome: Outcome

    def reason(self, table: str) -> str:
        return str(self.outcome.summary["coverage"][table]["content"]["reason"])

    @property
    def findings(self) -> list[tuple[str, str, str]]:
        """(table, kind, key) of the tables with gaps."""
        return [row for row in finding_keys(self.lake, self.outcome.run_id) if row[0] in GAPS]


@pytest.fixture(scope="module")
def gaps(audits: ReportAudits) -> Gaps:
    return audits.gaps


GAPS = {
    "lacks_a_commit": "partial", "torn_commit": "partial", "unknown_feature": "partial", "prices": "complete",
    "refunds": "partial", "events": "partial",
}  # fmt: skip
"""The state of each table: a feature that nobody knows is required, and `prices` is well.

The report names every file of these; of refunds, whose log is older, none, not even of its log; of events none.
"""


def lay_gaps(shop: Shop) -> str:
    """Write the tables and their report; return the key of a lost file of the table that is well."""
    for table, commits in (("lacks_a_commit", 3), ("torn_commit", 2), ("unknown_feature", 1)):
        shop.write(table, commits=commits)
    for table in ("prices", "refunds"):
        shop.write(table, commits=1)
    events = lay_events(shop)
    time.sleep(1.1)
    lost = shop.keys("prices")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    unnamed = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix="warehouse/refunds/")["Contents"]
    shop.take_inventory(lacks=[*events, *(entry["Key"] for entry in unnamed)])
    shop.s3.delete_object(Bucket=shop.bucket, Key=commit("lacks_a_commit", 1))
    rewrite(shop, commit("torn_commit", 1), lambda body: body[:-40])
    unknown = commit("unknown_feature", 0)
    rewrite(shop, unknown, lambda body: body.replace(b'{"protocol":', UNKNOWN + b'{"unread":'))
    return lost


def lay_events(shop: Shop) -> list[str]:
    """A table without a log: its files, and a list of them."""
    keys = [f"warehouse/events/{number:03}.json" for number in range(105)]
    for key in keys:
        shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"{}")
    written = datetime.now(UTC).isoformat()
    lines = [json.dumps({"path": key, "size": 2, "committed_at": written}) for key in keys]
    listed = "\n".join([*lines, json.dumps({"end": True, "lines": len(lines)})])
    shop.s3.put_object(Bucket=shop.bucket, Key="lists/1.jsonl", Body=listed.encode())
    return keys


def tables_of_gaps(shop: Shop) -> list[str]:
    quiet = dict.fromkeys(("prices", "refunds"), ", confirm: {mode: none}")
    manifests = dict.fromkeys(shop.tables, "{kind: delta}")
    manifests["events"] = f"{{kind: file_list, location: 's3://{shop.bucket}/lists/'}}"
    return [
        f"- {{name: {table}, location: 's3://{shop.bucket}/warehouse/{table}', manifests: [{manifest}]"
        f"{quiet.get(table, '')}}}"
        for table, manifest in manifests.items()
    ]


def test_logs_with_gaps_leave_their_own_tables_partial_and_no_other(gaps: Gaps) -> None:
    assert (gaps.outcome.status, gaps.outcome.exit_code) == ("partial", 3)
    kinds = [(table, kind) for table, kind, _ in gaps.findings if kind != "unreadable_evidence"]
    assert kinds == [
        ("lacks_a_commit", "missing_metadata"), ("prices", "dropped"), ("torn_commit", "missing_metadata")
    ]  # fmt: skip
    assert {table: state for table, state in states(gaps.outcome).items() if table in GAPS} == GAPS


def test_a_report_of_another_prefix_than_it_seems_does_not_make_a_table_lost(gaps: Gaps) -> None:
    """A file that it lacks is lost if the report names other files of the table."""
    assert [row for row in gaps.findings if row[1] == "dropped"] == [("prices", "dropped", gaps.lost)]
    assert "lists no file of the table's log" in gaps.reason("refunds")


def test_a_report_that_names_nothing_of_a_plain_table_that_is_there_does_not_cover_it(gaps: Gaps) -> None:
    """No file of a table without a log is certain to be in a report, so a sample of its files is looked up."""
    assert "lists none of the table's files, although storage has them" in gaps.reason("events")
    rows = results_of(gaps.lake).coverage(gaps.outcome.run_id, ["events"])
    (row,) = [row for row in rows if row["axis"] == "content"]
    assert (row["files"], row["uncovered"]) == (105, 105)


UNKNOWN = (
    b"""{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timeTurner"],
    "writerFeatures": ["timeTurner"]}}""".replace(b"\n", b"")
    + b"\n"
)


def commit(table: str, version: int) -> str:
    return f"warehouse/{table}/_delta_log/{version:020}.json"


def rewrite(shop: Shop, key: str, change: Callable[[bytes], bytes]) -> None:
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    assert change(body) != body
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=change(body))


def test_results_that_cannot_be_written_end_before_the_audit(untouched: Shop, tmp_path: Path) -> None:
    lake = untouched.lake(tmp_path)
    (tmp_path / "results").write_text("a file where a folder is wanted")
    with pytest.raises(CannotPublish) as refusal:
        audited(lake, live=True)
    assert str(refusal.value).count("\n") == 0
    assert refusal.value.exit_code == 14


def test_of_two_audits_at_once_the_second_is_refused(untouched: Shop, tmp_path: Path) -> None:
    lake = untouched.lake(tmp_path)
    with leased(lake.results, Clients(), "nightly", SilentProgress()), pytest.raises(Busy) as refusal:
        audited(lake)
    assert refusal.value.exit_code == 13
    assert "another audit writes here (nightly)" in str(refusal.value)
    assert not (tmp_path / "results" / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": ("nobody",)}, "no table nobody"),
        ({"as_of": datetime(2099, 1, 1, tzinfo=UTC)}, "future"),
        ({"as_of": datetime(2026, 1, 1, tzinfo=UTC), "live": True}, "--as-of"),
    ],
)
def test_an_invalid_request_is_refused(
    untouched: Shop, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        audited(untouched.lake(tmp_path), **options)
