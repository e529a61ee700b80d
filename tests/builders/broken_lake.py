"""A small lake on the tests' own server with all kinds of damage, and evidence of every kind that AWS serves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders import access_logs, inventory, s3guard
from tests.builders.glue import GlueCatalog
from tests.builders.repair_plans import an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws


def broken_lake(
    aws: Aws, s3: Endpoint, folder: Path, bucket: str, evidence: str, results: str, *, table: str
) -> Lake:
    """Lose a file, rewrite one, add an unlisted one, overwrite a commit; all evidence is available."""
    for name in (bucket, evidence, results):
        aws.s3.create_bucket(Bucket=name)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    an_hour_old(shop)
    lost, torn, *others = shop.keys("orders")
    entries = [
        s3guard.file(bucket, key, mod_time=datetime.now(UTC) - timedelta(hours=1))
        for key in (lost, torn, *others)
    ]
    s3guard.create_table(aws.dynamodb, table, entries)
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    aws.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    aws.s3.put_object(Bucket=bucket, Key="warehouse/orders/stray.parquet", Body=b"stray")
    first = f"warehouse/orders/_delta_log/{0:020}.json"
    aws.s3.put_object(
        Bucket=bucket, Key=first, Body=aws.s3.get_object(Bucket=bucket, Key=first)["Body"].read()
    )
    log = access_logs.content(
        [access_logs.Line("REST.DELETE.OBJECT", lost, datetime.now(UTC), bucket=bucket)]
    )
    aws.s3.put_object(Bucket=evidence, Key=f"logs/{access_logs.name(datetime.now(UTC), 'F')}", Body=log)
    put: Any = lambda key, body: aws.s3.put_object(Bucket=evidence, Key=key, Body=body)  # noqa: E731
    inventory.lay(
        put,
        [inventory.csv(shop.versions())], at=datetime.now(UTC), under="inventories", source=bucket,
        destination=evidence,
    )  # fmt: skip
    catalog = GlueCatalog(Clients(s3), table.replace("-", "_"))
    catalog.table("landing", f"s3://{bucket}/landing", ["day"])
    catalog.partition("landing", ["1"], f"s3://{bucket}/landing/day=1")
    extra = f"""metastores:
- {{kind: s3guard, table: {table}, location: 's3://{bucket}/warehouse'}}
- {{kind: glue, databases: [{catalog.database}]}}
events: [{{kind: s3_access_log, location: 's3://{evidence}/logs/'}}]
"""
    reports = (
        f"[{{kind: s3_inventory, location: 's3://{evidence}/inventories/', margin: 0s}}, "
        f"{{kind: listing, location: 's3://{bucket}/landing/'}}]"
    )
    tables = [
        f"- {{name: orders, location: 's3://{bucket}/warehouse/orders', manifests: [{{kind: delta}}]}}",
        f"- {{name: landing, location: 's3://{bucket}/landing'}}",
    ]
    shop.lake(folder, extra=extra, inventories=reports, tables=tables)
    file = folder / "lake.yaml"
    file.write_text(
        file.read_text().replace(f"results: {folder / 'results'}", f"results: s3://{results}/shop")
    )
    return load_lake(file, {})
