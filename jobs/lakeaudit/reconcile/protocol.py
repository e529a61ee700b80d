"""What an action is: one module that says when it may be done, does it, sees that it was done, and takes it back.

It never trusts what was answered before: `still_holds`, `outcome`, `may_undo` and `is_undone` are asked of a state that
was read just then, so that a run that was killed anywhere can go on.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakeaudit.advice.next_steps import TOLD_APART
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.storage.footers import rows_of
from lakeaudit.evidence.storage.object_versions import STEP, Claimed
from lakeaudit.keys import DELETION_VECTOR
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.key_state import Counted, KeyReader, with_more
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.aws import Clients
from lakeaudit.schemas import plain_time

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RESTORE, OLDER, PROBABLE = "restore", "older_than_onboarding", "probable"
REMOVE_REFERENCE = "remove_reference"
ABORT = "abort_upload"
DROP_PARTITION, REPOINT_TABLE = "drop_partition", "repoint_table"
ALLOWED = (RESTORE, OLDER, PROBABLE, REMOVE_REFERENCE, ABORT, DROP_PARTITION, REPOINT_TABLE)
"""What `--allow` may name."""

METADATA = "missing_metadata"
"""The kind of a lost file of a table's own log or metadata."""

Undo = Mapping[str, Any]
"""What an undo has to know, as plain data."""
State = Any
"""What an action's `look` gives: of an object its versions (`key_state.KeyState`), of an entry the entry."""


@dataclass(frozen=True)
class Sight:
    """What looks at things as they are now, for one plan. `keys` asks storage for objects, at a bounded rate."""

    lake: Lake
    clients: Clients
    keys: KeyReader
    plan_id: str


Look = Callable[[Sight, str, str], State]
"""(sight, bucket, key; of a partition the finding's subject) -> what there is now; raises `Unclear`.

Of one function a plan asks once a row.
"""


def versions_of(sight: Sight, bucket: str, key: str) -> State:
    """All versions of the object, for actions upon objects. Raises Unclear."""
    state = sight.keys.read(bucket, key)

    def rows(version_id: str, size: int) -> int | None:
        sight.keys.pace()
        return rows_of(sight.clients, bucket, key, size, version_id)

    return with_more(state, Counted, rows_of=rows)


@dataclass(frozen=True)
class Wanted:
    """What the table's manifest says of a lost file: `version_id` where it recorded one.

    `once`: files of its kind are written once under their name, by the table's format. `told_apart`: an audit found
    that the object has another content than this, though perhaps the same size. `was_there`: the audit found an object
    there, which is torn or lacks a part.
    """

    claimed: Claimed
    version_id: str | None = None
    once: bool = False
    told_apart: bool = False
    was_there: bool = False

    @property
    def there(self) -> str:
        """Why nothing is brought back where an object is there now."""
        return NEVER_GONE if self.was_there else "the file is there again"


NEVER_GONE = "the file is there, and no action writes over an object of a table's log"


@dataclass(frozen=True)
class Case:
    """One open discrepancy, and what a plan knows beside it.

    Attributes:
        row: of the ledger.
        table: that it is about, as the lake file has it.
        allow: what the user allows beside the default.
        first_audit: when the first complete audit of the table's leftovers looked at storage; None: there was none.
        after: the step of the same discrepancy that comes before, of an action that follows another.
    """

    row: Mapping[str, Any]
    lake: Lake
    table: Table
    allow: Collection[str]
    now: datetime
    first_audit: datetime | None = None
    after: Step | None = None

    @property
    def wanted(self) -> Wanted:
        """What the manifest says of the file; a writer's clock may be late by the table's grace."""
        since = plain_time(self.row["manifest_time"])
        until = None if since is None else since + max(self.table.settings.grace, STEP)
        claimed = Claimed(since, until, self.row["manifest_size"], self.row["manifest_etag"])
        vector = re.search(DELETION_VECTOR, self.row["key"] or "") is not None
        once, kind = vector or self.row["kind"] == METADATA, self.row["kind"]
        was_there = kind == METADATA and self.row.get("storage_size") is not None
        return Wanted(claimed, self.row["manifest_version_id"], once, kind in TOLD_APART, was_there)


@dataclass(frozen=True)
class Proposal:
    """What an action would do, the state that this was decided on, and what shows that it is right."""

    precondition: Mapping[str, Any]
    matched_by: str


@dataclass(frozen=True)
class Target:
    """Where a step acts, and when.

    `forms` are the conditional forms that the bucket's store was shown to honour. `require_lease` raises Busy when
    another run may act now: an act of several requests calls it before each one that removes.
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
class Trace:
    """What identifies that which an act, or with `undoing` its undo, wrote: the version id, else about when."""

    written: str | None
    at: datetime | None
    undoing: bool = False


class NotProved(Exception):
    """The store honours no form that the step may use; its text says which were tried."""


class MetSomebody(Exception):
    """Somebody else did something there at the same time, and nothing was written."""


class Action(Protocol):
    """One way to mend; a line of `registry.ACTIONS`."""

    name: str
    reversibility: str
    undo: str
    risk: str

    @property
    def look(self) -> Look:
        """What it looks at."""
        ...

    def need(self, step: Step) -> Need:
        """What manifests must say for it to be done, and to stay done."""
        ...

    def refuses(self, case: Case) -> str | None:
        """Why it is none of its cases, by what is known already: nothing is looked at then.

        An empty text where another way has said all that there is to say.
        """
        ...

    def propose(self, case: Case, state: State) -> Proposal | str:
        """What would be done; a text says why this way is none."""
        ...

    def still_holds(self, step: Step, state: State) -> bool:
        """Whether all is as it was when the step was decided on."""
        ...

    def act(self, step: Step, target: Target) -> str | None:
        """Do it; the id of a version that it wrote.

        Raises:
            NotProved: it may not be done at this store.
            MetSomebody: it is not as it was seen any more.
            ClientError, BotoCoreError, SourceError: the store's refusal, or no answer.
        """
        ...

    def outcome(self, step: Step, state: State, written: str | None) -> Undo | None:
        """What its undo has to know where the key is as the step leaves it; None: it is not."""
        ...

    def may_undo(self, step: Step, undo: Undo, state: State) -> bool:
        """Whether the key is still as the step left it, and nothing is lost by taking that back."""
        ...

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Undo it; the id of a version that it wrote. Raises as `act`."""
        ...

    def is_undone(self, step: Step, undo: Undo, state: State) -> bool:
        """Whether the key is as it was before the step."""
        ...


@runtime_checkable
class ChecksVersions(Protocol):
    """An action whose condition is an ETag, which another object may have as well."""

    def misplaced(self, step: Step, state: State, trace: Trace) -> str | None:
        """The version id of what the act or its undo wrote over another version than it looked at."""
        ...
