"""The messages of a queue: received, hidden while they are decided, deleted afterwards; and queues that fail."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakeaudit.errors import CannotAudit
from lakeaudit.follow import queue as queue_module
from lakeaudit.follow.missing_messages import LAG, MissingMessages
from lakeaudit.follow.queue import PARALLEL, EventQueue
from lakeaudit.follow.sqs import AT_ONCE, open_queue
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.event_queue import ACCOUNT, arn_of, create_queue, following, send, sqs_client
from tests.builders.object_events import notification, record

WINDOW, IDLE = timedelta(seconds=1), timedelta(seconds=1)


def body(key: str) -> str:
    return notification(record("ObjectRemoved:Delete", "lake", key))


@pytest.fixture
def url(s3: Endpoint) -> str:
    return create_queue(s3)


@pytest.fixture
def events(url: str) -> Iterator[EventQueue]:
    with EventQueue.open(following(url), Clients()) as opened:
        yield opened


def keys(events: EventQueue) -> list[str]:
    return sorted(event.key for event in events.collect(WINDOW, IDLE).events)


def test_messages_are_deleted_only_once_they_are_done(s3: Endpoint, url: str, events: EventQueue) -> None:
    send(s3, url, map(body, "abc"))
    batch = events.collect(WINDOW, IDLE)
    assert sorted(event.key for event in batch.events) == ["a", "b", "c"]
    assert batch.oldest < timedelta(seconds=30)
    events.delete([message for message in batch.messages if next(iter(message.parsed.events)).key != "b"])
    events.release(batch.messages)  # as when the process ends: the undecided one is received again
    assert keys(events) == ["b"]


def test_a_message_that_was_received_twice_is_done_twice(s3: Endpoint, url: str, events: EventQueue) -> None:
    send(s3, url, [body("a")])
    first = events.collect(WINDOW, IDLE).messages
    events.release(first)
    second = events.collect(WINDOW, IDLE).messages
    events.delete(second)
    events.delete(first)
    assert events.state().attributes.messages == 0


def test_an_empty_queue_gives_an_empty_batch(events: EventQueue) -> None:
    assert events.collect(WINDOW, IDLE).messages == ()
    assert events.state().attributes.messages == events.state().missing == 0


def test_many_messages_are_received_in_bounded_batches(
    s3: Endpoint, url: str, events: EventQueue, patched: pytest.MonkeyPatch
) -> None:
    patched.setattr(queue_module, "MOST_PARTS", 40)
    send(s3, url, (body(f"{number:03d}") for number in range(60)))
    found: list[str] = []
    while batch := events.collect(WINDOW, IDLE).messages:
        assert len(batch) <= 20 + PARALLEL * AT_ONCE
        found += [event.key for message in batch for event in message.parsed.events]
        events.delete(batch)
    assert {*found} == {
        f"{number:03d}" for number in range(60)
    }  # moto may deliver some twice to parallel requests


def test_a_body_of_256_kilobytes(s3: Endpoint, url: str, events: EventQueue) -> None:
    records = [record("ObjectRemoved:Delete", "lake", f"{number:0200d}") for number in range(320)]
    big = notification(*records)
    assert 200_000 < len(big) < 262_144
    send(s3, url, [big])
    assert len(keys(events)) == 320


def test_messages_stay_hidden_while_they_are_decided(
    s3: Endpoint, url: str, events: EventQueue, patched: pytest.MonkeyPatch
) -> None:
    patched.setattr(queue_module, "HIDDEN", 2)
    send(s3, url, [body("a")])
    batch = events.collect(timedelta(seconds=1), IDLE)  # hidden for 3 seconds
    for seconds in (
        0.8,
        0.8,
        2,
    ):  # in several rounds of which the first two end before a renewal inside of them
        with events.hidden(batch.messages):
            time.sleep(seconds)
    assert keys(events) == []
    assert not any(thread.name == "hidden messages" for thread in threading.enumerate())
    time.sleep(1)
    assert keys(events) == ["a"]


def test_messages_of_other_programs_stay_in_the_queue(s3: Endpoint, url: str, events: EventQueue) -> None:
    send(s3, url, [body("a"), '{"order": 7}', "<xml/>"])
    batch = events.collect(WINDOW, IDLE)
    assert sorted(part.form for part in batch.foreign) == ["not JSON", "unknown message"]
    assert [event.key for event in batch.events] == ["a"]
    events.delete(batch.messages)
    state = events.state().attributes
    assert (state.waiting, state.in_flight) == (0, 2), "set aside, and not deleted"


def test_unknown_events_of_s3_are_reported_and_deleted(s3: Endpoint, url: str, events: EventQueue) -> None:
    send(s3, url, [notification(record("ObjectForgotten:All", "lake", "k"))])
    batch = events.collect(WINDOW, IDLE)
    assert [part.form for part in batch.unknown] == ["unknown event"]
    events.delete(batch.messages)
    assert events.state().attributes.messages == 0


def test_the_dead_letter_queue_gets_messages_of_other_programs(s3: Endpoint) -> None:
    dead = create_queue(s3)
    policy = json.dumps({"deadLetterTargetArn": arn_of(s3, dead), "maxReceiveCount": 1})
    url = create_queue(s3, RedrivePolicy=policy)
    send(s3, url, ["<xml/>"])
    with EventQueue.open(following(url), Clients()) as events:
        assert [part.form for part in events.collect(WINDOW, IDLE).foreign] == ["not JSON"]
        (entry,) = [message for message in [open_queue(following(url), Clients())] if message.url == url]
        assert entry.attributes().most_receives == 1


def test_a_queue_is_found_by_its_arn(s3: Endpoint, url: str) -> None:
    by_arn = following(arn_of(s3, url), endpoint=s3.endpoint)
    assert open_queue(by_arn, Clients()).url == url


def test_a_purged_queue_is_an_evidence_gap(s3: Endpoint, url: str, events: EventQueue) -> None:
    send(s3, url, (body(str(number)) for number in range(30)))
    assert events.state().missing == 0
    sqs_client(s3).purge_queue(QueueUrl=url)
    assert keys(events) == []
    assert [events.state().missing, events.state().missing] == [30, 0]


@pytest.mark.parametrize(
    "name",
    ["https://sqs.us-east-1.amazonaws.com/123456789012/none", "arn:aws:sqs:us-east-1:123456789012:none"],
)
def test_a_queue_that_does_not_exist_ends_with_one_line(s3: Endpoint, name: str) -> None:
    with pytest.raises(CannotAudit, match="the queue does not exist") as error:
        EventQueue.open(following(name, endpoint=s3.endpoint), Clients())
    assert (str(error.value).count("\n"), error.value.retryable) == (0, False)


def test_a_queue_that_is_deleted_meanwhile_ends_with_one_line(
    s3: Endpoint, url: str, events: EventQueue
) -> None:
    sqs_client(s3).delete_queue(QueueUrl=url)
    with pytest.raises(CannotAudit, match="the queue does not exist"):
        events.collect(WINDOW, IDLE)


def test_a_server_that_does_not_listen_is_retryable() -> None:
    with pytest.raises(CannotAudit, match="cannot be reached") as error:
        EventQueue.open(following(f"http://127.0.0.1:9/{ACCOUNT}/q"), Clients())
    assert error.value.retryable


class Ticks:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_deletions_of_this_process_are_not_missing() -> None:
    clock = Ticks()
    missing = MissingMessages(clock)
    assert missing.observe(1_000) == 0
    missing.delete(600)
    clock.now += 60
    assert missing.observe(400) == 0
    clock.now += LAG + 1
    assert missing.observe(400) == 0
    clock.now += 1
    assert missing.observe(0) == 400


def test_numbers_that_lag_are_not_missing() -> None:
    clock = Ticks()
    missing = MissingMessages(clock)
    missing.delete(5_000)
    clock.now += 60
    assert missing.observe(5_000) == 0, "the number is that of before the deletions"
    clock.now += 1
    assert missing.observe(0) == 0


def test_few_missing_messages_are_within_the_error_of_the_numbers() -> None:
    missing = MissingMessages(Ticks())
    assert [missing.observe(15), missing.observe(6)] == [0, 0]


def test_messages_for_the_dead_letter_queue_are_not_missing() -> None:
    missing = MissingMessages(Ticks())
    missing.observe(50)
    missing.excuse(50)
    assert missing.observe(0) == 0
