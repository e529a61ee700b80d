"""A Thrift client of a Hive Metastore: limited retries, responses of bounded size, and one line for each refusal.

The calls and their rows are those of PyIceberg's `hive` extra, generated from Hive's `hive_metastore.thrift`. The extra
is imported at the first request, so that lakes without a Hive Metastore do not need it. Responses are hostile input.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.http import NotThere

CONNECT, READ, WHOLE = 10.0, 60.0, 300.0
"""Timeouts in seconds: to connect, between two pieces of a response, and for the whole response."""
LARGEST = 1 << 28
"""The most bytes of a response; the names of a million partitions have fifty million."""
MOST_ITEMS = 1 << 24
"""The most entries of one list or map of a response."""
TRIES = 3
PAUSE = 0.5
_LONGEST_MESSAGE = 200
"""The most characters of a refusal's message."""

T = TypeVar("T")
Thrift = Any
"""The generated client, which is not typed."""
Request = Callable[[Thrift], T]


class AlreadyThere(SourceError):
    """An object of that name exists already."""


class TooMany(SourceError):
    """The metastore returns at most `limit` entries in one response."""

    limit = 0


class MetastoreClient:
    """One connection to a Hive Metastore, opened by the first request; threads may not share it."""

    def __init__(self, source: Hive, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._handle: _BoundedHandle | None = None
        self._thrift: Thrift = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def ask(self, *requests: Request[T]) -> T:
        """Return the response to the first of these equivalent read requests that this server supports.

        Raises:
            NotThere: it has no such database, table or partition.
            SourceError: it refuses, does not answer, or sends an invalid response.
        """
        for number in range(TRIES):
            try:
                return self._first_supported(requests)
            except SourceError as error:
                self._close()
                if not error.retryable or number == TRIES - 1:
                    raise
                wait_a_while(PAUSE * 3**number)
        raise AssertionError("the last try raises")

    def change(self, *requests: Request[T]) -> T:
        """Send requests that change something, as `ask` does, but only once, whether or not a response arrives."""
        try:
            return self._first_supported(requests)
        except SourceError:
            self._close()
            raise

    def _first_supported(self, requests: tuple[Request[T], ...]) -> T:
        *others, last = requests
        for request in others:
            try:
                return self._once(request)
            except _UnknownRequest:
                continue
        try:
            return self._once(last)
        except _UnknownRequest:
            raise self._error(
                "knows no such request", "see docs/evidence-stores.md: Hive 2.3 and later"
            ) from None

    def _once(self, request: Request[T]) -> T:
        thrift = self._client()
        if self._handle is not None:
            self._handle.begin_answer()
        try:
            return request(thrift)
        except Exception as error:  # noqa: BLE001 - generated code raises anything for invalid bytes
            raise self._error_of(error) from None

    def _client(self) -> Thrift:
        if self._thrift is None:
            self._thrift = self._connect()
        return self._thrift

    def _close(self) -> None:
        if self._handle is not None:
            self._handle.close()
        self._handle = self._thrift = None

    def _connect(self) -> Thrift:
        try:
            from hive_metastore.ThriftHiveMetastore import Client
            from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
            from thrift.transport import TTransport
            from thrift.transport.TSocket import TSocket
        except ImportError:
            raise self._error("needs PyIceberg's Thrift client", "pip install 'lakeaudit[hive]'") from None
        host, self._handle = self._open_socket()
        carrier = TSocket(host)
        carrier.setHandle(self._handle)
        self._handle.begin_answer()
        try:
            transport = self._over(TTransport, carrier, host)
            client = Client(
                TBinaryProtocolAccelerated(
                    transport, string_length_limit=LARGEST, container_length_limit=MOST_ITEMS
                )
            )
            if self._source.user:
                client.set_ugi(self._source.user, [])
        except ImportError:
            what = "Kerberos needs the packages pure-sasl and kerberos"
            raise self._error(what, "install both where audits run") from None
        except Exception as error:  # noqa: BLE001 - of GSSAPI too, whose errors have no common base
            raise self._error_of(error) from None
        return client

    def _over(self, ways: Any, carrier: Any, host: str) -> Any:
        if not self._source.kerberos_service:
            return ways.TBufferedTransport(carrier, 1 << 16)
        transport = ways.TSaslClientTransport(carrier, host=host, service=self._source.kerberos_service)
        transport.open()
        return transport

    def _open_socket(self) -> "tuple[str, _BoundedHandle]":
        """Connect to the first of its servers that takes a connection."""
        failed = ""
        for uri in self._source.uri.split(","):
            parts = urlsplit(uri)
            host = parts.hostname or ""
            try:
                handle = socket.create_connection((host, parts.port or 0), CONNECT)
            except OSError as error:
                failed = failed or type(error).__name__
            else:
                handle.settimeout(READ)
                return host, _BoundedHandle(handle, self._clock)
        raise self._error(f"does not take a connection ({failed})", _LOOK, passes=True)

    def _error_of(self, error: BaseException) -> Exception:
        """Return the one-line error for an exception of a request."""
        from hive_metastore import ttypes
        from thrift.Thrift import TApplicationException
        from thrift.transport.TTransport import TTransportException

        if isinstance(error, SourceError):
            return error
        if isinstance(error, TApplicationException):
            unknown = error.type == TApplicationException.UNKNOWN_METHOD
            return _UnknownRequest() if unknown else self._error(f"failed{_message(error)}", _LOOK)
        if type(error).__module__ == ttypes.__name__:
            return self._refusal(error)
        if isinstance(error, TTransportException | OSError | EOFError):
            return self._broken(error)
        return self._error(f"{_NO_ANSWER} ({type(error).__name__})", _NOT_HIVE)

    def _refusal(self, error: BaseException) -> SourceError:
        """Return the error for a refusal of the metastore itself."""
        if type(error).__name__ in _NONE_SUCH:
            return NotThere(self._source.name, f"the metastore does not have it{_message(error)}", _NAME)
        what = f"answers {type(error).__name__}{_message(error)}"
        if limit := _limit(error):
            refused = TooMany(self._source.name, f"the metastore {what}", _LOOK)
            refused.limit = limit
            return refused
        if type(error).__name__ == "AlreadyExistsException":
            return AlreadyThere(self._source.name, f"the metastore {what}", _NAME)
        return self._error(what, _RIGHTS)

    def _broken(self, error: Any) -> SourceError:
        """Return the error for a broken connection or an endless response; Thrift keeps the cause as `inner`."""
        cause = getattr(error, "inner", None) or error
        if isinstance(cause, _Endless):
            return self._error(str(cause), _LOOK, passes=cause.retryable)
        if getattr(error, "type", None) in _NO_SIZE:
            return self._error(_NO_ANSWER, _NOT_HIVE)
        why = type(cause).__name__ if cause is not error else "it broke off"
        return self._error(f"does not answer ({why})", _LOOK, passes=True)

    def _error(self, what: str, hint: str, *, passes: bool = False) -> SourceError:
        return SourceError(self._source.name, f"the metastore {what}", hint, passes)


_NONE_SUCH = ("NoSuchObjectException", "UnknownDBException", "UnknownTableException")
_NO_SIZE = (5, 6)
"""TTransportException's NEGATIVE_SIZE and SIZE_LIMIT."""
_LOOK = "check uri and the metastore's own log"
_NAME = "check its name in the metastore"
_RIGHTS = "check the metastore's own log, and the rights of `user`"
_NO_ANSWER = "sent an invalid Thrift response"
_NOT_HIVE = "check uri: it does not lead to a Hive Metastore"


class _UnknownRequest(Exception):
    """The server does not support a request."""


class _Endless(OSError):
    """A response that is too long, or takes too long."""

    def __init__(self, what: str, *, retryable: bool) -> None:
        super().__init__(what)
        self.retryable = retryable


class _BoundedHandle:
    """A socket, as Thrift uses one, that limits the bytes and the time of a response."""

    def __init__(self, handle: socket.socket, clock: Callable[[], float]) -> None:
        self._handle, self._clock = handle, clock
        self.begin_answer()

    def begin_answer(self) -> None:
        self._left, self._until = LARGEST, self._clock() + WHOLE

    def recv(self, size: int, *flags: int) -> bytes:
        if self._clock() > self._until:
            raise _Endless(f"was still answering after {WHOLE:.0f} s", retryable=True)
        found = self._handle.recv(size, *flags)
        self._left -= len(found)
        if self._left < 0:
            raise _Endless(f"answers with more than {LARGEST >> 20} MiB", retryable=False)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def wait_a_while(seconds: float) -> None:
    """Wait between two tries; tests replace it."""
    time.sleep(seconds)


_LIMIT = re.compile(r"(?:limit|maximum)\D{0,16}?(\d{1,9})(?!\d)", re.IGNORECASE)
"""Such as "exceeds limit (=100)" of `hive.metastore.limit.partition.request`."""


def _limit(error: Any) -> int:
    """Return the most entries that a refusal allows; 0 if it names no limit. Names of tables come before the limit."""
    found = _LIMIT.findall(str(getattr(error, "message", None) or ""))
    return int(found[-1]) if found else 0


def in_batches(
    names: Sequence[str], size: int, ask: Callable[[Sequence[str]], list[T]]
) -> Iterator[tuple[Sequence[str], list[T]]]:
    """Yield names with their entries, `size` at a time, or as many as the metastore allows.

    Raises:
        SourceError: of `ask`; also if the limit does not help.
    """
    at = 0
    while at < len(names):
        some = names[at : at + size]
        try:
            found = ask(some)
        except TooMany as error:
            if not 0 < error.limit < len(some):
                raise
            size = error.limit
            continue
        yield some, found
        at += len(some)


def _message(error: Any) -> str:
    """Return the message of a refusal, in one line."""
    message = str(getattr(error, "message", None) or "")[:_LONGEST_MESSAGE]
    printable = "".join(char if char.isprintable() else " " for char in message)
    return f": {printable}" if printable else ""
