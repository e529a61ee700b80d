"""Describes the lake that is measured, its folder, and the times of its events."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAKES = ROOT / "build" / "bench-lakes"
FIGURES = ROOT / "build" / "bench"

BUCKET = "lake"
SCAN = datetime(2026, 10, 24, 1, tzinfo=UTC)
"""When the inventory's scan began; constant, so that a lake is the same at every audit."""
CHECKPOINT_AT = SCAN - timedelta(days=20)
LAST_HOUR = CHECKPOINT_AT - timedelta(hours=13)
"""The hour of the newest partition."""
CHECKPOINT = 1000
"""The version of each table's only checkpoint; the commits before it were cleaned up."""

PROFILES = ("clean", "real")
FORMATS = ("delta", "iceberg", "hudi")
HUDI_TOKEN = "_0-1-0_20261004010000000"
"""The write token in names of Hudi files."""
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
"""600 files by the kind of their finding."""
OF_THE_STORE = ("hidden", "metastore_stale", "phantom")
"""Kinds of findings that only a metadata store shows."""
ON_FILES = ("dropped", "size_mismatch", "hidden", "metastore_stale")
"""Faults of files that the newest state lists; files with other faults have additional keys."""

_UNITS = {"k": 1000, "m": 1_000_000}


@dataclass(frozen=True)
class Spec:
    """The properties of the lake. Two lakes of equal specs are equal byte for byte, except for compression.

    Attributes:
        size: as in the command, `10k`, `1m`, ...
        profile: clean, or real: 30 % removed and not vacuumed, 5 % unreferenced, 15 % noncurrent versions, 1 % too
            young to judge, one table with 40 % of all files.
        inventory: Parquet or CSV.
        format: the format of its tables.
    """

    size: str
    profile: str = "clean"
    tables: int = 8
    inventory: str = "Parquet"
    seed: int = 7
    format: str = "delta"

    @property
    def files(self) -> int:
        """Return the number of files of each source."""
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
        """Return the inventory's columns; CSV uses other names, see `artefacts`."""
        versions = ("version_id", "is_latest", "is_delete_marker") if self.is_real else ()
        return (
            *("bucket", "key", *versions, "size", "last_modified_date", "e_tag", "storage_class"),
            *("is_multipart_uploaded", "encryption_status"),
        )
