"""One row of a plan: what is to be done about one discrepancy, and the exact state that it was decided on. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime
from typing import Any, Self

from lakeaudit.errors import BadInput
from lakeaudit.formatting import iso

NEEDS_PERSON = "needs_person"
"""In place of an action: nothing here may be done by a program, or nobody has taught this one how."""

REVERSIBLE, COMPENSABLE, FINAL = "reversible", "compensable", "final"
"""After the undo all is as it was; all but ids and times of delete markers is; there is no undo."""


@dataclass(frozen=True)
class Step:
    """A row of a plan.

    Attributes:
        precondition: what has to hold when it is done: the key's state, ids of its delete marker and version, and what
            the table lists.
        evidence: why it is planned, or why nobody but a person can do it.
        undo: how it is taken back, in words.
        reversibility: reversible, compensable, final; empty for what needs a person.
        risk: in words.
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
        """Whether the program does nothing about it."""
        return self.action == NEEDS_PERSON

    @property
    def follows(self) -> str | None:
        """The action_id of the step before it in the plan that has to be done first."""
        return self.precondition.get("follows")

    def as_line(self) -> str:
        """One line of JSON, in plain ASCII."""
        return json.dumps(asdict(self), default=_plain)

    @classmethod
    def of_line(cls, line: str | bytes) -> Self:
        """The step of a line. Raises BadInput: it is none."""
        try:
            found = json.loads(line)
            return cls(**{field.name: found[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput("the plan", "a row of it is no step", "make a new plan") from error


def _plain(value: object) -> str:
    return iso(value) if isinstance(value, datetime | date) else str(value)
