"""The events in the bodies of messages, in every form in which S3 sends them, and in forms that nobody sends."""

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.follow.events import ObjectEvent, events_of
from tests.builders.object_events import bridged, notification, record, through_sns

AT = datetime.fromisoformat("2026-11-28T07:36:02.123")


def only(body: str | bytes) -> ObjectEvent:
    parsed = events_of(body)
    assert not parsed.unknown
    (event,) = parsed.events
    return event


def forms(body: str | bytes) -> list[str]:
    parsed = events_of(body)
    assert not parsed.events
    return [part.form for part in parsed.unknown]


def test_every_field_of_a_notification() -> None:
    body = notification(
        record("ObjectRemoved:Delete", "lake", "t/part-1.parquet", sequencer="00a1", version="v1")
    )
    assert only(body) == ObjectEvent(
        "lake",
        "t/part-1.parquet",
        "v1",
        "00A1",
        "removed",
        "ObjectRemoved:Delete",
        AT,
        "AWS:AIDA",
        "C3D13F",
        7,
        "9b2c",
    )


def test_every_field_of_an_event_of_eventbridge() -> None:
    body = bridged(
        "Object Deleted", "lake", "t/a+b%20c", reason="DeleteObject", deletion="Permanently Deleted"
    )
    at = AT.replace(microsecond=0)
    assert only(body) == ObjectEvent(
        "lake",
        "t/a+b%20c",
        "v1",
        "617F",
        "removed",
        "Object Deleted (DeleteObject)",
        at,
        "123456789012",
        "N4N7",
        7,
        "9b2c",
    )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ObjectCreated:Put", "created"),
        ("s3:ObjectCreated:CompleteMultipartUpload", "created"),
        ("ObjectCreated:SomethingNew", "created"),
        ("ObjectRemoved:Delete", "removed"),
        ("ObjectRemoved:DeleteMarkerCreated", "marked_deleted"),
        ("LifecycleExpiration:Delete", "expired"),
        ("LifecycleExpiration:DeleteMarkerCreated", "expired_marked"),
        ("ReducedRedundancyLostObject", "removed"),
        ("ObjectRestore:Completed", "restored"),
        ("ObjectRestore:Post", "other"),
        ("ObjectTagging:Put", "other"),
        ("LifecycleTransition", "other"),
    ],
)
def test_names_of_notifications(name: str, change: str) -> None:
    assert only(notification(record(name, "lake", "k"))).change == change


@pytest.mark.parametrize(
    ("title", "reason", "deletion", "change"),
    [
        ("Object Created", "CompleteMultipartUpload", None, "created"),
        ("Object Deleted", "DeleteObject", "Permanently Deleted", "removed"),
        ("Object Deleted", "DeleteObject", "Delete Marker Created", "marked_deleted"),
        ("Object Deleted", "Lifecycle Expiration", "Permanently Deleted", "expired"),
        ("Object Deleted", "Lifecycle Expiration", "Delete Marker Created", "expired_marked"),
        ("Object Deleted", None, None, "removed"),
        ("Object Restore Completed", None, None, "restored"),
        ("Object Tags Added", None, None, "other"),
    ],
)
def test_names_of_eventbridge(title: str, reason: str | None, deletion: str | None, change: str) -> None:
    assert only(bridged(title, "lake", "k", reason=reason, deletion=deletion)).change == change


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("a+b.parquet", "a b.parquet"),
        ("a%2Bb.parquet", "a+b.parquet"),
        ("d%3D2026-11-28+10%253A00/x", "d=2026-11-28 10%3A00/x"),
        ("100%", "100%"),
        ("%zz%4", "%zz%4"),
        ("%C3%A4", "\xe4"),
        ("line%0Abreak%00%1B%5B31m", "line\nbreak\x00\x1b[31m"),
        ("%E2%80%AEtxt", "\u202etxt"),
        ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("/a//b/", "/a//b/"),
        ("k" * 1024, "k" * 1024),
    ],
)
def test_keys_of_notifications_are_decoded_once(written: str, key: str) -> None:
    assert only(notification(record("ObjectRemoved:Delete", "lake", written, encoded=True))).key == key


