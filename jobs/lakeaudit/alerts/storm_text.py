"""Words one message about many tables: totals by kind and cause, with the owners of the tables. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.advice.causes import added, causes_in_words, causes_of_all
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.advice.next_steps import ALLOW, BROUGHT_BACK, repair_command, with_plan_file
from lakeaudit.alerts.message_text import (
    ASK,
    MOST_SECTIONS,
    because,
    before_plan,
    blind_words,
    ending_text,
    plan_label,
    recoverable_text,
    stake_label,
    tame,
    tame_name,
    without_cause,
)
from lakeaudit.formatting import amounts, count, number, second
from lakeaudit.json_documents import WebhookChange, WebhookContent
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import COVERAGE_LOST, KINDS, rank
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import Recovery, losses

MOST_GROUPS = MOST_SECTIONS - 3
"""Number of groups in one message: it may have a section about the audit, mass losses, and other groups, too."""
TABLES_NAMED = 10
OWNERS_NAMED = 10
NO_OWNER = "without owner"
MOST_TEXTS = 3
"""Number of different texts of advice, and of explanations, in one group."""


@dataclass(frozen=True)
class Part:
    """One change of one table in a storm."""

    table: str | None
    owner: str | None
    change: WebhookChange


@dataclass(frozen=True)
class Group:
    """The changes with the same kind, severity and cause, or the same resolution."""

    parts: tuple[Part, ...]

    @property
    def one(self) -> WebhookChange:
        """Return a change that has the kind, the severity and the resolution of all."""
        return self.parts[0].change

    @property
    def over(self) -> bool:
        return self.one["transition"] == "resolved"

    @property
    def total(self) -> int:
        return sum(part.change["discrepancies"] for part in self.parts)

    @property
    def tables(self) -> Counter[str]:
        """Return the number of discrepancies by table, without those that belong to no table."""
        numbers: Counter[str] = Counter()
        for part in self.parts:
            if part.table is not None:
                numbers[part.table] += part.change["discrepancies"]
        return numbers

    @property
    def owners(self) -> Mapping[str, Sequence[str]]:
        """Return the tables by owner, those with most discrepancies first."""
        of = {part.table: part.owner or NO_OWNER for part in self.parts if part.table is not None}
        owners: dict[str, list[str]] = {}
        for table, _ in sorted(self.tables.items(), key=lambda each: (-each[1], each[0])):
            owners.setdefault(of[table], []).append(table)
        return dict(sorted(owners.items(), key=lambda each: (-len(each[1]), each[0])))

    @property
    def order(self) -> tuple[bool, int, int, str]:
        return self.over, rank(self.one["severity"]), -self.total, self.one["kind"]

    def sum_of(self, name: str) -> int | None:
        """Return the sum of `files`, `rows` or `bytes`; None: no change states it."""
        known = [each for part in self.parts if (each := part.change[name]) is not None]  # type: ignore[literal-required]
        return sum(known) if known else None

    def recoverable(self) -> Counter[str]:
        """Return the number of files by whether they are recoverable: yes, no, unknown."""
        numbers: Counter[str] = Counter()
        for part in self.parts:
            numbers.update(part.change["recoverable"])
        return numbers

    @property
    def by_cause(self) -> Mapping[str, int]:
        """Return the number of discrepancies by known cause."""
        return added(causes_of(part.change) for part in self.parts)

    @property
    def cause(self) -> str | None:
        """Return the cause of all, or how many have which cause; None: no cause is known."""
        return causes_in_words(self.by_cause, self.total) or None

    def recovery(self) -> Recovery:
        """Return how many of the discrepancies are recoverable, and until when."""
        return Recovery.of_sums([row for part in self.parts for row in _answers(part.change)])

    def since(self) -> str | None:
        return min((at for part in self.parts if (at := part.change["since"])), default=None)


def causes_of(change: WebhookChange) -> Mapping[str, int]:
    """Return the number of discrepancies by known cause; a notice of an earlier version states one cause in words."""
    known: Mapping[str, int] | None = change.get("causes")
    if known is None:
        return {change["cause"]: change["discrepancies"]} if change["cause"] else {}
    return known


def _answers(change: WebhookChange) -> Iterator[Row]:
    """Yield a row for each answer of `recoverable`, with the number of discrepancies."""
    until = change["recoverable_until"]
    of = {
        "kind": change["kind"],
        "recoverable_until": datetime.fromisoformat(until) if until else None,
    }
    unanswered = change["discrepancies"] - sum(change["recoverable"].values())
    for answer, many in [*change["recoverable"].items(), (None, unanswered)]:
        if many > 0:
            yield of | {
                "recoverable": answer,
                "findings": many,
                "needs_allow": change.get("needs_allow", many),
            }


def groups_of(contents: Iterable[tuple[Row, WebhookContent]]) -> list[Group]:
    """Return the changes of all notices in groups, the worst first."""
    groups: dict[tuple[str, ...], list[Part]] = {}
    for row, content in contents:
        for change in content["changes"]:
            end = (
                change["resolution"] or ""
                if change["transition"] == "resolved"
                else f"open {sorted(causes_of(change))}"
            )
            key = (change["kind"], change["severity"], end)
            groups.setdefault(key, []).append(Part(content["table"], row.get("owner"), change))
    return sorted((Group(tuple(parts)) for parts in groups.values()), key=lambda group: group.order)


def headline(groups: Sequence[Group], blind: int = 0) -> str:
    """Return the totals of the worst kind in one line, over all causes.

    `blind` is the number of all tables of the lake that audits cannot judge.
    """
    first = groups[0]
    worst = [g for g in groups if (g.over, *_same(g)) == (first.over, *_same(first))]
    whole = Group(tuple(part for group in worst for part in group.parts))
    cause = because(first.cause) if _is_blind(first) and len(worst) == 1 else ""
    extent = _extent(whole)
    if _is_blind(first) and blind > len(whole.tables):
        extent = f"{extent}, {count(blind)} in all"
    return f"{_beginning(whole)}{extent}{_stake_in_short(whole)}{_more(groups, len(worst))}{cause}"


def _same(group: Group) -> tuple[str, str]:
    return group.one["kind"], group.one["severity"]


def _beginning(group: Group) -> str:
    many = counted_kind(group.one["kind"], group.total, group.sum_of("files"))
    if group.over:
        return f"RESOLVED: {many}"
    if _is_blind(group):
        return blind_words(group.one["severity"])
    return f"{group.one['severity'].upper()}: {many}"


def _is_blind(group: Group) -> bool:
    return group.one["kind"] == COVERAGE_LOST and not group.over


def _extent(group: Group) -> str:
    owners = [owner for owner in group.owners if owner != NO_OWNER]
    of = f" of {number(len(owners), 'owner')}" if owners else ""
    if len(group.tables) == 1:
        return f" in {tame_name(next(iter(group.tables)))}"
    return f" in {number(len(group.tables), 'table')}{of}" if group.tables else ""


def _stake_in_short(group: Group) -> str:
    if group.over:
        return ""
    rows, recovery = group.sum_of("rows"), group.recovery()
    known = [number(rows, "row") if rows else "", losses(recovery) if recovery.restorable else ""]
    return "".join(f", {each}" for each in known if each)


def _more(groups: Sequence[Group], shown: int) -> str:
    rest = sum(group.total for group in groups[shown:] if not group.over)
    return f" (and {number(rest, 'other finding')})" if rest else ""


def sections(groups: Sequence[Group], lake_file: str, address: str | None) -> list[str]:
    """Return a section for each group, and one with the number of other groups and the address of a page."""
    texts = ["\n".join(_section(group, lake_file)) for group in groups[:MOST_GROUPS]]
    left = groups[MOST_GROUPS:]
    more = f"... and {count(sum(group.total for group in left))} more discrepancies of other kinds and causes"
    page = f"page: {address}" if address else ""
    return [*texts, *filter(None, ["\n".join(filter(None, (more if left else "", page)))])]


def change_text(change: WebhookChange, table: str | None, owner: str | None) -> str:
    """Return the text of one change, with its own commands."""
    group = Group((Part(table, owner, change),))
    lines = [f"{_beginning(group)}{f' in {tame_name(table)}' if table else ''}", *_meaning(group)]
    lines += [f"  owner: {tame_name(owner)}"] if owner else []
    commands = change["commands"]
    named = (
        ("more", commands["show"]), (ASK, change.get("question")),
        (plan_label(commands["repair"] or ""), commands["repair"]),
        ("recover", commands["recover"]), ("do", change["advice"]),
    )  # fmt: skip
    return "\n".join([*lines, *(f"  {label}: {words}" for label, words in named if words)])


def _section(group: Group, lake_file: str) -> Iterator[str]:
    yield f"{_beginning(group)}{_extent(group)}"
    yield from _meaning(group)
    yield from (f"  {line}" for line in _owners(group))
    if not group.over:
        yield from _commands(group, lake_file)


def _meaning(group: Group) -> Iterator[str]:
    """Yield what the kind means, and what is at stake, since when, why, and until when it is recoverable."""
    kind = group.one["kind"]
    if group.over:
        files = group.sum_of("files") if all(p.change["files"] is not None for p in group.parts) else None
        yield f"  {ending_text(kind, group.one['resolution'], _stake(group), group.total, files)}"
        return
    yield f"  {KINDS[kind].words if kind in KINDS else 'a kind that this version does not know'}"
    yield f"  {stake_label(kind)}: {_stake(group)}"
    since = f"{_since(group)}; " if group.since() else ""
    cause = group.cause
    yield f"  {since}{f'cause: {tame(cause)}' if cause else 'cause not known'}"
    yield from _explained(group)
    if recoverable := recoverable_text(group.recovery()):
        yield f"  {recoverable}"


def _since(group: Group) -> str:
    """Return since when the oldest and the newest exist, for lost coverage also when audits noticed it."""
    oldest = group.since() or ""
    newest = max((at for part in group.parts if (at := part.change.get("since_newest"))), default=oldest)
    if newest == oldest:
        return f"since {_second(oldest)}"
    if _is_blind(group):
        return f"blind since {_second(oldest)} (noticed {_second(newest)})"
    return f"since {_second(oldest)} (the newest since {_second(newest)})"


def _stake(group: Group) -> str:
    return amounts(group.sum_of("files"), group.sum_of("rows"), group.sum_of("bytes"))


def _owners(group: Group) -> Iterator[str]:
    """Yield a line for each owner with the tables that have most discrepancies."""
    owners = list(group.owners.items())
    for owner, tables in owners[:OWNERS_NAMED]:
        named = ", ".join(_table(table, group) for table in tables[:TABLES_NAMED])
        more = (
            f" and {number(len(tables) - TABLES_NAMED, 'more table')}" if len(tables) > TABLES_NAMED else ""
        )
        yield f"{tame_name(owner) if owner == NO_OWNER else f'owner {tame_name(owner)}'}: {named}{more}"
    left = sum(len(tables) for _, tables in owners[OWNERS_NAMED:])
    if left:
        yield f"and {number(left, 'table')} of {number(len(owners) - OWNERS_NAMED, 'other owner')}"


def _table(table: str, group: Group) -> str:
    """Return the name of a table, with its number of discrepancies if any table has more than one."""
    numbers = group.tables
    return tame_name(table) + (f" ({count(numbers[table])})" if max(numbers.values()) > 1 else "")


def _commands(group: Group, lake_file: str) -> Iterator[str]:
    kind = option("--kind", group.one["kind"])
    yield f"  more: lakeaudit discrepancies {operand(lake_file)} {kind}"
    if any(part.change["commands"]["repair"] for part in group.parts):
        kind, by_cause = group.one["kind"], group.by_cause
        causes = causes_of_all(by_cause, group.total)
        command = repair_command(lake_file, None, kind, group.recoverable(), causes)
        if kind in BROUGHT_BACK:
            yield "  first: if a job or a rule still removes files, stop it"
        if ALLOW in command:
            yield f"  {ASK}: {before_plan(group.recovery(), kind, by_cause, group.total)}"
        plan = with_plan_file(command)
        yield f"  {plan_label(plan)}: {plan}"
        yield "  This plan covers everything that is open of this kind, also what earlier messages reported"
        return
    for _, parts in _by_text(group, _advice_for_any_table):
        first = parts[0]
        about = f" ({_first_table(parts)})" if len(parts) < len(group.parts) else ""
        if len({part.change["advice"] for part in parts}) > 1:
            about = f" (example for {tame_name(first.table or '')})"
        yield f"  do{about}: {first.change['advice']}"


def _advice_for_any_table(part: Part) -> str | None:
    """Return the advice without the name of the table, so that the same advice for several tables is one text."""
    advice, named = part.change["advice"], option("--table", part.table or "")
    return advice.replace(named, "--table TABLE") if advice and part.table else advice


def _by_text(group: Group, text_of: Callable[[Part], str | None]) -> list[tuple[str, list[Part]]]:
    """Return the different texts of a group's parts, each with its parts, the most common first; at most three."""
    parts: dict[str, list[Part]] = {}
    for part in group.parts:
        if text := text_of(part):
            parts.setdefault(text, []).append(part)
    return sorted(parts.items(), key=lambda each: -len(each[1]))[:MOST_TEXTS]


def _first_table(parts: Sequence[Part]) -> str:
    more = f" and {count(len(parts) - 1)} more" if len(parts) > 1 else ""
    return f"{tame_name(parts[0].table or '')}{more}"


def _explained(group: Group) -> Iterator[str]:
    """Yield what audits cannot see; a text that holds for some tables names the first of them."""
    for explanation, parts in _by_text(group, lambda part: part.change.get("explanation")):
        about = f"{_first_table(parts)}: " if len(parts) < len(group.parts) else ""
        yield f"  {about}{without_cause(explanation, group.cause)}"


def _second(at: str) -> str:
    return second(datetime.fromisoformat(at))
