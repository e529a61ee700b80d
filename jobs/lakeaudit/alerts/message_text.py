"""Words the notices, so that a reader needs no other source."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakeaudit.advice.causes import ByCause, purpose_question
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.advice.next_steps import (
    ALLOW,
    BROUGHT_BACK,
    OVER,
    PLANS,
    THINK_FIRST,
    apply_command,
    beside_others,
    ending,
    may_be_repaired,
    repair_command,
    to_do,
    way_back,
    with_names,
    with_plan_file,
)
from lakeaudit.alerts.decide import (
    BLIND,
    FAILED,
    MASS_LOSS,
    OF_AUDIT,
    OVERDUE,
    RECOVERED,
    STILL_OPEN,
    SUSPECT,
    TEST,
    Notice,
)
from lakeaudit.dashboard.addresses import run_address, table_address
from lakeaudit.errors import one_line
from lakeaudit.formatting import amounts, count, first_names, happened, number, second, visible
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import COVERAGE_LOST, KINDS, SEVERITIES, UNREADABLE
from lakeaudit.results.recovery import Recovery, losses
from lakeaudit.results.summaries.change_summary import Change

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Endpoint

TABLES_NAMED = 3
"""Number of open tables that the end of a message names."""
MOST_SECTIONS = 12
"""Number of tables in one message; the others are counted."""

ASK = "first answer"
"""The label before the question about the purpose of a removal."""

LONGEST_CAUSE = 160
"""Number of characters of a cause in a headline."""

_OF_AUDIT = {
    SUSPECT: "the evidence is suspect: this audit reports no loss of any table, and opened and resolved nothing",
    FAILED: "the audit failed",
    OVERDUE: "no audit was published for too long",
    RECOVERED: "audits work again",
}
_DO = {
    SUSPECT: "find out why the evidence lacks files that storage has: {doctor}. Until then check important tables "
    "without it: {audit} --live --table TABLE",
    FAILED: "repair the cause, check all sources ({doctor}), and audit again ({audit})",
    OVERDUE: "if earlier messages name the cause of failed audits, repair it; else check the scheduler and the log of "
    "its last run; {audit} audits now",
}
"""Advice about audits that do not work."""
_ENDS = {
    "restored": "resolved: all sources agree again",
    OVER: "resolved: no longer the case",
    "reference_removed": "closed, NOT restored: the table no longer lists it; lost: {}",
    "metastore_mended": "resolved: the metadata store agrees again",
    "accepted": "closed: the lake file says to ignore it",
    "retired": "closed: audits no longer check it",
}
_NOT_RESTORED = "reference_removed"
_FIRST_WORDS = {
    MASS_LOSS: "MASS LOSS: ",
    STILL_OPEN: "STILL OPEN: ",
    TEST: "TEST: ",
}

_SIGNS = str.maketrans({"<": "\u2039", "@": "\uff20"})
"""Characters with which chats start mentions and links: a key must not notify everybody."""


_ADDRESS = re.compile(r"(?i)(?:https?|ftp|mailto):|www\.")
"""The beginning of a text from which chats make a link."""
_FULL_WIDTH = str.maketrans({":": "\uff1a", ".": "\uff0e"})


def headline(notice: Notice) -> str:
    """Return kinds, numbers and table in one line."""
    if notice.kind in _OF_AUDIT:
        first = _FIRST_WORDS[STILL_OPEN] if notice.transition == "open" else ""
        return f"{first}{_OF_AUDIT[notice.kind]}{because(notice.words if notice.kind != SUSPECT else None)}"
    where = f" in {tame_name(notice.table)}" if notice.table else ""
    if not notice.changes:
        return f"RESOLVED: nothing that this route selects is open{where}"
    if not notice.bad:
        not_restored = any(change.resolution == _NOT_RESTORED for change in notice.changes)
        end = "CLOSED, NOT RESTORED" if not_restored else "RESOLVED"
        first = _FIRST_WORDS[TEST] if notice.kind == TEST else ""
        return f"{first}{end}: {_number(notice.changes)}{where}{'' if notice.over else '; more is open'}"
    first = _FIRST_WORDS.get(notice.kind, "")
    worst = [change for change in notice.bad if change.severity == notice.severity]
    less = _less_severe([change for change in notice.bad if change.severity != notice.severity])
    if notice.kind == BLIND:
        others = [change for change in worst if change.kind != COVERAGE_LOST]
        also = f", {_number(others)}" if others else ""
        return f"{blind_words(notice.severity)}{also}{less}{where}{because(blind_cause(notice))}"
    return f"{first}{notice.severity.upper()}: {_number(worst)}{less}{where}"


def _less_severe(changes: Sequence[Change]) -> str:
    """Return how many others there are; lost coverage is named, since it hides other losses."""
    if not changes:
        return ""
    blind = " (coverage lost)" if any(change.kind == COVERAGE_LOST for change in changes) else ""
    return f" and {count(sum(change.number for change in changes))} less severe{blind}"


def blind_words(severity: str) -> str:
    """Return the beginning of a headline about tables that audits cannot judge any more."""
    return f"COVERAGE LOST ({severity})"


def blind_cause(notice: Notice) -> str | None:
    """Return why audits cannot judge the table of a notice."""
    return next((change.cause for change in notice.bad if change.kind == COVERAGE_LOST), None)


def because(cause: str | None) -> str:
    """Return a cause for the end of a headline; empty without one."""
    return f": {tame(one_line(cause, LONGEST_CAUSE))}" if cause else ""


def _number(changes: Sequence[Change]) -> str:
    kinds: dict[str, tuple[int, int]] = {}
    for change in changes:
        many, files = kinds.get(change.kind, (0, 0))
        kinds[change.kind] = many + change.number, files + max(change.number, change.files or 0)
    return ", ".join(counted_kind(kind, *numbers) for kind, numbers in kinds.items())


def _pressing(change: Change) -> tuple[bool, int]:
    return change.transition == "resolved", SEVERITIES.index(change.severity)


Reach = Callable[[str], "Endpoint"]
"""Returns the endpoint of a bucket."""


@dataclass(frozen=True)
class Wording:
    """What a message about a run needs beside its changes.

    `redact` leaves out keys and partition values; `dashboard` is the address of the dashboard, None: there is none;
    `lake` is the name of the lake.
    """

    lake_file: str
    run_id: str
    redact: bool = False
    reach: Reach | None = None
    dashboard: str | None = None
    lake: str | None = None

    def page(self, notice: Notice) -> str | None:
        """Return the address of the dashboard's page about a notice."""
        if self.dashboard is None:
            return None
        if notice.kind in OF_AUDIT:
            return run_address(self.dashboard, self.run_id, lake=self.lake)
        return table_address(self.dashboard, notice.table, lake=self.lake)


