"""`lakeaudit alert` and the end of an audit: messages, the exit code, and that alerts never fail an audit."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.commands.alert import FailedRun, after_audit
from lakeaudit.config import load_lake
from lakeaudit.errors import AuditError, CannotAudit, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import leased
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.catcher import Catcher, catching
from tests.builders.results import covered, discrepancy, finding, lake_file, publish, run, transition

Captured = pytest.CaptureFixture[str]
ROUTE = {"kind": "apprise", "url_env": "RECEIVER"}
LOST = finding("dropped", "orders/lost")


@pytest.fixture
def place(tmp_path: Path) -> Location:
    """Results of a run that has just been published."""
    place = Location.parse(str(tmp_path / "results"))
    now = datetime.now(UTC)
    publish(place, runs=[run(finished_at=now)], coverage=[covered()], discrepancies=[discrepancy(LOST)],
            transitions=[transition(LOST, "opened")])  # fmt: skip
    return place


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catcher]:
    with catching() as caught:
        monkeypatch.setenv("RECEIVER", f"json://127.0.0.1:{caught.port}/")
        monkeypatch.setenv("BEAT", f"{caught.url}/beat")
        yield caught


def alerted(capsys: Captured, file: str) -> tuple[int, str]:
    code = cli.main(["alert", file])
    return code, capsys.readouterr().err.splitlines()[-1]


def test_what_is_due_is_sent_once(
    capsys: Captured, tmp_path: Path, place: Location, receiver: Catcher
) -> None:
    file = lake_file(tmp_path, place, alerts=[ROUTE])
    assert alerted(capsys, file) == (0, "lakeaudit: 1 message sent")
    assert alerted(capsys, file) == (0, "lakeaudit: 0 messages sent")
    (post,) = receiver.posts
    assert f"lakeaudit explain {file} s3://lake/orders/lost" in post["message"]


def test_notices_that_could_not_be_sent_are_reported(
    capsys: Captured, tmp_path: Path, place: Location, receiver: Catcher
) -> None:
    receiver.answer = 500
    code, said = alerted(capsys, lake_file(tmp_path, place, alerts=[ROUTE]))
    assert code == 3
    assert said.startswith(
        "lakeaudit: 0 messages sent; not sent: apprise:RECEIVER: the channel of RECEIVER refused"
    )


def test_nothing_published_is_nothing_to_tell(capsys: Captured, tmp_path: Path, receiver: Catcher) -> None:
    file = lake_file(tmp_path, Location.parse(str(tmp_path / "empty")), alerts=[ROUTE])
    assert alerted(capsys, file) == (0, "lakeaudit: 0 messages sent")
    assert receiver.posts == []


def test_two_rounds_at_once_send_nothing_twice(
    capsys: Captured, tmp_path: Path, place: Location, receiver: Catcher
) -> None:
    file = lake_file(tmp_path, place, alerts=[ROUTE])
    with leased(place, Clients(), "nightly", SilentProgress()):
        code, _ = alerted(capsys, file)
        lake, now = load_lake(file, {}), datetime.now(UTC)
        assert after_audit(lake, file, Clients(), now, pause=lambda _: None) == ()
    assert (code, receiver.posts) == (13, [])


def test_after_an_audit_the_heart_beats_and_failures_are_warnings(
    tmp_path: Path, place: Location, receiver: Catcher
) -> None:
    file = lake_file(tmp_path, place, alerts=[ROUTE], heartbeat_url_env="BEAT")
    lake, now = load_lake(file, {}), datetime.now(UTC)
    assert after_audit(lake, file, Clients(), now) == ()
    assert (receiver.gets, len(receiver.posts)) == (["/beat"], 1)
    assert after_audit(lake, file, Clients(), now, published=False) == ()
    assert len(receiver.gets) == 1
    receiver.answer = 503
    assert after_audit(lake, file, Clients(), now) == (
        "heartbeat not sent: the address of BEAT answered 503",
    )
    (tmp_path / "results" / "runs" / "_delta_log" / f"{0:020}.json").write_text("{")
    warned = after_audit(lake, file, Clients(), now)
    assert warned[0].startswith("alert not sent: ")
    assert "runs" in warned[0]


@pytest.mark.parametrize(
    ("is_readable", "error"),
    [
        pytest.param(
            False, CannotAudit("runs", "the table cannot be read", "check the store"), id="not readable"
        ),
        pytest.param(True, CannotPublish("findings", "the disk is full", "free space"), id="not writable"),
    ],
)
def test_an_audit_that_cannot_use_its_results_sends_a_message_without_them(
    tmp_path: Path, place: Location, receiver: Catcher, *, is_readable: bool, error: AuditError
) -> None:
    file = lake_file(
        tmp_path, place, alerts=[ROUTE], heartbeat_url_env="BEAT", dashboard_url="https://x.example"
    )
    lake, now = load_lake(file, {}), datetime.now(UTC)
    after_audit(lake, file, Clients(), now)
    if not is_readable:
        (tmp_path / "results" / "runs" / "_delta_log" / f"{0:020}.json").write_text("{")
    receiver.posts.clear()
    for _ in range(2):
        after_audit(lake, file, Clients(), now, failed=FailedRun("r9", error))
    post, again = receiver.posts
    assert post["title"].startswith("lakeaudit shop: the audit failed: ")
    assert ("runs" if not is_readable else "findings: the disk is full") in post["title"]
    for words in (
        "sends this message again",
        "What is open in the lake is not known",
        f"lakeaudit doctor {file}",
        "Audit r9",
    ):
        assert words in post["message"]
    assert "page:" not in post["message"], "the dashboard reads the same results"
    assert again["title"] == post["title"], "nothing could be recorded"
    assert len(receiver.gets) == 1, "a failed audit sends no heartbeat"


def test_lineage_says_of_each_table_what_holds(
    tmp_path: Path, place: Location, receiver: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE", f"{receiver.url}/api/v1/lineage")
    publish(place, findings=[LOST], coverage=[
        covered(axis="leftover", status="partial", reason="no inventory", decided_share=None),
        covered(axis="duplicate"), covered(axis="metastore", status="off"), covered("gone"),
    ])  # fmt: skip
    file = lake_file(tmp_path, place, openlineage_url_env="LINEAGE")
    lake, now = load_lake(file, {}), datetime.now(UTC)
    assert after_audit(lake, file, Clients(), now) == ()
    (end,) = receiver.posts
    assert end["eventType"] == "COMPLETE"
    assert end["run"]["facets"]["lakeaudit"]["findings"] == {"critical": 1}
    assert end["job"] == {"namespace": "lakeaudit", "name": "shop", "facets": {}}
    (table,) = end["inputs"]
    assert (table["namespace"], table["name"]) == ("s3://lake", "orders")
    facets = table["inputFacets"]
    assert facets["dataQualityMetrics"].keys() == {"_producer", "_schemaURL", "columnMetrics", "fileCount"}
    told = {each["assertion"]: each["success"] for each in facets["dataQualityAssertions"]["assertions"]}
    assert told == {
        "lakeaudit.content.decided": True, "lakeaudit.content": False,
        "lakeaudit.duplicate.decided": True, "lakeaudit.duplicate": True,
        "lakeaudit.leftover.decided": False,
    }  # fmt: skip
    receiver.answer = 500
    assert after_audit(lake, file, Clients(), now) == (
        "lineage not sent: the address of LINEAGE answered 500",
    )


@pytest.mark.parametrize(
    ("keys", "jobs"),
    [
        ({}, ["shop"]),
        ({"openlineage_tables": False}, ["shop"]),
        ({"openlineage_tables": True}, ["shop", "shop/orders", "shop/events"]),
    ],
)
def test_each_table_has_an_event_of_lineage_on_request(
    tmp_path: Path,
    place: Location,
    receiver: Catcher,
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, bool],
    jobs: list[str],
) -> None:
    monkeypatch.setenv("LINEAGE", f"{receiver.url}/api/v1/lineage")
    publish(place, findings=[LOST], coverage=[covered("events")])
    tables = [
        {"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]}
        for name in ("events", "orders")
    ]
    file = lake_file(tmp_path, place, tables=tables, openlineage_url_env="LINEAGE", **keys)
    lake, now = load_lake(file, {}), datetime.now(UTC)
    assert after_audit(lake, file, Clients(), now) == ()
    whole, *of_tables = receiver.posts
    assert set(receiver.paths) == {"/api/v1/lineage"}
    assert [event["job"]["name"] for event in receiver.posts] == jobs, "the audit, then the worst table"
    assert [table["name"] for table in whole["inputs"]] == ["orders", "events"]
    assert [[table["name"] for table in event["inputs"]] for event in of_tables] == [
        [name.removeprefix("shop/")] for name in jobs[1:]
    ]
    for event in of_tables:
        assert event["run"]["facets"]["parent"]["run"]["runId"] == whole["run"]["runId"]


def test_metrics_say_how_the_lake_stands(capsys: Captured, tmp_path: Path, place: Location) -> None:
    textfile = tmp_path / "lake.prom"
    file = lake_file(tmp_path, place, prometheus_textfile=str(textfile))
    nobody = "no alert was sent: the lake file names no receiver; add `alerts` to it"
    assert alerted(capsys, file) == (0, f"lakeaudit: {nobody}")
    told = dict(line.rsplit(" ", 1) for line in textfile.read_text().splitlines() if line[0] != "#")
    numbers = {name: float(value) for name, value in told.items() if "timestamp" not in name}
    oldest = ("lakeaudit_last_run{", "lakeaudit_open_discrepancies{", "lakeaudit_decided_share{")
    assert {name for name, value in numbers.items() if value and name.startswith(oldest)} == {
        'lakeaudit_last_run{lake="shop",lakeaudit_last_run="complete"}',
        'lakeaudit_open_discrepancies{lake="shop",severity="critical",table="orders"}',
        'lakeaudit_decided_share{axis="content",lake="shop",table="orders"}',
    }
    assert numbers['lakeaudit_open_discrepancies{lake="shop",severity="error",table="orders"}'] == 0
    assert numbers['lakeaudit_open_discrepancies{lake="shop",severity="critical",table="(sources)"}'] == 0
    ended = {float(value) for name, value in told.items() if "timestamp" in name}
    assert len(ended) == 1
    assert datetime.now(UTC).timestamp() - ended.pop() < 60
    assert textfile.stat().st_mode & 0o044 == 0o044


def test_metrics_that_cannot_be_written_are_a_warning(
    capsys: Captured, tmp_path: Path, place: Location
) -> None:
    file = lake_file(tmp_path, place, prometheus_textfile=str(tmp_path / "no" / "lake.prom"))
    code, said = alerted(capsys, file)
    assert (code, "lake.prom cannot be written (No such file or directory)" in said) == (3, True)


def test_an_example_goes_through_each_route_and_its_outcome_is_printed(
    capsys: Captured, tmp_path: Path, place: Location, receiver: Catcher
) -> None:
    routes = [ROUTE | {"tables": ["sales.*"]}, {"kind": "webhook", "url_env": "BEAT"},
              {"kind": "alertmanager", "url_env": "UNSET"}]  # fmt: skip
    file = lake_file(tmp_path, place, alerts=routes)
    assert cli.main(["alert", file, "--test"]) == 3
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "apprise:RECEIVER: the example was sent",
        "webhook:BEAT: the example was sent",
        "alertmanager:UNSET: the variable UNSET is not set",
    ]
    assert printed.err.splitlines()[-1] == "lakeaudit: 2 routes of 3 got the example"
    titles = [post["title"] for post in receiver.posts]
    assert titles == ["lakeaudit shop: TEST: CRITICAL: 1 file dropped in lakeaudit.example"] * 2
    assert "nothing is wrong" in receiver.posts[0]["message"]
    assert not Path(place.join("notices").spark_path).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--route", "RECEIVER"], "--route: works only with --test; add --test"),
        (["--test", "--route", "NOBODY"], "--route NOBODY: the lake file has no such route"),
    ],
)
def test_a_route_that_cannot_be_tried(
    capsys: Captured, tmp_path: Path, place: Location, arguments: list[str], message: str
) -> None:
    file = lake_file(tmp_path, place, alerts=[ROUTE])
    assert cli.main(["alert", file, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_example_at_alertmanager_ends_by_itself(
    capsys: Captured, tmp_path: Path, place: Location, receiver: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANAGER", receiver.url)
    file = lake_file(tmp_path, place, alerts=[{"kind": "alertmanager", "url_env": "MANAGER"}])
    assert cli.main(["alert", file, "--test", "--route", "MANAGER"]) == 0
    ((alert,),) = receiver.posts
    shown = datetime.fromisoformat(alert["endsAt"]) - datetime.fromisoformat(alert["startsAt"])
    assert shown == timedelta(minutes=5)
    assert alert["annotations"]["summary"].startswith("lakeaudit shop: TEST: ")


def test_a_live_audit_of_some_tables_sends_no_heartbeat(
    tmp_path: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"role": "storage", "kind": "s3_inventory", "location": "s3://inv/", "identity": "x", "rows": 7}
    reports = [{"kind": "s3_inventory", "location": "s3://inv/"}]
    file = lake_file(tmp_path, place, heartbeat_url_env="BEAT", inventories=reports)
    later = datetime.now(UTC) + timedelta(hours=1)
    publish(place, runs=[run("night", sources=[report], tables_expected=9, finished_at=later)])
    with catching() as caught:
        monkeypatch.setenv("BEAT", caught.url)
        assert after_audit(load_lake(file, {}), file, Clients(), later) == ()
        assert len(caught.gets) == 1
        later += timedelta(hours=1)
        publish(place, runs=[run("live", tables_expected=1, finished_at=later)])
        assert after_audit(load_lake(file, {}), file, Clients(), later) == ()
        assert len(caught.gets) == 1


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("changes", "has_heartbeat"),
    [
        pytest.param({}, False, id="open"),
        pytest.param({"severity": "critical"}, False, id="critical"),
        pytest.param({"severity": "warning"}, False, id="warning"),
        pytest.param({"ack_until": -DAY}, False, id="no longer accepted"),
        pytest.param({"ack_until": DAY}, True, id="accepted"),
        pytest.param({"severity": "info"}, True, id="info"),
        pytest.param({"state": "resolved", "resolution": "restored"}, True, id="over"),
        pytest.param({"state": "resolved", "resolution": "retired"}, True, id="without its table"),
    ],
)
def test_no_heartbeat_is_sent_while_coverage_is_lost(
    tmp_path: Path, place: Location, receiver: Catcher, changes: dict[str, Any], *, has_heartbeat: bool
) -> None:
    file = lake_file(tmp_path, place, heartbeat_url_env="BEAT")
    lost = finding("coverage_lost", "orders", axis="coverage", subject_type="table", severity="error")
    now = datetime.now(UTC)
    columns = {name: now + value if name == "ack_until" else value for name, value in changes.items()}
    publish(place, runs=[run("r2", finished_at=now)], discrepancies=[discrepancy(lost) | columns])
    warned = after_audit(load_lake(file, {}), file, Clients(), now)
    reason = "no heartbeat was sent, because coverage is lost in 1 table"
    assert (warned, receiver.gets) == (((), ["/beat"]) if has_heartbeat else ((reason,), []))
    assert receiver.posts == []
