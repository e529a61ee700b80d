"""Glue's Data Catalog: what its answers mean, read page by page, and what becomes of answers that fail."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ReadTimeoutError

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import reading
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.glue import reader as glue
from lakeaudit.evidence.catalog.hive_tables import changed_at, format_of, hive_table, location_of
from lakeaudit.evidence.catalog.protocol import GONE, CatalogTable, HiveTable, Pointers, folder_of
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import PARTITION

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SOURCE = Glue(kind="glue", databases=("sales",))
HIVE = "org.apache.hadoop.mapred.TextInputFormat"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def failed(code: str) -> Answer:
    def answer(_: dict[str, Any]) -> dict[str, Any]:
        raise ClientError({"Error": {"Code": code}}, "Glue")

    return answer


def table(name: str, location: str = "s3a://lake/orders/", **more: Any) -> dict[str, Any]:
    descriptor = {"Location": location, "InputFormat": HIVE}
    keys = [{"Name": "day"}, {"Name": "hour"}]
    return {"Name": name, "StorageDescriptor": descriptor, "PartitionKeys": keys, "CreateTime": NOW} | more


def partition(day: int, location: str = "") -> dict[str, Any]:
    place = location or f"s3://lake/orders/day={day}"
    return {"Values": [str(day), "0"], "StorageDescriptor": {"Location": place}, "CreationTime": NOW}


class Service:
    """A stand-in for Glue, with its answers by operation."""

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = {
            "GetDatabases": lambda _: {"DatabaseList": [{"Name": "sales"}, {"Name": "other"}]},
            "GetTables": lambda _: {"TableList": [table("orders")]},
            "GetPartitions": lambda _: {"Partitions": [partition(1)]},
        }
        self.answers |= answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, _: Any, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((operation, given))
        return self.answers[operation](given)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Service]:
    def served(**answers: Answer) -> Service:
        service = Service(**answers)
        monkeypatch.setattr(BaseClient, "_make_api_call", lambda *given: service.call(*given))
        return service

    return served


def read(source: Glue = SOURCE, *places: str) -> Pointers:
    engine = InProcessEngine(2)
    inside = [Location.parse(place) for place in places or ("s3://lake/orders",)]
    context = Context(engine, Clients(), NOW, NOW, True, places=frozenset(inside))
    return reading.read(glue.list_tables, source, context, "metastore:0", lambda: NOW)


def rows_of(found: Pointers) -> list[dict[str, Any]]:
    assert not isinstance(found.partitions, tuple)
    batches = list(found.partitions.batches("partitions"))
    assert all(batch.schema.equals(PARTITION) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_tables_and_partitions_of_the_databases_asked_for(serve: Callable[..., Service]) -> None:
    pages = {
        None: {"TableList": [table("orders")], "NextToken": "2"},
        "2": {"TableList": [table("b", "s3://b")]},
    }
    service = serve(GetTables=lambda given: pages[given.get("NextToken")])
    found = read()
    assert found.tables == (
        CatalogTable("metastore:0", "sales.orders", "lake", "orders/", "hive", "", ("day", "hour"), NOW),
        CatalogTable("metastore:0", "sales.b", "b", "", "hive", "", ("day", "hour"), NOW),
    )
    (row,) = rows_of(found)
    assert (row["table_name"], row["bucket"], row["key"]) == ("sales.orders", "lake", "orders/day=1/")
    assert (row["values"], row["registered_at"]) == (["1", "0"], NOW.replace(tzinfo=None))
    assert {given.get("DatabaseName") for _, given in service.asked} == {None, "sales"}
    assert [given["TableName"] for name, given in service.asked if name == "GetPartitions"] == ["orders"]
    assert found.info.cut is not None
    assert (found.info.role, found.info.rows, found.holes) == ("metastore", 2, ())


def test_many_partitions_are_read_by_segments_each_to_its_last_page(serve: Callable[..., Service]) -> None:
    def pages(given: dict[str, Any]) -> dict[str, Any]:
        if "Segment" not in given:
            return {"Partitions": [partition(0)], "NextToken": "more"}
        segment, second = given["Segment"]["SegmentNumber"], "NextToken" in given
        return {"Partitions": [partition(2 * segment + second)]} | ({} if second else {"NextToken": "2"})

    serve(GetPartitions=pages)
    values = sorted(int(row["values"][0]) for row in rows_of(read()))
    assert values == [*range(2 * glue.SEGMENTS)]


def test_an_account_is_named_in_every_request(serve: Callable[..., Service]) -> None:
    service = serve()
    read(Glue(kind="glue", catalog_id="123456789012"))
    assert {given.get("CatalogId") for _, given in service.asked} == {"123456789012"}


def test_what_has_no_place_of_its_own_is_left_out(serve: Callable[..., Service]) -> None:
    link = table("link") | {"TargetTable": {"DatabaseName": "x"}}
    serve(
        GetTables=lambda _: {"TableList": [table("view", TableType="VIRTUAL_VIEW"), link, table("none", "")]}
    )
    assert read().tables == ()


def timed_out(_: dict[str, Any]) -> dict[str, Any]:
    raise ReadTimeoutError(endpoint_url="https://glue")


@pytest.mark.parametrize(
    ("operation", "answer", "subject", "why"),
    [
        ("GetTables", failed("InternalServiceException"), "sales.*", "answered InternalServiceException"),
        ("GetTables", failed("AccessDeniedException"), "sales.*", "access denied"),
        ("GetTables", timed_out, "sales.*", "did not answer in time"),
        ("GetPartitions", failed("ThrottlingException"), "sales.orders", "answered ThrottlingException"),
        ("GetPartitions", timed_out, "sales.orders", "did not answer in time"),
    ],
)
def test_unreadable_answers_are_evidence_gaps(
    serve: Callable[..., Service], operation: str, answer: Answer, subject: str, why: str
) -> None:
    serve(**{operation: answer})
    (hole,) = read().holes
    assert (hole.source, hole.subject) == ("metastore:0", subject)
    assert why in hole.reason


def test_a_half_read_list_of_partitions_is_an_evidence_gap_and_keeps_its_first_half(
    serve: Callable[..., Service],
) -> None:
    def torn(given: dict[str, Any]) -> dict[str, Any]:
        if given.get("NextToken") == "2":
            failed("InternalServiceException")(given)
        return {"Partitions": [partition(1)], "NextToken": "2"}

    serve(GetPartitions=torn)
    found = read()
    assert [hole.subject for hole in found.holes] == ["sales.orders"]
    assert len(rows_of(found)) == glue.SEGMENTS


def test_a_table_that_is_dropped_meanwhile_leaves_no_gap(serve: Callable[..., Service]) -> None:
    serve(GetPartitions=failed("EntityNotFoundException"))
    found = read()
    assert (found.tables, found.holes, dict(found.hive)) == ((), (), {})
    serve(GetTables=failed("EntityNotFoundException"))
    assert (read().tables, read().holes) == ((), ())
    assert GONE


def test_a_catalog_that_refuses_or_should_show_its_past_cannot_be_read(
    serve: Callable[..., Service],
) -> None:
    serve(GetDatabases=failed("AccessDeniedException"))
    with pytest.raises(SourceError, match="access denied"):
        read()
    past = Context(InProcessEngine(1), Clients(), NOW, NOW, False)
    with pytest.raises(SourceError, match="no past one"):
        reading.read(glue.list_tables, SOURCE, past, "metastore:0")


def test_doctor_and_explain(serve: Callable[..., Service]) -> None:
    service = serve(GetTable=failed("EntityNotFoundException"))
    assert glue.probe(SOURCE, Clients(), NOW).message == "can be read, 1 databases"
    assert glue.probe(Glue(kind="glue", databases=("none",)), Clients(), NOW).hint
    told = reading.get_entry(glue.list_tables, SOURCE, Clients(), "lake", "orders/day=1/x")
    assert told == {
        "table": "sales.orders", "location": "s3://lake/orders", "format": "hive", "partitioned_by": "day, hour",
        "updated_at": NOW,
    }  # fmt: skip
    assert reading.get_entry(glue.list_tables, SOURCE, Clients(), "lake", "orders_2/x") is None
    assert glue.current(SOURCE, Clients(), "sales.orders") is None
    service.answers["GetTable"] = lambda _: {"Table": table("orders", Parameters=ICEBERG)}
    now = glue.current(SOURCE, Clients(), "sales.orders")
    assert now is not None
    assert (now.name, now.metadata_location) == ("sales.orders", "s3://lake/m.json")
    service.answers["GetTable"] = failed("ThrottlingException")
    with pytest.raises(SourceError, match="Throttling"):
        glue.current(SOURCE, Clients(), "sales.orders")


ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://lake/m.json"}


@pytest.mark.parametrize(
    ("parameters", "input_format", "expected"),
    [
        ({}, HIVE, "hive"),
        (ICEBERG, "", "iceberg"),
        ({"spark.sql.sources.provider": "delta"}, HIVE, "delta"),
        ({"spark.sql.sources.provider": "DELTA"}, "", "delta"),
        ({"classification": "delta"}, "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat", "delta"),
        ({"classification": "parquet"}, HIVE, "hive"),
        ({}, "org.apache.hudi.hadoop.HoodieParquetInputFormat", "hudi"),
        ({}, "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat", "unknown"),
        ({"storage_handler": "org.apache.hive.storage.jdbc.JdbcStorageHandler"}, HIVE, "unknown"),
        ({"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}, "", "unknown"),
        ({"storage_handler": "org.apache.hadoop.hive.dynamodb.DynamoDBStorageHandler"}, "", "unknown"),
        ({"storage_handler": "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"}, "", "iceberg"),
        ({"storage_handler": "io.delta.hive.DeltaStorageHandler"}, "", "delta"),
        ({"storage_handler": ""}, HIVE, "hive"),
    ],
)
def test_the_format_of_a_table(parameters: dict[str, str], input_format: str, expected: str) -> None:
    assert format_of(parameters, input_format) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, HiveTable()),
        ({"numRows": "0", "totalSize": "0"}, HiveTable(filled=False)),
        ({"numRows": "-1", "numFiles": "3"}, HiveTable(filled=True)),
        ({"recordCount": "7"}, HiveTable(filled=True)),
        ({"numFiles": "²"}, HiveTable()),
        ({"projection.enabled": "TRUE"}, HiveTable(projected=True)),
        ({"spark.sql.sources.provider": "parquet"}, HiveTable(projected=True)),
        ({"spark.sql.sources.provider": "parquet", "spark.sql.partitionProvider": "catalog"}, HiveTable()),
        ({"spark.sql.sources.provider": "hive"}, HiveTable()),
    ],
)
def test_what_the_properties_of_a_plain_table_say(parameters: dict[str, str], expected: HiveTable) -> None:
    assert hive_table(parameters) == expected


def test_where_a_table_lies_and_when_it_was_changed() -> None:
    assert location_of("s3://lake/a", {"path": "s3://lake/b"}) == "s3://lake/a"
    assert location_of("s3://lake/default-orders-__PLACEHOLDER__", {"path": "s3://lake/b"}) == "s3://lake/b"
    assert location_of("s3://lake/default-orders-__PLACEHOLDER__", {}) == ""
    assert [folder_of(uri) for uri in ("s3n://b/a b%3A/", "hdfs://n/a", "", "/local/x")] == [
        ("b", "a b%3A/"), ("", ""), ("", ""), ("", "local/x/"),
    ]  # fmt: skip
    late = str(int(NOW.timestamp()) + 60)
    assert changed_at({"transient_lastDdlTime": late}, NOW, None) == NOW.replace(minute=1)
    assert changed_at({"transient_lastDdlTime": "soon"}, NOW) == NOW
    assert changed_at({"transient_lastDdlTime": "9" * 30}) is None
