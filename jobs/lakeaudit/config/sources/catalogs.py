"""Catalogs that are asked over HTTP, and the Hive Metastore."""

from typing import Literal

from lakeaudit.config.field_types import EnvName, Glob, Text, ThriftUris, Url
from lakeaudit.config.sources.metastores import CatalogSource


class HttpCatalog(CatalogSource):
    """A catalog at a URL. Secrets stand in environment variables, which the lake file names.

    `bearer_env`: a token, sent as it is. `credential_env`: `id:secret` of a client, exchanged for tokens at
    `oauth2_uri` (OAuth2, client credentials), again whenever one is over; `scope`, `audience` and `resource` are sent
    with it as they are written.
    """

    uri: Url
    bearer_env: EnvName | None = None
    credential_env: EnvName | None = None
    oauth2_uri: Url | None = None
    scope: Text = "catalog"
    audience: Text | None = None
    resource: Text | None = None

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.word


class IcebergRest(HttpCatalog):
    """A catalog that speaks Iceberg's REST protocol; `uri` is what comes before `/v1`."""

    kind: Literal["iceberg_rest"]
    warehouse: Text | None = None
    """Which warehouse of the catalog, where it has several."""
    prefix: Text | None = None
    """What stands between `/v1/` and `namespaces`; None: what the catalog's own configuration says."""


class Unity(HttpCatalog):
    """A Unity Catalog: the open one, or that of a Databricks workspace; `uri` is what comes before `/api/2.1`."""

    kind: Literal["unity"]
    catalogs: tuple[Glob, ...] = ()
    """Names or patterns of the catalogs that are read; empty: all."""
    scope: Text = "all-apis"


class Hive(CatalogSource):
    """A Hive Metastore, asked by Thrift; of several at `uri` the first that takes a connection is asked."""

    knows_partitions = True

    kind: Literal["hive"]
    uri: ThriftUris
    databases: tuple[Glob, ...] = ()
    """Names or patterns of the databases that are read; empty: all."""
    user: Text | None = None
    """As whom it is asked (`set_ugi`), where it does not ask for more than a name; None: as nobody in particular."""
    kerberos_service: Text | None = None
    """The service's part of its Kerberos principal (`hive` of `hive/_HOST@REALM`); None: no Kerberos."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.word

    @property
    def has_point_reads(self) -> bool:
        """It can be asked for the table of a key."""
        return True
