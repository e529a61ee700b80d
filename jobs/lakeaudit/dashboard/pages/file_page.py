"""Shows one file or group: the claims of each source, whether it is recoverable, its history, and a group's files.

Only the button `Ask now` sends requests to the lake.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lakeaudit import formatting
from lakeaudit.advice import next_steps
from lakeaudit.advice.causes import counted_causes
from lakeaudit.advice.command_lines import operand
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.parts import acceptance_form, audit_troubles, commands, file_search
from lakeaudit.dashboard.queries import subject as figures
from lakeaudit.dashboard.queries.subject import Subject
from lakeaudit.dashboard.session import PageSession
from lakeaudit.dashboard.source_query import ask_now
from lakeaudit.formatting import SIDES, side_label, table_label
from lakeaudit.keys import identify, uri_of
from lakeaudit.kinds import COVERAGE_LOST, KINDS, rank
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import Recovery, of_finding

CLAIM_NAMES = {"etag": "ETag", "version_id": "version"}
LONGEST = 2000
"""Characters of an address that are looked up: a key has at most 1,024 bytes."""


def show(session: PageSession) -> None:
    """Show the discrepancy or the file of the address, by id or by location."""
    address = widgets.Address("file")
    discrepancy_id, typed = address.value("id"), (address.value("uri") or "")[:LONGEST]
    if not discrepancy_id and not typed:
        st.title("A file", anchor=False)
        file_search.field(address)
        file_search.worst(session)
    else:
        _show_requested(session, discrepancy_id, typed)
        widgets.section("Another file")
        file_search.field(address)


def _show_requested(session: PageSession, discrepancy_id: str | None, typed: str) -> None:
    place = identify(typed) if typed else None
    if typed and (place is None or not place[1]):
        file_search.matches(session, typed)
    elif place is not None:
        subject = session.load(("file", place), lambda: figures.file_of(session.results, *place))
        _file(session, uri_of(*place), subject, st.empty())
    elif discrepancy_id:
        _discrepancy(session, discrepancy_id[:LONGEST])


def _discrepancy(session: PageSession, discrepancy_id: str) -> None:
    row = session.load(("row", discrepancy_id), lambda: figures.row_of(session.results, discrepancy_id))
    if row is None:
        st.title("A file", anchor=False)
        widgets.failure(
            f"no discrepancy {widgets.shortened(discrepancy_id, 100)} in the ledger",
            "choose one on the page of a table",
        )
        return
    of_file = row["subject_type"] in figures.ABOUT_FILES and row["key"]
    place = uri_of(row["bucket"] or "", row["key"]) if of_file else None
    name, head = place or row["subject"], st.empty()
    _head(
        head, name, [row], is_file=place is not None
    )  # shown at once: the next query reads the whole ledger
    subject = session.load(("subject", discrepancy_id), lambda: figures.subject_of(session.results, row))
    _file(session, name, subject, head, is_file=place is not None)


def _head(at: DeltaGenerator, name: str, rows: Sequence[Row], *, is_file: bool) -> None:
    worst = min((row["severity"] or "" for row in rows if row["state"] != "resolved"), key=rank, default=None)
    with at.container():
        kicker = _kicker(next(iter(rows), None), is_file=is_file)
        widgets.title(worst, _file_name(name), kicker=kicker, stored=True)


def _file(
    session: PageSession, name: str, subject: Subject, head: DeltaGenerator, *, is_file: bool = True
) -> None:
    first = next(iter(subject.rows), None)
    _head(head, name, subject.rows, is_file=is_file)
    st.code(formatting.visible(name), language=None, wrap_lines=True)
    if first is not None:
        widgets.link(
            "table",
            f"All of {widgets.prose(table_label(first['table_name']))}",
            table=table_label(first["table_name"]),
        )
    audit_troubles.show_of_runs(session)
    unresolved = [row for row in subject.rows if row["state"] != "resolved"]
    for row in subject.rows:
        _row(session, row, is_file=is_file, unresolved=unresolved, undone=_undone(subject, row))
    _rest(session, subject)
    _behind(subject)
    _history(session, subject)
    if is_file:
        ask_now(session, name, known=bool(subject.rows or subject.findings))


def _file_name(name: str) -> str:
    """Return the name without folders; the full address is shown below."""
    return widgets.shortened(name.rstrip("/").rpartition("/")[2] or name, 70)


def _kicker(first: Row | None, *, is_file: bool) -> str:
    if first is None:
        return "file"
    if first["subject_type"] == "table":
        return f"table {widgets.prose(table_label(first['table_name']))}"
    of = "file" if is_file else widgets.prose((first["subject_type"] or "subject").replace("_", " "))
    inside = f", partition {widgets.prose(first['partition_path'])}" if first["partition_path"] else ""
    return f"{of} of table {widgets.prose(table_label(first['table_name']))}{inside}"


def _rest(session: PageSession, subject: Subject) -> None:
    """Show findings of the last run about the file that the ledger does not have."""
    known = {row["discrepancy_id"] for row in subject.rows}
    new = [row for row in subject.findings if row["discrepancy_id"] not in known]
    for row in new:
        widgets.plain(f"The last run also found: {row['kind'].replace('_', ' ')}: {row['explanation']}")
    if not subject.rows and not new:
        widgets.plain("The ledger has no entry for it, which does not prove that the file is intact.")
        shell = f"lakeaudit explain {operand(session.lake_file)} URI"
        st.caption(f"Ask the sources below, or type {widgets.literal(shell)}")


def _undone(subject: Subject, row: Row) -> str:
    """Return which plan undid its repair of an open discrepancy, and when; empty if none did."""
    steps = [step for step in subject.steps if step["discrepancy_id"] == row["discrepancy_id"]]
    undone = [step for step in steps if step["status"] == "undone"] if row["state"] == "open" else []
    if not undone:
        return ""
    last = max(undone, key=lambda step: step["done_at"])
    return f"The repair by the plan {last['plan_id']} was undone {formatting.second(last['done_at'])}."


def _row(session: PageSession, row: Row, *, is_file: bool, unresolved: Sequence[Row], undone: str) -> None:
    """Show one discrepancy.

    `unresolved` are all unresolved ones of its file, including this one; `undone` says whether a repair was undone.
    """
    waits = next_steps.waits(row, {each["kind"] for each in unresolved})
    kind = widgets.prose((row["kind"] or "").replace("_", " "))
    several = len({each["table_name"] for each in unresolved}) > 1
    of_table = f" of {widgets.prose(table_label(row['table_name']))}" if several else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(f"{kind[:1].upper()}{kind[1:]}{of_table}", anchor=False, width="content")
        st.markdown(f"{widgets.badge(row['severity'])} {_state(session, row)}", width="content")
    recoverable = of_finding(row, session.now)
    if recoverable:
        widgets.plain(f"{recoverable[:1].upper()}{recoverable[1:]}.")
    if undone:
        widgets.plain(undone)
    _commands(session, row, unresolved, waits=waits)
    left, right = st.columns([3, 4], gap="medium") if is_file else (st.container(), st.container())
    with left, st.container(gap="xsmall"):
        for line in _sentences(session, row):
            widgets.plain(line)
    if is_file:
        with right:
            _claims(session, row)
    if waits:
        widgets.plain("Resolve the other open discrepancies of this file first.")
    else:
        _restore(session, row)
    acceptance_form.show(session, row)
    with st.expander("More details"):
        widgets.facts(_facts(row), alt="More details")


_ENDS = {
    "reference_removed": ":violet-badge[closed, not restored]",
    "restored": ":green-badge[resolved]",
    "metastore_mended": ":green-badge[resolved]",
}


def _state(session: PageSession, row: Row) -> str:
    if row["state"] == "resolved":
        badge = _ENDS.get(row["resolution"] or "", ":gray-badge[resolved]")
        how = widgets.prose(next_steps.resolution_text(row))
        return f"{badge} {how} {formatting.second(row['resolved_at'])}"
    if row["ack_until"] and row["ack_until"] > session.now:
        return ":gray-badge[accepted]"
    return f":gray-badge[{'open' if row['state'] == 'open' else formatting.PENDING}]"


def _sentences(session: PageSession, row: Row) -> Iterator[str]:
    description = KINDS[row["kind"]].words if row["kind"] in KINDS else ""
    if description:
        yield f"{description[:1].upper()}{description[1:]}."
    if row["explanation"] and row["explanation"].lower() != description.lower():
        yield "Why: " + formatting.times(row["explanation"])
    if row["cause"]:
        yield f"Cause: {formatting.cause(row)}"
    if row["confirmation"]:
        yield f"{formatting.CONFIRMED.get(row['confirmation'], str(row['confirmation'])).capitalize()}."
    age = formatting.age(row["first_seen_at"], session.now)
    since = f"First seen {formatting.second(row['first_seen_at'])} ({age} ago)"
    back = f"; reopened {widgets.number(row['reopened'], 'time')}" if row["reopened"] else ""
    yield f"{since}{back}."
    if any(row[name] is not None for name in ("files", "rows_at_stake", "bytes_at_stake")):
        yield _at_stake(row)
    if row["ack_until"]:
        yield f"Accepted by {row['ack_by']} until {formatting.second(row['ack_until'])}: {row['ack_reason']}"


def _at_stake(row: Row) -> str:
    """Return what is at stake, and which amounts are not known."""
    files, rows, size = row["files"], row["rows_at_stake"], row["bytes_at_stake"]
    if row["kind"] == COVERAGE_LOST:
        return (
            f"{widgets.number(files, 'file')} not judged."
            if files is not None
            else "Number of files not known."
        )
    known = [
        widgets.number(many, noun) for many, noun in ((files, "file"), (rows, "row")) if many is not None
    ]
    known += [formatting.exact_size(size)] if size is not None else []
    unknown = " and ".join(name for name, value in (("rows", rows), ("bytes", size)) if value is None)
    return f"{', '.join(known)} at stake{f'; {unknown} not known' if unknown else ''}."


def _restore(session: PageSession, row: Row) -> None:
    """Show advice for the kind, and the commands that restore the file."""
    if do := next_steps.to_do_for(row):
        widgets.plain(f"What to do: {next_steps.with_names(do, session.lake_file, [row['table_name']])}")
    at = session.results.clients.endpoint(row["bucket"] or "")
    step, look = next_steps.way_back(row, at), next_steps.look_at_versions(row, at)
    if step is not None and look is not None:
        with st.expander("The steps", expanded=True):
            st.caption("List the versions first; lakeaudit changes nothing by itself.")
            st.code(look, language=None, wrap_lines=True)
            st.caption(f"Then {step.what}:")
            st.code(step.command, language=None, wrap_lines=True)
            if formatting.presence(row).get("metastore") == formatting.DELETED:
                st.caption(
                    "After this, the metadata store still says that the file is deleted, so jobs that read the store "
                    "do not see it. A plan with --allow restore restores the file and enters it again."
                )


def _commands(session: PageSession, row: Row, unresolved: Sequence[Row], *, waits: bool) -> None:
    """Show the command that plans the repair, if one is possible now, and the one that explains more."""
    commands.show(
        widgets.Address("file"),
        lambda restore: _lines(session, row, unresolved, waits=waits, restore=restore),
        row["discrepancy_id"],
        before=lambda restore: _before_plan(row, restore=restore),
    )


def _lines(
    session: PageSession, row: Row, unresolved: Sequence[Row], *, waits: bool, restore: bool
) -> list[str]:
    planned = next_steps.may_be_repaired(row["kind"], Recovery.of_finding(row).plannable)
    repairable = planned and not next_steps.is_by_hand(row)
    plan = _plan(session, row, restore=restore)
    if len(unresolved) > 1:
        same_kind = sum(each["kind"] == row["kind"] for each in unresolved) > 1
        plan = next_steps.beside_others(
            plan, f"{row['table_name']}.{row['kind']}" if same_kind else row["kind"]
        )
    lines = [plan] if repairable and not waits else []
    if row["kind"] in next_steps.NOT_JUDGED and row["state"] != "resolved":
        lines = next_steps.judge_again(session.lake_file, row["table_name"], row["kind"])
    return [*lines, next_steps.learn_more(session.lake_file, row["last_run_id"] or "", row)]


def _before_plan(row: Row, *, restore: bool) -> str:
    by_cause = counted_causes([{**row, "number": 1}])
    expired = bool(row["cause"]) and row["cause"].startswith(next_steps.EXPIRED)
    recovery = Recovery.of_sums([{**row, "findings": 1, "needs_allow": int(not expired)}])
    return commands.before_plan(recovery, {row["kind"]}, by_cause, restore=restore)


def _plan(session: PageSession, row: Row, *, restore: bool) -> str:
    causes = [row["cause"]] if row["cause"] else []
    answers = Recovery.of_finding(row).plannable
    return next_steps.repair_command(
        session.lake_file, row["table_name"], row["kind"], answers, causes,
        restore=restore, file=next_steps.typed_file(row),
    )  # fmt: skip


_SIDES = sorted(SIDES, key=("manifest", "storage", "metastore").index)
"""The first two fit on a phone: the record and the object."""
_FORMATS = {"size": formatting.exact_size, "time": formatting.moment}


def _claims(session: PageSession, row: Row) -> None:
    """Show the claims of all sides in one table, with a mark where they differ."""
    claims, presence = figures.claims(row), formatting.presence(row)
    if not claims and not presence:
        return
    sides = [
        side
        for side in _SIDES
        if presence.get(side) or any(each[side] is not None for each in claims.values())
    ]
    rows = [("the file", *_presence(presence, sides))] if presence else []
    rows += [(CLAIM_NAMES.get(what, what), *_compared(what, each, sides)) for what, each in claims.items()]
    kind = (row["kind"] or "").replace("_", " ")
    columns = ("", *map(side_label, sides))
    alt = f"What each source claims: {kind}"
    widgets.grid(columns, rows, alt=alt, of=row["discrepancy_id"], phone=columns)
    for side in SIDES:
        if side not in sides:
            is_off = side == "metastore" and not session.lake.metastores
            st.caption(f"{side_label(side)}: {'not configured' if is_off else 'no data'}")


def _presence(presence: Mapping[str, str | None], sides: Sequence[str]) -> Iterator[str]:
    for side in sides:
        state = presence[side]
        yield (
            "not checked"
            if state is None
            else state
            if state == formatting.PRESENT[side]
            else f":red[\u2260 {state}]"
        )


def _compared(what: str, claims: Mapping[str, object], sides: Sequence[str]) -> Iterator[str]:
    recorded = claims["manifest"]
    for side in sides:
        cell, value = _claim(what, claims[side]), claims[side]
        differs = _differs(what, claims) and value is not None and (recorded is None or value != recorded)
        yield f":red[\u2260] {cell}" if differs else cell


def _claim(what: str, value: object) -> str:
    put = _FORMATS.get(what)
    return formatting.UNKNOWN if value is None else str(put(value)) if put else widgets.literal(value)  # type: ignore[operator]


def _differs(what: str, claims: Mapping[str, object]) -> bool:
    return what != "time" and len({value for value in claims.values() if value is not None}) > 1


_KNOWN = ("recovery_version_id", "related_key", "storage_class", "category", "manifest_kind", "table_version",
          "commit_id", "group_id", "first_run_id", "last_run_id", "discrepancy_id")  # fmt: skip


_KNOWN_AS = {"table_version": "judged at table version"}


def _facts(row: Row) -> dict[str, object]:
    return {_KNOWN_AS.get(name, name.replace("_", " ")): row[name] for name in _KNOWN}


def _behind(subject: Subject) -> None:
    if not subject.files:
        return
    widgets.section("Files of the group")
    more = (
        f"; the {formatting.count(len(subject.files))} largest are listed"
        if subject.files_known > len(subject.files)
        else ""
    )
    st.caption(f"{widgets.number(subject.files_known, 'file')} in the last runs{more}")
    rows = [
        (
            widgets.literal(uri_of(file["bucket"] or "", file["key"])),
            formatting.size(file["size"]),
            formatting.second(file["modified_at"]),
        )
        for file in subject.files
    ]
    widgets.grid(("file", "size", "written"), rows, alt="Files of the group")


def _history(session: PageSession, subject: Subject) -> None:
    """Show each known event of the file or group in a row, oldest first."""
    events = figures.events(subject.rows, subject.history, subject.steps)
    if not events:
        return
    widgets.section("History")
    rows = [
        (
            formatting.second(event.at),
            _from_now(session, event.at),
            widgets.prose(event.what),
            widgets.prose(event.by),
        )
        for event in events
    ]
    columns = ("when", "", "event", "source")
    widgets.grid(columns, rows, alt="History, oldest first", phone=("when", "event", "source"))
    explained = [change for change in subject.history if change["reason"]]
    if explained:
        with st.expander("Reasons from the audits"):
            for change in explained:
                kinds = " to ".join(dict.fromkeys(filter(None, (change["from_kind"], change["to_kind"]))))
                widgets.plain(
                    f"{formatting.second(change['at'])} {change['transition']} ({kinds}): {change['reason']}"
                )


def _from_now(session: PageSession, at: datetime) -> str:
    ahead = at > session.now
    return f"in {formatting.age(session.now, at)}" if ahead else f"{formatting.age(at, session.now)} ago"
