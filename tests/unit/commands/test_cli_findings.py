"""`lakeaudit findings` after a run that failed: its output states the cause."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.explain.formats.registry import FORMATS
from lakeaudit.keys import Location
from tests.builders.results import NOON, covered, finding, lake_file, publish, run

Captured = pytest.CaptureFixture[str]
Row = dict[str, Any]
LATER = NOON.replace(hour=13)
CAUSE = "s3://inventories/shop: no report is complete"


def failed(**given: Any) -> Row:
    times: Row = {"as_of": LATER, "started_at": LATER, "finished_at": LATER}
    return run("r2", "failed", **{"error": CAUSE} | times | given)


def early(**given: Any) -> Row:
    """A run that failed before it wrote findings."""
    return failed(tables_audited=None, **given)


LOST = finding("dropped", "orders/a", "r2")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("runs", "rows", "code", "line"),
    [
        ([run(), early()], [], 0, f"the newer run r2 failed: {CAUSE}"),
        ([run(), failed()], [LOST], 0, f"the run r2 failed: {CAUSE}"),
        ([failed()], [], 0, f"the run r2 failed: {CAUSE}"),
        ([failed(error=None)], [], 0, "the run r2 failed: the cause is not known"),
        ([early()], [], 10, f"holds no finished audit; the run r2 failed: {CAUSE}"),
        ([early(error=None)], [], 10, "holds no finished audit; the run r2 failed: the cause is not known"),
    ],
)
def test_the_output_states_why_the_last_run_failed(
    capsys: Captured, tmp_path: Path, place: Location, runs: list[Row], rows: list[Row], code: int, line: str,
    name: str,
) -> None:  # fmt: skip
    publish(place, runs=runs, coverage=[covered()], findings=rows)
    assert cli.main(["findings", lake_file(tmp_path, place), "--format", name]) == code
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("name", ["github", "junit", "markdown", "sarif"])
def test_a_document_of_a_failed_run_states_the_cause(
    capsys: Captured, tmp_path: Path, place: Location, name: str
) -> None:
    publish(place, runs=[failed(error="no report is complete")], findings=[LOST])
    assert cli.main(["findings", lake_file(tmp_path, place), "--format", name]) == 0
    assert "the audit is failed: no report is complete" in capsys.readouterr().out


def test_a_failed_run_without_findings_states_its_cause_if_it_is_requested(
    capsys: Captured, tmp_path: Path, place: Location
) -> None:
    publish(place, runs=[run(), early()], coverage=[covered()])
    assert cli.main(["findings", lake_file(tmp_path, place), "--run-id", "r2"]) == 2
    assert f"that run is failed: it published nothing; its error: {CAUSE}" in capsys.readouterr().err


@pytest.mark.parametrize("runs", [[early], [failed], [run, early], [run, failed]])
def test_a_cause_cannot_change_the_terminal(
    capsys: Captured, tmp_path: Path, place: Location, runs: list[Callable[..., Row]]
) -> None:
    *before, last = runs
    publish(place, runs=[*(each() for each in before), last(error="no report\x1b[31m\x07\nis complete")],
            coverage=[covered()])  # fmt: skip
    cli.main(["findings", lake_file(tmp_path, place)])
    printed = capsys.readouterr().err
    assert "failed: no report" in printed
    assert {"\x1b", "\x07"}.isdisjoint(printed)


@pytest.mark.parametrize("status", ["complete", "partial"])
def test_a_run_that_did_not_fail_has_no_such_line(
    capsys: Captured, tmp_path: Path, place: Location, status: str
) -> None:
    publish(place, runs=[early(finished_at=NOON, started_at=NOON, as_of=NOON), run("r3", status, finished_at=LATER)],
            coverage=[covered(run_id="r3")])  # fmt: skip
    assert cli.main(["findings", lake_file(tmp_path, place)]) == 0
    assert "r2" not in capsys.readouterr().err
