"""A folder whose place a lake file watches, and what audits say of it."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeaudit.config import Lake, load_lake
from tests.builders.audits import results_of

WEEK = datetime.now(UTC) - timedelta(days=7)
JUST_NOW = datetime.now(UTC) - timedelta(minutes=5)


class Place:
    """A folder with plain files, whose place `wh` a lake file watches; the table `sales/orders` lies in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put("sales/orders/part-0.parquet")

    def put(self, *keys: str, at: datetime = WEEK, body: bytes = b"rows of a file") -> None:
        for key in keys:
            path = self.folder / "wh" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            os.utime(path, (at.timestamp(), at.timestamp()))

    def listed(self, *keys: str) -> bytes:
        """A list of files of fourteen bytes."""
        adds = [
            {"path": f"{self.folder}/wh/{key}", "size": 14, "committed_at": f"{WEEK:%Y-%m-%dT%H:%M:%SZ}"}
            for key in keys
        ]
        return "".join(
            f"{json.dumps(each)}\n" for each in [*adds, {"end": True, "lines": len(keys)}]
        ).encode()

    def lake(self, more: str = "", listed: str = "wh", manifests: str = "", other: str = "") -> Lake:
        """The lake file, loaded; `other` is a second watched folder."""
        path = self.folder / "lake.yaml"
        places = [f"{{kind: listing, location: '{self.folder / each}'}}" for each in (listed, other) if each]
        watched = [f"'{self.folder / each}'" for each in ("wh", other) if each]
        path.write_text(
            f"version: 1\nlake: shop\nresults: {self.folder / 'results'}\n"
            f"inventories: [{', '.join(places)}]\n"
            f"tables: [{{name: orders, location: '{self.folder}/wh/sales/orders'{manifests}}}]\n"
            f"watch: [{', '.join(watched)}]\n{more}"
        )
        return load_lake(path, {})

    def prefix(self, key: str = "") -> str:
        return f"{self.folder}/wh/{key}".lstrip("/")


def findings_by_prefix(lake: Lake, run_id: str = "r1") -> dict[str, dict[str, Any]]:
    """Return the findings by the path of their subject below the watched place."""
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return {str(row["subject"]).partition("/wh/")[2]: row for row in rows}


def kinds(lake: Lake, run_id: str = "r1") -> dict[str, tuple[str, int]]:
    return {place: (row["kind"], row["files"]) for place, row in findings_by_prefix(lake, run_id).items()}


def covered(lake: Lake, run_id: str = "r1") -> dict[str, Any]:
    (row,) = [r for r in results_of(lake).coverage(run_id) if r["table_name"] == lake.watched[0].name]
    return dict(row)


def ledger(lake: Lake) -> dict[str, tuple[str, str | None]]:
    rows = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    return {str(row["subject"]).partition("/wh/")[2]: (row["state"], row["resolution"]) for row in rows}
