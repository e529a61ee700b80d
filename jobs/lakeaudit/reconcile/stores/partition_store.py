"""Define the interface to the partitions of one plain table in a catalog.

The catalog must refuse to enter a partition whose values exist, which is tested before the first write by entering one
a second time. Glue and Hive have no condition for replacing or removing a partition: it is read again just before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Partition = Mapping[str, Any]
"""A registered partition as JSON: `location`, `descriptor` (the storage descriptor in the catalog's own form, with the
location), `parameters`, and `entered`, its creation time, which distinguishes it from another with the same values."""

PLAN = "lakeaudit_plan"
"""Parameter of a partition with the plan that wrote it."""
_OF_THE_CATALOG = {
    *("transient_lastDdlTime", "numFiles", "numFilesErasureCoded", "totalSize", "numRows", "rawDataSize"),
    "COLUMN_STATS_ACCURATE",
}
"""Parameters that catalogs and engines add and update by themselves."""


@dataclass(frozen=True)
class CatalogTable:
    """A table: `identity` distinguishes it from another of its name, `descriptor` is the base of a new partition's.

    `reads_partitions`: its readers find files by the registered partitions.
    """

    identity: str
    columns: tuple[str, ...]
    location: str
    descriptor: Any
    reads_partitions: bool


class Occupied(Exception):
    """A partition with these values exists already."""


class PartitionStore(Protocol):
    """One table of one catalog. Every method raises ClientError, BotoCoreError and SourceError."""

    @property
    def name(self) -> str:
        """Return the name of the table with its catalog."""
        ...

    def table(self) -> CatalogTable | None:
        """Return the table; None: the catalog no longer has it."""
        ...

    def partition(self, values: Sequence[str]) -> Partition | None:
        """Return the partition with these values."""
        ...

    def any_partition(self) -> tuple[Sequence[str], Partition] | None:
        """Return some partition with its values; None: the table has none."""
        ...

    def enter(self, values: Sequence[str], partition: Partition) -> None:
        """Register a partition. Raises Occupied."""
        ...

    def replace(self, values: Sequence[str], partition: Partition) -> None:
        """Replace the partition with these values."""
        ...

    def remove(self, values: Sequence[str]) -> None:
        """Remove the partition with these values from the catalog; its files stay."""
        ...

    def at_location(self, descriptor: Any, location: str) -> Any:
        """Return the descriptor with another location."""
        ...


def same_for_readers(one: Partition | None, other: Partition | None) -> bool:
    """Return whether both have the same location, descriptor and parameters, except those that catalogs add."""
    return (one is None and other is None) or (
        one is not None
        and other is not None
        and (one["location"], one["descriptor"]) == (other["location"], other["descriptor"])
        and _own(one["parameters"]) == _own(other["parameters"])
    )


def _own(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name not in _OF_THE_CATALOG}


def refuses_duplicates(store: PartitionStore) -> bool:
    """Return whether the catalog refuses an existing partition; in a table without any, none can be overwritten."""
    existing = store.any_partition()
    if existing is None:
        return True
    try:
        store.enter(*existing)
    except Occupied:
        return True
    return False
