"""Permanently remove objects that are in the quarantine for longer than `keep`, by the table `actions`, not a listing.

Each object is read again, and removed only while it matches the record: a copy by If-Match or by its version id, a
hidden version by its id. After a kill, the next run notices and records the objects that were removed.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.references import Key, References, Said
from lakeaudit.keys import Location
from lakeaudit.reconcile.actions.files.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.files.quarantine import Quarantine
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, Forms
from lakeaudit.reconcile.copying import head_or_none
from lakeaudit.reconcile.execution import journal
from lakeaudit.reconcile.execution.origins import Origins
from lakeaudit.reconcile.key_state import Unclear, all_versions
from lakeaudit.reconcile.manifest_precondition import MET, unlisted
from lakeaudit.reconcile.plans.lost_content import NOTHING_LOST, LostContent
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.threads import Pacer, beside
from lakeaudit.schemas import RECONCILE_RESULTS

THREADS = 8
TOGETHER = 1000
"""Objects that are removed and recorded together; later commits of the tables are read before."""
WINDOW = 20_000
"""Objects for which the tables' manifests are read completely once."""

_REMOVED = (journal.APPLIED, journal.KEPT)
"""Statuses in which the file is not at its place: the quarantined object is its last copy."""
_COPIED = (*_REMOVED, journal.UNDONE, journal.MOVED_ON, journal.CHANGED, journal.NOT_SAFE, journal.FAILED)
"""Statuses in which the quarantine may contain a copy."""
_AFTER = {Quarantine.name: _COPIED, HideLeftover.name: _REMOVED}


@dataclass(frozen=True)
class QuarantinedObject:
    """A row of `actions` whose retention in the quarantine is over."""

    row: Row

    @property
    def file(self) -> Key:
        """Return the original location of the file."""
        return self.row["bucket"], self.row["key"]

    @property
    def is_last(self) -> bool:
        """Return whether this is the last copy of the file."""
        return self.row["status"] in _REMOVED

    @property
    def precondition(self) -> Mapping[str, Any]:
        """Return the state on which the step was decided."""
        return dict(json.loads(self.row["precondition"]))

    @property
    def undo(self) -> Mapping[str, Any]:
        """Return the data for the undo of the step; empty: it was not done."""
        return dict(json.loads(self.row["undo"] or "{}"))

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return int(self.precondition["size"])

    @property
    def place(self) -> Location:
        """Return the location of the object to remove."""
        copy = self.precondition.get("copy")
        return Location(*self.file) if copy is None else Location.parse(copy)


def due(results: Results, keep: timedelta, now: datetime) -> Iterator[list[QuarantinedObject]]:
    """Yield objects that may be purged; one batch is in memory at a time.

    Raises:
        CannotAudit: the record cannot be read.
    """
    plans = {row["plan_id"]: row["expires_at"] for batch in results.batches("plans", pc.scalar(True))
             for row in batch.to_pylist()}  # fmt: skip
    quarantining = pc.field("action").isin(list(_AFTER))
    for batch in results.batches("actions", quarantining, rows=TOGETHER):
        rows = [row for row in batch.to_pylist() if row["status"] in _AFTER[row["action"]]]
        begun = [(row, [at for at in (row["done_at"], plans.get(row["plan_id"])) if at]) for row in rows]
        if over := [QuarantinedObject(row) for row, times in begun if times and max(times) + keep <= now]:
            yield over


def windows(batches: Iterator[list[QuarantinedObject]]) -> Iterator[list[list[QuarantinedObject]]]:
    """Yield the batches in groups for which the tables are read once."""
    window: list[list[QuarantinedObject]] = []
    for batch in batches:
        window.append(batch)
        if sum(map(len, window)) >= WINDOW:
            yield window
            window = []
    if window:
        yield window


