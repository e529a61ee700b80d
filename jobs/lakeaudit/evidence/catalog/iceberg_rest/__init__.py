"""A catalog that speaks Iceberg's REST protocol."""

from typing import Literal

from lakeaudit.config.field_types import Text
from lakeaudit.evidence.catalog.source import HttpCatalog
from lakeaudit.evidence.kind import CatalogKind, deferred


class IcebergRest(HttpCatalog):
    """A catalog that speaks Iceberg's REST protocol; `uri` is what comes before `/v1`."""

    kind: Literal["iceberg_rest"]
    warehouse: Text | None = None
    """The warehouse of the catalog, where it has several."""
    prefix: Text | None = None
    """The part of the path between `/v1/` and `namespaces`; None: as the catalog's own configuration says."""


KIND = CatalogKind(
    name="iceberg_rest",
    title="Iceberg REST catalogs",
    model=IcebergRest,
    read=deferred("lakeaudit.evidence.catalog.iceberg_rest.reader:read"),
    probe=deferred("lakeaudit.evidence.catalog.iceberg_rest.reader:probe"),
    get=deferred("lakeaudit.evidence.catalog.reading:no_entry"),
    list_tables=deferred("lakeaudit.evidence.catalog.iceberg_rest.reader:named_tables"),
    current_tables=deferred("lakeaudit.evidence.catalog.iceberg_rest.reader:current"),
)
