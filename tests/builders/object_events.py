"""Event messages of S3 in the forms in which a queue receives them."""

import json
from typing import Any
from urllib.parse import quote_plus

AT = "2026-11-28T07:36:02.123Z"


def record(
    name: str,
    bucket: str,
    key: Any,
    *,
    sequencer: str | None = None,
    version: str | None = None,
    at: str = AT,
    encoded: bool = False,
    size: int = 7,
) -> dict[str, Any]:
    """Return a record of a notification; `encoded`: the key is as it is sent."""
    sent = key if encoded else quote_plus(key, safe="/")
    about = {"key": sent, "size": size, "eTag": "9b2c", "versionId": version, "sequencer": sequencer}
    return {
        "eventVersion": "2.3",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": at,
        "eventName": name,
        "userIdentity": {"principalId": "AWS:AIDA"},
        "requestParameters": {"sourceIPAddress": "127.0.0.1"},
        "responseElements": {"x-amz-request-id": "C3D13F", "x-amz-id-2": "FMyU"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "lakeaudit",
            "bucket": {"name": bucket, "arn": f"arn:aws:s3:::{bucket}"},
            "object": {name: value for name, value in about.items() if value is not None},
        },
    }


def notification(*records: dict[str, Any]) -> str:
    """Return the body that S3 sends to a queue."""
    return json.dumps({"Records": records})


def bridged(
    title: str,
    bucket: str,
    key: str,
    *,
    reason: str | None = None,
    deletion: str | None = None,
    sequencer: str = "617f",
) -> str:
    """Return the body that a rule of EventBridge sends to a queue."""
    about = {"key": key, "size": 7, "etag": "9b2c", "version-id": "v1", "sequencer": sequencer}
    detail = {
        "version": "0",
        "bucket": {"name": bucket},
        "object": about,
        "request-id": "N4N7",
        "requester": "123456789012",
        "source-ip-address": "127.0.0.1",
        "reason": reason,
        "deletion-type": deletion,
    }
    return json.dumps(
        {
            "version": "0",
            "id": "17793124-05d4-b198-2fde-7ededc63b103",
            "detail-type": title,
            "source": "aws.s3",
            "account": "123456789012",
            "time": f"{AT[:19]}Z",
            "region": "us-east-1",
            "resources": [f"arn:aws:s3:::{bucket}"],
            "detail": {name: value for name, value in detail.items() if value is not None},
        }
    )


def through_sns(body: str) -> str:
    """Return the body that a topic sends to a queue without raw message delivery."""
    topic = "arn:aws:sns:us-east-1:123456789012:changes"
    return json.dumps({"Type": "Notification", "MessageId": "1", "TopicArn": topic, "Message": body})
