"""Partitions of one plain table, as a catalog has them now, and the writes of them that its API has.

Entering one is refused where one of the same values is there, which is shown before the first write by entering one a
second time. Neither Glue nor Hive has a condition for replacing or removing one: it is read again just before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Partition = Mapping[str, Any]
"""A registered partition as plain JSON: `location`, `descriptor` (how files lie, in the catalog's own form, with the
location), `parameters`, and `entered`, which tells it from another of the same values."""

PLAN = "lakeaudit_plan"
"""The plan that wrote a partition, among its parameters."""
_OF_THE_CATALOG = {
    *("transient_lastDdlTime", "numFiles", "numFilesErasureCoded", "totalSize", "numRows", "rawDataSize"),
    "COLUMN_STATS_ACCURATE",
}
"""Parameters that catalogs and engines put in and bring up to date by themselves."""


@dataclass(frozen=True)
class TableSeen:
    """The table: `identity` tells it from another of its name, `descriptor` is what a new partition's is made of.

    `asked_for`: its readers find files by the partitions that the catalog registers.
    """

    identity: str
    columns: tuple[str, ...]
    location: str
    descriptor: Any
    asked_for: bool


class Occupied(Exception):
    """There is a partition of these values already."""


class PartitionStore(Protocol):
    """One table of one catalog. Raises, from every method, ClientError, BotoCoreError and SourceError."""

    @property
    def name(self) -> str:
        """Of the table, with its catalog."""
        ...

    def table(self) -> TableSeen | None:
        """None: the catalog knows it no more."""
        ...

    def partition(self, values: Sequence[str]) -> Partition | None:
        """The one of these values."""
        ...

    def any_partition(self) -> tuple[Sequence[str], Partition] | None:
        """Some partition with its values; None: the table has none."""
        ...

    def enter(self, values: Sequence[str], partition: Partition) -> None:
        """Register one. Raises Occupied."""
        ...

    def replace(self, values: Sequence[str], partition: Partition) -> None:
        """Put one in the place of the one of these values."""
        ...

    def remove(self, values: Sequence[str]) -> None:
        """Forget the one of these values; files are left alone."""
        ...

    def placed(self, descriptor: Any, location: str) -> Any:
        """The same descriptor at another place."""
        ...


def alike(one: Partition | None, other: Partition | None) -> bool:
    """Whether both are the same to readers: place, form and parameters, but for what catalogs put in themselves."""
    return (one is None and other is None) or (
        one is not None
        and other is not None
        and (one["location"], one["descriptor"]) == (other["location"], other["descriptor"])
        and _own(one["parameters"]) == _own(other["parameters"])
    )


def _own(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name not in _OF_THE_CATALOG}


def refuses_doubles(store: PartitionStore) -> bool:
    """Whether a partition is not entered over another; of a table without any nothing can be tried, nor overwritten."""
    found = store.any_partition()
    if found is None:
        return True
    try:
        store.enter(*found)
    except Occupied:
        return True
    return False
