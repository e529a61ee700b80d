"""The dashboard's own style; colours, shapes and words of severities stand in `report/palette.py`."""

STYLE = """<style>
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }
[data-testid="stMetric"] { padding: .4rem .7rem; }
[data-testid="stMetricValue"] { font-size: 1.5rem; }
[data-testid="stText"], [data-testid="stMetricValue"] { font-variant-numeric: tabular-nums; }
h1 { overflow-wrap: anywhere; }
[data-testid="stCaptionContainer"] { opacity: .8; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { color: inherit; }
button[aria-label="Clear value"] { min-width: 24px; min-height: 24px; }
</style>"""
"""Streamlit's own spacing is made for a paper; an on-call screen shows its first answer without scrolling.

Its captions are too pale to read and its smallest button too small to hit (WCAG 2.2, 1.4.3 and 2.5.8)."""
