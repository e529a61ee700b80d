"""A Hive Metastore (a stand-in): what its answers mean, and one line for each way in which it fails."""

import socket
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hive_metastore.ttypes import MetaException

from lakeaudit.config import Pointer
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import metastore_client, reading
from lakeaudit.evidence.catalog.current import current_tables
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.protocol import CatalogTable, HiveTable, Pointers
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.hive_metastore import LONG_AGO, RETIRED, Dropped, MetastoreStandIn, served, serving, slow

NOW = datetime.now(UTC)
ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://lake/i/metadata/1.metadata.json"}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metastore_client, "wait_a_while", lambda _: None)


@pytest.fixture
def metastore() -> Iterator[MetastoreStandIn]:
    server = MetastoreStandIn()
    server.table("orders", "s3a://lake/orders", ("day",))
    server.table("i", "s3://lake/i", parameters=ICEBERG)
    for day in range(5):
        server.partition("orders", [str(day)], f"s3a://lake/orders/day={day}")
    with served(server):
        yield server


def source_of(server: MetastoreStandIn, **more: Any) -> Hive:
    return Hive(kind="hive", uri=server.uri, **more)


CONTEXT = Context(
    InProcessEngine(2), Clients(), NOW, NOW, True, places=frozenset({Location("lake", "orders")})
)


def read(source: Hive, context: Context = CONTEXT) -> Pointers:
    return reading.read(hive.list_tables, source, context, "metastore:0")


def rows_of(found: Pointers) -> list[dict[str, Any]]:
    assert not isinstance(found.partitions, tuple)
    return [row for batch in found.partitions.batches("partitions") for row in batch.to_pylist()]


@pytest.mark.parametrize("retired", [RETIRED, ("get_table_req", "get_table_objects_by_name_req"), ()])
def test_tables_and_partitions_of_old_and_new_servers(
    retired: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hive, "BATCH", 2)
    server = MetastoreStandIn(retired)
    server.table("orders", "s3a://lake/orders", ("day", "hour"), {"numFiles": "3"})
    server.table("seen", "s3://lake/seen", tableType="VIRTUAL_VIEW")
    server.table("other", "s3://lake/other", database="raw")
    for hour in range(5):
        server.partition("orders", ["1", str(hour)], f"s3a://lake/orders/day=1/hour={hour}")
    with served(server):
        found = read(source_of(server, databases=("sal*",)))
        asked = server.asked.count("get_partitions_by_names")
    assert found.tables == (
        CatalogTable("metastore:0", "sales.orders", "lake", "orders/", "hive", "", ("day", "hour"), LONG_AGO),
    )
    assert (found.hive["sales.orders"], found.holes, asked) == (HiveTable(filled=True), (), 3)
    assert [(row["key"], row["values"], row["registered_at"]) for row in rows_of(found)] == [
        (f"orders/day=1/hour={hour}/", ["1", str(hour)], LONG_AGO.replace(tzinfo=None)) for hour in range(5)
    ]


def test_one_table_now_for_pointers_explain_and_doctor(metastore: MetastoreStandIn) -> None:
    source = source_of(metastore, name="prod")
    pointers = [Pointer(store=source, source_id="m", name=name) for name in ("Sales.I", "sales.none")]
    there, none = current_tables(pointers, Clients()).values()
    assert isinstance(there, CatalogTable)
    assert (there.metadata_location, there.catalog) == (ICEBERG["metadata_location"], "m")
    assert isinstance(none, SourceError)
    assert hive.current(source, Clients(), "sales.none") is None
    assert hive.probe(source, Clients(), NOW).message == "can be read, 1 databases"
    assert hive.probe(source_of(metastore, databases=("none",)), Clients(), NOW).hint
    told = reading.get_entry(hive.list_tables, source, Clients(), "lake", "orders/day=1/x")
    assert told is not None
    assert (told["table"], told["partitioned_by"]) == ("sales.orders", "day")


def refuse(request: str, error: Exception, first: int = 0) -> Callable[[str, Any], None]:
    """From its `first` time on."""
    times = count()

    def fault(asked: str, _: Any) -> None:
        if asked == request and next(times) >= first:
            raise error

    return fault


