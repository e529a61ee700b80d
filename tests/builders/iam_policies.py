"""Evaluate IAM policies for the requests that reach the tests' own server, and refuse what a policy does not allow.

Which actions a request needs: Service Authorization Reference, Amazon S3, DynamoDB and Glue. moto's own evaluation (see
`moto.core.authorization`) has neither conditions nor resources of DynamoDB and Glue.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from lakeaudit.commands.policy import Request, run

ACCOUNT, REGION = "123456789012", "us-east-1"
OF_BUCKET = {
    "versions": "s3:ListBucketVersions",
    "uploads": "s3:ListBucketMultipartUploads",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "versioning": "s3:GetBucketVersioning",
    "inventory": "s3:GetInventoryConfiguration",
    "notification": "s3:GetBucketNotification",
}
OF_OBJECT = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "POST": "s3:PutObject"}
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_DENIED_JSON = b'{"__type": "AccessDeniedException", "message": "not authorized"}'

Policy = Mapping[str, Any]


class RequiredAction(NamedTuple):
    """An action that a request needs; `prefix` is the key `s3:prefix` of the request, None if it has none."""

    action: str
    resource: str
    prefix: str | None = None


def allowing(policy: Policy, required: RequiredAction) -> list[str]:
    """Return the Sids of the statements that allow it."""
    return [each["Sid"] for each in policy["Statement"] if _allows(each, required)]


def _allows(statement: Mapping[str, Any], required: RequiredAction) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        required.action in statement["Action"]
        and any(matches(pattern, required.resource) for pattern in statement["Resource"])
        and all(
            _holds(operator, values, required.prefix)
            for operator, values in statement.get("Condition", {}).items()
        )
    )


def _holds(operator: str, values: Mapping[str, list[str]], prefix: str | None) -> bool:
    assert (operator, [*values]) == ("StringLike", ["s3:prefix"])
    return prefix is not None and any(matches(pattern, prefix) for pattern in values["s3:prefix"])


def matches(pattern: str, text: str) -> bool:
    """Match as IAM does: `*` is any text, `?` one character, and `${*}`, `${?}` and `${$}` are these characters."""
    parts = re.findall(r"\$\{([*?$])\}|(\*)|(\?)|([\s\S])", pattern)
    regex = "".join(
        re.escape(own or plain) if own or plain else "[\\s\\S]*" if star else "[\\s\\S]"
        for own, star, _, plain in parts
    )
    return re.fullmatch(regex, text) is not None


@dataclass
class Requests:
    """What requests required, and what of it was refused."""

    required: set[RequiredAction] = field(default_factory=set)
    refused: set[RequiredAction] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def used(self, policy: Policy) -> set[tuple[str, str]]:
        """Return (Sid, action) of all statements that allowed a request."""
        return {(sid, each.action) for each in self.required for sid in allowing(policy, each)}


@contextmanager
def enforced(policy: Policy | None = None) -> Iterator[Requests]:
    """Record every request to any server of this process, and refuse with 403 what the policy does not allow."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    seen, answered = Requests(), vars(Application)["__call__"]

    def authorize(self: Any, environ: dict[str, Any], start: Any) -> Any:
        required = _actions_of(environ)
        if not _admits(seen, policy, required):
            return _refuse(environ, start)
        return _hidden_if_missing(seen, policy, environ, start, lambda begin: answered(self, environ, begin))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", authorize)
        yield seen


def _admits(seen: Requests, policy: Policy | None, required: list[RequiredAction]) -> bool:
    refused = [each for each in required if policy is not None and not allowing(policy, each)]
    with seen.lock:
        seen.required |= {*required}
        seen.refused |= {*refused}
    return not refused


def _hidden_if_missing(
    seen: Requests, policy: Policy | None, environ: dict[str, Any], start: Any, answer: Any
) -> Any:
    """S3 answers 404 for a missing object only to those who may list with its key as prefix, else 403."""
    status: list[Any] = []
    body = b"".join(answer(lambda *given: status.extend(given)))
    bucket, key = _place(environ)
    is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD") and key and "HTTP_X_AMZ_TARGET" not in environ
    listed = [RequiredAction("s3:ListBucket", f"arn:aws:s3:::{bucket}", key)]
    if is_read and status[0].startswith("404") and not _admits(seen, policy, listed):
        return _refuse(environ, start)
    start(*status)
    return [body]


