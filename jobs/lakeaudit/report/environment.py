"""Sets up the templates: invisible characters of every value are spelled out, then it is escaped; assets are hashed."""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeaudit import formatting
from lakeaudit.advice import next_steps
from lakeaudit.kinds import KINDS, axis_words, check_words
from lakeaudit.report import coverage_view, palette, plots, summary
from lakeaudit.results import recovery
from lakeaudit.results.watermark import stopped_by

SINCE = (
    "The column “Open for” counts from the time of the fault, if a delete marker or an access log shows it; "
    "otherwise from the first storage snapshot or audit that showed the fault (the fault may be older). "
    "For a table that can no longer be judged, the column counts from the last time at which its data could be judged."
)


@dataclass(frozen=True)
class Asset:
    """A packaged style or script, with the hash by which the page's policy allows it."""

    text: Markup
    digest: str


def asset(name: str, before: str = "") -> Asset:
    """Return a packaged file, with `before` in front of it."""
    text = before + files("lakeaudit.report").joinpath(name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Asset(Markup(text), f"sha256-{digest}")  # noqa: S704 - packaged text of ours, nothing that was read


@cache
def style() -> Asset:
    """Return the page's style, with the colours of the dashboard."""
    light, dark = (_inks(at) for at in (0, 1))
    areas = "".join(f"--m-{name}:{colour};" for name, colour in palette.COLOURS.items())
    runs = "".join(f".r-{name}{{fill:{colour}}}" for name, colour in palette.STATUS_COLOURS.items())
    shapes = "".join(_shape(name, sign) for name, sign in palette.SHAPES.items())
    scheme = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return asset("page.css", f":root{{{light}{areas}}}{scheme}{runs}{shapes}\n")


def _shape(level: str, sign: str) -> str:
    """Return the rule that puts a sign before the word; screen readers skip the sign."""
    return f'.badge.{level}::before{{content:"{sign}\\a0"/""}}'


def _inks(at: int) -> str:
    return "".join(f"--{name}:{inks[at]};" for name, inks in palette.INKS.items())


@cache
def environment() -> Environment:
    """Return the template environment with all filters and functions of the page."""
    templates = Environment(
        loader=PackageLoader("lakeaudit.report", "."),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(count=formatting.count, size=formatting.size, age=formatting.age)
    templates.filters.update(
        share=formatting.share, duration=formatting.duration, shortened=formatting.shortened
    )
    templates.filters.update(
        recovery=recovery.Recovery.of_finding,
        recoverable=recovery.of_finding,
        presence=formatting.presence,
        facts=facts,
        uri=formatting.uri,
    )
    templates.filters.update(
        time=_time,
        ago=_ago,
        lasts=_lasts,
        iso=_iso,
        amount=amount,
        spelled=spelled,
        filter_link=_filter_link,
    )
    templates.filters.update(stopped_by=stopped_by, number=formatting.number, number_of=formatting.number_of)
    templates.globals.update(
        SINCE=SINCE, words=formatting, plots=plots, summary=summary, palette=palette, KINDS=KINDS
    )
    templates.globals.update(OUTCOMES=coverage_view.OUTCOMES)
    templates.globals.update(
        at_stake=summary.AT_STAKE, command=next_steps.learn_more, printed_step=next_steps.printed_step
    )
    templates.globals.update(advice=next_steps.advice, with_names=next_steps.with_names)
    templates.globals.update(axis_words=axis_words, check_words=check_words)
    templates.globals.update(
        confirmed=formatting.CONFIRMED, outcome_words=formatting.OUTCOMES, spelled=spelled
    )
    return templates


def facts(row: Mapping[str, Any]) -> list[str]:
    """Return the facts of a finding's explanation, each as a text of its own that begins with a capital letter."""
    return [_capitalized(each or formatting.UNKNOWN) for each in formatting.clauses(row)]


_WORD = re.compile(r"[a-z]+ ")


def _capitalized(text: str) -> str:
    """Capitalize the first word; a key, a number or a name in code stays as it is."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _finalize(value: object) -> object:
    """Spell out invisible characters of every expression of the template, before it is escaped."""
    if value is None:
        return formatting.UNKNOWN
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def spelled(text: str | None) -> Markup:
    """Return untrusted text for the page: spelled-out characters are marked, right-to-left parts stay in place."""
    if text is None:
        return Markup("{}").format(formatting.UNKNOWN)
    if text.isascii() or not any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text):
        return _mark_odd(text)
    return Markup("/").join(Markup("<bdi>{}</bdi>").format(_mark_odd(part)) for part in text.split("/"))


def _mark_odd(text: str) -> Markup:
    odd, plain = Markup('<span class="u">{}</span>'), Markup("{}")
    return Markup().join((odd if is_odd else plain).format(part) for is_odd, part in formatting.pieces(text))


def _time(value: datetime | None) -> Markup:
    return Markup("<time>{}</time>").format(formatting.second(value))


def _ago(value: datetime | None, now: datetime, *, bare: bool = False) -> Markup:
    """Return the time before or after `now`; the exact time shows on hover and in print, and a script updates it.

    A bare one has no `ago`, for a column with the heading `Open for`.
    """
    if value is None:
        return Markup("{}").format(formatting.UNKNOWN)
    span = formatting.rough(abs(now - value))
    text = f"in {span}" if value > now else span if bare else f"{span} ago"
    rel = Markup('<time class="rel{}" datetime="{}" title="{}" data-paper="{}">{}</time>')
    exact = formatting.second(value)
    return rel.format(" bare" if bare else "", _iso(value), exact, exact[:16], text)


def _lasts(value: datetime, now: datetime) -> Markup:
    """Return `for ...` or `expired ... ago`; a script updates it when the page is opened later."""
    span = formatting.rough(abs(now - value))
    text = f"for {span}" if value > now else f"expired {span} ago"
    rel = Markup('<time class="rel until" datetime="{}" title="{}" data-paper="until {}">{}</time>')
    exact = formatting.second(value)
    return rel.format(_iso(value), exact, exact[:16], text)


def _iso(value: datetime) -> str:
    return formatting.second(value).replace(" ", "T")


def amount(value: summary.Amount, put: Callable[[int | None], str]) -> str:
    """Return a sum as text, with `≥` where a part of it is unknown."""
    return put(value.known) if value.whole or value.known is None else f"\u2265 {put(value.known)}"


def _filter_link(what: str, value: str) -> str:
    """Return a link to the page itself with a filter of the findings."""
    return "#" + urlencode({what: formatting.visible(value)})
