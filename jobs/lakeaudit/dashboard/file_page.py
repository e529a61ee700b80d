"""One file or group: what each source claims, whether it is recoverable, its history, and the files behind it.

Nothing here touches the lake, but for the button that says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lakeaudit import formatting
from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries import subject as figures
from lakeaudit.dashboard.queries.subject import Subject
from lakeaudit.dashboard.session import Desk
from lakeaudit.dashboard.source_query import ask_now
from lakeaudit.formatting import SIDES, table_label, visible
from lakeaudit.keys import identify, uri_of
from lakeaudit.kinds import KINDS, rank
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import of_finding

CALLED = {"etag": "ETag", "version_id": "version"}
LONGEST = 2000
"""Characters of an address that are looked up: a key has at most 1,024 bytes."""


def show(desk: Desk) -> None:
    """The discrepancy that the address names by its id, or the file that it names by its place."""
    address = widgets.Address("file")
    wanted, typed = address.given("id"), (address.given("uri") or "")[:LONGEST]
    if not wanted and not typed:
        st.title("A file", anchor=False)
        st.caption("Type the address of a file, or choose a discrepancy on the page of a table.")
    else:
        _asked(desk, wanted, typed)
        widgets.section("Another file")
    address.typed("uri", "File", help="s3://bucket/key, or a local path")


def _asked(desk: Desk, wanted: str | None, typed: str) -> None:
    place = identify(typed) if typed else None
    if typed and (place is None or not place[1]):
        st.title("A file", anchor=False)
        widgets.failure(
            f"{widgets.shortened(typed, 200)} names no file",
            "write s3://bucket/key, or a local path from the root",
        )
    elif place is not None:
        found = desk.ask(("file", place), lambda: figures.file_of(desk.results, *place))
        _file(desk, uri_of(*place), found, st.empty())
    elif wanted:
        _discrepancy(desk, wanted[:LONGEST])


def _discrepancy(desk: Desk, wanted: str) -> None:
    asked = desk.ask(("row", wanted), lambda: figures.row_of(desk.results, wanted))
    if asked is None:
        st.title("A file", anchor=False)
        widgets.failure(
            f"no discrepancy {widgets.shortened(wanted, 100)} in the ledger",
            "choose one on the page of a table",
        )
        return
    of_file = asked["subject_type"] in figures.ABOUT_FILES and asked["key"]
    place = uri_of(asked["bucket"] or "", asked["key"]) if of_file else None
    name, head = place or asked["subject"], st.empty()
    _head(head, name, [asked], is_file=place is not None)  # all rows about it are sought in the whole ledger
    found = desk.ask(("subject", wanted), lambda: figures.subject_of(desk.results, asked))
    _file(desk, name, found, head, is_file=place is not None)


def _head(at: DeltaGenerator, name: str, rows: Sequence[Row], *, is_file: bool) -> None:
    worst = min((row["severity"] or "" for row in rows if row["state"] != "resolved"), key=rank, default=None)
    with at.container():
        kicker = _kicker(next(iter(rows), None), is_file=is_file)
        widgets.title(worst, _named(name), kicker=kicker, stored=True)


def _file(desk: Desk, name: str, found: Subject, head: DeltaGenerator, *, is_file: bool = True) -> None:
    first = next(iter(found.rows), None)
    _head(head, name, found.rows, is_file=is_file)
    st.code(formatting.visible(name), language=None, wrap_lines=True)
    if first is not None:
        widgets.link(
            "table",
            f"All of {widgets.prose(table_label(first['table_name']))}",
            table=table_label(first["table_name"]),
        )
    beside = [row for row in found.rows if row["state"] != "resolved"]
    for row in found.rows:
        _row(desk, row, is_file=is_file, beside=beside)
    _rest(desk, found)
    _behind(found)
    _life(desk, found)
    if is_file:
        ask_now(desk, name, known=bool(found.rows or found.findings))


def _named(name: str) -> str:
    """What it is called without its folders: the address stands below."""
    return widgets.shortened(name.rstrip("/").rpartition("/")[2] or name, 70)


def _kicker(first: Row | None, *, is_file: bool) -> str:
    if first is None:
        return "file"
    of = "file" if is_file else widgets.prose((first["subject_type"] or "subject").replace("_", " "))
    inside = f", partition {widgets.prose(first['partition_path'])}" if first["partition_path"] else ""
    return f"{of} of table {widgets.prose(table_label(first['table_name']))}{inside}"


def _rest(desk: Desk, found: Subject) -> None:
    """What the last run found of the file beyond the ledger."""
    known = {row["discrepancy_id"] for row in found.rows}
    new = [row for row in found.findings if row["discrepancy_id"] not in known]
    for row in new:
        widgets.plain(f"The last run also found: {row['kind'].replace('_', ' ')}: {row['explanation']}")
    if not found.rows and not new:
        widgets.plain("The ledger knows nothing of it: that is no proof that all is well.")
        shell = f"lakeaudit explain {operand(desk.lake_file)} URI"
        st.caption(f"Ask the sources below, or type {widgets.literal(shell)}")


def _row(desk: Desk, row: Row, *, is_file: bool, beside: Sequence[Row]) -> None:
    """One discrepancy; `beside`: all that is open of its file, this one too."""
    waits = next_steps.waits(row, {each["kind"] for each in beside})
    kind = widgets.prose((row["kind"] or "").replace("_", " "))
    several = len({each["table_name"] for each in beside}) > 1
    of_table = f" of {widgets.prose(table_label(row['table_name']))}" if several else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(f"{kind[:1].upper()}{kind[1:]}{of_table}", anchor=False, width="content")
        st.markdown(f"{widgets.badge(row['severity'])} {_state(desk, row)}", width="content")
    recoverable = of_finding(row, desk.now)
    if recoverable and not waits:
        widgets.plain(f"{recoverable[:1].upper()}{recoverable[1:]}.")
    _commands(desk, row, beside, waits=waits)
    left, right = st.columns([3, 4], gap="medium") if is_file else (st.container(), st.container())
    with left, st.container(gap="xsmall"):
        for line in _sentences(desk, row):
            widgets.plain(line)
    if is_file:
        with right:
            _claims(desk, row)
    if waits:
        widgets.plain("What else is open of this file comes first.")
    else:
        _back(desk, row)
    with st.expander("What else is known"):
        widgets.facts(_facts(row), alt="What else is known")


_ENDS = {
    "reference_removed": ":violet-badge[closed, not restored]",
    "restored": ":green-badge[resolved]",
    "metastore_mended": ":green-badge[resolved]",
}


def _state(desk: Desk, row: Row) -> str:
    if row["state"] == "resolved":
        said = _ENDS.get(row["resolution"] or "", ":gray-badge[resolved]")
        how = widgets.prose(next_steps.ended(row))
        return f"{said} {how} {formatting.second(row['resolved_at'])}"
    if row["ack_until"] and row["ack_until"] > desk.now:
        return ":gray-badge[accepted]"
    return f":gray-badge[{'open' if row['state'] == 'open' else formatting.PENDING}]"


def _sentences(desk: Desk, row: Row) -> Iterator[str]:
    told = KINDS[row["kind"]].words if row["kind"] in KINDS else ""
    if told:
        yield f"{told[:1].upper()}{told[1:]}."
    if row["explanation"] and row["explanation"].lower() != told.lower():
        yield "Why: " + formatting.times(row["explanation"])
    if row["cause"]:
        by = f", by {row['cause_principal']}" if row["cause_principal"] else ""
        yield f"Cause: {row['cause']}{by}{f', {formatting.second(at)}' if (at := row['cause_at']) else ''}"
    if row["confirmation"]:
        yield f"{formatting.CONFIRMED.get(row['confirmation'], str(row['confirmation'])).capitalize()}."
    age = formatting.age(row["first_seen_at"], desk.now)
    since = f"First seen {formatting.second(row['first_seen_at'])} ({age} ago)"
    back = f"; reopened {widgets.number(row['reopened'], 'time')}" if row["reopened"] else ""
    yield f"{since}{back}."
    stake = f"{widgets.number(row['rows_at_stake'], 'row')}, {formatting.exact_size(row['bytes_at_stake'])} at stake"
    yield f"{widgets.number(row['files'], 'file')}, {stake}."
    if row["ack_until"]:
        yield f"Accepted by {row['ack_by']} until {formatting.second(row['ack_until'])}: {row['ack_reason']}"


def _back(desk: Desk, row: Row) -> None:
    """What to do about its kind, and the steps."""
    if do := next_steps.to_do(row["kind"], row["recoverable"], row["manifest_kind"]):
        widgets.plain(f"What to do: {do}")
    at = desk.results.clients.endpoint(row["bucket"] or "")
    step, look = next_steps.way_back(row, at), next_steps.look_at_versions(row, at)
    if step is not None and look is not None:
        with st.expander("The steps", expanded=True):
            st.caption("Look at the versions first; lakeaudit changes nothing by itself.")
            st.code(look, language=None, wrap_lines=True)
            st.caption(f"Then {step.what}:")
            st.code(step.command, language=None, wrap_lines=True)


def _commands(desk: Desk, row: Row, beside: Sequence[Row], *, waits: bool) -> None:
    """What plans its mending, where that is of use, and what tells more."""
    mendable = next_steps.may_be_mended(row["kind"], {row["recoverable"]: 1})
    plan = _plan(desk, row)
    if len(beside) > 1:
        alike = sum(each["kind"] == row["kind"] for each in beside) > 1
        plan = next_steps.beside_others(plan, f"{row['table_name']}.{row['kind']}" if alike else row["kind"])
    lines = [plan] if mendable and not waits else []
    lines += [next_steps.learn_more(desk.lake_file, row["last_run_id"] or "", row)]
    st.code("\n".join(map(visible, lines)), language=None, wrap_lines=True)
    if told := next_steps.after_plans(lines, widgets.literal):
        st.caption(told)


def _plan(desk: Desk, row: Row) -> str:
    causes = [row["cause"]] if row["cause"] else []
    return next_steps.mend(desk.lake_file, row["table_name"], row["kind"], {row["recoverable"]: 1}, causes)


_SIDES = sorted(SIDES, key=("manifest", "storage", "metastore").index)
"""On a phone two are in sight: what is recorded, and what is there."""
_PUT = {"size": formatting.exact_size, "time": formatting.moment}


def _claims(desk: Desk, row: Row) -> None:
    """What is claimed beside each other; only what differs is set apart."""
    told, there = figures.claims(row), formatting.presence(row)
    if not told and not there:
        return
    sides = [
        side for side in _SIDES if there.get(side) or any(said[side] is not None for said in told.values())
    ]
    rows = [("the file", *_there(there, sides))] if there else []
    rows += [(CALLED.get(what, what), *_beside_each_other(what, said, sides)) for what, said in told.items()]
    kind = (row["kind"] or "").replace("_", " ")
    widgets.grid(("", *sides), rows, alt=f"What each source claims: {kind}", of=row["discrepancy_id"])
    for side in SIDES:
        if side not in sides:
            is_off = side == "metastore" and not desk.lake.metastores
            st.caption(f"{side}: {'not configured' if is_off else 'no data'}")


def _there(there: Mapping[str, str | None], sides: Sequence[str]) -> Iterator[str]:
    for side in sides:
        said = there[side]
        yield ("no data" if said is None else said if said == formatting.THERE else f":red[\u2260 {said}]")


def _beside_each_other(what: str, said: Mapping[str, object], sides: Sequence[str]) -> Iterator[str]:
    recorded = said["manifest"]
    for side in sides:
        cell, value = _claim(what, said[side]), said[side]
        apart = _differs(what, said) and value is not None and (recorded is None or value != recorded)
        yield f":red[\u2260] {cell}" if apart else cell


def _claim(what: str, value: object) -> str:
    put = _PUT.get(what)
    return formatting.UNKNOWN if value is None else str(put(value)) if put else widgets.literal(value)  # type: ignore[operator]


def _differs(what: str, said: Mapping[str, object]) -> bool:
    return what != "time" and len({value for value in said.values() if value is not None}) > 1


_KNOWN = ("recovery_version_id", "related_key", "storage_class", "category", "manifest_kind", "table_version",
          "commit_id", "group_id", "first_run_id", "last_run_id", "discrepancy_id")  # fmt: skip


_KNOWN_AS = {"table_version": "judged at table version"}


def _facts(row: Row) -> dict[str, object]:
    return {_KNOWN_AS.get(name, name.replace("_", " ")): row[name] for name in _KNOWN}


def _behind(found: Subject) -> None:
    if not found.files:
        return
    widgets.section("The files behind it")
    more = (
        f", the {formatting.count(len(found.files))} largest here"
        if found.files_known > len(found.files)
        else ""
    )
    st.caption(f"{widgets.number(found.files_known, 'file')} that the last runs named{more}")
    rows = [
        (
            widgets.literal(uri_of(file["bucket"] or "", file["key"])),
            formatting.size(file["size"]),
            formatting.second(file["modified_at"]),
        )
        for file in found.files
    ]
    widgets.grid(("file", "size", "written"), rows, alt="The files behind it")


def _life(desk: Desk, found: Subject) -> None:
    """What happened to it and when, each in a row: what the results know, without a word about why they know it."""
    events = figures.life(found.rows, found.history, found.steps)
    if not events:
        return
    widgets.section("What happened")
    rows = [
        (
            formatting.second(event.at),
            _from_now(desk, event.at),
            widgets.prose(event.what),
            widgets.prose(event.by),
        )
        for event in events
    ]
    widgets.grid(("when", "", "what", "by or as told by"), rows, alt="What happened to it, the oldest first")
    told = [change for change in found.history if change["reason"]]
    if told:
        with st.expander("What audits said"):
            for change in told:
                kinds = " to ".join(dict.fromkeys(filter(None, (change["from_kind"], change["to_kind"]))))
                widgets.plain(
                    f"{formatting.second(change['at'])} {change['transition']} ({kinds}): {change['reason']}"
                )


def _from_now(desk: Desk, at: datetime) -> str:
    ahead = at > desk.now
    return f"in {formatting.age(desk.now, at)}" if ahead else f"{formatting.age(at, desk.now)} ago"
