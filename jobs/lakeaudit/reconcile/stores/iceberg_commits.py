"""Commit to Iceberg tables through their REST catalog: remove a file, or set the branch back to an earlier snapshot.

PyIceberg builds the snapshot; the requests use the audit's own client, with the tokens, timeouts and limits of the lake
file. Every commit names the snapshot on which it was built, and the catalog refuses it if that is no longer the current
one (`assert-ref-snapshot-id`, OpenAPI document of Iceberg's REST catalog).
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
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.reconcile.protocol import CannotActSafely, ConcurrentChange
from lakeaudit.reconcile.stores.iceberg_files import TableFiles
from lakeaudit.runtime.connections.aws import Clients

Json = Mapping[str, Any]
MAIN = "main"


def why_not_committed_to(metadata: Json) -> str | None:
    """Return why no commit is made to a table, by its whole metadata in the catalog."""
    properties = metadata.get("properties") or {}
    if metadata.get("format-version") not in (1, 2):
        return f"format version {metadata.get('format-version')}: PyIceberg does not preserve its row ids"
    if len(metadata.get("partition-specs") or ()) > 1:
        return "its partitioning has changed"
    retention = {"max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"}
    if retention & (_main(metadata) or {}).keys():
        return "its main branch has a retention policy, which PyIceberg's commit would drop"
    if any(name.startswith(("write.py-", "py-")) for name in properties):
        return "its properties name classes that PyIceberg would run"
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
        """Return whether the catalog refuses a commit without changes on a snapshot that is not the current one."""
        current = self.rest.load()["metadata"].get("current-snapshot-id")
        wrong = {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": 1 if current != 1 else 2}
        try:
            self.rest.commit([wrong], [{"action": "set-properties", "updates": {}}])
        except Conflict:
            return True
        return False

    def remove(self, bucket: str, key: str, seen: Json, marks: Mapping[str, str]) -> None:
        """Commit a snapshot without the file and with `marks` in its summary, while the entry of the file is unchanged.

        Raises:
            CannotActSafely: the table does not permit the commit; nothing was written.
            ConcurrentChange: the entry has changed, or another commit came first.
            SourceError: no answer.
        """
        table = self.rest.load()
        if why := why_not_committed_to(table["metadata"]):
            raise CannotActSafely(why)
        if table["metadata"].get("table-uuid") != seen["uuid"]:
            raise ConcurrentChange
        files = TableFiles(self.clients, self.table.location)
        try:
            staged = self._stage(table, files, (bucket, key), seen, marks)
        except (ValueError, LookupError, TypeError, AttributeError, NotImplementedError) as error:
            files.remove_written()
            raise CannotActSafely(f"PyIceberg cannot build the commit ({type(error).__name__})") from error
        except BaseException:
            files.remove_written()
            raise
        try:
            staged.commit_transaction()
        except CommitFailedException as error:
            raise ConcurrentChange from error
        except CommitStateUnknownException as error:
            what = "the catalog did not answer whether it has committed"
            raise SourceError(self.table.name, what, "run an audit") from error

    def _stage(
        self, loaded: Json, files: TableFiles, place: tuple[str, str], seen: Json, marks: Mapping[str, str]
    ) -> Transaction:
        metadata = TableMetadataUtil.parse_raw(json.dumps(loaded["metadata"]))
        metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        table = IcebergTable(
            (self.table.name,), metadata, loaded["metadata-location"], files, _RestCommits(self.rest)
        )
        file = self._file(table, place, seen)
        staged = table.transaction()
        with staged.update_snapshot(snapshot_properties=dict(marks)).overwrite() as change:
            change.delete_data_file(file)
        return staged

    def _file(self, table: IcebergTable, place: tuple[str, str], seen: Json) -> DataFile:
        """Return the only entry of the current snapshot that lists the file, if it is unchanged."""
        snapshot = table.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(table.io)
        if any(manifest.content for manifest in manifests):
            raise CannotActSafely("the table has delete files now")
        entries = [
            entry
            for manifest in manifests
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            if (at := place_of(entry.data_file.file_path, self.clients.names)) is not None
            and (at.bucket, at.key) == place
        ]
        known = [
            {"size": each.data_file.file_size_in_bytes, "records": each.data_file.record_count,
             "snapshot": str(each.snapshot_id)}
            for each in entries
        ]  # fmt: skip
        if known != [{**seen["entry"], "snapshot": str(seen["entry"]["snapshot"])}]:
            raise ConcurrentChange
        return entries[0].data_file

    def set_back(self, uuid: str, ours: int, before: int | None) -> None:
        """Set the main branch back to an earlier snapshot, while ours is the current one. Raises as `remove`."""
        metadata = self.rest.load()["metadata"]
        snapshots = {each.get("snapshot-id") for each in metadata.get("snapshots") or ()}
        if metadata.get("table-uuid") != uuid or metadata.get("current-snapshot-id") != ours:
            raise ConcurrentChange
        if before is None or before not in snapshots:
            raise CannotActSafely("the catalog has not kept the snapshot before it")
        if why := why_not_committed_to(metadata):
            raise CannotActSafely(why)
        back = {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": before}
        try:
            self.rest.commit(_requirements(uuid, ours), [back])
        except Conflict as error:
            raise ConcurrentChange from error


def _requirements(uuid: str, current: int) -> list[dict[str, Any]]:
    return [
        {"type": "assert-table-uuid", "uuid": uuid},
        {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": current},
    ]


class _RestCommits(NoopCatalog):
    """A PyIceberg catalog that sends commits with the audit's own client."""

    def __init__(self, rest: RestTable) -> None:
        super().__init__("lakeaudit")
        self._rest = rest

    def commit_table(
        self,
        table: IcebergTable,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Send the commit; check first whether a refused one was committed, since PyIceberg then removes its files."""
        known, current = _plain(requirements), table.metadata.current_snapshot_id
        if _requirements(str(table.metadata.table_uuid), current or 0)[1] not in known:
            raise CannotActSafely("PyIceberg does not name the snapshot on which its commit is built")
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
            raise CommitStateUnknownException("the catalog's response is not a table") from error

    def _landed(self, changes: Sequence[Json]) -> Any:
        """Return the table if it contains our snapshot: the refused request was a repetition of a successful one."""
        ours = {each["snapshot"]["snapshot-id"] for each in changes if each["action"] == "add-snapshot"}
        table = self._rest.load()
        known = {each.get("snapshot-id") for each in table["metadata"].get("snapshots") or ()}
        return table if ours & known else None


def _plain(models: Sequence[TableRequirement | TableUpdate]) -> list[dict[str, Any]]:
    return [json.loads(each.model_dump_json()) for each in models]
