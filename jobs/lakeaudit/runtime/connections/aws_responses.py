"""Parse responses of S3 and of stores with its API tolerantly: a field that cannot be read is unknown.

botocore raises ValueError for a number or a time that it cannot read, and an error that is not a BotoCoreError for a
body that is not XML. One field of one object must not end a run: it becomes None, and a body that cannot be parsed
raises `UnreadableResponse`. A web page is often well-formed enough to be parsed as an empty list, so it is refused
before it is parsed.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

from botocore.exceptions import ReadTimeoutError
from botocore.parsers import ResponseParserError, ResponseParserFactory, RestXMLParser
from botocore.response import StreamingBody
from botocore.utils import parse_timestamp

from lakeaudit.runtime.connections.aws_failures import IncompleteResponse, UnreadableResponse, WebPage

_ENDPOINT = "lakeaudit_endpoint"
"""The key of a botocore response dictionary that holds its endpoint."""
_PAGE = re.compile(
    rb"[\s\xef\xbb\xbf]*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_OF_STORES = ("x-amz", "x-goog", "x-oss", "x-cos", "x-obs", "x-ceph", "x-minio", "x-rgw")
_REDIRECTED, _SERVER_AT_FAULT = 300, 500
_NOT_XML = "its response is not XML"


class TolerantParsers(ResponseParserFactory):
    """botocore's parsers, with a tolerant one for S3."""

    def create_parser(self, protocol_name: str) -> Any:
        if protocol_name == "rest-xml":
            return _TolerantXml(timestamp_parser=readable_time)
        return super().create_parser(protocol_name)


class _TolerantXml(RestXMLParser):
    """Fields that cannot be read are None."""

    def parse(self, response: Mapping[str, Any], shape: Any) -> Any:
        try:
            return super().parse(response, shape)
        except ResponseParserError as error:
            where = shown_endpoint(response.get(_ENDPOINT))
            raise UnreadableResponse(endpoint=where, reason=_NOT_XML) from error

    def _handle_integer(self, _: Any, node: Any) -> int | None:
        with suppress(ValueError):
            return int(_text_of(node))
        return None

    _handle_long = _handle_integer

    def _handle_boolean(self, _: Any, node: Any) -> bool | None:
        """Parse a boolean; stores write True and TRUE as well, and any other text is unknown, not false."""
        return {"true": True, "1": True, "false": False, "0": False}.get(_text_of(node).lower())


def _text_of(node: Any) -> str:
    """Return the text of an XML node or of a header."""
    return str(getattr(node, "text", node) or "").strip()


def timestamp(text: Any) -> datetime:
    """Parse a time in a response as botocore does, but faster for the two forms that stores write.

    A page of a list has a thousand times, and botocore, which tries every known form, took a third of a request's time.

    Raises:
        ValueError: it is not a time.
    """
    with suppress(ValueError, AttributeError):
        if text.endswith("Z"):
            return datetime.fromisoformat(text)
        if text.endswith(" GMT"):
            return parsedate_to_datetime(text)
    return parse_timestamp(text)


def readable_time(text: Any) -> datetime | None:
    """Parse a time as `timestamp`; None for any other value."""
    with suppress(ValueError, TypeError, OverflowError, OSError, RuntimeError):
        return timestamp(text)
    return None


def response_time(response: Mapping[str, Any]) -> datetime | None:
    """Return the time of a response by the clock of its server, since this machine's may be wrong; None: unknown."""
    written = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        at = parsedate_to_datetime(written) if written else None
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC) if at else None


def required(response: Mapping[str, Any], name: str) -> Any:
    """Return a required field of a response. Raises IncompleteResponse: it is missing."""
    value = response.get(name)
    if value is None:
        raise IncompleteResponse(fields=name)
    return value


def refuse_web_pages(client: Any) -> None:
    """Make requests of an S3 client fail if a server that is not a store answers.

    botocore turns a 200 that is not XML into a retryable error 500 first, so responses are checked both on arrival and
    before they are parsed.

    Raises, from every request:
        WebPage: a web page answers.
        UnreadableResponse: the response is not XML.
    """
    endpoint = client.meta.endpoint_url

    def check(response_dict: dict[str, Any] | None, **_: Any) -> None:
        if response_dict is None:
            return
        response_dict[_ENDPOINT] = endpoint
        if _is_web_page(response_dict):
            raise WebPage(endpoint=shown_endpoint(endpoint))
        if _is_other_text(response_dict):
            raise UnreadableResponse(endpoint=shown_endpoint(endpoint), reason=_NOT_XML)

    client.meta.events.register("before-parse.s3", check)
    client.meta.events.register("response-received.s3", check)


def read_errors_whole(client: Any) -> None:
    """Read the body of an error response while the request is sent, so that the SDK repeats it if it breaks off.

    botocore reads it later for operations that stream (GetObject), and then raises an error of its HTTP library.

    Raises, from every such request:
        ReadTimeoutError, ResponseStreamingError: the body broke off each time.
    """
    session = client._endpoint.http_session
    send = session.send

    def send_and_read(request: Any) -> Any:
        response = send(request)
        if request.stream_output and response.status_code >= _REDIRECTED:
            try:
                response._content = StreamingBody(response.raw, cast("int", None)).read()
            except ReadTimeoutError as error:  # botocore does not know the URL here
                raise ReadTimeoutError(endpoint_url=client.meta.endpoint_url, error=error) from error
        return response

    session.send = send_and_read


def _is_web_page(response: Mapping[str, Any]) -> bool:
    """Return whether the body is HTML; without a readable body, whether it is HTML by its headers.

    Errors of the server (5xx) are left to the SDK, which repeats the request.
    """
    if response["status_code"] >= _SERVER_AT_FAULT:
        return False
    headers = {str(name).lower(): str(value) for name, value in response["headers"].items()}
    if "html" not in headers.get("content-type", "html"):
        return False
    if any(name.startswith(_OF_STORES) for name in headers):
        return False
    body = response["body"]
    if isinstance(body, bytes) and body:
        return _PAGE.match(body) is not None
    return "content-type" in headers and response["status_code"] < _REDIRECTED


def _is_other_text(response: Mapping[str, Any]) -> bool:
    """Return whether a successful response has a body that cannot be XML; the content of objects is not checked."""
    body = response["body"]
    if response["status_code"] >= _REDIRECTED or not isinstance(body, bytes):
        return False
    begin = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    return bool(begin) and not begin.startswith(b"<")


def shown_endpoint(url: object) -> str:
    """Return scheme and host of an endpoint: the path may hold a key."""
    parts = urlsplit(str(url or ""))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "the endpoint"