def text(notice: Notice, wording: Wording) -> str:
    """Return the headline, and below it each change with the commands for it."""
    lines = [headline(notice)]
    if notice.words and tame(notice.words) not in lines[0]:
        lines.append(f"  {tame(notice.words)}")
    lines += [f"  do: {words}" for words in _advice(notice, wording)]
    if notice.owner:
        lines.append(f"  owner: {tame_name(notice.owner)}")
    for change in sorted(notice.changes, key=_pressing):
        lines += [f"  {line}" for line in _change(change, wording)]
        if change.transition != "resolved":
            lines += [
                f"  {plan_label(words) if label == 'repair' else label}: {words}"
                for label, words in next_steps(change, wording)
            ]
    if page := wording.page(notice):
        lines.append(f"  page: {page}")
    return "\n".join(lines)


def _advice(notice: Notice, wording: Wording) -> Iterator[str]:
    """Yield what to do about an audit that does not work."""
    if notice.kind in _DO:
        lake = operand(wording.lake_file)
        yield _DO[notice.kind].format(doctor=f"lakeaudit doctor {lake}", audit=f"lakeaudit audit {lake}")


_BACK = {
    "dropped": ("the file is back", "the files are back"),
    "dropped_history": ("the file is back", "the files are back"),
    "size_mismatch": ("storage has the recorded file again", "storage has the recorded files again"),
    "content_mismatch": ("storage has the recorded file again", "storage has the recorded files again"),
}
"""By kind what `restored` means for one file, and for several."""


def ending_text(
    kind: str, resolution: str | None, stake: str, number: int = 0, files: int | None = None
) -> str:
    """Return how discrepancies of a kind were resolved.

    Args:
        kind: their kind.
        resolution: their resolution in the ledger.
        stake: their files, rows and bytes, in words.
        number: the number of discrepancies.
        files: the number of their files; only if each discrepancy is one file, their return is known.
    """
    how = ending(kind, resolution)
    if how == "restored" and kind in _BACK and number and number == files:
        return f"resolved: {_BACK[kind][number > 1]}, and all sources agree again"
    if (kind, how) == (COVERAGE_LOST, OVER):
        return "resolved: audits judge the table again, unless the lake file was changed to expect the gap"
    return _ENDS.get(how, "resolved").format(stake)


