"""What an action is: one module that says when it may be done, does it, sees that it was done, and takes it back.

It never trusts what was answered before: `still_holds`, `outcome`, `may_undo` and `is_undone` are asked of a state that
was read just then, so that a run that was killed anywhere can go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakeaudit.evidence.storage.object_versions import Claimed
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.key_state import KeyState
from lakeaudit.reconcile.steps import Step

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Undo = Mapping[str, Any]
"""What an undo has to know, as plain data."""


@dataclass(frozen=True)
class Wanted:
    """What the table's manifest says of a lost file: `version_id` where it recorded one."""

    claimed: Claimed
    version_id: str | None = None


@dataclass(frozen=True)
class Proposal:
    """What an action would do about a key, and the state that this was decided on."""

    precondition: Mapping[str, Any]
    matched_by: str


@dataclass(frozen=True)
class Target:
    """Where a step acts. `forms` are the conditional forms that the bucket's store was shown to honour."""

    s3: "S3Client"
    bucket: str
    key: str
    forms: Forms


class NotProved(Exception):
    """The store honours no form that the step may use; its text says which were tried."""


class Action(Protocol):
    """One way to mend; a line of `registry.ACTIONS`."""

    name: str
    reversibility: str
    undo: str
    risk: str

    def propose(self, wanted: Wanted, state: KeyState) -> Proposal | str:
        """What would be done; a text says why this way is none."""
        ...

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Whether the key is as it was when the step was decided on."""
        ...

    def act(self, step: Step, target: Target) -> str | None:
        """Do it; the id of a version that it wrote.

        Raises:
            NotProved: it may not be done at this store.
            ClientError, BotoCoreError: the store's refusal, or no answer.
        """
        ...

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """What its undo has to know where the key is as the step leaves it; None: it is not."""
        ...

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Whether the key is still as the step left it, and nothing is lost by taking that back."""
        ...

    def take_back(self, undo: Undo, target: Target) -> None:
        """Undo it. Raises as `act`."""
        ...

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """Whether the key is as it was before the step."""
        ...
