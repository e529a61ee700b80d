"""The answer whether tables may be used, as Python and notebooks use it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO

from lakeaudit.api.printed import Printed
from lakeaudit.commands import check as command
from lakeaudit.config import Lake
from lakeaudit.json_documents import CheckSummary
from lakeaudit.results.summaries.table_answers import Answer, Demand, summary


@dataclass(frozen=True)
class Checked(Printed):
    """Answers for tables, from the results alone. `print` shows the lines that `lakeaudit check` prints.

    There are three answers, so `Checked` has no truth value: compare `answer` with `ok`.
    """

    lake: Lake = field(repr=False)
    answers: tuple[Answer, ...]
    demand: Demand
    at: datetime

    @property
    def answer(self) -> str:
        """Return the worst answer: `discrepancies`, else `unknown`, else `ok`."""
        return self.to_dict()["answer"]

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command: 0 ok, 1 discrepancies, 3 unknown."""
        return command.exit_code(self.answers)

    @property
    def verdict(self) -> str:
        """Return the number of tables by answer, in one line."""
        return summary(Counter(each.answer for each in self.answers))

    def to_dict(self) -> CheckSummary:
        """Return the object that `lakeaudit check --format json` prints."""
        return command.document(self.lake, self.answers, self.demand, self.at)

    def __bool__(self) -> bool:
        raise TypeError("there are three answers: compare `answer` with 'ok', 'discrepancies' or 'unknown'")

    def __str__(self) -> str:
        out = StringIO()
        verdict = command.write(self.lake, self.answers, self.demand, out, "text", self.at)
        return f"{out.getvalue()}{verdict}"