@pytest.mark.parametrize(
    "key", ["%FF%FE", "%ED%A0%80", "k" * 1025, "%C3%A4" * 513, "\ud800", "", None, 7, ["k"]]
)
def test_keys_that_no_object_of_s3_has(key: Any) -> None:
    assert forms(notification(record("ObjectRemoved:Delete", "lake", key, encoded=True))) == [
        "invalid record"
    ]


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("", "not JSON"),
        ("<xml/>", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("9" * 10_000, "not JSON"),
        ("[]", "unknown message"),
        ("null", "unknown message"),
        ("{}", "unknown message"),
        ('{"Records": 7}', "unknown message"),
        ('{"order": 1}', "unknown message"),
        ('{"Records": [null]}', "unknown source"),
        ('{"Records": [{"eventSource": "aws:dynamodb"}]}', "unknown source"),
        ('{"Records": [{"eventSource": "aws:s3"}]}', "invalid record"),
        ('{"detail-type": "Object Deleted", "detail": [], "source": "aws.s3"}', "invalid record"),
        ('{"detail-type": "EC2 Instance", "detail": {}, "source": "aws.ec2"}', "unknown source"),
        (notification(record("ObjectForgotten:All", "lake", "k")), "unknown event"),
        (notification(record("ObjectRemoved:Delete", "a/b", "k")), "invalid record"),
        (bridged("Object Forgotten", "lake", "k"), "unknown event"),
        ('{"Type": "SubscriptionConfirmation", "TopicArn": "arn", "Message": "x"}', "unknown SNS message"),
        ('{"Type": "Notification", "TopicArn": "arn", "Message": {}}', "unknown SNS message"),
        (through_sns(through_sns(through_sns(through_sns("{}")))), "unknown SNS message"),
    ],
)
def test_unknown_forms(body: str | bytes, form: str) -> None:
    assert forms(body) == [form]


def test_a_message_of_sns_has_the_events_inside() -> None:
    assert only(through_sns(notification(record("ObjectRemoved:Delete", "lake", "a b")))).key == "a b"
    assert only(through_sns(through_sns(bridged("Object Deleted", "lake", "a+b")))).key == "a+b"


def test_the_test_event_is_neither_an_event_nor_unknown() -> None:
    body = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"})
    assert events_of(body) == events_of(through_sns(body)) == type(events_of(body))()


def test_one_invalid_record_does_not_hide_the_others() -> None:
    good = record("ObjectRemoved:Delete", "lake", "k")
    parsed = events_of(notification(good, {"eventSource": "aws:s3"}, good))
    assert (len(parsed.events), len(parsed.unknown)) == (2, 1)


def test_optional_fields_of_another_type_are_unknown_and_the_event_stays() -> None:
    odd = record("ObjectRemoved:Delete", "lake", "k") | {
        "eventTime": "soon",
        "userIdentity": 7,
        "responseElements": [],
    }
    odd["s3"]["object"] |= {"size": -1, "eTag": 5, "sequencer": "not hex", "versionId": ["v"]}
    assert only(notification(odd)) == ObjectEvent(
        "lake", "k", None, None, "removed", "ObjectRemoved:Delete", None
    )


def test_a_reason_is_one_short_line_and_shows_no_body() -> None:
    secret = "X-Amz-Signature=abcdef"
    for body in (secret, json.dumps([secret]), json.dumps({"a\nb\x1b[31m": secret, "c" * 9_000: 1})):
        (part,) = events_of(body).unknown
        assert part.reason.isprintable()
        assert len(part.reason) < 300
        assert secret not in part.reason


def test_a_body_of_the_largest_size() -> None:
    records = [record("ObjectRemoved:Delete", "lake", f"t/{number:0200d}") for number in range(300)]
    body = notification(*records)
    assert len(body) > 180_000
    assert len(events_of(body).events) == 300


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Records", "s3", "object", "key", "bucket", "name"]), inner, max_size=3
        )
    ),
)


@given(st.sampled_from(["s3", "eventName", "eventTime", "userIdentity", "eventSource"]), _JSON)
def test_any_field_with_any_value(field: str, value: Any) -> None:
    parsed = events_of(notification(record("ObjectRemoved:Delete", "lake", "k") | {field: value}))
    assert len(parsed.events) + len(parsed.unknown) == 1


@given(st.binary(max_size=40) | st.text(max_size=40) | _JSON.map(json.dumps))
def test_any_body(body: str | bytes) -> None:
    parsed = events_of(body)
    assert len(parsed.unknown) <= 3


@given(st.text(max_size=30).filter(lambda key: key and len(key.encode(errors="replace")) < 1024))
def test_any_key_returns_as_it_was(key: str) -> None:
    assert only(notification(record("ObjectRemoved:Delete", "lake", key))).key == key
    assert only(bridged("Object Deleted", "lake", key)).key == key
