"""Commits to Iceberg tables through their REST catalog: a file is taken out, and the state before is set back.

PyIceberg makes the snapshot; what is sent goes the way of the audit's own requests, so that tokens, patience and bounds
are those of the lake file. Every commit names the snapshot that it was built on, and the catalog refuses it where that
is not the current one any more (`assert-ref-snapshot-id`, OpenAPI document of Iceberg's REST catalog).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import DataFile
from pyiceberg.table import CommitTableResponse, TableProperties, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.http import Conflict
from lakeaudit.evidence.catalog.iceberg_rest.reader import RestTable
from lakeaudit.evidence.manifest.iceberg.lists import place_of
from lakeaudit.reconcile.iceberg_files import TableFiles
from lakeaudit.reconcile.protocol import MetSomebody, NotProved
from lakeaudit.runtime.aws import Clients

Json = Mapping[str, Any]
MAIN = "main"


def why_not_committed_to(metadata: Json) -> str | None:
    """Why no commit is made to a table, by its whole metadata as the catalog has it."""
    properties = metadata.get("properties") or {}
    if metadata.get("format-version") not in (1, 2):
        return f"format version {metadata.get('format-version')}: its rows have ids, which PyIceberg does not keep"
    if len(metadata.get("partition-specs") or ()) > 1:
        return "its partitioning has changed"
    kept = {"max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"}
    if kept & (_main(metadata) or {}).keys():
        return "its main branch says itself what is kept of it, which PyIceberg's commit would drop"
    if any(name.startswith(("write.py-", "py-")) for name in properties):
        return "its properties name classes for PyIceberg to run"
    return None


def _main(metadata: Json) -> Any:
    return (metadata.get("refs") or {}).get(MAIN)


@dataclass(frozen=True)
class Committer:
    """Commits to one table."""

    rest: RestTable
    table: Table
    clients: Clients

    def honours_requirements(self) -> bool:
        """Whether a commit that changes nothing, upon a snapshot that is not the current one, is refused."""
        told = self.rest.load()["metadata"]
        current = told.get("current-snapshot-id")
        wrong = {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": 1 if current != 1 else 2}
        try:
            self.rest.commit([wrong], [{"action": "set-properties", "updates": {}}])
        except Conflict:
            return True
        return False

    def remove(self, bucket: str, key: str, seen: Json, marks: Mapping[str, str]) -> None:
        """A snapshot without the file, whose summary has `marks`, only while the current one lists it as it was seen.

        Raises:
            NotProved: the table may not be committed to; nothing was.
            MetSomebody: it is not as it was seen, or another commit came first.
            SourceError: no answer.
        """
        told = self.rest.load()
        if why := why_not_committed_to(told["metadata"]):
            raise NotProved(why)
        if told["metadata"].get("table-uuid") != seen["uuid"]:
            raise MetSomebody
        files = TableFiles(self.clients, self.table.location)
        try:
            staged = self._staged(told, files, (bucket, key), seen, marks)
        except (ValueError, LookupError, TypeError, AttributeError, NotImplementedError) as error:
            files.remove_written()
            raise NotProved(f"PyIceberg makes no commit of it ({type(error).__name__})") from error
        except BaseException:
            files.remove_written()
            raise
        try:
            staged.commit_transaction()
        except CommitFailedException as error:
            raise MetSomebody from error
        except CommitStateUnknownException as error:
            raise SourceError(self.table.name, "nobody can tell whether it was committed", "audit") from error

    def _staged(
        self, told: Json, files: TableFiles, place: tuple[str, str], seen: Json, marks: Mapping[str, str]
    ) -> Transaction:
        metadata = TableMetadataUtil.parse_raw(json.dumps(told["metadata"]))
        metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        table = IcebergTable(
            (self.table.name,), metadata, told["metadata-location"], files, _Through(self.rest)
        )
        file = self._file(table, place, seen)
        staged = table.transaction()
        with staged.update_snapshot(snapshot_properties=dict(marks)).overwrite() as change:
            change.delete_data_file(file)
        return staged

    def _file(self, table: IcebergTable, place: tuple[str, str], seen: Json) -> DataFile:
        """The one entry of the current snapshot that lists the file, as it was seen."""
        snapshot = table.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(table.io)
        if any(manifest.content for manifest in manifests):
            raise NotProved("it has delete files by now")
        entries = [
            entry
            for manifest in manifests
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            if (found := place_of(entry.data_file.file_path, self.clients.names)) is not None
            and (found.bucket, found.key) == place
        ]
        known = [
            {"size": each.data_file.file_size_in_bytes, "records": each.data_file.record_count,
             "snapshot": str(each.snapshot_id)}
            for each in entries
        ]  # fmt: skip
        if known != [{**seen["entry"], "snapshot": str(seen["entry"]["snapshot"])}]:
            raise MetSomebody
        return entries[0].data_file

    def set_back(self, uuid: str, ours: int, before: int | None) -> None:
        """The main branch to a snapshot that it had, only while ours is the current one. Raises as `remove`."""
        told = self.rest.load()["metadata"]
        kept = {each.get("snapshot-id") for each in told.get("snapshots") or ()}
        if told.get("table-uuid") != uuid or told.get("current-snapshot-id") != ours:
            raise MetSomebody
        if before is None or before not in kept:
            raise NotProved("the catalog keeps no snapshot before it that could be gone back to")
        if why := why_not_committed_to(told):
            raise NotProved(why)
        back = {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": before}
        try:
            self.rest.commit(_requirements(uuid, ours), [back])
        except Conflict as error:
            raise MetSomebody from error


def _requirements(uuid: str, current: int) -> list[dict[str, Any]]:
    return [
        {"type": "assert-table-uuid", "uuid": uuid},
        {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": current},
    ]


class _Through(NoopCatalog):
    """The catalog that PyIceberg commits to."""

    def __init__(self, rest: RestTable) -> None:
        super().__init__("lakeaudit")
        self._rest = rest

    def commit_table(
        self,
        table: IcebergTable,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Where it is refused PyIceberg removes what it wrote, so that this is looked at first."""
        known, current = _plain(requirements), table.metadata.current_snapshot_id
        if _requirements(str(table.metadata.table_uuid), current or 0)[1] not in known:
            raise NotProved("PyIceberg names no snapshot that its commit is built on")
        changes = _plain(updates)
        try:
            answer = self._rest.commit(known, changes)
        except Conflict as error:
            answer = self._landed(changes)
            if answer is None:
                raise CommitFailedException(error.what) from error
        try:
            return CommitTableResponse.model_validate_json(json.dumps(answer))
        except ValueError as error:
            raise CommitStateUnknownException("the catalog's answer is no table") from error

    def _landed(self, changes: Sequence[Json]) -> Any:
        """What the table is, where a refused commit was the second of the same, sent again on its way."""
        ours = {each["snapshot"]["snapshot-id"] for each in changes if each["action"] == "add-snapshot"}
        told = self._rest.load()
        known = {each.get("snapshot-id") for each in told["metadata"].get("snapshots") or ()}
        return told if ours & known else None


def _plain(models: Sequence[TableRequirement | TableUpdate]) -> list[dict[str, Any]]:
    return [json.loads(each.model_dump_json()) for each in models]
