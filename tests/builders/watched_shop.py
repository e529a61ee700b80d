"""A small real lake whose access logs are kept: what an audit says of causes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import access_logs
from tests.builders.access_logs import Line, content
from tests.builders.audits import results_of
from tests.builders.backdate import backdate
from tests.builders.shop import Shop
from tests.conftest import Aws

HOUR = timedelta(hours=1)


class Watched:
    """A shop whose access logs are kept, and one table of it that was written two hours ago."""

    def __init__(self, aws: Aws, s3: Endpoint, bucket: str, folder: Path) -> None:
        self.shop = Shop(aws.s3, s3, bucket)
        self.shop.write("orders")
        self.now = datetime.now(UTC).replace(microsecond=0)
        for entry in aws.s3.list_objects_v2(Bucket=bucket, Prefix="warehouse/")["Contents"]:
            is_log = "_delta_log" in entry["Key"]
            backdate(bucket, entry["Key"], self.now - 2 * HOUR - timedelta(seconds=0 if is_log else 9))
        self.keys = self.shop.keys("orders")
        self.folder = folder
        self.at = self.now - HOUR
        """When what is logged happened: after the commits."""

    @property
    def bucket(self) -> str:
        return self.shop.bucket

    def logged(self, lines: Sequence[Line], unique: str = "F") -> str:
        """A log file that was delivered by now; its key."""
        key = f"logs/{access_logs.name(self.now, unique)}"
        self.shop.s3.put_object(Bucket=self.bucket, Key=key, Body=content(lines))
        return key

    def lake(self, kind: str = "s3_access_log", more: str = "") -> Lake:
        events = f"events: [{{kind: {kind}, location: 's3://{self.bucket}/logs/'}}]\n"
        return self.shop.lake(self.folder, extra=events + more)

    def findings_of_run(self, lake: Lake, run_id: str) -> dict[str, tuple[Any, ...]]:
        names = ("kind", "cause", "cause_principal", "cause_at")
        rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
        return {row["key"] or row["subject"]: tuple(row[name] for name in names) for row in rows}
