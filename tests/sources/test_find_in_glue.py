"""Tables of Glue's Data Catalog (moto's) as tables of the lake, and the state of Iceberg tables that it points at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import current
from lakeaudit.evidence.catalog.current import current_tables
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.runtime.connections.aws import Clients, Endpoint

TABLES: dict[str, dict[str, Any]] = {
    "orders": {
        "Parameters": {"table_type": "ICEBERG", "metadata_location": "s3://lake/o/metadata/1.metadata.json"}
    },
    "lines": {"Parameters": {"spark.sql.sources.provider": "delta"}},
    "visits": {},
}


@pytest.fixture
def glue(s3: Endpoint) -> Iterator[Any]:
    client: Any = boto3.client("glue", endpoint_url=s3.endpoint)
    client.create_database(DatabaseInput={"Name": "sales"})
    for name, more in TABLES.items():
        storage = {
            "Location": f"s3://lake/{name}/",
            "InputFormat": "org.apache.hadoop.mapred.TextInputFormat",
        }
        said = {"Name": name, "TableType": "EXTERNAL_TABLE", "StorageDescriptor": storage, **more}
        client.create_table(DatabaseName="sales", TableInput=said)
    yield client
    client.delete_database(Name="sales")


def lake_of(folder: Path, s3: Endpoint, tables: str) -> Lake:
    file = folder / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: s3://out/shop\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"metastores: [{{kind: glue, databases: [sales]}}]\ntables: [{tables}]\n"
    )
    return load_lake(file, {})


@pytest.mark.usefixtures("glue")
def test_each_table_is_audited_by_its_format_and_iceberg_by_glue_s_pointer(
    tmp_path: Path, s3: Endpoint
) -> None:
    lake = lake_of(tmp_path, s3, "{discover: {from: glue}}")
    found = find_tables(lake, Clients(s3))
    assert (found.gaps, found.warnings) == ([], [])
    kinds = {table.name: tuple(type(each) for each in table.manifests) for table in found.tables}
    assert kinds == {"sales.orders": (PointedIceberg,), "sales.lines": (DeltaManifest,), "sales.visits": ()}
    ((manifest,),) = (table.manifests for table in found.tables if table.name == "sales.orders")
    assert isinstance(manifest, PointedIceberg)
    (said,) = current_tables(manifest.pointers, Clients(s3)).values()
    assert isinstance(said, CatalogTable)
    assert said.metadata_location == "s3://lake/o/metadata/1.metadata.json"


@pytest.mark.usefixtures("glue")
@pytest.mark.parametrize("single", [0, 8])
def test_a_table_of_the_file_goes_by_glue_too_and_what_glue_does_not_know_has_no_state(
    tmp_path: Path, s3: Endpoint, single: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few tables are requested by their names, many by lists."""
    monkeypatch.setattr(current, "SINGLE", single)
    text = "{{name: mine, location: 's3://lake/orders', manifests: [{{kind: iceberg, catalog: glue, table: {}}}]}}"
    for name in ("sales.orders", "Sales.Orders", "sales.gone"):
        ((manifest,),) = (each.manifests for each in lake_of(tmp_path, s3, text.format(name)).tables)
        assert isinstance(manifest, PointedIceberg)
        assert isinstance(manifest.pointers[0].store, Glue)
        (said,) = current_tables(manifest.pointers, Clients(s3)).values()
        assert isinstance(said, SourceError) == (name == "sales.gone")
    assert "names no such table" in str(said)
