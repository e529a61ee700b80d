"""A Hive Metastore, read by Thrift."""

from typing import Literal

from lakeaudit.config.field_types import Glob, Text, ThriftUris
from lakeaudit.config.sources import CatalogSource
from lakeaudit.evidence.kind import CatalogKind, deferred


class Hive(CatalogSource):
    """A Hive Metastore, read by Thrift; if `uri` names several, the first that takes a connection is used."""

    knows_partitions = True

    kind: Literal["hive"]
    uri: ThriftUris
    databases: tuple[Glob, ...] = ()
    """Names or patterns of the databases that are read; empty: all."""
    user: Text | None = None
    """The user name that is sent (`set_ugi`), for metastores that need no more than a name; None: none is sent."""
    kerberos_service: Text | None = None
    """The service's part of its Kerberos principal (`hive` of `hive/_HOST@REALM`); None: no Kerberos."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.word

    @property
    def has_point_reads(self) -> bool:
        """Whether the table of a key can be looked up: always."""
        return True


KIND = CatalogKind(
    name="hive",
    title="the Hive Metastore",
    model=Hive,
    read=deferred("lakeaudit.evidence.catalog.hive.reader:read"),
    probe=deferred("lakeaudit.evidence.catalog.hive.reader:probe"),
    get=deferred("lakeaudit.evidence.catalog.hive.reader:get_entry"),
    list_tables=deferred("lakeaudit.evidence.catalog.hive.reader:named_tables"),
    current=deferred("lakeaudit.evidence.catalog.hive.reader:current"),
)
