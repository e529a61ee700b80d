"""Tables that are found in inventory reports of Google and Azure, as in S3's."""

from datetime import timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.discovery import table_roots, tables_at
from lakeaudit.evidence.protocol import Context
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import azure_reports, gcs_reports

KEYS = (
    *(f"wh/sales/orders/_delta_log/{0:020}.json", "wh/sales/orders/part-0.parquet"),
    *("wh/crm/people/metadata/00000-x.metadata.json", "wh/plain/part-0.parquet"),
)


def lake(folder: Path, kind: str, under: str) -> Lake:
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: {kind}, location: '{folder / 'reports'}'}}]\n"
        f"tables: [{{discover: {{from: inventory, under: ['{under}'], formats: [delta, iceberg]}}}}]\n"
    )
    return load_lake(path, {})


def put(folder: Path, name: str, content: bytes) -> None:
    path = folder / "reports" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def google(folder: Path) -> Lake:
    records = [gcs_reports.Record(key) for key in KEYS]
    records.append(gcs_reports.Record(f"wh/gone/_delta_log/{0:020}.json", timeDeleted=gcs_reports.TAKEN))
    gcs_reports.lay(lambda name, content: put(folder, name.removeprefix("insights/"), content), [records])
    return lake(folder, "gcs_inventory", "gs://lake/wh")


def azure(folder: Path) -> Lake:
    blobs = [azure_reports.Blob(f"lake/{key}") for key in KEYS]
    azure_reports.lay(lambda name, content: put(folder, name, content), [blobs])
    return lake(folder, "azure_inventory", "abfss://lake@acme.dfs.core.windows.net/wh")


@pytest.mark.parametrize("of", [google, azure])
def test_tables_are_found_in_reports(of: object, tmp_path: Path) -> None:
    described = of(tmp_path)  # type: ignore[operator]
    now = max(gcs_reports.TAKEN, azure_reports.ENDED) + timedelta(hours=9)
    found, roots, gaps = table_roots(described, Context(InProcessEngine(1), Clients(), now, now, live=True))
    tables, doubts = tables_at(found, roots)
    assert (gaps, doubts) == ((), [])
    assert {table.name: table.manifests[0].kind for table in tables} == {
        "sales.orders": "delta",
        "crm.people": "iceberg",
    }