def _refuse(environ: dict[str, Any], start: Any) -> list[bytes]:
    is_json = "HTTP_X_AMZ_TARGET" in environ
    body = _DENIED_JSON if is_json else b"" if environ["REQUEST_METHOD"] == "HEAD" else _DENIED
    status = "400 Bad Request" if is_json else "403 Forbidden"
    kind = "application/x-amz-json-1.0" if is_json else "application/xml"
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def _place(environ: dict[str, Any]) -> tuple[str, str]:
    bucket, _, key = unquote(urlsplit(environ["REQUEST_URI"]).path).removeprefix("/").partition("/")
    return bucket, key


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _actions_of(environ: dict[str, Any]) -> list[RequiredAction]:
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    operation = target.rpartition(".")[2]
    if target.startswith("DynamoDB"):
        given = json.loads(_body(environ))
        names = [given["TableName"]] if "TableName" in given else [*given["RequestItems"]]
        home = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/"
        return [RequiredAction(f"dynamodb:{operation}", f"{home}{name}") for name in names]
    if target.startswith("AmazonSQS"):
        given = json.loads(_body(environ))
        name = given.get("QueueName") or given["QueueUrl"].rpartition("/")[2]
        action = operation.removesuffix("Batch")
        return [RequiredAction(f"sqs:{action}", f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")]
    if target.startswith("AWSGlue"):
        return _of_glue(operation, json.loads(_body(environ)))
    return _of_s3(environ)


def _of_glue(operation: str, given: Mapping[str, Any]) -> list[RequiredAction]:
    """A request needs the right to the catalog, the database and the table; to list databases, to all of them."""
    database = given.get("DatabaseName")
    table = given.get("TableName") or given.get("Name") or (given.get("TableInput") or {}).get("Name")
    below = [f"database/{database or 'any'}"]
    below += [f"table/{database}/{table or 'any'}"] if database else []
    home = f"arn:aws:glue:{REGION}:{ACCOUNT}:"
    return [RequiredAction(f"glue:{operation}", f"{home}{each}") for each in ("catalog", *below)]


def _of_s3(environ: dict[str, Any]) -> list[RequiredAction]:
    asked = parse_qs(urlsplit(environ["REQUEST_URI"]).query, keep_blank_values=True)
    bucket, key = _place(environ)
    home = f"arn:aws:s3:::{bucket}"
    if key:
        return [RequiredAction(action, f"{home}/{key}") for action in _on_object(environ, asked)] + _copied(
            environ
        )
    if "delete" in asked:
        entries = ET.fromstring(_body(environ)).iter()
        keys = [each.text or "" for each in entries if each.tag.endswith("Key")]
        return [RequiredAction("s3:DeleteObject", f"{home}/{each}") for each in keys]
    action = next((action for name, action in OF_BUCKET.items() if name in asked), "s3:ListBucket")
    by_prefix = action in ("s3:ListBucket", "s3:ListBucketVersions")
    return [RequiredAction(action, home, asked.get("prefix", [None])[0] if by_prefix else None)]


def _on_object(environ: dict[str, Any], asked: Mapping[str, list[str]]) -> list[str]:
    method = environ["REQUEST_METHOD"]
    if method == "DELETE":
        version = "s3:DeleteObjectVersion" if "versionId" in asked else "s3:DeleteObject"
        return ["s3:AbortMultipartUpload" if "uploadId" in asked else version]
    right = OF_OBJECT[method]
    right = right.replace("Object", "ObjectVersion") if "versionId" in asked else right
    tags = ["s3:PutObjectTagging"] if "HTTP_X_AMZ_TAGGING" in environ else []
    return [f"{right}Tagging" if "tagging" in asked else right, *tags]


def _copied(environ: dict[str, Any]) -> list[RequiredAction]:
    """To copy an object with its tags needs the rights to tags; canaries have no tags."""
    source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
    if source is None:
        return []
    path, _, version = unquote(source).removeprefix("/").partition("?versionId=")
    read = "s3:GetObjectVersion" if version else "s3:GetObject"
    plain = [RequiredAction(read, f"arn:aws:s3:::{path}")]
    bucket, key = _place(environ)
    if "canary" in key or "partNumber" in environ["REQUEST_URI"]:
        return plain
    tags = [RequiredAction(f"{read}Tagging", f"arn:aws:s3:::{path}")]
    return [*plain, *tags, RequiredAction("s3:PutObjectTagging", f"arn:aws:s3:::{bucket}/{key}")]


def printed_policy(target: Path | str, task: str = "audit", **options: Any) -> Policy:
    """Return the policy that `lakeaudit policy` prints."""
    out = io.StringIO()
    run(Request(str(target), task, **options), {}, out, io.StringIO())
    document: Policy = json.loads(out.getvalue())
    return document


@contextmanager
def with_printed_policy(lake_file: Path, task: str = "reconcile") -> Iterator[Requests]:
    """Allow only what the printed policy of a lake file allows, and check that it was enough for the block."""
    policy = printed_policy(lake_file, task)
    with enforced(policy) as seen:
        yield seen
    assert seen.refused == set()


def unused(policy: Policy, seen: Requests, *purposes: str) -> set[tuple[str, str]]:
    """Return (Sid, action) of the statements of these purposes (none: of all) that no request required."""
    granted = {(each["Sid"], action) for each in policy["Statement"] for action in each["Action"]}
    return {each for each in granted - seen.used(policy) if not purposes or each[0].startswith(purposes)}
