"""The answer up to which time commits are verified, as Python and notebooks use it."""

from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO

from lakeaudit.api.printed import Printed
from lakeaudit.commands import verified as command
from lakeaudit.config import Lake
from lakeaudit.json_documents import VerifiedSummary


@dataclass(frozen=True)
class VerifiedTables(Printed):
    """Answers for tables, from the results alone. `print` shows the lines that `lakeaudit verified` prints.

    There are three answers, so `VerifiedTables` has no truth value: compare `answer` with `yes`.
    """

    lake: Lake = field(repr=False)
    answers: tuple[command.Verified, ...]
    through: datetime

    @property
    def answer(self) -> str:
        """Return the worst answer: `no`, else `unknown`, else `yes`."""
        return self.to_dict()["answer"]

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command: 0 yes, 1 no, 3 unknown."""
        return command.exit_code(self.answers)

    def to_dict(self) -> VerifiedSummary:
        """Return the object that `lakeaudit verified --format json` prints."""
        return command.document(self.lake, self.answers, self.through)

    def __bool__(self) -> bool:
        raise TypeError("there are three answers: compare `answer` with 'yes', 'no' or 'unknown'")

    def __str__(self) -> str:
        out = StringIO()
        verdict = command.write(self.lake, self.answers, self.through, out, "text")
        return f"{out.getvalue()}{verdict}"
