"""The dashboard's own style and markup; colours, shapes and words of severities stand in `report/palette.py`.

Nothing here holds stored text, which would act as markup: severities of ours and numbers, no more.
"""

from collections.abc import Mapping
from urllib.parse import quote

from lakeaudit.formatting import count
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import palette
from lakeaudit.report.open_by_day import Numbers, OpenByDay
from lakeaudit.report.plots import spark_path

_INKS = "\n".join(
    f".tile.{level} .level {{ color: light-dark({light}, {dark}); }}"
    for level, (light, dark) in palette.INKS.items()
)
GRID = "grid"
COLUMNS = 12
_NUMBERS = "\n".join(
    f'[class*="st-key-{GRID}-"][class*="-n{at}-"] :is(th, td):nth-child({at}) '
    "{ text-align: right !important; white-space: nowrap; }"
    for at in range(1, COLUMNS + 1)
)
"""Columns of numbers: `widgets.grid` names them in its key. Streamlit sets each cell to the left by itself."""
_PHONE = f"""@media (max-width: 640px) {{
  [class*="st-key-{GRID}-"] :is(th, td) {{ padding: .25rem .35rem; font-size: .85rem; }}
  [class*="st-key-{GRID}-"] [data-testid="stTable"] {{
    overflow-x: auto; box-shadow: inset -.7rem 0 .6rem -.7rem #888;
  }}
}}"""
"""A shade at a table's right edge says that there is more of it."""
_OWN = """
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(4.6rem, 1fr)); gap: .5rem; }
.tile { border: 1px solid #8885; border-radius: .4rem; padding: .3rem .6rem .35rem; min-width: 0; }
.tile .level { display: block; font-size: .8rem; font-weight: 600; overflow: hidden; text-overflow: ellipsis; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile.none b, .tile.none .level { font-weight: 400; }
.tile img { display: block; width: 100%; height: 1.6rem; border-bottom: 1px solid #8885; }
.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 2rem; }
[data-testid="stText"], [data-testid="stTable"] { font-variant-numeric: tabular-nums; }
h1 { overflow-wrap: anywhere; }
[data-testid="stCaptionContainer"] { opacity: .8; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { color: inherit; }
button[aria-label="Clear value"] { min-width: 24px; min-height: 24px; }
"""
"""Streamlit's own spacing is made for a paper; an on-call screen shows its first answer without scrolling.

Its captions are too pale to read and its smallest button too small to hit (WCAG 2.2, 1.4.3 and 2.5.8)."""
STYLE = f"<style>{_OWN}{_INKS}\n{_NUMBERS}\n{_PHONE}\n</style>"


def tiles(numbers: Mapping[str, int], days: OpenByDay) -> str:
    """A tile a severity: how many are open, and below it how many were at the end of each day, drawn from 0.

    `st.html` keeps pictures and classes but no inline SVG, so the line is a picture.
    """
    drawn = "".join(_tile(name, numbers.get(name, 0), days.of_severity(name)) for name in SEVERITIES)
    return f'<div class="tiles">{drawn}</div>'


def _tile(severity: str, number: int, days: Numbers) -> str:
    head = f'<span class="level">{palette.shape(severity)} {severity}</span><b>{count(number)}</b>'
    return f'<div class="tile {severity}{"" if number else " none"}">{head}{_line(severity, days)}</div>'


def _line(severity: str, days: Numbers) -> str:
    path = spark_path(days)
    if not path:
        return ""
    size = f"viewBox='0 0 {len(days)} 20' preserveAspectRatio='none'"
    shape = f"<path fill='{palette.COLOURS[severity]}' d='{path}'/>"
    told = f"at the end of each of {len(days)} days: at most {count(max(days))}, the last {count(days[-1])}"
    source = quote(f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{shape}</svg>")
    return f'<img alt="{told}" title="{told}" src="data:image/svg+xml,{source}">'
