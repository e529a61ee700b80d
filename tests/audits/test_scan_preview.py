"""`lakeaudit scan` reports losses while it reads, and its result is that of one audit."""

import io
import json
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import lakeaudit
from lakeaudit import cli
from lakeaudit.audit import preview
from lakeaudit.audit.preview import groups
from lakeaudit.config import Table
from lakeaudit.keys import Location
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import SERIOUS
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.progress import LiveProgress
from tests.builders.found_tables import lay
from tests.builders.glue import GlueCatalog
from tests.builders.hostile_scan_lake import lay_hostile
from tests.builders.many_tables import lay_tables
from tests.builders.resources import processor_seconds
from tests.builders.slowness import slowness

FILLERS = 14
"""So many healthy tables that the damaged ones are in three groups of 4, 16 and more."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_hostile(tmp_path_factory.mktemp("hostile") / "lake", FILLERS)


OF_THE_RUN = ("run_id", "as_of_date", "lake")


def rows_of_scan(lake: Path) -> tuple[list[Any], list[Any], list[str]]:
    """Return all findings, the coverage and what was not judged; without the times of the scan."""
    handle = lakeaudit.scan(lake)
    findings = [
        {name: value for name, value in row.items() if name not in OF_THE_RUN}
        | {"explanation": re.sub(r"storage as of \S+", "", row["explanation"])}
        for row in handle.findings().to_dicts()
    ]
    coverage = [
        (row["table_name"], row["axis"], row["status"], row["files"], row["reason"])
        for row in handle.coverage().to_dicts()
    ]
    return sorted(findings, key=repr), sorted(coverage, key=repr), list(handle.run().warnings)


@pytest.mark.variant
def test_the_result_is_that_of_one_audit(lake: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preview, "FIRST", sys.maxsize)
        whole = rows_of_scan(lake)
        patch.setattr(preview, "FIRST", 1)
        patch.setattr(preview, "GROWTH", 2)
        assert rows_of_scan(lake) == whole
    kinds = {(row["table_name"], row["kind"]) for row in whole[0]}
    assert {("z_clone", "dropped"), ("n_outer", "dropped"), ("n_outer.inner", "dropped")} <= kinds
    (unvacuumed,) = [row for row in whole[0] if row["kind"] == "unvacuumed"]
    assert (unvacuumed["table_name"], unvacuumed["files"]) == ("a_source", 1), (
        "the clone needs the other file"
    )


def scanned(lake: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the printed result, and the lines of progress."""
    cli.main(["scan", str(lake), "--format", "json"])
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.err.splitlines() if line.startswith("{")]
    return json.loads(printed.out), lines


