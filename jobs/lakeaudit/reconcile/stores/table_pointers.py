"""Read the metadata.json to which a catalog points for an Iceberg table, and point it to another by a catalog commit.

Glue updates a table on the condition of its VersionId; Hive (4, and later releases of 2.3 and 3) alters one on the
condition of a parameter's value (HIVE-26882). Both are tested first with a condition that does not hold, and with the
unchanged table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.glue.permissions import on_tables_of
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.metastore_client import MetastoreClient
from lakeaudit.grants import Grant
from lakeaudit.reconcile.protocol import ConcurrentChange
from lakeaudit.reconcile.stores.partition_store import PLAN
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

AT, BEFORE = "metadata_location", "previous_metadata_location"
_MET = ("ConcurrentModificationException", "VersionMismatchException")
_MODIFIED = "has been modified"
"""Hive's message if the condition does not hold (`HiveAlterHandler`)."""
_INPUT = (
    *("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor"),
    *("PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
"""Fields of a table that Glue accepts in an update (TableInput)."""


@dataclass(frozen=True)
class PointerState:
    """The pointer of a catalog for a table: `version` is the value for its condition, `plan` the plan that set it."""

    location: str
    version: str
    plan: str | None


class TablePointer(Protocol):
    """One table of one catalog. Every method raises ClientError, BotoCoreError and SourceError."""

    @property
    def name(self) -> str:
        """Return the name of the table with its catalog."""
        ...

    def read(self) -> PointerState | None:
        """Return the pointer; None: the catalog no longer has the table."""
        ...

    def point(self, seen: PointerState, location: str, plan: str) -> None:
        """Set the pointer if it is unchanged. Raises ConcurrentChange."""
        ...

    def honours_conditions(self) -> bool:
        """Return whether the catalog refuses a request whose condition does not hold."""
        ...


@dataclass(frozen=True)
class GluePointer:
    """See `TablePointer`."""

    client: "GlueClient"
    database: str
    table: str
    account: Mapping[str, Any]

    @classmethod
    def of_table(cls, source: Glue, clients: Clients, table: str) -> "GluePointer":
        """Return the pointer of a table by its name in the catalog."""
        database, _, name = table.partition(".")
        account = {"CatalogId": source.catalog_id} if source.catalog_id else {}
        return cls(clients.glue(dynamodb_endpoint(source.way)), database, name, account)

    @property
    def name(self) -> str:
        return f"glue:{self.account.get('CatalogId', '')}:{self.database}.{self.table}:table"

    def read(self) -> PointerState | None:
        try:
            table = self._load()
        except ClientError as error:
            if code_of(error) == "EntityNotFoundException":
                return None
            raise
        parameters = table.get("Parameters") or {}
        return PointerState(parameters.get(AT, ""), str(table.get("VersionId", "")), parameters.get(PLAN))

    def point(self, seen: PointerState, location: str, plan: str) -> None:
        table = self._load()
        table["Parameters"] = _with_location(table.get("Parameters") or {}, location, plan)
        self._update(table, seen.version)

    def honours_conditions(self) -> bool:
        table = self._load()
        version = str(table.get("VersionId", ""))
        if not version.isdecimal():
            return False
        try:
            self._update(table, str(int(version) - 1 if int(version) else 1 << 20))
        except ConcurrentChange:
            return True
        return False

    def _load(self) -> dict[str, Any]:
        answer: Any = self.client.get_table(DatabaseName=self.database, Name=self.table, **self.account)
        return dict(required(answer, "Table"))

    def _update(self, table: Mapping[str, Any], version: str) -> None:
        fields: Any = {name: table[name] for name in _INPUT if name in table}
        try:
            self.client.update_table(
                DatabaseName=self.database,
                TableInput=fields,
                VersionId=version,
                SkipArchive=True,
                **self.account,
            )
        except ClientError as error:
            if code_of(error) in _MET:
                raise ConcurrentChange from error
            raise


def pointer_grant(source: Glue) -> Grant:
    """Return the grant of the requests of `GluePointer`."""
    return on_tables_of(source, "PointTables", ("GetTable", "UpdateTable"))


@dataclass(frozen=True)
class HivePointer:
    """See `TablePointer`; its condition is the location that was read."""

    source: Hive
    database: str
    table: str

    @classmethod
    def of_table(cls, source: Hive, table: str) -> "HivePointer":
        """Return the pointer of a table by its name in the catalog."""
        return cls(source, *hive.database_and_table(table))

    @property
    def name(self) -> str:
        return f"hive:{self.source.uri}:{self.database}.{self.table}:table"

    def read(self) -> PointerState | None:
        try:
            with MetastoreClient(self.source) as metastore:
                parameters = hive.get_table(metastore, self.database, self.table).parameters or {}
        except NotThere:
            return None
        return PointerState(parameters.get(AT, ""), parameters.get(AT, ""), parameters.get(PLAN))

    def point(self, seen: PointerState, location: str, plan: str) -> None:
        with MetastoreClient(self.source) as metastore:
            table = hive.get_table(metastore, self.database, self.table)
            table.parameters = _with_location(table.parameters or {}, location, plan)
            self._alter(metastore, table, seen.version)

    def honours_conditions(self) -> bool:
        with MetastoreClient(self.source) as metastore:
            table = hive.get_table(metastore, self.database, self.table)
            try:
                self._alter(metastore, table, "lakeaudit-canary")
            except ConcurrentChange:
                return True
        return False

    def _alter(self, metastore: MetastoreClient, table: Any, expected: str) -> None:
        from hive_metastore.ttypes import AlterTableRequest, EnvironmentContext

        condition = EnvironmentContext(
            {
                "expected_parameter_key": AT,
                "expected_parameter_value": expected,
                "DO_NOT_UPDATE_STATS": "true",
            }
        )
        request = AlterTableRequest(
            dbName=self.database, tableName=self.table, table=table, environmentContext=condition
        )
        try:
            metastore.change(
                lambda thrift: thrift.alter_table_req(request),
                lambda thrift: thrift.alter_table_with_environment_context(
                    self.database, self.table, table, condition
                ),
            )
        except SourceError as error:
            if _MODIFIED in error.what:
                raise ConcurrentChange from error
            raise


def _with_location(parameters: Mapping[str, str], location: str, plan: str) -> dict[str, str]:
    return {**parameters, BEFORE: parameters.get(AT, ""), AT: location, PLAN: plan}
