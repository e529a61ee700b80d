"""Which lake is measured, where it lies, and the times at which everything in it happened."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAKES = ROOT / "build" / "bench-lakes"
FIGURES = ROOT / "build" / "bench"

BUCKET = "lake"
SCAN = datetime(2026, 10, 24, 1, tzinfo=UTC)
"""When the inventory's scan began. The past, so that a lake stays the same whenever it is audited."""
CHECKPOINT_AT = SCAN - timedelta(days=20)
LAST_HOUR = CHECKPOINT_AT - timedelta(hours=13)
"""The newest hour of which there is a partition."""
CHECKPOINT = 1000
"""The version of each table's only checkpoint; the commits before it were cleaned up."""

PROFILES = ("clean", "real")
FORMATS = ("delta", "iceberg", "hudi")
HUDI_TOKEN = "_0-1-0_20261004010000000"
"""In names of Hudi's files which task of which write made them."""
FILES_AN_HOUR = 200
PART_ROWS = 500_000
COMMITS = 200
FAULTS = {
    "dropped": 120,
    "size_mismatch": 100,
    "hidden": 100,
    "metastore_stale": 100,
    "phantom": 80,
    "uncommitted": 50,
    "unreferenced": 50,
}
"""600 files by the kind that each must be found as."""
ON_FILES = ("dropped", "size_mismatch", "hidden", "metastore_stale")
"""Faults of files that the newest state lists; the others have keys of their own."""

_UNITS = {"k": 1000, "m": 1_000_000}


@dataclass(frozen=True)
class Spec:
    """What the lake is like. Two lakes of equal specs are equal byte for byte, but for compression.

    Attributes:
        size: as it was asked for, `10k`, `1m`, ...
        profile: clean, or real: 30 % removed and not vacuumed, 5 % unreferenced, 15 % noncurrent versions, 1 % too
            young to judge, one table with 40 % of all files.
        inventory: Parquet or CSV.
        format: what its tables are.
    """

    size: str
    profile: str = "clean"
    tables: int = 8
    inventory: str = "Parquet"
    seed: int = 7
    format: str = "delta"

    @property
    def files(self) -> int:
        """Files of each source."""
        return int(float(self.size[:-1]) * _UNITS[self.size[-1].lower()])

    @property
    def is_real(self) -> bool:
        return self.profile == "real"

    @property
    def name(self) -> str:
        csv = "-csv" if self.inventory == "CSV" else ""
        of = "" if self.format == "delta" else f"-{self.format}"
        return f"{self.size}-{self.profile}-{self.tables}{csv}{of}"

    @property
    def folder(self) -> Path:
        return LAKES / self.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The inventory's columns; CSV names them otherwise, see `artefacts`."""
        versions = ("version_id", "is_latest", "is_delete_marker") if self.is_real else ()
        return (
            *("bucket", "key", *versions, "size", "last_modified_date", "e_tag", "storage_class"),
            *("is_multipart_uploaded", "encryption_status"),
        )