@pytest.mark.variant
def test_losses_are_reported_table_by_table_before_the_result(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, lines = scanned(lake, capsys)
    said = [line for line in lines if "table" in line]
    found = {(row["table_name"], row["kind"]) for row in result["findings"] if row["severity"] in SERIOUS}
    for line in said:
        first = line["findings"].split("; ")[0].split(", ")[0]
        number = int(first.split()[0].replace(",", ""))
        assert first in {counted_kind(kind, number) for table, kind in found if table == line["table"]}, line
    assert {line["table"] for line in said} >= {"a_source", "b_moved"}, "of the first two groups"
    assert [line["stage"] for line in lines if "text" in line] == ["judge tables"] * len(said)
    assert lines.index(said[-1]) < [line["stage"] for line in lines].index("publish")
    (done,) = [line["tables"] for line in lines if line["stage"] == "judge tables" and "failed" in line]
    assert (said[0]["total"], done) == (result["tables"], said[-1]["done"])


@pytest.mark.variant
def test_few_tables_are_judged_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The result itself is as quick."""
    _, lines = scanned(lay(tmp_path / "lake"), capsys)
    assert "judge tables" not in [line["stage"] for line in lines]


def table(key: str) -> Table:
    return Table(name=key, location=Location("lake", key))


def test_groups_grow_and_keep_a_table_with_the_tables_inside_of_it() -> None:
    tables = [table(f"t{number:03}") for number in range(200)]
    nested = [table("t003/x"), *tables[::-1], table("t003/y")]
    assert [len(group) for group in groups(nested, most=64)] == [6, 16, 64, 64, 52]
    assert [len(group) for group in groups(tables, most=None)] == [4, 16, 64, 116]
    assert [len(group) for group in groups([table("a"), table("a"), table("a-b"), table("a/b")], most=1)] == [
        4
    ]


@dataclass(frozen=True)
class Times:
    """Seconds from the start of a command to its first loss, and to its end, and its exit code.

    `processor` is the processor time until the first loss: unlike seconds, it does not depend on other processes.
    """

    first: float
    processor: float
    end: float
    code: int


def times_of_scan(bucket: str, s3: Endpoint) -> Times:
    """Run the command line in a process of its own."""
    words = ("scan", f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint))
    program = "import sys; from lakeaudit.cli import program; program(sys.argv[1:])"
    command = [sys.executable, "-c", program, *words]
    began, first, processor = time.monotonic(), None, 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if first is None and line.startswith("{") and "table" in json.loads(line):
                first, processor = time.monotonic() - began, processor_seconds(process.pid)
    assert first is not None, "a loss was reported"
    return Times(first, processor, time.monotonic() - began, process.returncode)


@pytest.mark.variant
def test_the_first_loss_of_a_small_lake_is_reported_in_seconds(s3: Endpoint, bucket: str) -> None:
    """In 3 to 4 s where nothing else runs, of which 2 to 3 s are processor time."""
    lay_tables(bucket, tables=20, files=2_000)
    times = times_of_scan(bucket, s3)
    assert times.code == 1
    assert times.first < times.end
    assert times.processor < 5 * slowness(), times


@pytest.mark.variant
@pytest.mark.soak
def test_the_first_loss_of_a_large_lake_is_reported_within_a_minute(s3: Endpoint, bucket: str) -> None:
    lay_tables(bucket, tables=200, files=100_000)
    times = times_of_scan(bucket, s3)
    assert times.code == 1
    assert times.first < times.end
    assert times.first < 60, times


@pytest.mark.variant
def test_the_tables_of_a_catalog_are_reported_too(
    s3: Endpoint, clients: Clients, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_tables(bucket, tables=9, files=90)
    catalog = GlueCatalog(clients, f"db{uuid.uuid4().hex[:8]}")
    for number in range(9):
        place = f"s3://{bucket}/wh/db{number % 4}/t{number:03}"
        catalog.table(f"t{number:03}", place, parameters={"spark.sql.sources.provider": "delta"})
    words = ("--catalog", f"glue://{catalog.database}", "--endpoint", str(s3.endpoint), "--format", "json")
    assert cli.main(["scan", *words]) == 1
    printed = capsys.readouterr()
    said = [json.loads(line) for line in printed.err.splitlines() if '"table": ' in line]
    assert [(line["table"], line["severity"]) for line in said] == [(f"{catalog.database}.t008", "critical")]
    assert {row["table_name"] for row in json.loads(printed.out)["findings"] if row["severity"] == "critical"} == {
        f"{catalog.database}.t003", f"{catalog.database}.t008",
    }  # fmt: skip


@pytest.mark.variant
@pytest.mark.parametrize("most", [30, 60, 90, 150, 250])
def test_losses_before_the_result_leave_most_requests_to_the_result(
    s3: Endpoint, bucket: str, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    lay_tables(bucket, tables=12, files=120)
    words = (f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint), "--max-requests", str(most))
    code = cli.main(["scan", *words, "--fail-on", "never"])
    printed = capsys.readouterr()
    assert code in (0, 3, 10), printed
    limited = f"the limit of {most} requests is reached" in printed.out + printed.err
    assert limited == (code != 0), printed
    assert ("OK" in printed.err.splitlines()[-1]) is False


@pytest.mark.variant
def test_a_terminal_shows_losses_above_the_bar(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", width=100)
    monkeypatch.setattr("lakeaudit.cli.setup.progress", lambda: LiveProgress(console))
    assert cli.main(["scan", str(lake)]) == 1
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert re.search(r"critical a_source: 1 file dropped, 10 rows, 100 B; recoverable: no; ", shown)
    assert shown.index("critical a_source") < shown.index("✓ judge tables")
    assert "critical [bold]markup[.bold]: 1 file dropped" in shown
