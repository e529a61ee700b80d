"""The block `follow` of the lake file: the queue of events, and how it is reached, or the journal instead of it."""

import re
from datetime import timedelta
from typing import Annotated, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from lakeaudit.config.field_types import (
    Duration,
    Endpoint,
    Place,
    Region,
    RoleArn,
    Text,
    refuse,
    text_schema,
    text_validator,
)
from lakeaudit.config.parsers import parse_endpoint
from lakeaudit.config.sources.base import Block, S3Options
from lakeaudit.grants import partition_of
from lakeaudit.keys import is_of_aws

QUEUE_HINT = "write its URL (https://sqs.eu-west-1.amazonaws.com/123456789012/name) or its ARN"
QUEUE = r"^(https?://[^/?#\s]+/[0-9]{12}/[A-Za-z0-9_-]{1,75}(\.fifo)?|arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,75}(\.fifo)?)$"
_URL = re.compile(r"(https?://[^/?#\s]+)/([0-9]{12})/([A-Za-z0-9_-]{1,75}(?:\.fifo)?)")
_ARN = re.compile(r"arn:[a-z-]+:sqs:([a-z0-9-]+):([0-9]{12}):([A-Za-z0-9_-]{1,75}(?:\.fifo)?)")
_HOST = re.compile(r"(?:.*\.)?sqs(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_FORMER_HOST = re.compile(r"(?:([a-z0-9-]+)\.)?queue\.amazonaws\.com(?:\.cn)?")
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(minutes=5)
"""Of `window`: loss is reported within a minute, and messages are hidden from other readers meanwhile."""


class Queue(NamedTuple):
    """A queue of SQS, as its URL or its ARN names it.

    Attributes:
        endpoint: scheme, host and port of the URL; None: an ARN.
        region: None: neither the ARN nor the URL names it, as with a server that replaces AWS.
    """

    text: str
    name: str
    account: str
    region: str | None
    endpoint: str | None

    @property
    def url(self) -> str | None:
        return self.text if self.endpoint else None

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue, to which S3 sends only through EventBridge."""
        return self.name.endswith(".fifo")

    def arn(self, region: str) -> str:
        """Return the ARN, in a region if the queue itself names none."""
        own = self.region or region
        return f"arn:{partition_of(own)}:sqs:{own}:{self.account}:{self.name}"


def parse_queue(text: str) -> Queue:
    """Parse the URL or the ARN of a queue; a user in the URL, which may be a secret, is refused."""
    if named := _ARN.fullmatch(text):
        return Queue(text, named[3], named[2], named[1], None)
    at = _URL.fullmatch(text)
    if at is None:
        raise ValueError("not a queue")
    endpoint = parse_endpoint(at[1])
    host = urlsplit(endpoint).hostname or ""
    found = _HOST.fullmatch(host) or _FORMER_HOST.fullmatch(host)
    region = (found[1] or "us-east-1") if found else None
    return Queue(text, at[3], at[2], region, endpoint)


def _window(value: timedelta) -> timedelta:
    if not SHORTEST <= value <= LONGEST:
        raise refuse("not between 1s and 5m", "write 5s, or leave it out")
    return value


def _folder(text: str) -> str:
    if not text.startswith("/") or "\0" in text or text.rstrip("/") == "":
        raise ValueError("not a folder")
    return text.rstrip("/")


AnyQueue = Annotated[
    Queue | None,
    text_validator(parse_queue, "not a queue of SQS", QUEUE_HINT, ready=Queue, quiet=True),
    text_schema(QUEUE),
]
Folder = Annotated[
    str,
    text_validator(_folder, "not a local folder", "write an absolute path such as /var/lib/lakeaudit/follow"),
    text_schema("^/.*[^/].*$"),
]


class Follow(Block):
    """The queue that receives the events of the lake's buckets, or S3 Metadata's journal table, which has them later.

    Missing options of the queue come from the lake's `s3`.
    """

    queue: AnyQueue = None
    journal: Place | None = None
    """The journal table, or the folder of its exports."""
    region: Region | None = None
    endpoint: Endpoint | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    window: Annotated[Duration, AfterValidator(_window)] = Field(
        default=timedelta(seconds=5), json_schema_extra={"default": "5s"}
    )
    """Events are collected for so long before they are decided together."""
    state: Folder | None = None
    """The local folder of the index; None: one in lakeaudit's cache."""

    @model_validator(mode="after")
    def _names_one_source(self) -> Self:
        if (self.queue is None) == (self.journal is None):
            what = (
                "names neither a queue nor a journal" if self.queue is None else "names a queue and a journal"
            )
            raise refuse(what, "write queue: ARN, or journal: s3://BUCKET/TABLE")
        return self

    def beside(self, s3: S3Options) -> "Follow":
        """Return the block with the region and endpoint of the queue, and the account of `s3`."""
        if self.queue is None:
            return self
        shared = None if is_of_aws(s3.endpoint) else s3.endpoint
        return self.model_copy(
            update={
                "region": self.region or self.queue.region or s3.region,
                "endpoint": self.endpoint or self.queue.endpoint or shared,
                "role_arn": self.role_arn or s3.role_arn,
                "external_id": self.external_id or s3.external_id,
            }
        )
