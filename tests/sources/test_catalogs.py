"""The contract of readers of catalogs, for each of them."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from hive_metastore.ttypes import MetaException

from lakeaudit.evidence.catalog import http, metastore_client
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.catalog.unity import Unity
from lakeaudit.evidence.registry import catalog_kinds
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders import hive_metastore
from tests.builders.hive_metastore import MetastoreStandIn
from tests.builders.rest_catalog import Answer, Params, RestCatalog, served
from tests.builders.unity_catalog import UnityCatalog
from tests.sources.catalog_contract import PLACES, CatalogContract, World

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http, metastore_client):
        monkeypatch.setattr(module, "wait_a_while", lambda _: None)


def refusing(server: RestCatalog, what: str) -> None:
    def refuse(_: str, path: str, __: Params) -> Answer | None:
        return (403, {}) if path.endswith(what) else None

    server.faults.append(refuse)


class TestIcebergRest(CatalogContract):
    kind = "iceberg_rest"

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[World]:
        server = RestCatalog()
        for name, place in PLACES.items():
            (tmp_path / name).write_text(json.dumps({"location": place.uri}))
            server.tables["sales", name] = tmp_path / name
        with served(server):
            yield World(
                "iceberg_rest",
                IcebergRest(kind="iceberg_rest", uri=server.uri),
                IcebergRest(kind="iceberg_rest", uri=NOBODY),
                Clients(), partial(refusing, server, "/tables"), partial(refusing, server, ""),
            )  # fmt: skip


class TestUnity(CatalogContract):
    kind = "unity"

    @pytest.fixture
    def world(self) -> Iterator[World]:
        server = UnityCatalog()
        for name, place in PLACES.items():
            about = {"storage_location": place.uri, "data_source_format": "DELTA", "table_type": "EXTERNAL"}
            server.infos["main", "sales", name] = about
        with served(server):
            yield World(
                "unity", Unity(kind="unity", uri=server.uri), Unity(kind="unity", uri=NOBODY),
                Clients(), partial(refusing, server, "/tables"), partial(refusing, server, ""),
            )  # fmt: skip


class TestGlue(CatalogContract):
    """On moto's server, of which single operations are refuse in the client."""

    kind = "glue"

    @pytest.fixture
    def world(self, s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
        glue: Any = boto3.client("glue", endpoint_url=s3.endpoint)
        glue.create_database(DatabaseInput={"Name": "contract"})
        for name, place in PLACES.items():
            about = {"Location": place.uri, "InputFormat": "org.apache.hadoop.mapred.TextInputFormat"}
            glue.create_table(
                DatabaseName="contract",
                TableInput={"Name": name, "TableType": "EXTERNAL_TABLE", "StorageDescriptor": about},
            )
        source = Glue(kind="glue", databases=("contract",), endpoint=s3.endpoint, region="us-east-1")
        nowhere = Glue(kind="glue", endpoint=NOBODY, region="us-east-1")
        call = BaseClient._make_api_call  # type: ignore[attr-defined]

        def refuse(*refuse: str) -> None:
            def answer(client: Any, operation: str, given: dict[str, Any]) -> Any:
                if operation in refuse:
                    raise ClientError(
                        {"Error": {"Code": "AccessDeniedException", "Message": "no"}}, operation
                    )
                return call(client, operation, given)

            monkeypatch.setattr(BaseClient, "_make_api_call", answer)

        yield World(
            "glue", source, nowhere, Clients(s3), partial(refuse, "GetTables"),
            partial(refuse, "GetTables", "GetDatabases"),
        )  # fmt: skip
        monkeypatch.undo()
        glue.delete_database(Name="contract")


class TestHive(CatalogContract):
    """On a stand-in; tests/soak/test_hive_metastore.py has a real one."""

    kind = "hive"

    @pytest.fixture
    def world(self) -> Iterator[World]:
        server = MetastoreStandIn()
        for name, place in PLACES.items():
            server.table(name, place.uri)

        def refuse(*refuse: str) -> None:
            def fault(request: str, _: Any) -> None:
                if request in refuse:
                    raise MetaException("Permission denied: user=nobody")

            server.faults.append(fault)

        with hive_metastore.served(server) as uri:
            yield World(
                "hive", Hive(kind="hive", uri=uri), Hive(kind="hive", uri="thrift://127.0.0.1:9"), Clients(),
                partial(refuse, "get_all_tables"), partial(refuse, "get_all_tables", "get_all_databases"),
            )  # fmt: skip


def test_every_catalog_is_held_to_the_contract() -> None:
    held = {suite.kind for suite in CatalogContract.__subclasses__()}
    assert held == set(catalog_kinds())
