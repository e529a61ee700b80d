"""`lakeaudit audit` around the audit itself: what is printed, the status file, the exit code. No JVM."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.commands.audit import EXIT_ORDER, fails, highest
from lakeaudit.commands.status import StatusFile
from lakeaudit.errors import AuditError, Busy, CannotAudit, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import covered, finding, publish, run

Captured = pytest.CaptureFixture[str]
Audit = Callable[..., None]

SUMMARY = {
    "run_id": "r1", "lake": "shop", "status": "complete", "as_of": "2026-11-21T12:00:00Z",
    "started_at": "2026-11-21T12:00:00Z", "finished_at": "2026-11-21T12:00:00Z",
    "tables": {"orders": "complete"}, "sources": [], "coverage": {}, "findings": {}, "severities": {}, "states": {},
    "coverage_lost": 0,
}  # fmt: skip
KEYS = set(SUMMARY)
SESSION = SimpleNamespace(stop=lambda: None)
ENGINE = SimpleNamespace(close=lambda: None)


def ready_engine(_: object, start: Callable[[], object], **__: object) -> SimpleNamespace:
    """Return an engine whose session is ready at once."""
    start()
    return ENGINE


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch, place: Location) -> Audit:
    """Stands in for Spark and the audit: publishes rows of the given kinds, or raises."""
    monkeypatch.setattr("lakeaudit.commands.on_spark._session", lambda *_: SESSION)
    monkeypatch.setattr("lakeaudit.engine.spark.SparkEngine", ready_engine)

    def set_up(
        *kinds: str,
        status: str = "complete",
        code: int = 0,
        error: BaseException | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        rows = [finding(kind, f"k{at}") for at, kind in enumerate(kinds)]
        severities = {row["severity"]: 1 for row in rows}

        def audit(*_: Any, **__: Any) -> Any:
            if error:
                raise error
            publish(place, runs=[run("r1", status)], coverage=[covered()], findings=rows)
            summary = SUMMARY | {
                "status": status,
                "findings": dict.fromkeys(kinds, 1),
                "severities": severities,
            }
            return SimpleNamespace(
                summary=summary,
                run_id="r1",
                status=status,
                exit_code=code,
                tables=(),
                warnings=warnings,
                pressing=severities,
            )

        monkeypatch.setattr("lakeaudit.audit.run.audit", audit)

    return set_up


@pytest.mark.parametrize(
    ("kinds", "code", "options", "expected"),
    [
        ((), 0, [], 0),
        (("hidden",), 0, [], 0),
        (("phantom",), 0, [], 0),
        (("dropped",), 0, [], 1),
        (("dropped",), 0, ["--fail-on", "never"], 0),
        (("phantom",), 0, ["--fail-on", "error"], 1),
        (("hidden",), 0, ["--fail-on", "warning"], 0),
        (("hidden",), 0, ["--fail-on", "info"], 1),
        ((), 3, [], 3),
        (("dropped",), 3, [], 1),
        (("dropped",), 3, ["--fail-on", "never"], 3),
        (("dropped",), 10, [], 10),
    ],
)
def test_exit_codes(
    audited: Audit,
    lake: str,
    kinds: tuple[str, ...],
    code: int,
    options: list[str],
    expected: int,
) -> None:
    audited(*kinds, code=code)
    assert cli.main(["audit", lake, *options]) == expected


def test_the_highest_code_wins_in_the_contracts_order() -> None:
    assert [highest(*EXIT_ORDER[at:]) for at in range(len(EXIT_ORDER))] == list(EXIT_ORDER)
    assert EXIT_ORDER == (2, 70, 14, 13, 12, 11, 10, 1, 3, 0)
    assert not fails({"critical": 0}, "info")


def test_text_for_people_and_the_verdict_last(audited: Audit, capsys: Captured, lake: str) -> None:
    audited("dropped", "hidden")
    cli.main(["audit", lake])
    printed = capsys.readouterr()
    for word in ("Findings", "Worst", "Coverage", "Evidence", "s3://lake/k0"):
        assert word in printed.out
    assert printed.err.splitlines()[-1] == "CRITICAL: 1 file dropped in 1 table"


def test_warnings_of_the_sources_are_printed_before_the_verdict(
    audited: Audit, capsys: Captured, lake: str
) -> None:
    audited(warnings=("columns left out: Moods", "1 file is not a list: a\x1b[2Jb\nc"))
    cli.main(["audit", lake])
    assert capsys.readouterr().err.splitlines()[:2] == [
        "warning: columns left out: Moods",
        "warning: 1 file is not a list: a [2Jb c",
    ]


def test_json_is_the_one_object(audited: Audit, capsys: Captured, lake: str, tmp_path: Path) -> None:
    audited("dropped")
    status = tmp_path / "status.json"
    cli.main(["audit", lake, "--format", "json", "--status-file", str(status)])
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1
    assert json.loads(printed).keys() == KEYS | {"answers", "exit_code", "unaccepted"}
    assert json.loads(printed)["exit_code"] == 1
    assert json.loads(status.read_text()) == json.loads(printed)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            CannotPublish("s3://r", "may not be written", "grant it"),
            14,
            "s3://r: may not be written; grant it",
        ),
        (CannotAudit("Java", "none", "install it"), 10, "Java: none; install it"),
        (Busy("s3://r", "taken", "wait", retryable=True), 13, "s3://r: taken; wait"),
        (RuntimeError("x"), 70, "RuntimeError"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt"),
    ],
)
def test_a_failed_audit_leaves_no_stale_status(
    audited: Audit,
    capsys: Captured,
    lake: str,
    tmp_path: Path,
    error: BaseException,
    code: int,
    told: str,
) -> None:
    status = tmp_path / "status.json"
    status.write_text(json.dumps(SUMMARY))
    audited(error=error)
    assert (
        cli.main(["audit", lake, "--format", "json", "--status-file", str(status), "--run-id", "r7"]) == code
    )
    said = json.loads(status.read_text())
    assert said == json.loads(capsys.readouterr().out)
    assert said.keys() == KEYS | {"answers", "error", "exit_code", "retry", "unaccepted"}
    assert (said["run_id"], said["status"], said["error"], said["exit_code"]) == ("r7", "failed", told, code)
    assert said["retry"] is (code == 13)


def test_the_status_file_says_running_while_it_runs(
    audited: Audit,
    lake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, seen = tmp_path / "status.json", []
    audited()

    def session(*_: Any) -> Any:
        seen.append(json.loads(status.read_text())["status"])
        return SESSION

    monkeypatch.setattr("lakeaudit.commands.on_spark._session", session)
    assert cli.main(["audit", lake, "--status-file", str(status)]) == 0
    assert seen == ["running"]


def test_a_status_file_that_cannot_be_written_is_reported_before_the_audit(
    audited: Audit,
    capsys: Captured,
    lake: str,
) -> None:
    audited(error=AssertionError("must not start"))
    assert cli.main(["audit", lake, "--status-file", "/no/such/folder/status.json"]) == 14
    assert "--status-file" in capsys.readouterr().err.splitlines()[-1]


def test_a_status_file_on_s3(clients: Clients, bucket: str) -> None:
    StatusFile(f"s3://{bucket}/a/status.json", clients).write({"status": "complete"})
    body = clients.s3(bucket).get_object(Bucket=bucket, Key="a/status.json")["Body"].read()
    assert json.loads(body) == {"status": "complete"}
    with pytest.raises(AuditError, match="the bucket does not exist"):
        StatusFile("s3://no-such-bucket-here/status.json", clients).write({})


def test_a_failed_run_is_shown_and_named(audited: Audit, capsys: Captured, lake: str) -> None:
    audited(status="failed", code=10)
    assert cli.main(["audit", lake]) == 10
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert printed.err.splitlines()[-1].startswith("UNDECIDED: ")
