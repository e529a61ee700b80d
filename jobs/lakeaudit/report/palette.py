"""How severities look and are called on the report page and in the dashboard: a colour, a shape and a word each.

The three say the same, so that no reader needs the colour: apart for colour-blind eyes, light and dark, and on paper.
"""

from collections.abc import Mapping

from lakeaudit.formatting import visible

COLOURS: Mapping[str, str] = {
    "critical": "#c0392b",
    "error": "#e67e22",
    "warning": "#d4ac0d",
    "info": "#4a7fb5",
    "fine": "#2f8f7a",
    "unjudged": "#8e6bb5",
}
"""Of areas. Worst first, but for what could not be judged; of falling darkness, so apart without colour too."""

INKS: Mapping[str, tuple[str, str]] = {
    "critical": ("#b3191b", "#ff8f85"),
    "error": ("#a8480a", "#ffb06b"),
    "warning": ("#7a5d00", "#e3c45a"),
    "info": ("#45607c", "#9db8d3"),
    "fine": ("#256a5b", "#79cdb8"),
    "unjudged": ("#6b3fa0", "#c7aef2"),
}
"""Of text on light and on dark paper: at least 4.5 to 1 (WCAG 2.2, 1.4.3), which areas need not have."""

SHAPES: Mapping[str, str] = {
    "critical": "\u25c6",
    "error": "\u25b2",
    "warning": "\u25a0",
    "info": "\u25cf",
    "fine": "\u2713",
    "unjudged": "?",
}

CALLED: Mapping[str, str] = {"unjudged": "cannot tell", "fine": "quiet"}
"""Levels whose name is not the word for them."""

STATUS_COLOURS: Mapping[str, str] = {
    "complete": "#4a7fb5",
    "partial": "#d4ac0d",
    "suspect": "#8e6bb5",
    "failed": "#c0392b",
    "running": "#9a9aa2",
}
"""Of runs. That one is complete says nothing good of the lake: it is not green."""


STATUS_SHAPES: Mapping[str, str] = {
    "complete": "\u2713", "partial": "\u25a0", "suspect": "?", "failed": "\u25c6", "running": "\u25cf",
}  # fmt: skip


def shape(level: str) -> str:
    """The sign of a level; nothing for what is none of ours."""
    return SHAPES.get(level, "")


def called(level: str) -> str:
    """A level in words of ours; another one as it is."""
    return CALLED.get(level, visible(level))
