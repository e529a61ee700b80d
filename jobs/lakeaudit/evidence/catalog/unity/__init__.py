"""Unity Catalog: the open one, or that of a Databricks workspace."""

from collections.abc import Iterator, Mapping
from typing import Literal

from lakeaudit.config.field_types import Glob, Text
from lakeaudit.config.sources.base import EntryProblem
from lakeaudit.evidence.catalog.source import HttpCatalog
from lakeaudit.evidence.kind import CatalogKind, deferred


class Unity(HttpCatalog):
    """A Unity Catalog: the open one, or that of a Databricks workspace; `uri` is what comes before `/api/2.1`."""

    kind: Literal["unity"]
    catalogs: tuple[Glob, ...] = ()
    """Names or patterns of the catalogs that are read; empty: all."""
    scope: Text = "all-apis"

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:
        yield from super().problems(entry)
        if "credential_env" in entry and "oauth2_uri" not in entry:
            hint = "name the workspace's token endpoint, such as https://host/oidc/v1/token"
            yield ("credential_env",), "nothing says where it is exchanged: oauth2_uri", hint


KIND = CatalogKind(
    name="unity",
    title="Unity Catalog",
    model=Unity,
    read=deferred("lakeaudit.evidence.catalog.unity.reader:read"),
    probe=deferred("lakeaudit.evidence.catalog.unity.reader:probe"),
    get=deferred("lakeaudit.evidence.catalog.reading:no_entry"),
    list_tables=deferred("lakeaudit.evidence.catalog.unity.reader:named_tables"),
)