def _change(change: Change, wording: Wording) -> Iterator[str]:
    redact = wording.redact
    counted = counted_kind(change.kind, change.number, change.files)
    stake = amounts(change.files, change.rows, change.bytes)
    if change.transition == "resolved":
        yield f"{counted} {ending_text(change.kind, change.resolution, stake, change.number, change.files)}"
        yield from _where(change, redact=redact)
        yield f"known since {_time(change.since)}"
        if change.resolution == "restored" and change.recoverable.get("no"):
            yield "it was not recoverable from storage: if its rows were written again, they may now be there twice"
        return
    meaning = KINDS[change.kind].words if change.kind in KINDS else "a kind that this version does not know"
    yield f"{counted} ({change.severity}), {happened(change.transition)}: {meaning}"
    yield f"{stake_label(change.kind)}: {stake}"
    yield from _where(change, redact=redact)
    yield f"{since_words(change)}; {f'cause: {tame(change.cause)}' if change.cause else 'cause not known'}"
    if change.explanation:
        yield without_cause(change.explanation, change.cause)
    if recoverable := recoverable_text(change.recovery):
        yield recoverable
    yield f"more: {command(change, wording)}"


def stake_label(kind: str) -> str:
    """Return the label before the numbers of files, rows and bytes of a kind."""
    return {COVERAGE_LOST: "not judged", UNREADABLE: "evidence not read"}.get(kind, "at stake")


def recoverable_text(recovery: Recovery) -> str:
    """Return whether files can be restored and until when, and why not if none can; empty if none is lost."""
    text = losses(recovery)
    return (
        f"{text} (no older version, and no copy below the table, was found)"
        if text == "recoverable: no"
        else text
    )


def next_steps(change: Change, wording: Wording) -> Iterator[tuple[str, str]]:
    """Yield the command that plans the repair, as on every page; else one that restores a file, or advice.

    Each has a label before it: `first answer` for a question, `repair`, `do` for advice, or one that begins with
    `recover`.
    """
    answers, reach = change.recovery.plannable, wording.reach
    if may_be_repaired(change.kind, answers) and tame_name(change.table or "") == (change.table or ""):
        if change.kind not in BROUGHT_BACK:
            yield "do", do_words(change.kind, None, change, wording)
        command = repair_command(wording.lake_file, change.table, change.kind, answers, change.causes)
        if ALLOW in command:
            yield ASK, before_plan(change.recovery, change.kind, change.by_cause, change.number)
        yield "repair", with_plan_file(beside_others(command, f"{change.table}.{change.kind}"))
        return
    back = change.back if not wording.redact else None
    is_tame = back is not None and tame(back["subject"]) == back["subject"]
    step = way_back(back, reach(back["bucket"]) if reach else None) if back and is_tame else None
    none = change.recoverable.get("no") == change.number
    do = do_words(change.kind, "no" if none else None, change, wording)
    if do and (step is None or change.kind in THINK_FIRST):
        yield "do", do
    if step is not None:
        yield f"recover {'one of them' if change.number > 1 else 'it'}: {step.what}", step.command


def plan_label(command: str) -> str:
    """Return the label before a command that plans a repair; it may also be one that lists files."""
    if not command.startswith(PLANS):
        return "list the files"
    return f"plan the repair (changes nothing; `{apply_command(command)}` repairs)"


def do_words(kind: str, recoverable: str | None, change: Change, wording: Wording) -> str:
    """Return the advice for a kind, whose commands name the lake file and the table."""
    plain = change.table is not None and tame_name(change.table) == change.table
    tables = [change.table] if plain and change.table else []
    return with_names(to_do(kind, recoverable, change.manifest_kind), wording.lake_file, tables)


def before_plan(recovery: Recovery, kind: str, by_cause: ByCause, total: int) -> str:
    """Return the question to answer before a plan restores files, and how many it restores without permission."""
    question = tame(purpose_question([kind], by_cause, total))
    extent = recovery.plan_extent(restore=False)
    return " ".join(
        filter(None, (question, "If so, do not restore: accept the loss (lakeaudit ack).", extent))
    )


