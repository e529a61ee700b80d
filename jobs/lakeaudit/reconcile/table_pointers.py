"""Which metadata.json a catalog says is an Iceberg table's state, and how it is pointed at another by its own commit.

Glue updates a table on the condition of its VersionId; Hive (4, and later releases of 2.3 and 3) alters one on the
condition of a parameter's value (HIVE-26882). Both are tried first with a condition that does not hold, and the table
as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.metastore_client import MetastoreClient
from lakeaudit.reconcile.partition_store import PLAN
from lakeaudit.reconcile.protocol import MetSomebody
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import code_of
from lakeaudit.runtime.aws_responses import required
from lakeaudit.runtime.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

AT, BEFORE = "metadata_location", "previous_metadata_location"
_MET = ("ConcurrentModificationException", "VersionMismatchException")
_MODIFIED = "has been modified"
"""What Hive says where the condition does not hold (`HiveAlterHandler`)."""
_INPUT = (
    *("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor"),
    *("PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
"""What Glue takes of what it gives (TableInput)."""


@dataclass(frozen=True)
class Pointing:
    """What a catalog says of a table: `version` is what its condition names, `plan` which plan pointed it last."""

    location: str
    version: str
    plan: str | None


class TablePointer(Protocol):
    """One table of one catalog. Raises, from every method, ClientError, BotoCoreError and SourceError."""

    @property
    def name(self) -> str:
        """Of the table, with its catalog."""
        ...

    def read(self) -> Pointing | None:
        """None: the catalog knows it no more."""
        ...

    def point(self, seen: Pointing, location: str, plan: str) -> None:
        """Only where it is as it was seen. Raises MetSomebody."""
        ...

    def honours_conditions(self) -> bool:
        """Whether a condition that does not hold is told as such."""
        ...


@dataclass(frozen=True)
class GluePointer:
    """See `TablePointer`."""

    client: "GlueClient"
    database: str
    table: str
    account: Mapping[str, Any]

    @classmethod
    def opened(cls, source: Glue, clients: Clients, table: str) -> "GluePointer":
        """Of a table by its name in the catalog."""
        database, _, name = table.partition(".")
        account = {"CatalogId": source.catalog_id} if source.catalog_id else {}
        return cls(clients.glue(dynamodb_endpoint(source.way)), database, name, account)

    @property
    def name(self) -> str:
        return f"glue:{self.account.get('CatalogId', '')}:{self.database}.{self.table}:table"

    def read(self) -> Pointing | None:
        try:
            told = self._told()
        except ClientError as error:
            if code_of(error) == "EntityNotFoundException":
                return None
            raise
        words = told.get("Parameters") or {}
        return Pointing(words.get(AT, ""), str(told.get("VersionId", "")), words.get(PLAN))

    def point(self, seen: Pointing, location: str, plan: str) -> None:
        told = self._told()
        told["Parameters"] = _pointed(told.get("Parameters") or {}, location, plan)
        self._update(told, seen.version)

    def honours_conditions(self) -> bool:
        told = self._told()
        version = str(told.get("VersionId", ""))
        if not version.isdecimal():
            return False
        try:
            self._update(told, str(int(version) - 1 if int(version) else 1 << 20))
        except MetSomebody:
            return True
        return False

    def _told(self) -> dict[str, Any]:
        answer: Any = self.client.get_table(DatabaseName=self.database, Name=self.table, **self.account)
        return dict(required(answer, "Table"))

    def _update(self, told: Mapping[str, Any], version: str) -> None:
        given: Any = {name: told[name] for name in _INPUT if name in told}
        try:
            self.client.update_table(
                DatabaseName=self.database,
                TableInput=given,
                VersionId=version,
                SkipArchive=True,
                **self.account,
            )
        except ClientError as error:
            if code_of(error) in _MET:
                raise MetSomebody from error
            raise


@dataclass(frozen=True)
class HivePointer:
    """See `TablePointer`; its condition is the location that was seen."""

    source: Hive
    database: str
    table: str

    @classmethod
    def opened(cls, source: Hive, table: str) -> "HivePointer":
        """Of a table by its name in the catalog."""
        return cls(source, *hive.database_and_table(table))

    @property
    def name(self) -> str:
        return f"hive:{self.source.uri}:{self.database}.{self.table}:table"

    def read(self) -> Pointing | None:
        try:
            with MetastoreClient(self.source) as metastore:
                words = hive.get_table(metastore, self.database, self.table).parameters or {}
        except NotThere:
            return None
        return Pointing(words.get(AT, ""), words.get(AT, ""), words.get(PLAN))

    def point(self, seen: Pointing, location: str, plan: str) -> None:
        with MetastoreClient(self.source) as metastore:
            told = hive.get_table(metastore, self.database, self.table)
            told.parameters = _pointed(told.parameters or {}, location, plan)
            self._alter(metastore, told, seen.version)

    def honours_conditions(self) -> bool:
        with MetastoreClient(self.source) as metastore:
            told = hive.get_table(metastore, self.database, self.table)
            try:
                self._alter(metastore, told, "lakeaudit-canary")
            except MetSomebody:
                return True
        return False

    def _alter(self, metastore: MetastoreClient, told: Any, expected: str) -> None:
        from hive_metastore.ttypes import AlterTableRequest, EnvironmentContext

        condition = EnvironmentContext(
            {
                "expected_parameter_key": AT,
                "expected_parameter_value": expected,
                "DO_NOT_UPDATE_STATS": "true",
            }
        )
        asked = AlterTableRequest(
            dbName=self.database, tableName=self.table, table=told, environmentContext=condition
        )
        try:
            metastore.change(
                lambda thrift: thrift.alter_table_req(asked),
                lambda thrift: thrift.alter_table_with_environment_context(
                    self.database, self.table, told, condition
                ),
            )
        except SourceError as error:
            if _MODIFIED in error.what:
                raise MetSomebody from error
            raise


def _pointed(words: Mapping[str, str], location: str, plan: str) -> dict[str, str]:
    return {**words, BEFORE: words.get(AT, ""), AT: location, PLAN: plan}
