"""Gives each severity a colour, a shape and a word, for the report page and the dashboard.

The three carry the same meaning, so that no reader needs the colour. Colours also differ for colour-blind readers, on a
light and a dark background, and in print.
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
"""Colours of areas, worst first, except `unjudged`; brightness rises, so that they differ in black and white."""

INKS: Mapping[str, tuple[str, str]] = {
    "critical": ("#b3191b", "#ff8f85"),
    "error": ("#a8480a", "#ffb06b"),
    "warning": ("#7a5d00", "#e3c45a"),
    "info": ("#45607c", "#9db8d3"),
    "fine": ("#256a5b", "#79cdb8"),
    "unjudged": ("#6b3fa0", "#c7aef2"),
}
"""Colours of text on a light and a dark background, with a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3)."""

SHAPES: Mapping[str, str] = {
    "critical": "\u25c6",
    "error": "\u25b2",
    "warning": "\u25a0",
    "info": "\u25cf",
    "fine": "\u2713",
    "unjudged": "?",
}

DISPLAY_NAMES: Mapping[str, str] = {"unjudged": "not judged", "fine": "quiet"}
"""Words for levels that differ from the level's name."""

STATUS_COLOURS: Mapping[str, str] = {
    "complete": "#4a7fb5",
    "partial": "#d4ac0d",
    "suspect": "#8e6bb5",
    "failed": "#c0392b",
    "running": "#9a9aa2",
}
"""Colours of runs. A complete run may have found damage, so that its colour is not green."""


STATUS_SHAPES: Mapping[str, str] = {
    "complete": "\u2713", "partial": "\u25a0", "suspect": "?", "failed": "\u25c6", "running": "\u25cf",
}  # fmt: skip


def shape(level: str) -> str:
    """Return the sign of a level; empty for an unknown level."""
    return SHAPES.get(level, "")


def display_name(level: str) -> str:
    """Return the word for a level; an unknown level unchanged."""
    return DISPLAY_NAMES.get(level, visible(level))
