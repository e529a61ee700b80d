"""The real output of the commands, about a small damaged lake, is what the published JSON Schemas describe."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.documents import document_schema
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.artefacts import put
from tests.builders.catcher import Catcher, catching
from tests.builders.delta_lake import BORN, Log, add, remove
from tests.builders.repair_plans import an_hour_old
from tests.builders.results import lake_file
from tests.builders.schema_files import validator
from tests.builders.shop import Shop
from tests.conftest import Aws

LONG_AGO = datetime.now(UTC) - timedelta(days=9)
CONTENT = b"x" * 100
Captured = pytest.CaptureFixture[str]


def require_valid(name: str, *documents: Any) -> None:
    """Every document has only properties that its schema names."""
    assert documents
    check = validator(document_schema(name))
    faults = [
        f"{list(error.absolute_path)}: {error.message}"
        for each in documents
        for error in check.iter_errors(each)
    ]
    assert faults == []


def files_of(location: Path) -> None:
    """A table of six files: one is lost, one has another size, one is unused, one has an equal twin."""
    names = [f"day=2026-01-0{day}/{name}.parquet" for day in (1, 2) for name in "abc"]
    Log(location).commit(0, *BORN, *(add(name, size=100) for name in names), when=LONG_AGO)
    Log(location).commit(1, add("late.parquet", size=100), remove("late.parquet"), when=LONG_AGO)
    for number, name in enumerate(names):
        put(location / name, CONTENT if number < 2 else CONTENT[:-2] + f"{number:02}".encode(), LONG_AGO)
    (location / names[0]).unlink()
    put(location / names[3], b"x" * 60, LONG_AGO)
    for number in range(3):
        put(location / f"day=2026-01-02/unused-{number}.parquet", b"y" * (50 + number), LONG_AGO)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Catcher]:
    with catching() as catcher:
        yield catcher


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, receiver: Catcher) -> Iterator[Path]:
    """A lake with a damaged table and a table whose log cannot be read; it sends alerts and lineage."""
    folder = tmp_path_factory.mktemp("documents")
    files_of(folder / "lake" / "orders")
    Log(folder / "lake" / "torn").commit(0, *BORN, when=LONG_AGO)
    (folder / "lake" / "torn" / "_delta_log" / f"{1:020}.json").write_text('{"add": ')
    (folder / "lake.yaml").write_text(f"""
version: 1
lake: shop
results: {folder}/results
inventories: [{{kind: listing, location: '{folder}/lake/'}}]
tables:
  - {{name: orders, location: {folder}/lake/orders, manifests: [{{kind: delta}}]}}
  - {{name: torn, location: {folder}/lake/torn, manifests: [{{kind: delta}}]}}