@dataclass(frozen=True)
class Purge:
    """Removes expired objects, and records it.

    `still_ours` raises Busy if another run may hold the lease. An object stays if a state of its table is lost
    (`losing`), since it may be all that is left of it; if it may contain `lost_content`; and if it is the last copy of
    a file whose own table (`origins`) cannot be read completely.
    """

    results: Results
    clients: Clients
    forms: Forms
    pacer: Pacer
    still_ours: Callable[[], None]
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST
    origins: Origins = field(default_factory=Origins)

    def remove(
        self, kept: Sequence[QuarantinedObject], references: References, now: datetime
    ) -> dict[str, str]:
        """Remove objects; return by action_id why each stays, empty if it was removed.

        Raises:
            CannotPublish: the record cannot be written.
        """
        listed_in = references.of([each.file for each in kept if each.is_last])
        whole = references.whole
        with beside(THREADS) as pool:
            why = pool.map(lambda each: self._stays(each, listed_in, whole) or self._remove(each), kept)
            left = {each.row["action_id"]: reason for each, reason in zip(kept, why, strict=True)}
        removed = [each.row | {"status": journal.PURGED, "done_at": now} for each in kept
                   if not left[each.row["action_id"]]]  # fmt: skip
        if removed:
            rows = pa.Table.from_pylist(removed, RECONCILE_RESULTS["actions"])
            same = f"old.action_id = new.action_id AND old.lake = {delta_writer.texts(self.results.lake)}"
            delta_writer.update(self.results, "actions", rows, same, ("status", "done_at"))
        return left

    def _stays(self, kept: QuarantinedObject, listed_in: Said, whole: Collection[str]) -> str:
        """Return why the last copy of a file stays: a table may need it, or cannot be read."""
        if not kept.is_last:
            return ""
        unread = self.origins.unread(kept.row["table_name"] or "", kept.file, whole)
        return self._loss_in_table(kept) or _listed(kept, listed_in) or unread

    def _loss_in_table(self, kept: QuarantinedObject) -> str:
        kind = self.losing.get(kept.row["table_name"])
        reason = self.lost_content.may_hold(kept.row["key"], kept.size)
        return reason or "" if kind is None else f"a state of its table is lost ({kind})"

    def _remove(self, kept: QuarantinedObject) -> str:
        self.still_ours()
        self.pacer.wait()
        try:
            return self._remove_copy(kept) if "copy" in kept.precondition else self._remove_version(kept)
        except Unclear as error:
            return str(error)
        except SourceError as error:
            return error.what
        except (ClientError, BotoCoreError) as error:
            return explain(error).what

    def _remove_copy(self, kept: QuarantinedObject) -> str:
        """Remove a copy by its version id if the bucket keeps versions, else by If-Match."""
        place, s3 = kept.place, self.clients.s3(*kept.place)
        copy = head_or_none(s3, place)
        if copy is None:
            return ""
        if kept.undo and (copy.size, copy.etag) != (kept.undo["size"], kept.undo["etag"]):
            return "the object in the quarantine was replaced"
        at: Any = {"Bucket": place.bucket, "Key": place.key}
        if copy.version_id is not None:
            s3.delete_object(**at, VersionId=copy.version_id)
        elif DELETE_IF_MATCH in self.forms.honoured(place.bucket):
            s3.delete_object(**at, IfMatch=f'"{copy.etag}"')
        else:
            return "the store does not honour If-Match of DeleteObject"
        return ""

    def _remove_version(self, kept: QuarantinedObject) -> str:
        """Remove the version beneath a delete marker, and the marker if nothing else is left of the key."""
        s3, (bucket, key) = self.clients.s3(*kept.file), kept.file
        versions = all_versions(s3, bucket, key, self.pacer.wait).versions
        version = next((v for v in versions if v.version_id == kept.precondition["version_id"]), None)
        if version is not None and version.is_latest is not False:
            return "the file exists again"
        if version is not None:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=version.version_id)
        others = [each for each in versions if each != version]
        if [each.version_id for each in others] == [kept.undo.get("delete_marker")]:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=others[0].version_id)
        return ""


def _listed(kept: QuarantinedObject, listed_in: Said) -> str:
    """Return why the last copy of a file stays: a table lists it now, or a table that may list it cannot be read."""
    met, why = unlisted(listed_in.get(kept.file, ()))
    return "" if met == MET else why
