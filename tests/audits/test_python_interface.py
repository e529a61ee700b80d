"""`import lakeaudit`: what `lakeaudit.open` and `lakeaudit.scan` return, beside what the commands print."""

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lakeaudit
from lakeaudit import cli
from lakeaudit.errors import BadInput, CannotAudit, LakeFileError
from lakeaudit.formatting import iso
from lakeaudit.runtime.connections.aws import Endpoint
from tests.audits.test_bounds import put
from tests.builders.found_tables import LONG_AGO, files_below, lay, lay_in_bucket, lose
from tests.conftest import Aws

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = lay(tmp_path / "lake")
    lose(root)
    return root


@pytest.fixture
def lake(place: Path) -> lakeaudit.LakeHandle:
    assert cli.main(["init", str(place)]) == 0
    return lakeaudit.open("lake.yaml")


def lines_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    cli.main([*words, "--format", "jsonl"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.variant
def test_a_scan_has_results_as_long_as_it_is_used(place: Path, tmp_path: Path) -> None:
    before = files_below(tmp_path)
    lake = lakeaudit.scan("./lake")
    results = Path(lake.config.results.spark_path)
    (worst,) = lake.findings(severity="critical")
    assert (worst["kind"], worst["table_name"], worst["rows_at_stake"]) == ("dropped", "sales.orders", 10)
    assert lake.run().verdict == "CRITICAL: 1 file dropped in 1 table"
    assert results.exists()
    assert files_below(tmp_path) == before
    del lake
    gc.collect()
    assert not results.exists()


@pytest.mark.variant
def test_rows_of_a_scan_outlive_its_variable(place: Path) -> None:
    """As in `lakeaudit.scan(...).findings()`: the results exist as long as anything that reads them."""
    findings, run = lakeaudit.scan(place).findings(), lakeaudit.scan("./lake").run()
    gc.collect()
    assert [row["kind"] for row in findings] == ["dropped", "unreferenced"]
    assert (run.exit_code, len(run.findings()), run.verdict) == (1, 2, "CRITICAL: 1 file dropped in 1 table")


def test_a_scan_names_everything_that_was_not_judged(place: Path) -> None:
    put(place / "loose/file.parquet", 100, LONG_AGO)
    put(place / "sales/orders/a.parquet", 100, LONG_AGO)
    (place / "1/2/3/4/5/6").mkdir(parents=True)
    run = lakeaudit.scan(place).run()
    assert run.exit_code == 3
    assert [line.partition(":")[0] for line in run.warnings][:2] == ["not judged", "not searched"]


@pytest.mark.variant
@pytest.mark.parametrize("call", ["audit", "check", "plan", "verified"])
def test_a_scan_keeps_no_history(place: Path, call: str) -> None:
    lake = lakeaudit.scan(place)
    with pytest.raises(
        BadInput, match="needs the results of audits, and a scan keeps none; save a lake file"
    ):
        getattr(lake, call)("customers")


def test_the_rows_are_those_of_the_commands(
    lake: lakeaudit.LakeHandle, capsys: pytest.CaptureFixture[str]
) -> None:
    run = lake.audit(live=True)
    assert (run.status, run.exit_code, run.row["run_id"]) == ("complete", 1, run.run_id)
    key = "discrepancy_id"
    for frame, words in (
        (run.findings(), ("findings", "lake.yaml")),
        (
            lake.findings(tables="customers", kinds=["unreferenced"]),
            ("findings", "lake.yaml", "--table", "customers"),
        ),
        (lake.findings(files=True), ("findings", "lake.yaml", "--files")),
        (lake.discrepancies(), ("discrepancies", "lake.yaml")),
        (lake.discrepancies("resolved"), ("discrepancies", "lake.yaml", "--state", "resolved")),
    ):
        assert [row[key] for row in frame] == [row[key] for row in lines_of(capsys, *words)]
    checked = lake.check(["customers", "sales.*"])
    assert (checked.answer, checked.exit_code) == ("discrepancies", 1)
    assert [row["answer"] for row in checked.to_dict()["tables"]] == ["ok", "discrepancies", "ok"]
    assert str(checked).endswith(checked.verdict)
    with pytest.raises(TypeError, match="three answers"):
        bool(checked)
    capsys.readouterr()
    through = iso(datetime.now(UTC))  # `--within` would count from the time of each of the two calls
    verified = lake.verified("sales.*", through=through)
    cli.main(["verified", "lake.yaml", "--table", "sales.*", "--through", through])
    printed = capsys.readouterr()
    assert str(verified) == printed.out + printed.err.removeprefix("lakeaudit: ").rstrip()
    assert (verified.answer, verified.exit_code) == ("no", 1)
    cli.main(["explain", "lake.yaml", "sales/orders/a.parquet", "--format", "json"])
    assert lake.explain("sales/orders/a.parquet").to_dict() == json.loads(capsys.readouterr().out)


def test_a_delete_list_is_checked_as_by_the_command(
    lake: lakeaudit.LakeHandle, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(str(path) for path in place.rglob("*.parquet"))
    (tmp_path / "delete.txt").write_text("\n".join(files))
    guarded = lake.guard("delete.txt", output="safe.csv")
    code = cli.main(["guard", "lake.yaml", "delete.txt", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert (guarded.exit_code, guarded.counts) == (code, printed["counts"])
    assert sum(guarded.counts.values()) == len(files)
    assert guarded.counts["live"] > 0
    assert "CRITICAL: do not delete" in str(guarded)
    assert guarded.to_dict()["safe_list"]["keys"] == guarded.counts["free"]
    with pytest.raises(TypeError, match="three answers"):
        bool(guarded)


@pytest.mark.variant
def test_a_notebook_shows_hostile_keys_as_text(place: Path) -> None:
    (place / "customers" / "unlisted.parquet").rename(place / "customers" / "<b>\x1b[31m|x.parquet")
    lake = lakeaudit.scan("./lake")
    shown = [
        each
        for frame in (lake.findings(files=True), lake.run())
        for each in (frame._repr_html_(), repr(frame))
    ]
    assert "&lt;b&gt;" in shown[0]
    assert all("<b>" not in each and "\x1b" not in each for each in (shown[0], shown[2]))
    assert "\x1b" not in shown[1]


@pytest.mark.variant
def test_a_plan_is_written_applied_and_undone(
    aws: Aws, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bucket = lay_in_bucket(aws, tmp_path / "lake")
    lakeaudit.scan(f"s3://{bucket}/wh", endpoint=s3.endpoint, save="lake.yaml")
    lake = lakeaudit.open("lake.yaml")
    lake.audit(live=True)
    plan = lake.plan(kinds="dropped", allow="restore")
    assert str(plan).endswith(f"next: lakeaudit reconcile apply {plan.place}")
    assert [step["action"] for step in plan.steps()] == ["remove_delete_marker"]
    with pytest.raises(BadInput, match="was not applied"):
        plan.undo()
    done = plan.apply(approved_by="ana")
    assert done.exit_code == 0, done.verdict
    assert not lake.audit(live=True).findings(severity="critical")
    assert plan.undo().exit_code == 0
    assert len(lake.audit(live=True).findings(severity="critical")) == 1


ERRORS: list[tuple[Callable[[lakeaudit.LakeHandle], object], type[lakeaudit.AuditError], str]] = [
        (lambda lake: lake.findings(kinds="droped"), BadInput, "no kind droped"),
        (lambda lake: lake.findings(severity=["bad"]), BadInput, "no severity bad"),
        (lambda lake: lake.findings(tables="sale.orders"), BadInput, "no table sale.orders"),
        (lambda lake: lake.findings("no-such-run"), BadInput, "no such run"),
        (lambda lake: lake.discrepancies("shut"), BadInput, "no state shut"),  # type: ignore[arg-type]
        (lambda lake: lake.audit("sale.orders", live=True), BadInput, "no table sale.orders"),
        (lambda lake: lake.plan(allow="all"), BadInput, "no all"),
        (lambda _: lakeaudit.scan("./nowhere"), BadInput, "is not a folder"),
        (lambda _: lakeaudit.scan("./empty"), CannotAudit, "no Delta log"),
        (lambda _: lakeaudit.open("nowhere.yaml"), LakeFileError, "nowhere.yaml"),
]  # fmt: skip


@pytest.mark.variant
def test_errors_say_what_to_do(lake: lakeaudit.LakeHandle, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    lake.audit(live=True)
    for call, error, text in ERRORS:
        with pytest.raises(error, match=text) as raised:
            call(lake)
        assert isinstance(raised.value, lakeaudit.AuditError)
        assert raised.value.hint
        assert raised.value.exit_code == error.exit_code


def test_no_results_are_an_error_and_not_an_empty_frame(lake: lakeaudit.LakeHandle) -> None:
    for call in (lake.findings, lake.discrepancies, lake.coverage, lake.run, lake.plan):
        with pytest.raises(CannotAudit, match="holds no finished audit"):
            call()


def test_the_import_is_light() -> None:
    code = "import sys, lakeaudit; lakeaudit.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"duckdb", "pyarrow", "boto3", "typer"}.isdisjoint(done.stdout.split())


def test_the_import_on_windows_names_the_way_out() -> None:
    code = "import sys; sys.platform = 'win32'; import lakeaudit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ImportError: lakeaudit runs on Linux and macOS")


@pytest.mark.variant
def test_the_notebook_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell, as a kernel does; the last expression of a cell is shown."""
    import ast

    monkeypatch.setenv("LAKEAUDIT_PLACE", str(place))
    cells = json.loads((DOCS / "first-look.ipynb").read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    shown: list[object] = []
    for cell in cells:
        body = ast.parse("".join(cell["source"])).body if cell["cell_type"] == "code" else []
        last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
        body = body[:-1] if last else body
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        shown += [eval(compile(ast.Expression(last.value), "cell", "eval"), names)] if last else []
    run, findings, coverage, explained, sums = shown
    assert "1 file dropped in 1 table" in str(run)
    assert len(findings) == 2  # type: ignore[arg-type]
    assert "sales.orders" in coverage._repr_html_()  # type: ignore[attr-defined]
    assert "storage: no such file" in str(explained)
    assert {row["table_name"] for row in sums} == {"customers", "sales.orders"}  # type: ignore[attr-defined]


@pytest.mark.variant
def test_the_snippets_of_the_page_are_one_program(
    aws: Aws,
    s3: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(s3.endpoint))
    bucket = lay_in_bucket(aws, tmp_path / "lake")
    aws.s3.delete_object(Bucket=bucket, Key="wh/sales/orders/b.parquet")
    assert cli.main(["init", f"s3://{bucket}/wh"]) == 0
    blocks = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "python.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    program = "\n".join(blocks).replace("s3://lake/warehouse/", f"s3://{bucket}/wh")
    lost = f"s3://{bucket}/wh/sales/orders/b.parquet"
    program = program.replace("s3://lake/orders/day=2026-11-01/part-0.parquet", lost)
    names: dict[str, Any] = {}
    exec(compile(program, "python.md", "exec"), names)
    assert len(blocks) == 4
    assert names["done"].verdict.startswith("1 applied")
    assert f"dropped: {lost}" in capsys.readouterr().out
