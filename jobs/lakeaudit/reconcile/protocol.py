"""Define the interface of actions: an action decides when it applies, acts, verifies its effect, and reverses it.

`still_holds`, `outcome`, `may_undo` and `is_undone` always get a state that was read immediately before, so that a run
can continue after it was killed at any point.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakeaudit.advice.next_steps import DIFFERING_CONTENT
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.storage.footers import rows_of
from lakeaudit.evidence.storage.object_versions import STEP, Claimed
from lakeaudit.grants import Grant
from lakeaudit.keys import DELETION_VECTOR
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.key_state import KeyReader, StateWithRows, with_more
from lakeaudit.reconcile.manifest_precondition import ManifestPrecondition
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RESTORE, OLDER, PROBABLE = "restore", "older_than_onboarding", "probable"
REMOVE_REFERENCE = "remove_reference"
ABORT = "abort_upload"
DROP_PARTITION, REPOINT_TABLE = "drop_partition", "repoint_table"
ALLOWED = (RESTORE, OLDER, PROBABLE, REMOVE_REFERENCE, ABORT, DROP_PARTITION, REPOINT_TABLE)
"""Values of `--allow`."""

METADATA = "missing_metadata"
"""The kind of a lost file of a table's own log or metadata."""

Undo = Mapping[str, Any]
"""The data that an undo needs, as JSON."""
State = Any
"""The result of an action's `look`: the versions of an object (`key_state.KeyState`), or the entry of a store."""


@dataclass(frozen=True)
class StateReader:
    """Reads current states for one plan. `keys` sends requests for objects at a bounded rate."""

    lake: Lake
    clients: Clients
    keys: KeyReader
    plan_id: str


Look = Callable[[StateReader, str, str], State]
"""(reader, bucket, key) -> the current state; raises `Unclear`. For a partition the key is the finding's subject.

A plan calls each function at most once per row.
"""


def versions_of(reader: StateReader, bucket: str, key: str) -> State:
    """Read all versions of the object, for actions on objects. Raises Unclear."""
    state = reader.keys.read(bucket, key)

    def rows(version_id: str, size: int) -> int | None:
        reader.keys.pace()
        return rows_of(reader.clients, bucket, key, size, version_id)

    return with_more(state, StateWithRows, rows_of=rows)


@dataclass(frozen=True)
class RestoreTarget:
    """The file that a restore has to bring back, as the table's manifest records it.

    Attributes:
        claimed: time, size and ETag.
        version_id: None: the manifest records no version id.
        once: the table's format writes each file name of this kind only once.
        content_differs: the audit found an object with other content, though perhaps of the same size.
        was_there: the audit found an object that is torn or incomplete.
    """

    claimed: Claimed
    version_id: str | None = None
    once: bool = False
    content_differs: bool = False
    was_there: bool = False

    @property
    def why_not_absent(self) -> str:
        """Why an existing object prevents the restore."""
        return NEVER_GONE if self.was_there else "the file exists again"


NEVER_GONE = (
    "this file of the table's log exists, but with other content, and `reconcile` overwrites no file of a log"
)


@dataclass(frozen=True)
class Case:
    """One open discrepancy with its context in a plan.

    Attributes:
        row: row of the ledger.
        table: table of the discrepancy, as in the lake file.
        allow: values of `--allow`.
        first_audit: time of the first complete audit of the table's unused files; None: there was none.
        after: the earlier step of the same discrepancy, for an action that follows another.
    """

    row: Mapping[str, Any]
    lake: Lake
    table: Table
    allow: Collection[str]
    now: datetime
    first_audit: datetime | None = None
    after: Step | None = None

    @property
    def restore_target(self) -> RestoreTarget:
        """Return the file as the manifest records it; a writer's clock may be late by the table's grace."""
        since = plain_time(self.row["manifest_time"])
        until = None if since is None else since + max(self.table.settings.grace, STEP)
        size, etag = self.row["manifest_size"], self.row["manifest_etag"]
        claimed = Claimed(since, until, size, etag, self._least_size if size is None else None)
        vector = re.search(DELETION_VECTOR, self.row["key"] or "") is not None
        once, kind = vector or self.row["kind"] == METADATA, self.row["kind"]
        was_there = kind == METADATA and self.row.get("storage_size") is not None
        return RestoreTarget(
            claimed, self.row["manifest_version_id"], once, kind in DIFFERING_CONTENT, was_there
        )

    @property
    def _least_size(self) -> int | None:
        """How many bytes the file must have, if its finding says that the stored ones are too few."""
        stored = self.row.get("storage_size") if self.row["kind"] == "size_mismatch" else None
        return None if stored is None else stored + 1


