"""Build the consoles on which commands print. Without colour they write no ANSI sequence, in a terminal either."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

NO_COLOR = "NO_COLOR"
"""A variable of the environment: with any value but the empty one, programs print no colour (no-color.org)."""


def has_color(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether output to a terminal has colour."""
    return not env.get(NO_COLOR)


def console_on(stream: TextIO | None = None, **layout: Any) -> "Console":
    """Return a console on a stream, by default stdout; `layout` are further arguments of `Console`."""
    from rich.console import Console

    # rich's own NO_COLOR keeps bold and dim, which are ANSI sequences, too
    return Console(file=stream, highlight=False, color_system="auto" if has_color() else None, **layout)