def since_words(change: Change) -> str:
    """Return since when the discrepancies exist, for several the oldest and the newest, and when they were noticed."""
    newest = change.since_newest
    if change.kind == COVERAGE_LOST and newest and newest != change.since:
        return f"blind since {_time(change.since)} (noticed {_time(newest)})"
    more = f" (the newest since {_time(newest)})" if newest and newest != change.since else ""
    return f"since {_time(change.since)}{more}"


def without_cause(explanation: str, cause: str | None) -> str:
    """Return an explanation without the cause in brackets, which another line states."""
    return tame(explanation.replace(f" ({cause})", "") if cause else explanation)


def _where(change: Change, *, redact: bool) -> Iterator[str]:
    if change.partitions and not redact:
        more = f" and {count(change.more_partitions)} more" if change.more_partitions else ""
        yield f"in {', '.join(_partition(name, change) for name in change.partitions)}{more}"


def _partition(name: str, change: Change) -> str:
    return tame_name(name) + (" (the whole partition is gone)" if name in change.whole else "")


def command(change: Change, wording: Wording) -> str:
    """Return the command that explains a file of a change, or lists all its findings."""
    lake = operand(wording.lake_file)
    if change.example and not wording.redact and tame(change.example) == change.example:
        return f"lakeaudit explain {lake} {operand(change.example)}"
    plain = change.table and tame_name(change.table) == change.table
    table = f" {option('--table', change.table)}" if change.table and plain else ""
    return f"lakeaudit findings {lake} {option('--run-id', wording.run_id)} --kind {change.kind}{table}"


def tame_name(text: str) -> str:
    """Return a name as `tame`, in which no chat sees an address: `http://` and `www.` get signs of full width."""
    return _ADDRESS.sub(lambda match: match[0].translate(_FULL_WIDTH), tame(text))


def tame(text: str) -> str:
    """Return a name as one visible line in which no chat sees a mention or a link."""
    return visible(text).translate(_SIGNS)


def _time(at: datetime | None) -> str:
    return second(at) if at else "an unknown time"


def title(lake: str, headlines: Sequence[str]) -> str:
    """Return the first line of a message with these sections, worst first."""
    shown = 2 if len(headlines) == 2 else 1
    more = f" (and {count(len(headlines) - shown)} more)" if len(headlines) > shown else ""
    return f"lakeaudit {lake}: {'; '.join(headlines[:shown])}{more}"


def late(section: str) -> str:
    """Return an older section of a subject that has a newer one in the same message."""
    return f"Earlier notice, not delivered until now: {section}"


def body(sections: Sequence[str], lake: str = "") -> str:
    """Return the first sections of a message, and then the state of the lake."""
    left = len(sections) - MOST_SECTIONS
    rest = [f"... and {count(left)} more: see the report"] if left > 0 else []
    return "\n\n".join([*sections[:MOST_SECTIONS], *rest, *([lake] if lake else [])])


def total_by_severity(open_now: Mapping[str | None, Mapping[str, int]]) -> dict[str, int]:
    """Return the number of open discrepancies of the whole lake by severity, worst first."""
    return {name: sum(counts.get(name, 0) for counts in open_now.values()) for name in SEVERITIES}


def open_words(open_now: Mapping[str | None, Mapping[str, int]]) -> str:
    """Return the open discrepancies of the whole lake by severity, and their tables; empty: none."""
    by = total_by_severity(open_now)
    counts = ", ".join(f"{count(many)} {name}" for name, many in by.items() if many)
    worst_first = sorted(
        (table for table, numbers in open_now.items() if table and any(numbers.values())),
        key=lambda table: ([-open_now[table].get(name, 0) for name in SEVERITIES], table),
    )
    named = first_names([*map(tame_name, worst_first)], TABLES_NAMED)
    where = f" in {number(len(worst_first), 'table')} ({named})" if worst_first else ""
    return f"{counts}{where}" if counts else ""


def lake_known(open_now: Mapping[str | None, Mapping[str, int]]) -> str:
    """Return one line with the open discrepancies of the lake while audits do not work."""
    known = open_words(open_now) or "no open discrepancy"
    return f"Known from the last audit that worked: {known}"


def lake_now(open_now: Mapping[str | None, Mapping[str, int]], audited: int, tables: int) -> str:
    """Return one line with the open discrepancies of the whole lake and the scope of the last audit."""
    counts = open_words(open_now)
    open_line = f"Open in the lake and not accepted: {counts}"
    scope = (
        f"; the last audit checked {count(audited)} of {number(tables, 'table')}"
        if 0 < audited < tables
        else ""
    )
    return f"{open_line if counts else 'Nothing is open in the lake'}{scope}"
