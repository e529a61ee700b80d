"""How severities look on every page: a colour, a shape and a word each, apart for colour-blind eyes, light and dark."""

from collections.abc import Mapping

COLOURS: Mapping[str, str] = {
    "critical": "#c0392b",
    "error": "#e67e22",
    "warning": "#d4ac0d",
    "info": "#4a7fb5",
    "fine": "#2f8f7a",
    "unjudged": "#8e6bb5",
}
"""Worst first, but for what could not be judged. Of falling darkness, so that they stay apart without colour."""

SHAPES: Mapping[str, str] = {
    "critical": "\u25c6",
    "error": "\u25b2",
    "warning": "\u25a0",
    "info": "\u25cf",
    "fine": "\u2713",
    "unjudged": "?",
}

STATUS_COLOURS: Mapping[str, str] = {
    "complete": "#4a7fb5",
    "partial": "#d4ac0d",
    "suspect": "#8e6bb5",
    "failed": "#c0392b",
    "running": "#9a9aa2",
}
"""Of runs. That one is complete says nothing good of the lake: it is not green."""

STYLE = """<style>
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }
[data-testid="stMetric"] { padding: .4rem .7rem; }
[data-testid="stMetricValue"] { font-size: 1.5rem; }
[data-testid="stText"], [data-testid="stMetricValue"] { font-variant-numeric: tabular-nums; }
h1 { overflow-wrap: anywhere; }
</style>"""
"""Streamlit's own spacing is made for a paper; an on-call screen shows its first answer without scrolling."""
