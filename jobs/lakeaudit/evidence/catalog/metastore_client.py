"""A Hive Metastore asked by Thrift: with patience that ends, answers of bounded size, and one line for each refusal.

The calls and their rows are those of PyIceberg's `hive` extra, generated from Hive's `hive_metastore.thrift`. It is
imported when it is asked for, so that lakes without a Hive Metastore need none of it. What it answers is hostile input.
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
"""Seconds: to connect, between two pieces of an answer, and for all of it."""
LARGEST = 1 << 28
"""Bytes of an answer; the names of a million partitions have fifty million."""
MOST_ITEMS = 1 << 24
"""Entries of one list or map of an answer."""
TRIES = 3
PAUSE = 0.5
_LONGEST_MESSAGE = 200
"""Characters of a refusal's own words."""

T = TypeVar("T")
Thrift = Any
"""The generated client, which is not typed."""
Request = Callable[[Thrift], T]


class AlreadyThere(SourceError):
    """There is one of that name already."""


class TooMany(SourceError):
    """The metastore gives no more than `limit` of what was asked for in one request."""

    limit = 0


class MetastoreClient:
    """One conversation with a Hive Metastore, begun with the first request; threads may not share it."""

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
        """The answer to the first of these requests that this server knows; they mean the same and change nothing.

        Raises:
            NotThere: it has no such database, table or partition.
            SourceError: it refuses, does not answer, or answers what is no answer.
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
        """As `ask`, of requests that change something: they are sent once, whatever becomes of the answer."""
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
        except Exception as error:  # noqa: BLE001 - whatever generated code makes of bytes that are no answer
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
        """The first of its servers that takes a connection."""
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
        """One line for whatever a request raised."""
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
        return self._error(f"{_NO_ANSWER} ({type(error).__name__})", "check uri: it is no Hive Metastore")

    def _refusal(self, error: BaseException) -> SourceError:
        """What the metastore says itself."""
        if type(error).__name__ in _NONE_SUCH:
            return NotThere(self._source.name, f"the metastore has none such{_message(error)}", _NAME)
        told = f"answers {type(error).__name__}{_message(error)}"
        if limit := _limit(error):
            refused = TooMany(self._source.name, f"the metastore {told}", _LOOK)
            refused.limit = limit
            return refused
        if type(error).__name__ == "AlreadyExistsException":
            return AlreadyThere(self._source.name, f"the metastore {told}", _NAME)
        return self._error(told, _RIGHTS)

    def _broken(self, error: Any) -> SourceError:
        """A connection that ended, or an answer that does not; Thrift keeps the first cause as `inner`."""
        cause = getattr(error, "inner", None) or error
        if isinstance(cause, _Endless):
            return self._error(str(cause), _LOOK, passes=cause.retryable)
        if getattr(error, "type", None) in _NO_SIZE:
            return self._error(_NO_ANSWER, "check uri: it is no Hive Metastore")
        told = type(cause).__name__ if cause is not error else "it broke off"
        return self._error(f"does not answer ({told})", _LOOK, passes=True)

    def _error(self, what: str, hint: str, *, passes: bool = False) -> SourceError:
        return SourceError(self._source.name, f"the metastore {what}", hint, passes)


_NONE_SUCH = ("NoSuchObjectException", "UnknownDBException", "UnknownTableException")
_NO_SIZE = (5, 6)
"""TTransportException's NEGATIVE_SIZE and SIZE_LIMIT."""
_LOOK = "check uri and the metastore's own log"
_NAME = "check its name in the metastore"
_RIGHTS = "check the metastore's own log, and the rights of `user`"
_NO_ANSWER = "answers what is no answer of Thrift"


class _UnknownRequest(Exception):
    """The server is too old or too new for a request."""


class _Endless(OSError):
    """An answer that is too long, or takes too long."""

    def __init__(self, what: str, *, retryable: bool) -> None:
        super().__init__(what)
        self.retryable = retryable


class _BoundedHandle:
    """A socket, as Thrift uses one, whose answers end: by bytes and by time."""

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
    """Between two tries; tests do not wait."""
    time.sleep(seconds)


_LIMIT = re.compile(r"(?:limit|maximum)\D{0,16}?(\d{1,9})(?!\d)", re.IGNORECASE)
"""Such as "exceeds limit (=100)" of `hive.metastore.limit.partition.request`."""


def _limit(error: Any) -> int:
    """The number of entries that a refusal names as the most; 0 where it names none. Names of tables come before it."""
    found = _LIMIT.findall(str(getattr(error, "message", None) or ""))
    return int(found[-1]) if found else 0


def in_batches(
    names: Sequence[str], size: int, ask: Callable[[Sequence[str]], list[T]]
) -> Iterator[tuple[Sequence[str], list[T]]]:
    """What some names stand for, `size` at a time, or as many as the metastore says that it gives.

    Raises:
        SourceError: of `ask`; also a limit that is none.
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
    """What a refusal says, in one line."""
    said = str(getattr(error, "message", None) or "")[:_LONGEST_MESSAGE]
    printable = "".join(char if char.isprintable() else " " for char in said)
    return f": {printable}" if printable else ""
