"""Rounds over real results, to real receivers on this machine: what arrives, once, whatever goes wrong."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email import message_from_string
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import boto3
import pytest
import requests

from lakeaudit.alerts.decide import BOOKKEEPING
from lakeaudit.alerts.dispatch import Round, round_of
from lakeaudit.alerts.message_text import plan_label
from lakeaudit.alerts.new_notices import LATE
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.catcher import Catcher, catching
from tests.builders.chat_schemas import slack_attachments
from tests.builders.results import (
    LAKE,
    NOON,
    covered,
    discrepancy,
    finding,
    lake_file,
    publish,
    run,
    transition,
)

SLACK = {"kind": "apprise", "url_env": "SLACK"}
SUSPECT = "the evidence is suspect: this audit reports no loss of any table, and opened and resolved nothing"
PART = "orders/day=1/part-0.parquet"
COMMAND = f"aws s3api delete-object --bucket lake --key {PART} --version-id m1"
MEANS = "1 file dropped (critical), new: the table lists the file, but storage has no current object for it"
OPS = {"kind": "apprise", "url_env": "OPS", "min_severity": "critical"}
MANAGER = {"kind": "alertmanager", "url_env": "MANAGER"}

LOST = finding(
    "dropped", "orders/day=1/part-0.parquet", partition_path="day=1", rows_at_stake=50, bytes_at_stake=4096,
    recoverable="yes", recoverable_until=NOON + timedelta(days=5), recovery="delete_marker", recovery_version_id="v1",
    storage_version_id="m1",
)  # fmt: skip


@pytest.fixture
def slack() -> Iterator[Catcher]:
    with catching() as caught:
        yield caught


@pytest.fixture
def ops() -> Iterator[Catcher]:
    with catching() as caught:
        yield caught


class Rounds:
    """Rounds of one lake at times of its own."""

    def __init__(
        self, folder: Path, place: Location, env: dict[str, str], alerts: list[dict[str, Any]]
    ) -> None:
        self.file = lake_file(folder, place, alerts=alerts)
        self.place = place
        self.env = env
        self.footer = ""

    def __call__(self, now: datetime = NOON + timedelta(minutes=1)) -> Round:
        lake = load_lake(self.file, {})
        return round_of(AlertContext(lake, "lake.yaml", self.results, Clients(), self.env, now, self.footer))

    @property
    def results(self) -> Results:
        return Results(self.place, Clients(), LAKE)

    def notices(self) -> list[Row]:
        """All rows with a message."""
        return [row for row in self.results.notices() if row["kind"] not in BOOKKEEPING]


def json_url(caught: Catcher) -> str:
    return f"json://127.0.0.1:{caught.port}/"


PLAN = (
    "lakeaudit reconcile plan lake.yaml --table orders --kind dropped --allow restore -o orders.dropped.jsonl"
)


def test_a_message_says_all_that_is_needed_and_comes_once(
    tmp_path: Path, place: Location, slack: Catcher
) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])
    assert [told().sent for _ in range(3)] == [1, 0, 0]
    (post,) = slack.posts
    assert post["title"] == "lakeaudit shop: CRITICAL: 1 file dropped in orders"
    assert post["type"] == "failure"
    assert post["message"].splitlines() == [
        "CRITICAL: 1 file dropped in orders",
        f"  {MEANS}",
        "  at stake: 1 file, 50 rows, 4.0 KiB",
        "  in day=1",
        "  since 2026-11-21 12:00:00Z; cause not known",
        "  recoverable: yes, until 2026-11-26 12:00:00Z",
        "  more: lakeaudit explain lake.yaml s3://lake/orders/day=1/part-0.parquet",
        (
            "  first answer: Did somebody remove it on purpose? If so, do not restore: "
            "accept the loss (lakeaudit ack). "
            "Without --allow restore, the plan below repairs 0 of 1 lost or changed file."
        ),
        f"  {plan_label(PLAN)}: {PLAN}",
        "",
        "Open in the lake and not accepted: 1 critical in 1 table (orders)",
        "List all: lakeaudit discrepancies lake.yaml",
        "This is not reported again unless it changes",
        "Audit r1",
    ]
    (notice,) = told.notices()
    assert (notice["status"], notice["attempts"], notice["discrepancies"]) == ("sent", 1, 1)


def test_a_message_without_keys(tmp_path: Path, place: Location, slack: Catcher) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK | {"redact": True}])()
    (post,) = slack.posts
    assert "part-0" not in post["message"]
    assert "day=1" not in post["message"]
    assert "more: lakeaudit findings lake.yaml --run-id r1 --kind dropped --table orders" in post["message"]


@pytest.mark.parametrize(
    "trouble", ["answers 500", "hangs", "is not there", "has no variable", "has a bad address"]
)
def test_a_receiver_that_fails_hides_no_other_and_is_tried_again(
    tmp_path: Path, place: Location, slack: Catcher, ops: Catcher, trouble: str
) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    env = {"SLACK": json_url(slack), "OPS": json_url(ops)}
    broken = dict(env)
    match trouble:
        case "answers 500":
            slack.answer = 500
        case "hangs":
            slack.hangs = threading.Event()
        case "is not there":
            broken["SLACK"] = "json://127.0.0.1:1/"
        case "has no variable":
            del broken["SLACK"]
        case "has a bad address":
            broken["SLACK"] = "hunter2"
    first = Rounds(tmp_path, place, broken, [SLACK, OPS])()
    assert (first.sent, len(first.failures), len(ops.posts)) == (1, 1, 1)
    assert first.failures[0].startswith("apprise:SLACK: ")
    assert "127.0.0.1" not in first.failures[0]
    assert "hunter2" not in first.failures[0]

    slack.answer = 200
    if slack.hangs is not None:
        slack.hangs.set()
        slack.hangs = None
    slack.posts.clear()
    told = Rounds(tmp_path, place, env, [SLACK, OPS])
    assert (told().sent, len(slack.posts), len(ops.posts)) == (1, 1, 1)
    assert sorted((row["status"], row["attempts"]) for row in told.notices()) == [("sent", 1), ("sent", 2)]


def test_a_round_that_was_killed_before_it_wrote_anything_or_sent_it_loses_nothing(
    tmp_path: Path, place: Location, slack: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])
    for at in ("replace", "update"):
        with monkeypatch.context() as killing:
            killing.setattr(f"lakeaudit.results.delta_writer.{at}", _killed)
            if at == "update":
                killing.setattr("lakeaudit.alerts.deliver.AppriseChannel.send", _killed)
            with pytest.raises(KeyboardInterrupt):
                told()
    assert told().sent == 1
    assert len(slack.posts) == 1


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_old_and_unfinished_runs_make_no_notices(tmp_path: Path, place: Location, slack: Catcher) -> None:
    old = run("r0", "failed", finished_at=NOON - LATE)
    publish(place, runs=[old, run(status="running")], discrepancies=[discrepancy(LOST)],
            transitions=[transition(LOST, "opened")])  # fmt: skip
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])
    assert told().sent == 0


UNTIL_THEN = "Until then check important tables without it: lakeaudit audit lake.yaml --live --table TABLE"


def test_trouble_of_audits_is_reported_once_and_so_is_its_end(
    tmp_path: Path, place: Location, slack: Catcher
) -> None:
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])
    hour = timedelta(hours=1)
    for number, status in enumerate(("suspect", "suspect", "complete", "complete")):
        publish(
            place, runs=[run(f"r{number}", status, finished_at=NOON + number * hour, error="half is missing")]
        )
        told(NOON + number * hour + hour / 2)
    assert [post["message"].splitlines() for post in slack.posts] == [
        [
            SUSPECT,
            "  half is missing",
            f"  do: find out why the evidence lacks files that storage has: lakeaudit doctor lake.yaml. {UNTIL_THEN}",
            "",
            "Known from the last audit that worked: no open discrepancy",
            "This is not reported again unless it changes",
            "Audit r0",
        ],
        [
            "audits work again: the audit r2 ended at 2026-11-21 14:00:00Z",
            "",
            "Nothing is open in the lake",
            "Audit r2",
        ],
    ]
    late = NOON + timedelta(hours=40)
    assert [told(late).sent, told(late + hour).sent] == [1, 0]
    assert "no audit was published" in slack.posts[-1]["title"]
    assert "the last one was published 2026-11-21 15:00:00Z" in slack.posts[-1]["message"]


def test_open_discrepancies_are_repeated_if_the_route_has_repeat(
    tmp_path: Path, place: Location, slack: Catcher, ops: Catcher
) -> None:
    """Nights with a loss that nobody repairs, until somebody accepts it."""
    day = timedelta(days=1)
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    told = Rounds(
        tmp_path, place, {"SLACK": json_url(slack), "OPS": json_url(ops)}, [SLACK | {"repeat": "2d"}, OPS]
    )
    told()
    for night in range(1, 7):
        publish(place, runs=[run(f"r{night}", finished_at=NOON + night * day)])
        told(NOON + night * day + timedelta(minutes=1))
    titles = [post["title"].partition(": ")[2] for post in slack.posts]
    assert titles == [
        "CRITICAL: 1 file dropped in orders",
        *["STILL OPEN: CRITICAL: 1 file dropped in orders"] * 3,
    ]
    assert "1 file dropped (critical), still open: the table lists the file" in slack.posts[-1]["message"]
    closing = [post["message"].splitlines()[-2] for post in slack.posts]
    assert closing == [
        "This is reported every 2 d until it is over",
        *["This is a reminder: it is reported every 2 d until it is over"] * 3,
    ]
    assert len(ops.posts) == 1
    shutil.rmtree(tmp_path / "results" / "discrepancies")
    accepted = discrepancy(LOST, ack_until=NOON + 99 * day)
    publish(place, runs=[run("r8", finished_at=NOON + 8 * day)], discrepancies=[accepted])
    assert told(NOON + 8 * day + timedelta(minutes=1)).sent == 0


@pytest.mark.parametrize(("killed", "well"), [(f"{one}1", f"{two}2") for one in "abz" for two in "ay"])
def test_of_two_runs_told_in_one_round_the_later_one_counts(
    tmp_path: Path, place: Location, slack: Catcher, killed: str, well: str
) -> None:
    """For any ids, the end of the first failure is reported first, and then the next failure."""
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])
    hour = timedelta(hours=1)
    told(NOON - hour)  # the route is known before
    publish(place, runs=[run(killed, "failed", finished_at=NOON), run(well, finished_at=NOON + hour)])
    slack.answer = 500
    told(NOON + hour)
    slack.answer = 200
    slack.posts.clear()
    told(NOON + 2 * hour)
    (post,) = slack.posts
    again = f"lakeaudit shop: audits work again: the audit {well} ended at 2026-11-21 13:00:00Z"
    again += "; not reported until now: the audit failed"
    assert (post["title"], post["type"]) == (again, "success")
    assert "Earlier notice, not delivered until now: the audit failed" in post["message"]
    publish(place, runs=[run("again", "failed", finished_at=NOON + 3 * hour)])
    assert told(NOON + 4 * hour).sent == 1


def test_reminders_of_two_receivers_do_not_disturb_each_other(
    tmp_path: Path, place: Location, slack: Catcher, ops: Catcher
) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    routes = [SLACK | {"repeat": "6h"}, OPS | {"repeat": "4h"}]
    told = Rounds(tmp_path, place, {"SLACK": json_url(slack), "OPS": json_url(ops)}, routes)
    for hour in range(14):
        told(NOON + timedelta(hours=hour))
    assert (len(slack.posts), len(ops.posts)) == (1 + 2, 1 + 3)


def test_a_mass_loss_is_one_message(tmp_path: Path, place: Location, slack: Catcher) -> None:
    rows = [finding("dropped", f"orders/{n}") for n in range(200)]
    lacks = "mass loss: s3_inventory s3://inv lacks 200 of 500 files of orders"
    words = f"{lacks}, and a live check of 200 found 200 missing"
    publish(
        place, runs=[run()], coverage=[covered(reason=words)], discrepancies=[discrepancy(row) for row in rows],
        transitions=[transition(row, "opened") for row in rows],
    )  # fmt: skip
    Rounds(tmp_path, place, {"SLACK": json_url(slack)}, [SLACK])()
    (post,) = slack.posts
    assert post["title"] == "lakeaudit shop: MASS LOSS: CRITICAL: 200 files dropped in orders"
    assert words in post["message"]


def test_a_topic_gets_it(
    tmp_path: Path, place: Location, s3: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: Any = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", str(s3.endpoint))
    sns, sqs = boto3.client("sns", **at), boto3.client("sqs", **at)
    topic = sns.create_topic(Name="audit")["TopicArn"]
    queue = sqs.create_queue(QueueName="audit")["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:audit")
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    missing = {"kind": "sns", "topic_arn": f"{topic}-of-nobody"}
    done = Rounds(tmp_path, place, {}, [{"kind": "sns", "topic_arn": topic}, missing])()
    assert (done.sent, len(done.failures)) == (1, 1)
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sent = json.loads(message["Body"])
    assert sent["Subject"] == "lakeaudit shop: CRITICAL: 1 file dropped in orders"
    assert "lakeaudit explain lake.yaml s3://lake/orders/day=1/part-0.parquet" in sent["Message"]


def test_pagerduty_opens_one_incident_a_table_and_resolves_it(
    tmp_path: Path, place: Location, ops: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    monkeypatch.setitem(pagerduty.PAGERDUTY_API_LOOKUP, pagerduty.PagerDutyRegion.US, f"{ops.url}/v2/enqueue")
    stray = finding("uncommitted", "events/x", table_name="events")
    found = [LOST, stray]
    publish(place, runs=[run()], discrepancies=[discrepancy(row) for row in found],
            transitions=[transition(row, "opened") for row in found])  # fmt: skip
    told = Rounds(
        tmp_path,
        place,
        {"PAGER": "pagerduty://integrationkey@apikey"},
        [{"kind": "apprise", "url_env": "PAGER"}],
    )
    assert told().sent == 2
    shutil.rmtree(Path(place.join("discrepancies").spark_path))
    publish(place, runs=[run("r2", finished_at=NOON + timedelta(hours=1))],
            discrepancies=[discrepancy(LOST, "resolved", last_run_id="r2"), discrepancy(stray)],
            transitions=[transition(LOST, "resolved", run_id="r2", transition_id="t2")])  # fmt: skip
    assert told(NOON + timedelta(hours=2)).sent == 1
    done: dict[str, list[str]] = {}
    for post in ops.posts:
        done.setdefault(post["dedup_key"], []).append(post["event_action"])
    assert sorted(done.values()) == [["trigger"], ["trigger", "resolve"]]
    assert "CRITICAL: 1 file dropped in orders" in json.dumps(ops.posts)


def test_what_a_reader_of_slack_and_mail_sees(
    tmp_path: Path, place: Location, monkeypatch: pytest.MonkeyPatch, ops: Catcher
) -> None:
    """Slack fails at first: its next message says what is now, and then what could not be delivered before."""
    from apprise.plugins import slack

    mails: list[str] = []
    server = MagicMock(**{"return_value.sendmail.side_effect": lambda _from, _to, mail: mails.append(mail)})
    monkeypatch.setattr("smtplib.SMTP", server)
    monkeypatch.setattr(slack.NotifySlack, "webhook_url", f"{ops.url}/services")
    ops.answer, ops.body = 500, b"ok"
    env = {"SLACK": f"slack://T1JJ3T3L2/A1BRTD4JD/{'s' * 24}/#data", "OPS": "mailto://u:p@example.com"}
    told = Rounds(tmp_path, place, env, [SLACK, OPS])
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    assert told().sent == 1
    shutil.rmtree(Path(place.join("discrepancies").spark_path))
    publish(place, runs=[run("r2", finished_at=NOON + timedelta(hours=1))],
            discrepancies=[discrepancy(LOST, "resolved", last_run_id="r2", resolution="restored")],
            transitions=[transition(LOST, "resolved", run_id="r2", transition_id="t2")])  # fmt: skip
    ops.posts.clear()
    ops.answer = 200
    assert told(NOON + timedelta(hours=2)).sent == 2
    ((shown,),) = [post["attachments"] for post in ops.posts]
    assert [shown] == slack_attachments(*ops.posts)
    assert (shown["title"], shown["footer"]) == (
        "lakeaudit shop: RESOLVED: 1 file dropped in orders",
        "lakeaudit",
    )
    assert shown["text"].split("\n\n")[0].splitlines() == [
        "RESOLVED: 1 file dropped in orders",
        "  1 file dropped resolved: the file is back, and all sources agree again",
        "  in day=1",
        "  known since 2026-11-21 12:00:00Z",
    ]
    assert "Earlier notice, not delivered until now: CRITICAL: 1 file dropped in orders\n" in shown["text"]
    read = [message_from_string(mail) for mail in mails]
    assert [(mail["From"], mail["Subject"]) for mail in read] == [
        ("lakeaudit <u@example.com>", f"lakeaudit shop: {line} in orders")
        for line in ("CRITICAL: 1 file dropped", "RESOLVED: 1 file dropped")
    ]
    assert [mail.get_content_type() for mail in read] == ["text/plain"] * 2
    lines = read[0].get_payload(decode=True).splitlines()  # type: ignore[union-attr]
    assert lines[:2] == [b"CRITICAL: 1 file dropped in orders", f"  {MEANS}".encode()]


@contextmanager
def alertmanager(folder: Path, to: Catcher) -> Iterator[str]:
    """Debian's Alertmanager on a free port, telling a catcher at once."""
    (folder / "am.yml").write_text(
        "route: {receiver: hook, group_by: [table], group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: '{to.url}', send_resolved: true}}]}}]\n"
    )
    with catching() as free:
        port = free.port
    command = ["prometheus-alertmanager", f"--config.file={folder}/am.yml", f"--storage.path={folder}/am",
               f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=5).ok)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _until(holds: Any) -> None:
    for _ in range(200):
        try:
            if holds():
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.05)
    pytest.fail("it never came")


