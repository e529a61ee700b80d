"""How values get onto the report page: every expression is spelled out, then escaped; style and script are hashed."""

import base64
import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeaudit import formatting, next_steps
from lakeaudit.kinds import KINDS, axis_words
from lakeaudit.report import coverage_view, palette, plots, summary
from lakeaudit.results import recovery


@dataclass(frozen=True)
class Asset:
    """A style or script of our own, with the hash by which the page's policy allows it."""

    text: Markup
    digest: str


def asset(name: str, before: str = "") -> Asset:
    """A packaged file, after a text of ours."""
    text = before + files("lakeaudit.report").joinpath(name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Asset(Markup(text), f"sha256-{digest}")  # noqa: S704 - packaged text of ours, nothing that was read


@cache
def style() -> Asset:
    """The page's style, with the colours that the dashboard has too."""
    light, dark = (_inks(at) for at in (0, 1))
    areas = "".join(f"--m-{name}:{colour};" for name, colour in palette.COLOURS.items())
    runs = "".join(f".r-{name}{{fill:{colour}}}" for name, colour in palette.STATUS_COLOURS.items())
    shapes = "".join(_shape(name, sign) for name, sign in palette.SHAPES.items())
    scheme = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return asset("page.css", f":root{{{light}{areas}}}{scheme}{runs}{shapes}\n")


def _shape(level: str, sign: str) -> str:
    """Before the word, and not read out: the word says it."""
    return f'.badge.{level}::before{{content:"{sign}\\a0"/""}}'


def _inks(at: int) -> str:
    return "".join(f"--{name}:{inks[at]};" for name, inks in palette.INKS.items())


@cache
def environment() -> Environment:
    """The templates with every word and plot they may use."""
    made = Environment(
        loader=PackageLoader("lakeaudit.report", "."),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(count=formatting.count, size=formatting.size, age=formatting.age)
    made.filters.update(share=formatting.share, duration=formatting.duration, shortened=formatting.shortened)
    made.filters.update(
        recovery=recovery.Recovery.of_finding,
        recoverable=recovery.of_finding,
        presence=formatting.presence,
        times=formatting.times,
        uri=formatting.uri,
    )
    made.filters.update(
        time=_time, ago=_ago, ends=_ends, iso=_iso, amount=amount, spelled=spelled, filter_link=_filter_link
    )
    made.globals.update(words=formatting, plots=plots, summary=summary, palette=palette, KINDS=KINDS)
    made.globals.update(STANDINGS=coverage_view.STANDINGS, OUTCOMES=coverage_view.OUTCOMES)
    made.globals.update(
        at_stake=summary.AT_STAKE, command=next_steps.learn_more, way_back=next_steps.way_back
    )
    made.globals.update(to_do=next_steps.to_do, THINK_FIRST=next_steps.THINK_FIRST, axis_words=axis_words)
    made.globals.update(confirmed=formatting.CONFIRMED, outcome_words=formatting.OUTCOMES, spelled=spelled)
    return made


def _finalize(value: object) -> object:
    """Every expression of the template passes here before it is escaped."""
    if value is None:
        return formatting.UNKNOWN
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def spelled(text: str | None) -> Markup:
    """Untrusted text for the body of the page: what is spelled out is set apart, right-to-left parts stay in place."""
    if text is None:
        return Markup("{}").format(formatting.UNKNOWN)
    if text.isascii() or not any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text):
        return _set_apart(text)
    return Markup("/").join(Markup("<bdi>{}</bdi>").format(_set_apart(part)) for part in text.split("/"))


def _set_apart(text: str) -> Markup:
    odd, plain = Markup('<span class="u">{}</span>'), Markup("{}")
    return Markup().join((odd if is_odd else plain).format(part) for is_odd, part in formatting.pieces(text))


def _time(value: datetime | None) -> Markup:
    return Markup("<time>{}</time>").format(formatting.second(value))


def _ago(value: datetime | None, now: datetime, *, bare: bool = False) -> Markup:
    """How long before or after `now`, with the exact time on hover and on paper; the page's script keeps it true.

    A bare one stands below a heading that says `since`.
    """
    if value is None:
        return Markup("{}").format(formatting.UNKNOWN)
    span = formatting.rough(abs(now - value))
    told = f"in {span}" if value > now else span if bare else f"{span} ago"
    rel = Markup('<time class="rel{}" datetime="{}" title="{}" data-paper="{}">{}</time>')
    exact = formatting.second(value)
    return rel.format(" bare" if bare else "", _iso(value), exact, exact[:16], told)


def _ends(value: datetime, now: datetime) -> Markup:
    """Until when something is possible, of which a page that is opened later must not say that it still is."""
    span = formatting.rough(abs(now - value))
    told = f"ends in {span}" if value > now else f"ended {span} ago"
    rel = Markup('<time class="rel until" datetime="{}" title="{}" data-paper="ends {}">{}</time>')
    exact = formatting.second(value)
    return rel.format(_iso(value), exact, exact[:16], told)


def _iso(value: datetime) -> str:
    return formatting.second(value).replace(" ", "T")


def amount(value: summary.Amount, put: Callable[[int | None], str]) -> str:
    """A sum in words; where a part of it is unknown, it is at least that."""
    return put(value.known) if value.whole or value.known is None else f"\u2265 {put(value.known)}"


def _filter_link(what: str, value: str) -> str:
    """The page's own address with the findings filtered: the one kind of link there is."""
    return "#" + urlencode({what: formatting.visible(value)})
