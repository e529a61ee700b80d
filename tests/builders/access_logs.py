"""Lines of server access logs as S3 writes them, and files of them as it delivers them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"
PERSON = "arn:aws:iam::123456789012:user/ann"
JOB = "arn:aws:sts::123456789012:assumed-role/nightly-etl/spark-2026"
LIFECYCLE = "AmazonS3"
HOST_ID = "s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234="
TAIL = f"{HOST_ID} SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader lake.s3.us-west-1.amazonaws.com TLSV1.2 - -"
AT = datetime(2026, 11, 20, 3, tzinfo=UTC)
METHODS = {"HEAD": "HEAD", "GET": "GET", "PUT": "PUT", "COPY": "PUT", "POST": "POST", "DELETE": "DELETE"}


@dataclass(frozen=True)
class Line:
    """One request. `encoded` is the key as the log writes it, `status` - where there was no request."""

    operation: str
    key: str
    at: datetime = AT
    principal: str = PERSON
    request: str = "3E57427F3EXAMPLE"
    bucket: str = "lake"
    status: str = "200"
    error: str = "-"
    took: str = "27"
    referer: str = '"-"'
    agent: str = '"aws-sdk-java/2.20 Linux/5.10"'
    version: str = "-"
    query: str = ""
    encoded: str | None = None

    @property
    def text(self) -> str:
        at = f"[{self.at:%d/%b/%Y:%H:%M:%S} +0000]"
        begin = f"{OWNER} {self.bucket} {at} {self._address} {self.principal} {self.request} {self.operation}"
        numbers = f"{self.status} {self.error} - 1361 {self.took} 9"
        tail = f"{self.referer} {self.agent} {self.version} {TAIL}"
        if self._has_no_uri:
            none = '"-"' if self.operation.startswith("S3.") else "-"
            tail = f"{none} {none} {self.version} {TAIL}"
        return f"{begin} {self._key} {self._uri} {numbers} {tail}"

    @property
    def _has_no_uri(self) -> bool:
        return self.operation.startswith(("S3.", "BATCH."))

    @property
    def _address(self) -> str:
        return "-" if self.operation.startswith("S3.") else "192.0.2.3"

    @property
    def _key(self) -> str:
        if self.encoded is not None:
            return self.encoded
        if self.operation == "REST.GET.BUCKET":
            return "-"
        once = quote(self.key)
        return once if self.operation.startswith("S3.") else quote(once)

    @property
    def _uri(self) -> str:
        if self._has_no_uri:
            return '"-"' if self.operation.startswith("S3.") else "-"
        method = METHODS[self.operation.split(".")[1]]
        if self.operation == "REST.GET.BUCKET":
            return (
                f'"GET /{self.bucket}?list-type=2&prefix={quote(self.key, safe="")}&delimiter=%2F HTTP/1.1"'
            )
        return f'"{method} /{self.bucket}/{quote(self.key)}{self.query} HTTP/1.1"'


def expired(key: str, at: datetime, **how: str) -> Line:
    """Return the line for an object that a lifecycle rule removes, in a bucket without versions."""
    return Line("S3.EXPIRE.OBJECT", key, at, LIFECYCLE, status="-", took="-", **how)


def deleted(key: str, at: datetime, principal: str = PERSON, **how: str) -> Line:
    """Return the line for a deletion."""
    return Line("REST.DELETE.OBJECT", key, at, principal, status="204", **how)


def write_line(key: str, at: datetime, principal: str = JOB, **how: str) -> Line:
    """Return the line for a write."""
    return Line("REST.PUT.OBJECT", key, at, principal, **how)


def name(at: datetime, unique: str = "0123456789ABCDEF") -> str:
    """Return the name of a log file that is delivered at a time."""
    return f"{at:%Y-%m-%d-%H-%M-%S}-{unique}"


def content(lines: Iterable[Line]) -> bytes:
    return "".join(f"{line.text}\n" for line in lines).encode()
