"""Alerts of kind webhook: a JSON document to a real server on loopback, signed, bounded, no secrets in errors."""

import base64
import hashlib
import hmac
import json
import logging
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lakeaudit.alerts import deliver, webhook
from lakeaudit.alerts.deliver import CannotDeliver, channel
from lakeaudit.config import WebhookAlert
from lakeaudit.documents import document_schema
from lakeaudit.keys import Location
from lakeaudit.results.summaries.change_summary import MOST_IDS
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.catcher import Catcher, catching
from tests.builders.results import NOON, discrepancy, finding, publish, run, transition
from tests.unit.alerts.test_alerts_rounds import LOST, Rounds

HOOK = {"kind": "webhook", "url_env": "HOOK"}
SECRET = "hush4711"
DELETE = "aws s3api delete-object --bucket lake --key orders/day=1/part-0.parquet --version-id m1"


@pytest.fixture
def hook() -> Iterator[Catcher]:
    with catching() as caught:
        yield caught


@pytest.fixture
def damaged(place: Location) -> Location:
    publish(place, runs=[run()], discrepancies=[discrepancy(LOST)], transitions=[transition(LOST, "opened")])
    return place


def rounds(folder: Path, place: Location, hook: Catcher, **more: Any) -> Rounds:
    return Rounds(folder, place, {"HOOK": f"{hook.url}/{SECRET}", "KEY": "key"}, [HOOK | more])


def test_a_program_gets_all_that_it_needs_once(tmp_path: Path, damaged: Location, hook: Catcher) -> None:
    told = rounds(tmp_path, damaged, hook)
    told.footer = "Run commands on etl-1, where the lake file has this path"
    assert [told().sent for _ in range(3)] == [1, 0, 0]
    (post,) = hook.posts
    Draft202012Validator(document_schema("webhook")).validate(post)
    (notice,) = post["notices"]
    assert {
        name: post[name] for name in ("version", "lake", "sent_at", "severity", "title", "more_notices")
    } == {
        "version": 1,
        "lake": "shop",
        "sent_at": "2026-11-21T12:01:00Z",
        "severity": "critical",
        "title": "lakeaudit shop: CRITICAL: 1 file dropped in orders",
        "more_notices": 0,
    }
    assert post["open"] == {"critical": 1, "error": 0, "warning": 0, "info": 0}
    assert post["commands_place"] == told.footer
    (stored,) = told.notices()
    assert (notice["id"], stored["status"]) == (stored["notice_id"], "sent")
    assert {name: notice[name] for name in ("kind", "run_id", "severity", "table", "resolved", "late", "reason")} == {
        "kind": "discrepancies", "run_id": "r1", "severity": "critical", "table": "orders", "resolved": False,
        "late": False, "reason": None,
    }  # fmt: skip
    assert notice["changes"] == [
        {
            "transition": "opened",
            "kind": "dropped",
            "severity": "critical",
            "discrepancies": 1,
            "discrepancy_ids": ["d-orders/day=1/part-0.parquet"],
            "resolution": None,
            "files": 1,
            "rows": 50,
            "bytes": 4096,
            "recoverable": {"yes": 1},
            "recoverable_until": "2026-11-26T12:00:00Z",
            "since": "2026-11-21T12:00:00Z",
            "since_newest": "2026-11-21T12:00:00Z",
            "cause": None,
            "causes": {},
            "needs_allow": 1,
            "explanation": None,
            "partitions": ["day=1"],
            "more_partitions": 0,
            "advice": None,
            "question": "Did somebody remove it on purpose? If so, do not restore: accept the loss (lakeaudit ack). "
            "Without --allow restore, the plan below repairs 0 of 1 lost or changed file.",
            "commands": {
                "show": "lakeaudit explain lake.yaml s3://lake/orders/day=1/part-0.parquet",
                "repair": "lakeaudit reconcile plan lake.yaml --table orders --kind dropped --allow restore"
                " -o orders.dropped.jsonl",
                "recover": None,
            },
        }
    ]
    ((_, headers),) = hook.raw
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"] == "lakeaudit"
    assert "x-lakeaudit-signature" not in headers


def test_a_redacted_document_has_no_key_and_no_partition(
    tmp_path: Path, damaged: Location, hook: Catcher
) -> None:
    stray = finding("uncommitted", "events/x=7/part-9", table_name="events", partition_path="x=7")
    publish(
        damaged,
        discrepancies=[discrepancy(stray)],
        transitions=[transition(stray, "opened", transition_id="t2")],
    )
    rounds(tmp_path, damaged, hook, redact=True)()
    changes = [change for notice in hook.posts[0]["notices"] for change in notice["changes"]]
    assert [(change["partitions"], change["more_partitions"]) for change in changes] == [([], 1), ([], 1)]
    for change in changes:
        del change["discrepancy_ids"]  # digests; those of these tests hold the key
    assert not [word for word in ("part-", "day=1", "x=7") if word in json.dumps(changes)]
    assert changes[0]["commands"]["show"] == (
        "lakeaudit findings lake.yaml --run-id r1 --kind dropped --table orders"
    )