OF_HIVE = (
    "Number of partitions scanned (={}) on table '{}' exceeds limit (={}). "
    "This is controlled on the metastore server by hive.metastore.limit.partition.request."
)


@pytest.mark.parametrize("words", [OF_HIVE, "request of {} of {!r} is above the maximum of {}"])
@pytest.mark.parametrize("limit", [2, 1])
def test_a_metastore_gives_as_many_partitions_as_it_says(
    metastore: MetastoreStandIn, limit: int, words: str
) -> None:
    """The table's own name looks like a limit, too, and is long."""
    name = "limit_9_" + "x" * 200
    metastore.table(name, "s3://lake/orders", ("day",))
    for day in range(5):
        metastore.partition(name, [str(day)], f"s3://lake/orders/day={day}")

    def limited(request: str, given: Any) -> None:
        if request == "get_partitions_by_names" and len(given[2]) > limit:
            raise MetaException(words.format(len(given[2]), given[1], limit))

    metastore.faults.append(limited)
    found = read(source_of(metastore))
    assert found.holes == ()
    assert len([row for row in rows_of(found) if row["table_name"].endswith(name)]) == 5
    assert metastore.asked.count("get_partitions_by_names") >= 1 + -(-5 // limit)


def test_a_metastore_gives_as_many_tables_as_it_says(metastore: MetastoreStandIn) -> None:
    for number in range(5):
        metastore.table(f"t{number}", f"s3://lake/t{number}")

    def limited(request: str, given: Any) -> None:
        if request == "get_table_objects_by_name_req" and len(given[0].tblNames) > 2:
            raise MetaException("more tables than the limit of 2")

    metastore.faults.append(limited)
    assert {f"sales.t{number}" for number in range(5)} <= {
        table.name for table in read(source_of(metastore)).tables
    }


@pytest.mark.parametrize("words", ["exceeds limit (=0)", "exceeds limit (=1000000)", "exceeds the limit"])
def test_an_invalid_limit_is_a_refusal(metastore: MetastoreStandIn, words: str) -> None:
    metastore.faults.append(refuse("get_partitions_by_names", MetaException(words)))
    (hole,) = read(source_of(metastore)).holes
    assert words in hole.reason
    assert metastore.asked.count("get_partitions_by_names") == 1


@pytest.mark.parametrize(
    ("request_", "error", "subject", "why"),
    [
        ("get_all_tables", MetaException("no\nright"), "sales.*", "answers MetaException: no right"),
        ("get_table_objects_by_name_req", Dropped(), "sales.*", "does not answer"),
        ("get_partition_names", MetaException("limit"), "sales.orders", "answers MetaException: limit"),
        ("get_partitions_by_names", Dropped(), "sales.orders", "does not answer"),
        ("get_partitions_by_names", ValueError("bug"), "sales.orders", "failed: Internal error"),
    ],
)
def test_unreadable_answers_are_evidence_gaps(
    metastore: MetastoreStandIn, request_: str, error: Exception, subject: str, why: str
) -> None:
    metastore.faults.append(refuse(request_, error))
    (hole,) = read(source_of(metastore)).holes
    assert hole.subject == subject
    assert why in hole.reason


def test_a_connection_that_was_dropped_is_made_again(metastore: MetastoreStandIn) -> None:
    for request in ("get_all_databases", "get_partitions_by_names"):
        times = count()

        def once(asked: str, _: Any, request: str = request, times: Any = times) -> None:
            if asked == request and next(times) == 0:
                raise Dropped

        metastore.faults.append(once)
    found = read(source_of(metastore))
    assert (len(rows_of(found)), found.holes) == (5, ())


def test_half_an_answer_is_an_evidence_gap_and_a_partition_dropped_meanwhile_leaves_no_gap(
    metastore: MetastoreStandIn,
) -> None:
    def half(asked: str, given: tuple[Any, ...]) -> Any:
        return metastore.get_partitions_by_names(*given)[:2] if asked == "get_partitions_by_names" else None

    metastore.faults.append(half)
    found = read(source_of(metastore))
    assert [hole.reason for hole in found.holes] == [
        "partitions could not be read: 3 partitions that are named were not returned"
    ]
    metastore.faults.clear()

    def drop(asked: str, _: Any) -> None:
        if asked == "get_partitions_by_names":
            metastore.partitions["sales", "orders"].pop(("4",), None)

    metastore.faults.append(drop)
    found = read(source_of(metastore))
    assert (len(rows_of(found)), found.holes) == (4, ())


@pytest.mark.parametrize("request_", ["get_partition_names", "get_partitions_by_names", "get_table_req"])
def test_a_table_that_is_dropped_meanwhile_is_left_out(metastore: MetastoreStandIn, request_: str) -> None:
    """The server says of its partitions that there are none, or nothing that is an answer."""

    def drop(asked: str, _: Any) -> None:
        if asked == request_:
            metastore.tables.pop(("sales", "orders"), None)

    metastore.faults.append(drop)
    found = read(source_of(metastore))
    assert ([table.name for table in found.tables], found.holes) == (["sales.i"], ())


def test_a_server_that_is_slow_ends_in_one_line(
    metastore: MetastoreStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metastore_client, "READ", 0.05)
    metastore.faults.append(slow(0.3))
    with pytest.raises(SourceError, match=r"does not answer \(TimeoutError\)"):
        read(source_of(metastore))


def _reply(body: bytes) -> bytes:
    """The answer to get_all_databases, with this body."""
    name = b"get_all_databases"
    return struct.pack(">IiI", 0x80010002, len(name), 0)[:8] + name + struct.pack(">I", 0) + body


LIST = b"\x0f\x00\x00"


@pytest.mark.parametrize(
    ("bytes_", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "sent an invalid Thrift response"),
        (b"\x00" * 64, "failed|sent an invalid Thrift response"),
        (_reply(LIST + b"\x0b\x7f\xff\xff\xff"), "sent an invalid Thrift response"),
        (_reply(LIST + b"\x0b\x00\x00\x00\x01\x7f\xff\xff\xff"), "sent an invalid Thrift response"),
        (_reply(b"\x0c\x00\x09" * 5_000), "sent an invalid Thrift response"),
        (_reply(LIST + b"\x0b\x00\x00\x00\x02\x00\x00\x00\x01a"), "does not answer"),
        (b"", "does not answer"),
    ],
    ids=["http", "zeros", "long list", "long text", "deep", "half", "nothing"],
)
def test_invalid_responses_end_in_one_line(bytes_: bytes, why: str) -> None:
    def converse(handle: socket.socket) -> None:
        handle.recv(1 << 16)
        handle.sendall(bytes_)
        handle.close()

    with serving(converse) as uri, pytest.raises(SourceError, match=why) as raised:
        read(Hive(kind="hive", uri=uri))
    assert "\n" not in str(raised.value)


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metastore_client, "LARGEST", 1 << 20)

    def converse(handle: socket.socket) -> None:
        handle.recv(1 << 16)
        handle.sendall(_reply(LIST + b"\x0b\x00\xff\xff\xff"))
        try:
            while True:
                handle.sendall(b"\x00\x00\x10\x00" + b"x" * 4096)
        except OSError:
            pass

    with serving(converse) as uri, pytest.raises(SourceError, match="with more than 1 MiB"):
        read(Hive(kind="hive", uri=uri))


def test_names_are_hostile(metastore: MetastoreStandIn) -> None:
    metastore.table("a.b`c\nd", "not a place\x00", ("x/y",))
    metastore.table("none", "", ("x",))
    metastore.tables["sales", "none"].sd = None
    metastore.partition("orders", ["5"], "s3a://lake/\n")
    found = read(source_of(metastore))
    assert [table.name for table in found.tables] == ["sales.`a.b``c\nd`", "sales.i", "sales.orders"]


def test_the_second_of_several_servers_is_queried_and_the_user_is_named(metastore: MetastoreStandIn) -> None:
    metastore.faults.append(lambda request, _: ["x"] if request == "set_ugi" else None)
    source = Hive(kind="hive", uri=f"thrift://127.0.0.1:9,{metastore.uri}", user="audit")
    assert len(read(source).tables) == 2
    assert metastore.asked[0] == "set_ugi"


def test_kerberos_without_its_packages_is_refused_in_one_line(metastore: MetastoreStandIn) -> None:
    with pytest.raises(SourceError, match="needs the packages pure-sasl and kerberos"):
        read(source_of(metastore, kerberos_service="hive"))