alerts: [{{kind: alertmanager, url_env: MANAGER, min_severity: info}}]
openlineage_url_env: LINEAGE
""")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MANAGER", receiver.url)
        patch.setenv("LINEAGE", f"{receiver.url}/lineage")
        patch.chdir(folder)
        assert cli.main(["audit", "lake.yaml", "--status-file", "status.json", "--run-id", "first"]) == 1
        yield folder


def output(capsys: Captured, *words: str) -> str:
    cli.main([*words])
    return capsys.readouterr().out


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.variant
def test_an_audit_and_its_status_file(home: Path, capsys: Captured) -> None:
    text = output(capsys, "audit", "lake.yaml", "--format", "json", "--status-file", "second.json")
    for summary in (
        json.loads(text),
        *(json.loads((home / f"{name}.json").read_text()) for name in ("status", "second")),
    ):
        require_valid("audit", summary)
        require_valid("status", summary)
        assert {"dropped", "size_mismatch"} <= summary["findings"].keys()
        assert summary["states"]["open"]


NO_EVIDENCE = {"kind: listing, location: '{home}/lake/'": "kind: s3_inventory, location: '{home}/none/'"}
NO_RESULTS = {"results: {home}/results": "results: {home}/lake.yaml/results"}


@pytest.mark.parametrize(
    ("change", "code", "is_known"),
    [(NO_EVIDENCE | {"{home}/results": "{home}/others"}, 10, True), (NO_RESULTS, 14, False)],
    ids=["no evidence", "no results"],
)
def test_a_failed_audit(
    home: Path, change: dict[str, str], code: int, is_known: bool, capsys: Captured
) -> None:
    """The id of a run that ends at once is not known, unless it is given."""
    lake = (home / "lake.yaml").read_text()
    for before, after in change.items():
        lake = lake.replace(before.format(home=home), after.format(home=home))
    (home / "failing.yaml").write_text(lake)
    words = ("audit", "failing.yaml", "--format", "json", "--status-file", "failed.json")
    summary = json.loads(output(capsys, *words))
    assert summary == json.loads((home / "failed.json").read_text())
    require_valid("audit", summary)
    require_valid("status", summary)
    end = (summary["status"], summary["exit_code"], summary["run_id"] is not None)
    assert end == ("failed", code, is_known)


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "nowhere.yaml"),
        ("audit", "lake.yaml", "--table", "no.such"),
        ("doctor", "lake.yaml"),
        ("alert", "lake.yaml"),
        ("report", "lake.yaml"),
        ("report", "lake.yaml", "--certificate"),
        ("report", "nowhere.yaml"),
        ("reconcile", "plan", "lake.yaml"),
        ("reconcile", "apply", "nowhere.jsonl"),
    ],
    ids=" ".join,
)
def test_the_status_file_of_a_command(home: Path, words: tuple[str, ...], capsys: Captured) -> None:
    code = cli.main([*words, "--status-file", str(home / "of-command.json")])
    status = json.loads((home / "of-command.json").read_text())
    assert status["exit_code"] == code
    require_valid("status", status)


def test_findings_and_discrepancies(home: Path, capsys: Captured) -> None:
    assert home.exists()
    findings = lines(output(capsys, "findings", "lake.yaml", "--format", "jsonl"))
    assert {"dropped", "size_mismatch", "unreferenced"} <= {row["kind"] for row in findings}
    require_valid("findings", *findings)
    require_valid("findings", *lines(output(capsys, "findings", "lake.yaml", "--format", "jsonl", "--files")))
    discrepancies = lines(output(capsys, "discrepancies", "lake.yaml", "--state", "all", "--format", "jsonl"))
    require_valid("discrepancies", *discrepancies)
    id_ = next(row["discrepancy_id"] for row in discrepancies if row["kind"] == "unreferenced")
    output(capsys, "ack", "lake.yaml", id_, "--reason", "known", "--until", "2999-01-01")
    accepted = lines(output(capsys, "discrepancies", "lake.yaml", "--state", "all", "--format", "jsonl"))
    assert any(row["ack_until"] for row in accepted)
    require_valid("discrepancies", *accepted)
    require_valid("explain", json.loads(output(capsys, "explain", "lake.yaml", id_, "--format", "json")))


@pytest.mark.parametrize("deep", [(), ("--deep",)], ids=["", "deep"])
@pytest.mark.parametrize(
    "subject",
    ["day=2026-01-01/a.parquet", "day=2026-01-02/a.parquet", "day=2026-01-02/", "no-such-file.parquet"],
)
def test_explanations(home: Path, subject: str, deep: tuple[str, ...], capsys: Captured) -> None:
    named = f"{home}/lake/orders/{subject}"
    explanation = json.loads(output(capsys, "explain", "lake.yaml", named, "--format", "json", *deep))
    require_valid("explain", explanation)
    assert explanation["unknown"] is (subject == "no-such-file.parquet" and not explanation["table"])


@pytest.mark.variant
def test_a_scan(home: Path, capsys: Captured) -> None:
    scanned = json.loads(output(capsys, "scan", str(home / "lake"), "--format", "json", "--price", "0.02"))
    require_valid("scan", scanned)
    assert scanned["kinds"]
    assert scanned["findings"]


def test_a_plan(home: Path, capsys: Captured) -> None:
    output(capsys, "reconcile", "plan", "lake.yaml", "-o", "local.jsonl")
    header, *steps = lines((home / "local.jsonl").read_text())
    require_valid("plan", header, *steps)
    assert steps


def test_alerts_and_lineage(home: Path, receiver: Catcher) -> None:
    assert home.exists()
    events = [post for post in receiver.posts if isinstance(post, dict)]
    alerts = [post for post in receiver.posts if isinstance(post, list)]
    require_valid("openlineage", *events)
    require_valid("alertmanager", *alerts)
    assert any(event["inputs"] for event in events)


@pytest.mark.variant
def test_a_plan_with_a_step_and_the_status_files_of_its_repair(
    aws: Aws, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted object of a bucket that keeps versions."""
    monkeypatch.chdir(tmp_path)
    shop = Shop(aws.s3, s3, f"documents-{uuid.uuid4().hex[:12]}")
    aws.s3.create_bucket(Bucket=shop.bucket)
    aws.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    shop.write("orders", commits=1)
    an_hour_old(shop)
    aws.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    reach = {"endpoint": s3.endpoint, "region": s3.region, "path_style": True}
    table = {
        "name": "orders",
        "location": f"s3://{shop.bucket}/warehouse/orders",
        "manifests": [{"kind": "delta"}],
    }
    listing = {"kind": "listing", "location": f"s3://{shop.bucket}/warehouse/"}
    lake_file(
        tmp_path, Location.parse(f"{tmp_path}/results"),
        s3=reach, inventories=[listing], tables=[table], defaults={"grace": "0s"},
    )  # fmt: skip
    assert cli.main(["audit", "lake.yaml"]) == 1
    for number, words in enumerate(
        (("plan", "lake.yaml", "--allow", "restore"), ("apply", "plan.jsonl"), ("undo", "plan.jsonl"))
    ):
        assert cli.main(["reconcile", *words, "--status-file", f"{number}.json"]) == 0
        status = json.loads(Path(f"{number}.json").read_text())
        require_valid("status", status)
        assert status["plan_id"]
    header, *steps = lines(Path("plan.jsonl").read_text())
    assert (header["steps"], [step["action"] for step in steps]) == (1, ["remove_delete_marker"])
    require_valid("plan", header, *steps)
