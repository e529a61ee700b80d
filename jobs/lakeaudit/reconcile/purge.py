"""Remove for good what lies in the quarantine for longer than `keep`: by the record `actions`, never by a listing.

Each object is looked at again, and removed only while it is what the record says: a copy by If-Match or by its version
id, a hidden version by its id. Killed anywhere, the next run finds gone what was removed, and records it.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.references import Key, References, Said
from lakeaudit.keys import Location
from lakeaudit.reconcile import journal
from lakeaudit.reconcile.actions.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.quarantine import Quarantine
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, Forms
from lakeaudit.reconcile.copying import found
from lakeaudit.reconcile.key_state import Unclear, all_versions
from lakeaudit.reconcile.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.need import WANTED, unlisted
from lakeaudit.reconcile.origins import Origins
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.threads import Pacer, beside
from lakeaudit.schemas import RECONCILE_RESULTS

THREADS = 8
TOGETHER = 1000
"""Objects that are removed and recorded together; before that the tables are asked what commits did since."""
WINDOW = 20_000
"""Objects for which the tables' manifests are read whole once."""

_REMOVED = (journal.APPLIED, journal.KEPT)
"""The file is not at its place: what is purged is the last of it."""
_COPIED = (*_REMOVED, journal.UNDONE, journal.MOVED_ON, journal.CHANGED, journal.NOT_SAFE, journal.FAILED)
"""A copy may lie in the quarantine."""
_AFTER = {Quarantine.name: _COPIED, HideLeftover.name: _REMOVED}


@dataclass(frozen=True)
class Kept:
    """A row of `actions` whose time in the quarantine is over."""

    row: Row

    @property
    def file(self) -> Key:
        """The file that it was."""
        return self.row["bucket"], self.row["key"]

    @property
    def is_last(self) -> bool:
        """Whether the file is nowhere else."""
        return self.row["status"] in _REMOVED

    @property
    def known(self) -> Mapping[str, Any]:
        """What was decided on."""
        return dict(json.loads(self.row["precondition"]))

    @property
    def undo(self) -> Mapping[str, Any]:
        """What its undo would have to know; empty where it was not done."""
        return dict(json.loads(self.row["undo"] or "{}"))

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.known["size"])

    @property
    def place(self) -> Location:
        """Where the object lies that is removed."""
        return Location.parse(self.known["copy"]) if "copy" in self.known else Location(*self.file)


def due(results: Results, keep: timedelta, now: datetime) -> Iterator[list[Kept]]:
    """What may be purged, some of it in memory at a time.

    Raises:
        CannotAudit: the record cannot be read.
    """
    plans = {row["plan_id"]: row["expires_at"] for batch in results.batches("plans", pc.scalar(True))
             for row in batch.to_pylist()}  # fmt: skip
    wanted = pc.field("action").isin(list(_AFTER))
    for batch in results.batches("actions", wanted, rows=TOGETHER):
        rows = [row for row in batch.to_pylist() if row["status"] in _AFTER[row["action"]]]
        begun = [(row, [at for at in (row["done_at"], plans.get(row["plan_id"])) if at]) for row in rows]
        if over := [Kept(row) for row, times in begun if times and max(times) + keep <= now]:
            yield over


def windows(found: Iterator[list[Kept]]) -> Iterator[list[list[Kept]]]:
    """What is due, as much together as the tables are read for at once."""
    held: list[list[Kept]] = []
    for kept in found:
        held.append(kept)
        if sum(map(len, held)) >= WINDOW:
            yield held
            held = []
    if held:
        yield held


@dataclass(frozen=True)
class Purge:
    """Removes what is due, and records it.

    `still_ours` raises Busy when another run may hold the lease. Nothing is removed of the tables in `losing`, of which
    a state is lost: what no state lists may be all that is left of it; nor of what may hold `lost_content`, nor the
    last of a file whose own table, see `origins`, cannot be read completely.
    """

    results: Results
    clients: Clients
    forms: Forms
    pacer: Pacer
    still_ours: Callable[[], None]
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST
    origins: Origins = field(default_factory=Origins)

    def remove(self, kept: Sequence[Kept], references: References, now: datetime) -> dict[str, str]:
        """By action_id why it stays, empty where it is gone.

        Raises:
            CannotPublish: the record cannot be written.
        """
        said = references.of([each.file for each in kept if each.is_last])
        whole = references.whole
        with beside(THREADS) as pool:
            why = pool.map(lambda each: self._stays(each, said, whole) or self._remove(each), kept)
            left = {each.row["action_id"]: told for each, told in zip(kept, why, strict=True)}
        gone = [each.row | {"status": journal.PURGED, "done_at": now} for each in kept
                if not left[each.row["action_id"]]]  # fmt: skip
        if gone:
            rows = pa.Table.from_pylist(gone, RECONCILE_RESULTS["actions"])
            same = f"old.action_id = new.action_id AND old.lake = {delta_writer.texts(self.results.lake)}"
            delta_writer.update(self.results, "actions", rows, same, ("status", "done_at"))
        return left

    def _stays(self, kept: Kept, said: Said, whole: Collection[str]) -> str:
        """Why the last of a file stays: it may be needed, or nobody can tell."""
        if not kept.is_last:
            return ""
        unread = self.origins.unread(kept.row["table_name"] or "", kept.file, whole)
        return self._lost(kept) or _wanted(kept, said) or unread

    def _lost(self, kept: Kept) -> str:
        kind = self.losing.get(kept.row["table_name"])
        held = self.lost_content.may_hold(kept.row["key"], kept.size)
        return held or "" if kind is None else f"a state of its table is lost ({kind})"

    def _remove(self, kept: Kept) -> str:
        self.still_ours()
        self.pacer.wait()
        try:
            return self._remove_copy(kept) if "copy" in kept.known else self._remove_version(kept)
        except Unclear as error:
            return str(error)
        except (ClientError, BotoCoreError) as error:
            return explain(error).what

    def _remove_copy(self, kept: Kept) -> str:
        """By its version id where the bucket keeps versions, else by If-Match."""
        place, s3 = kept.place, self.clients.s3(*kept.place)
        copy = found(s3, place)
        if copy is None:
            return ""
        if kept.undo and (copy.size, copy.etag) != (kept.undo["size"], kept.undo["etag"]):
            return "what lies in the quarantine is not what was put there"
        at: Any = {"Bucket": place.bucket, "Key": place.key}
        if copy.version_id is not None:
            s3.delete_object(**at, VersionId=copy.version_id)
        elif DELETE_IF_MATCH in self.forms.proved(place.bucket):
            s3.delete_object(**at, IfMatch=f'"{copy.etag}"')
        else:
            return "the store does not honour If-Match of DeleteObject"
        return ""

    def _remove_version(self, kept: Kept) -> str:
        """The version beneath a delete marker, and the marker where nothing else is left of the key."""
        s3, (bucket, key) = self.clients.s3(*kept.file), kept.file
        versions = all_versions(s3, bucket, key, self.pacer.wait).versions
        version = next((v for v in versions if v.version_id == kept.known["version_id"]), None)
        if version is not None and version.is_latest is not False:
            return "the file is there again"
        if version is not None:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=version.version_id)
        others = [each for each in versions if each != version]
        if [each.version_id for each in others] == [kept.undo.get("delete_marker")]:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=others[0].version_id)
        return ""


def _wanted(kept: Kept, said: Said) -> str:
    """Why the last of a file stays: a table lists it by now, or one that may cannot be read."""
    need, why = unlisted(said.get(kept.file, ()))
    return "" if need == WANTED else why
