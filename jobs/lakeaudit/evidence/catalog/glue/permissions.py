"""The AWS permissions of a Glue Data Catalog."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.grants import Grant, ServiceGrant, arn, wildcards


def permissions(source: Glue, lake: Lake) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`. Glue checks the right to list databases on all of them."""
    catalog, every = _resources(source, "catalog", "database/*")
    yield ServiceGrant("ListDatabases", (catalog, every), ("glue:GetDatabases",), source.way.role_arn)
    yield on_tables_of(source, "ReadCatalogs", ("GetTables", "GetTable", "GetPartitions"))


def on_tables_of(source: Glue, purpose: str, operations: tuple[str, ...]) -> Grant:
    """Return the grant of these operations of Glue on the tables of the databases that the lake file names."""
    names = [wildcards(glob) for glob in source.databases] or ["*"]
    below = [each for name in names for each in (f"database/{name}", f"table/{name}/*")]
    resources = _resources(source, "catalog", *below)
    return ServiceGrant(purpose, resources, tuple(f"glue:{each}" for each in operations), source.way.role_arn)


def _resources(source: Glue, *names: str) -> tuple[str, ...]:
    way = source.way
    return tuple(arn("glue", way.region, way.role_arn, name, source.catalog_id) for name in names)
