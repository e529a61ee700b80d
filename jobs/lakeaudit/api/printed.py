"""Objects whose text is that of a command: `print` shows it, and so does a notebook."""

from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from lakeaudit.runtime.console import console_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

WIDTH = 120
"""Characters of a line."""


class Printed:
    """Shows its text in a notebook, escaped."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def text_of(show: "Callable[[Console], object]") -> str:
    """Return the text that a function prints on a console, without colour."""
    out = StringIO()
    show(console_on(out, width=WIDTH, force_terminal=False))
    return out.getvalue()
