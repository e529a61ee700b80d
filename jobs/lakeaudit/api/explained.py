"""The explanation of one file, folder or discrepancy, as Python and notebooks use it."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakeaudit.api.printed import Printed, text_of
from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.printed import as_json, as_text, verdict_line
from lakeaudit.runtime.connections.aws import Clients


@dataclass(frozen=True)
class Explained(Printed):
    """An explanation. `print` shows the text that `lakeaudit explain` prints."""

    explanation: Explanation = field(repr=False)
    lake_file: str = field(repr=False)
    clients: Clients = field(repr=False)

    @cached_property
    def verdict(self) -> str:
        """Return the status of the file in one line."""
        return verdict_line(self.explanation)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `lakeaudit explain --format json` prints."""
        found: dict[str, Any] = json.loads(as_json(self.explanation))
        return found

    def __str__(self) -> str:
        at = self.clients.endpoint(self.explanation.bucket, self.explanation.key)
        text = text_of(lambda console: as_text(console, self.explanation, self.lake_file, at))
        return f"{text}\n{self.verdict}"
