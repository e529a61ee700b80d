"""Copy a lost file from a replica or backup of the lake file, if there is no object.

The copy must have the recorded size, and the ETag from the table or the metadata store, or the recorded version id.
Without these, `--allow probable` accepts a copy with the recorded number of rows in its Parquet footer.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.evidence.storage.footers import rows_of
from lakeaudit.evidence.storage.head import head_of
from lakeaudit.formatting import iso
from lakeaudit.grants import (
    ABORT,
    DELETE,
    DELETE_VERSION,
    GET,
    GET_TAGS,
    LIST,
    PUT,
    PUT_TAGS,
    Grant,
    S3Grant,
)
from lakeaudit.keys import NULL_VERSION, Location
from lakeaudit.reconcile.actions.files.restore_probable import why_not_these_rows
from lakeaudit.reconcile.actions.files.restoring import Restoring, written_object
from lakeaudit.reconcile.canary import DELETE_IF_MATCH, canary_grants
from lakeaudit.reconcile.conditional_copies import Source, write_where_absent
from lakeaudit.reconcile.copying import cannot_be_copied, head_or_none
from lakeaudit.reconcile.key_state import ENABLED, KeyState, Unclear, with_more
from lakeaudit.reconcile.plans.matching import is_there
from lakeaudit.reconcile.protocol import (
    PROBABLE,
    CannotActSafely,
    Case,
    ConcurrentChange,
    Proposal,
    StateReader,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.runtime.connections.aws_failures import explain, is_missing


@dataclass(frozen=True)
class Copy:
    """The copy of a file in a replica."""

    bucket: str
    key: str
    size: int
    etag: str
    version_id: str | None


@dataclass(frozen=True, kw_only=True)
class ReplicaState(KeyState):
    """The versions of a key, its copies in replicas, and a function that reads their rows from the footer."""

    copies: tuple[Copy, ...]
    rows_of: Callable[[Copy], int | None]

    def copy_of(self, seen: Mapping[str, Any]) -> Copy | None:
        """Return the copy on which a step was decided, if it is unchanged."""
        return next((each for each in self.copies if asdict(each) == seen), None)


def copies_of(reader: StateReader, bucket: str, key: str) -> ReplicaState:
    """Read the state. Raises Unclear."""
    state, copies = reader.keys.read(bucket, key), []
    for replica in reader.lake.replicas:
        if replica.of.holds(bucket, key):
            at = f"{replica.at.prefix}{key[len(replica.of.prefix) :]}"
            copies += [copy] if (copy := _head(reader, replica.at.bucket, at)) else []

    def rows(copy: Copy) -> int | None:
        reader.keys.pace()
        return rows_of(reader.clients, copy.bucket, copy.key, copy.size)

    return with_more(state, ReplicaState, copies=tuple(copies), rows_of=rows)


def _head(reader: StateReader, bucket: str, key: str) -> Copy | None:
    try:
        reader.keys.pace()
        head = head_of(reader.clients.s3(bucket, key).head_object(Bucket=bucket, Key=key))
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and is_missing(error):
            return None
        raise Unclear(f"replica s3://{bucket} cannot be read: {explain(error).what}") from error
    return Copy(bucket, key, head.size, head.etag, head.version_id)


class CopyReplica(Restoring):
    """See the module."""

    name = "copy_replica"
    reversibility = REVERSIBLE
    undo = (
        "delete the written object, by its id or on the condition of its ETag, only while the replica has it"
    )
    risk = "low: an object is written only if there is none"

    look = staticmethod(copies_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        writes = (PUT, PUT_TAGS, DELETE, DELETE_VERSION, ABORT)
        for replica in lake.replicas:
            yield S3Grant("ReadReplicas", replica.at, (GET, GET_TAGS, LIST))
            written = S3Grant("CopyFromReplicas", replica.of, writes)
            yield from (written, *canary_grants(lake, [written]))

    def refuses(self, case: Case) -> str | None:
        """Refuse files without a replica in the lake file."""
        place = case.row["bucket"], case.row["key"]
        if not any(replica.of.holds(*place) for replica in case.lake.replicas):
            return "the lake file names no replica of it"
        return super().refuses(case)

    def propose(self, case: Case, state: ReplicaState) -> Proposal | str:
        """Propose the first copy that matches the record."""
        if state.current is not None:
            return case.restore_target.why_not_absent
        if state.versioning not in (ENABLED, ""):
            return "versioning of its bucket is suspended"
        if not state.copies:
            return "no replica has it"
        refused = []
        for copy in state.copies:
            proof = _proof(case, copy, state)
            if proof.startswith("by "):
                target = {"size": copy.size, "etag": copy.etag, "delete_marker": state.history.marker_id}
                return Proposal(
                    {"state": "absent", "copy": asdict(copy), **target}, proof.removeprefix("by ")
                )
            refused.append(proof)
        return "; ".join(dict.fromkeys(refused))

    def still_holds(self, step: Step, state: ReplicaState) -> bool:
        """Return whether the file is still absent, and the copy unchanged."""
        return _is_absent(step, state) and state.copy_of(step.precondition["copy"]) is not None

    def act(self, step: Step, target: Target) -> str | None:
        """Write on the condition that there is no object, from the copy while it has its ETag."""
        copy = step.precondition["copy"]
        source = Source(copy["bucket"], copy["key"], copy["size"], copy["etag"])
        return write_where_absent(target, source)

    def outcome(self, step: Step, state: ReplicaState, written: str | None) -> Undo | None:
        """Return the undo if there is an object: the written one, or one of the same size and ETag."""
        undo = None if state.current is None else written_object(step, state.current, written)
        if undo is None or state.current is None or undo["version_id"] != NULL_VERSION:
            return undo
        return {**undo, "modified_at": _second(state.current.modified_at)}

    def may_undo(self, step: Step, undo: Undo, state: ReplicaState) -> bool:
        """Return whether the written object is current, and the replica still has the copy."""
        current = state.current
        return (
            current is not None
            and current.version_id == undo["version_id"]
            and is_there(undo, current)
            and undo.get("modified_at") in (None, _second(current.modified_at))
            and state.copy_of(step.precondition["copy"]) is not None
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """Delete the written object by its id; in a bucket without versioning on the condition of its ETag."""
        at: Any = {"Bucket": target.bucket, "Key": target.key}
        if undo["version_id"] != NULL_VERSION:
            target.s3.delete_object(**at, VersionId=undo["version_id"])
            return
        if DELETE_IF_MATCH not in target.forms.honoured(target.bucket):
            raise CannotActSafely("the store does not honour If-Match of DeleteObject")
        now = head_or_none(target.s3, Location(target.bucket, target.key))
        if now is None or undo.get("modified_at") not in (None, _second(now.modified_at)):
            raise ConcurrentChange
        target.s3.delete_object(**at, IfMatch=f'"{undo["etag"]}"')

    def is_undone(self, step: Step, undo: Undo, state: ReplicaState) -> bool:
        """Return whether the previous marker, if any, is current, and the written version is gone."""
        return _is_absent(step, state) and state.version(undo["version_id"]) is None


def _second(at: datetime) -> str:
    """Round to a second: listings of some stores have fractions, HEAD responses have none."""
    return iso(at.replace(microsecond=0))


def _is_absent(step: Step, state: KeyState) -> bool:
    return state.current is None and state.history.marker_id == step.precondition["delete_marker"]


def _proof(case: Case, copy: Copy, state: ReplicaState) -> str:
    """Return the proof of a copy, which begins with `by`; else the reason why it does not match."""
    expected, where = case.restore_target, f"the copy in s3://{copy.bucket}"
    if expected.claimed.size is None or not expected.claimed.fits(copy.size):
        return f"{where} does not have the recorded size"
    if why := cannot_be_copied(copy.size, copy.etag):
        return why
    if expected.version_id is not None and copy.version_id == expected.version_id:
        return "by the version id that was recorded"
    etag = expected.claimed.etag or case.row["metastore_etag"]
    if etag is not None:
        return "by size and ETag" if etag == copy.etag else f"{where} does not have the recorded ETag"
    if PROBABLE not in case.allow:
        return f"no ETag was recorded to compare with {where}: `--allow {PROBABLE}` compares size and rows"
    rows = state.rows_of(copy)
    return why_not_these_rows(case, rows) or f"by size, and {rows} rows by its Parquet footer"