@dataclass(frozen=True)
class Proposal:
    """The state on which a step is decided, and the proof that the step is right."""

    precondition: Mapping[str, Any]
    matched_by: str


@dataclass(frozen=True)
class Target:
    """The object on which a step acts, with the time and the clients.

    `forms` are the conditional requests that the bucket's store honours. `require_lease` raises Busy if another run
    may act now: an act of several requests calls it before each request that removes.
    """

    lake: Lake
    clients: Clients
    bucket: str
    key: str
    forms: Forms
    now: datetime
    require_lease: Callable[[], None]

    @property
    def s3(self) -> "S3Client":
        """The client for the key."""
        return self.clients.s3(self.bucket, self.key)


@dataclass(frozen=True)
class WriteIdentity:
    """Identifies the version that an act, or with `undoing` its undo, wrote: by version id, else by time."""

    written: str | None
    at: datetime | None
    undoing: bool = False


class CannotActSafely(Exception):
    """The step cannot act without risk, for example because the store honours no condition; the text is the reason."""


class ConcurrentChange(Exception):
    """Another writer made a change at the same time, and nothing was written."""


class Action(Protocol):
    """One kind of repair; a line of `registry.ACTIONS`."""

    name: str
    reversibility: str
    undo: str
    risk: str

    @property
    def look(self) -> Look:
        """Return the function that reads the current state."""
        ...

    def permissions(self, lake: Lake) -> Iterable[Grant]:
        """Return the AWS permissions of the action and its undo, beyond those to read tables and to write results.

        There are none if the lake file does not allow the action.
        """
        ...

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:
        """Return the condition on manifests under which the step may act, and its effect may remain."""
        ...

    def refuses(self, case: Case) -> str | None:
        """Return why the action cannot apply, without reading any state; None: it may apply.

        An empty text means that the reason of another action suffices.
        """
        ...

    def propose(self, case: Case, state: State) -> Proposal | str:
        """Return the proposed step, or a text with the reason why the action does not apply."""
        ...

    def still_holds(self, step: Step, state: State) -> bool:
        """Return whether the state is unchanged since the step was decided on."""
        ...

    def act(self, step: Step, target: Target) -> str | None:
        """Carry out the step; return the id of the version that it wrote.

        Raises:
            CannotActSafely: the store honours no safe request.
            ConcurrentChange: the state has changed meanwhile.
            ClientError, BotoCoreError, SourceError: the store refused, or did not answer.
        """
        ...

    def outcome(self, step: Step, state: State, written: str | None) -> Undo | None:
        """Return the data for the undo if the state shows the effect of the step, else None."""
        ...

    def may_undo(self, step: Step, undo: Undo, state: State) -> bool:
        """Return whether the state is still as the step left it, and the undo loses nothing."""
        ...

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Reverse the step; return the id of a version that this wrote. Raises as `act`."""
        ...

    def is_undone(self, step: Step, undo: Undo, state: State) -> bool:
        """Return whether the state is as it was before the step."""
        ...


@runtime_checkable
class ChecksVersions(Protocol):
    """An action whose condition is an ETag, which another version may share."""

    def misplaced(self, step: Step, state: State, identity: WriteIdentity) -> str | None:
        """Return the id of the version that the act or its undo wrote over an unexpected version."""
        ...
