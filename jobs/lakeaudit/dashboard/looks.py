"""The dashboard's own style; colours, shapes and words of severities stand in `report/palette.py`."""

STYLE = """<style>
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }
[data-testid="stMetric"] { padding: .4rem .7rem; }
[data-testid="stMetricValue"] { font-size: 1.5rem; }
[data-testid="stText"], [data-testid="stMetricValue"] { font-variant-numeric: tabular-nums; }
h1 { overflow-wrap: anywhere; }
</style>"""
"""Streamlit's own spacing is made for a paper; an on-call screen shows its first answer without scrolling."""