def test_the_signature_is_that_of_the_bytes(tmp_path: Path, damaged: Location, hook: Catcher) -> None:
    rounds(tmp_path, damaged, hook, secret_env="KEY")()
    ((body, headers),) = hook.raw
    assert headers["x-lakeaudit-signature"] == f"sha256={hmac.new(b'key', body, hashlib.sha256).hexdigest()}"


FAULTS = [
    # what the receiver does, why it fails
    ("answers 400", "the address of HOOK answered 400"),
    ("answers 500", "the address of HOOK answered 500"),
    ("redirects 302", "the address of HOOK answered 302"),
    ("redirects 307", "the address of HOOK answered 307"),
    ("hangs", "the address of HOOK did not answer (ReadTimeoutError)"),
    ("is not there", "the address of HOOK did not answer (NewConnectionError)"),
    ("has another scheme", "the variable HOOK holds no address of http or https"),
    ("has a bad address", "the address of HOOK did not answer (LocationParseError)"),
    ("has no variable", "the variable HOOK is not set"),
    ("has no secret", "the variable KEY is not set"),
]


@pytest.mark.parametrize(("fault", "why"), FAULTS)
def test_a_failure_is_one_line_without_secrets_and_the_next_round_sends_the_same(
    tmp_path: Path, damaged: Location, hook: Catcher, fault: str, why: str,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(deliver, "PATIENCE", (1.0, 0.3))
    told, word = rounds(tmp_path, damaged, hook, secret_env="KEY"), fault.rpartition(" ")[2]
    env = dict(told.env)
    with catching() as other:
        match fault:
            case "hangs":
                hook.hangs = threading.Event()
            case "is not there":
                told.env["HOOK"] = f"http://127.0.0.1:1/{SECRET}"
            case "has another scheme":
                told.env["HOOK"] = f"slack://{SECRET}"
            case "has a bad address":
                told.env["HOOK"] = f"http://[{SECRET}"
            case "has no variable":
                del told.env["HOOK"]
            case "has no secret":
                del told.env["KEY"]
            case _:
                hook.answer = int(word)
                hook.location = f"{other.url}/elsewhere"
        failed = told()
        assert (failed.sent, failed.failures) == (0, (f"webhook:HOOK: {why}",))
        assert (other.posts, other.gets) == ([], [])
    (row,) = told.notices()
    assert (row["status"], row["error"]) == ("failed", why)
    assert SECRET not in f"{row} {caplog.text}"

    if hook.hangs:
        hook.hangs.set()
    hook.hangs, hook.answer, hook.location = None, 200, ""
    first = [post["notices"] for post in hook.posts]
    hook.posts.clear()
    told.env = env
    assert [told().sent for _ in range(2)] == [1, 0]
    assert [post["notices"] for post in hook.posts] == first[:1] or not first
    assert [(row["status"], row["attempts"]) for row in told.notices()] == [("sent", 2)]


@pytest.mark.parametrize(
    ("busy", "wait", "requests", "sent"),
    [
        ([429], "0", 2, 1),
        ([503, 429], "0", 3, 1),
        ([429], "1", 2, 1),
        ([429] * 3, "0", 3, 0),
        ([429], "3600", 1, 0),
        ([429], "", 1, 0),
        ([429], "soon", 1, 0),
        ([500], "0", 1, 0),
    ],
    ids=["once", "twice", "a second", "always", "an hour", "without a time", "no time", "another fault"],
)
def test_a_busy_receiver_gets_the_message_after_the_wait_that_it_asks_for(
    tmp_path: Path, damaged: Location, hook: Catcher, busy: list[int], wait: str, requests: int, sent: int
) -> None:
    hook.busy, hook.retry_after = [*busy], wait
    webhook_rounds = rounds(tmp_path, damaged, hook)
    assert (webhook_rounds().sent, len(hook.posts)) == (sent, requests)
    assert webhook_rounds().sent == 1 - sent, "a later round sends it"


def test_a_receiver_that_fails_for_an_hour_gets_the_message_once(
    tmp_path: Path, damaged: Location, hook: Catcher
) -> None:
    webhook_rounds, hook.answer = rounds(tmp_path, damaged, hook), 500
    times = [NOON + timedelta(minutes=minute) for minute in range(1, 90, 10)]
    assert [webhook_rounds(at).sent for at in times[:6]] == [0] * 6
    hook.answer = 200
    hook.posts.clear()
    assert [webhook_rounds(at).sent for at in times[6:]] == [1, 0, 0]
    assert len(hook.posts) == 1


def test_the_user_of_an_address_is_sent_as_basic_auth(
    tmp_path: Path, damaged: Location, hook: Catcher
) -> None:
    told = rounds(tmp_path, damaged, hook)
    told.env["HOOK"] = f"http://me:p%40ss@127.0.0.1:{hook.port}/"
    assert told().sent == 1
    assert hook.raw[0][1]["authorization"] == f"Basic {base64.b64encode(b'me:p@ss').decode()}"


def test_a_resolved_table_and_an_undelivered_notice_are_marked(
    tmp_path: Path, damaged: Location, hook: Catcher
) -> None:
    told = rounds(tmp_path, damaged, hook)
    hook.answer = 500
    assert told().sent == 0
    shutil.rmtree(Path(damaged.join("discrepancies").spark_path))
    publish(damaged, runs=[run("r2", finished_at=NOON + timedelta(hours=1))],
            discrepancies=[discrepancy(LOST, "resolved", last_run_id="r2", resolution="restored")],
            transitions=[transition(LOST, "resolved", run_id="r2", transition_id="t2")])  # fmt: skip
    hook.answer = 200
    hook.posts.clear()
    assert told(NOON + timedelta(hours=2)).sent == 1
    (post,) = hook.posts
    said = [(each["run_id"], each["late"], each["resolved"]) for each in post["notices"]]
    assert said == [("r2", False, True), ("r1", True, False)]
    assert post["notices"][0]["changes"][0]["resolution"] == "restored"
    assert post["notices"][0]["changes"][0]["commands"] == {"show": None, "repair": None, "recover": None}
    assert (post["severity"], post["open"]["critical"]) == ("info", 0)


def test_trouble_of_an_audit_has_a_reason_and_no_table(
    tmp_path: Path, place: Location, hook: Catcher
) -> None:
    publish(place, runs=[run("r1", "suspect", error="half\nis <missing>")])
    rounds(tmp_path, place, hook)()
    Draft202012Validator(document_schema("webhook")).validate(hook.posts[0])
    (notice,) = hook.posts[0]["notices"]
    assert (notice["kind"], notice["table"], notice["reason"]) == (
        "audit_suspect",
        None,
        "half\nis <missing>",
    )
    assert (notice["severity"], notice["changes"]) == ("critical", [])


def test_a_document_is_bounded(
    tmp_path: Path, place: Location, hook: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document describes 12 tables, if they fit, and names 10 discrepancies of a kind; the rest is counted."""
    rows = [
        finding("dropped", f"t{n}/{'k' * 900}{i}", table_name=f"t{n:02}")
        for n in range(15)
        for i in range(25)
    ]
    publish(place, runs=[run()], discrepancies=[discrepancy(row) for row in rows],
            transitions=[transition(row, "opened") for row in rows])  # fmt: skip
    rounds(tmp_path, place, hook)()
    (post,) = hook.posts
    assert (len(post["notices"]), post["more_notices"]) == (12, 3)
    (change,) = post["notices"][0]["changes"]
    assert (change["discrepancies"], len(change["discrepancy_ids"])) == (25, MOST_IDS)
    assert len(hook.raw[0][0]) < webhook.LARGEST

    monkeypatch.setattr(webhook, "LARGEST", 40_000)
    shutil.rmtree(Path(place.join("notices").spark_path))
    rounds(tmp_path, place, hook)()
    small = hook.posts[1]
    assert 0 < len(small["notices"]) < 12
    assert len(small["notices"]) + small["more_notices"] == 15
    assert len(hook.raw[1][0]) <= 40_000


def test_hostile_names_stay_text(tmp_path: Path, place: Location, hook: Catcher) -> None:
    odd = 'orders/\x1b[31m\n"},<!channel>\u202e/part'
    row = finding("dropped", odd, partition_path='"}\n=<@x>')
    publish(place, runs=[run()], discrepancies=[discrepancy(row)], transitions=[transition(row, "opened")])
    rounds(tmp_path, place, hook)()
    body = hook.raw[0][0]
    assert body.isascii()
    assert b"\n" not in body
    (change,) = hook.posts[0]["notices"][0]["changes"]
    assert change["partitions"] == ['"}\n=<@x>']
    assert change["commands"]["show"].startswith("lakeaudit findings "), "no command holds such a key"


@pytest.mark.parametrize(("env", "why"), [({}, "HOOK is not set"), ({"HOOK": "ftp://x"}, "holds no address")])
def test_a_route_that_cannot_work_is_known_before_a_message(env: dict[str, str], why: str) -> None:
    with pytest.raises(CannotDeliver, match=why):
        channel(WebhookAlert(kind="webhook", url_env="HOOK"), env, Clients())
