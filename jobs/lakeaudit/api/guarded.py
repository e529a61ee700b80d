"""The answers about a delete list, as Python and notebooks use them."""

from dataclasses import dataclass, field

from lakeaudit.api.printed import Printed
from lakeaudit.json_documents import GuardSummary


@dataclass(frozen=True)
class Guarded(Printed):
    """Answers for the files of a delete list. `print` shows the last line of `lakeaudit guard`.

    There are three answers (yes, no and unknown), so `Guarded` has no truth value: compare `exit_code` with 0.

    Attributes:
        verdict: the last line of the command.
        exit_code: 0 if every file is free or absent, 1 if a table needs a file, 3 if that is unknown for a file.
        warnings: lines about the list as a whole.
        document: the object that `lakeaudit guard --format json` prints.
    """

    verdict: str
    exit_code: int
    warnings: tuple[str, ...]
    document: GuardSummary = field(repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of files by answer."""
        return self.document["counts"]

    def to_dict(self) -> GuardSummary:
        """Return the object that `lakeaudit guard --format json` prints."""
        return self.document

    def __bool__(self) -> bool:
        raise TypeError("there are three answers: compare `exit_code` with 0, 1 or 3")

    def __str__(self) -> str:
        return "\n".join([*(f"warning: {line}" for line in self.warnings), self.verdict])
