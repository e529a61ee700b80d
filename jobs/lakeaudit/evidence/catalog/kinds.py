"""The tables of a catalog of any kind that knows tables, in one way."""

from lakeaudit.config import CatalogSource, Glue, Hive, IcebergRest, Unity
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import glue, hive, iceberg_rest, unity
from lakeaudit.evidence.catalog.picture import Names, no_partitions
from lakeaudit.evidence.catalog.protocol import Pointers
from lakeaudit.runtime.aws import Clients


def list_tables(source: CatalogSource, clients: Clients, source_id: str, names: Names) -> Pointers:
    """The tables of a catalog whose `names` are asked for, or more where that saves nothing; no partition is read.

    Raises:
        SourceError: it cannot be asked at all.
    """
    if isinstance(source, IcebergRest):
        return iceberg_rest.list_tables(source, clients, source_id, names=names)
    if isinstance(source, Glue):
        return glue.list_tables(source, clients, source_id, no_partitions)
    if isinstance(source, Hive):
        return hive.list_tables(source, clients, source_id, names=names)
    if isinstance(source, Unity):
        return unity.list_tables(source, clients, source_id, names=names)
    raise SourceError(source.name, f"tables of kind {source.kind} are not found", "name each table")
