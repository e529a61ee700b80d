"""Three small Delta tables in a local folder or a bucket, as a scan finds them, and a file that no table lists."""

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.audits.test_bounds import put
from tests.builders.backdate import backdate
from tests.builders.delta_lake import BORN, Log, add
from tests.conftest import Aws

LONG_AGO = datetime.now(UTC) - timedelta(days=9)
TABLES = ("customers", "sales/orders", "sales/returns")


def lay(root: Path) -> Path:
    """Three old tables of two files each, and a file in one of them that no version lists."""
    for name in TABLES:
        files = ("a.parquet", "b.parquet")
        Log(root / name).commit(0, *BORN, *(add(file, size=100) for file in files), when=LONG_AGO)
        for file in files:
            put(root / name / file, 100, LONG_AGO)
    put(root / "customers/unlisted.parquet", 5_000, LONG_AGO)
    return root


def lose(root: Path) -> None:
    """Delete a file of a table."""
    (root / "sales/orders/a.parquet").unlink()


def files_below(folder: Path) -> set[Path]:
    """Return all files below a folder."""
    return {path for path in folder.rglob("*") if path.is_file()}


def lay_in_bucket(aws: Aws, folder: Path) -> str:
    """The old tables in a new bucket with versions; a file was deleted."""
    name = f"scan-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=name)
    aws.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for path in files_below(lay(folder)):
        key = f"wh/{path.relative_to(folder)}"
        aws.s3.upload_file(str(path), name, key)
        backdate(name, key, LONG_AGO)
    aws.s3.delete_object(Bucket=name, Key="wh/customers/a.parquet")
    return name