@pytest.mark.skipif(shutil.which("prometheus-alertmanager") is None, reason="no Alertmanager on this machine")
def test_alertmanager_opens_and_resolves(tmp_path: Path, place: Location, ops: Catcher) -> None:
    from datetime import UTC

    now = datetime.now(UTC)
    publish(place, runs=[run(finished_at=now)], discrepancies=[discrepancy(LOST)],
            transitions=[transition(LOST, "opened")])  # fmt: skip
    with alertmanager(tmp_path, ops) as url:
        told = Rounds(tmp_path, place, {"MANAGER": url}, [MANAGER])
        assert told(now).sent == 1
        _until(lambda: ops.posts)
        shutil.rmtree(Path(place.join("discrepancies").spark_path))
        publish(place, runs=[run("r2", finished_at=datetime.now(UTC))],
                discrepancies=[discrepancy(LOST, "resolved", last_run_id="r2")],
                transitions=[transition(LOST, "resolved", run_id="r2", transition_id="t2")])  # fmt: skip
        assert told(datetime.now(UTC)).sent == 1
        _until(lambda: len(ops.posts) > 1)
    opened, closed = (post["alerts"][0] for post in ops.posts[:2])
    assert (opened["status"], closed["status"]) == ("firing", "resolved")
    assert opened["labels"] == closed["labels"]
    assert opened["labels"]["table"] == "orders"
    assert "1 file dropped in orders" in opened["annotations"]["summary"]
