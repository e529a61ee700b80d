"""Define one row of a plan: the action for a discrepancy, and the exact state on which it was decided. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime
from typing import Any, Self

from lakeaudit.errors import BadInput
from lakeaudit.formatting import iso

NEEDS_PERSON = "needs_person"
"""Value instead of an action: there is no automatic repair, or it is not safe."""

REVERSIBLE, COMPENSABLE, FINAL = "reversible", "compensable", "final"
"""The undo restores the previous state; it restores all but ids and times of delete markers; there is no undo."""


@dataclass(frozen=True)
class Step:
    """A row of a plan.

    Attributes:
        precondition: state that is required for the action: the key's state, ids of its delete marker and version, and
            the table that lists it.
        evidence: reasons for the step, or reasons why it needs a person.
        undo: description of the undo.
        reversibility: reversible, compensable, final; empty if it needs a person.
        risk: description of the risk.
    """

    plan_id: str
    action_id: str
    discrepancy_id: str
    table_name: str | None
    kind: str
    action: str
    bucket: str | None
    key: str | None
    precondition: Mapping[str, Any]
    evidence: Mapping[str, Any]
    undo: str
    reversibility: str
    risk: str
    rows_at_stake: int | None
    bytes_at_stake: int | None

    @property
    def needs_person(self) -> bool:
        """Return whether there is no automatic repair."""
        return self.action == NEEDS_PERSON

    @property
    def follows(self) -> str | None:
        """Return the action_id of the earlier step of the plan that has to be done first."""
        return self.precondition.get("follows")

    def as_line(self) -> str:
        """Return one line of JSON in ASCII."""
        return json.dumps(asdict(self), default=_plain)

    @classmethod
    def of_line(cls, line: str | bytes) -> Self:
        """Parse the step of a line. Raises BadInput: the line is not a step."""
        try:
            values = json.loads(line)
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput("the plan", "a row of it is not a step", "make a new plan") from error


def _plain(value: object) -> str:
    return iso(value) if isinstance(value, datetime | date) else str(value)
