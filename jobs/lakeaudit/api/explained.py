"""The explanation of one file, folder or discrepancy, as Python and notebooks use it."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from io import StringIO
from typing import Any

from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.printed import as_json, as_text, verdict_line
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.console import console_on


@dataclass(frozen=True)
class Explained:
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
        out = StringIO()
        at = self.clients.endpoint(self.explanation.bucket, self.explanation.key)
        console = console_on(out, width=120, force_terminal=False)
        as_text(console, self.explanation, self.lake_file, at)
        return f"{out.getvalue()}\n{self.verdict}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
