"""A Hive Metastore, asked by Thrift."""

from typing import Literal

from lakeaudit.config.field_types import Glob, Text, ThriftUris
from lakeaudit.config.sources import CatalogSource
from lakeaudit.evidence.kind import CatalogKind, deferred


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
