"""Shows the plans of reconcile, one of them in full, and the notices that were sent."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import streamlit as st

from lakeaudit.advice.command_lines import operand
from lakeaudit.dashboard import widgets
from lakeaudit.dashboard.queries import plans as figures
from lakeaudit.dashboard.queries.plans import PlanSteps
from lakeaudit.dashboard.session import PageSession
from lakeaudit.formatting import (
    UNKNOWN,
    age,
    count,
    duration,
    rough,
    second,
    steps_in_words,
    table_label,
    visible,
)
from lakeaudit.keys import uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.read import Row

WHOLE = 20
"""Number of notices that are shown in full, the worst of each round first."""
_MARKS = {
    "applied": "green",
    "undone": "gray",
    "failed": "red",
    "started": "violet",
    "sent": "blue",
    "due": "gray",
}


def show(session: PageSession) -> None:
    """Show the plan of the address, or all plans and the notices."""
    st.title("Plans and notices", anchor=False)
    newest = session.load(("plans",), lambda: figures.newest_plans(session.results))
    address = widgets.Address("plans")
    requested = address.value("plan")
    one = (
        session.load(("plan", requested), lambda: figures.plan_steps(session.results, requested))
        if requested
        else None
    )
    listed = [plan["plan_id"] for plan in newest.shown]
    older = [one.plan["plan_id"]] if one and one.plan["plan_id"] not in listed else []
    if listed:
        address.one("plan", "Plan", [*listed, *older])
    if requested and one is None:
        widgets.failure(f"no plan {widgets.shortened(requested, 150)} in these results", "choose one above")
    if one is not None:
        _plan(session, one)
        return
    widgets.section("Plans")
    if not newest.shown:
        command = widgets.literal(f"lakeaudit reconcile plan {operand(session.lake_file)}")
        st.caption(f"There is no plan yet. {command} writes a plan and changes nothing.")
    else:
        rows = [_line(session, plan, newest.steps.get(plan["plan_id"], {})) for plan in newest.shown]
        widgets.grid(_PLAN_COLUMNS, rows, alt="The newest plans", numbers=("steps", _FOR_PERSON))
    if newest.rest:
        st.caption(f"{count(newest.rest)} older plans are not shown.")
    _notices(session, session.load(("notices",), lambda: figures.newest_notices(session.results)))


_FOR_PERSON = "other findings, for a person"
_PLAN_COLUMNS = ("plan", "state", "outcome", "steps", _FOR_PERSON, "made", "by", "approved by")


def _line(session: PageSession, plan: Row, steps: Mapping[str, int]) -> tuple[str, ...]:
    return (
        widgets.literal(plan["plan_id"]),
        widgets.prose(_state(session, plan)),
        widgets.prose(steps_in_words(steps)) or "nothing done",
        count(plan["steps"]),
        count(plan["for_person"]),
        f"{age(plan['created_at'], session.now)} ago",
        _name(plan["created_by"]),
        _name(plan["approved_by"]),
    )


def _name(value: str | None) -> str:
    return widgets.literal(value) if value else UNKNOWN


def _state(session: PageSession, plan: Row) -> str:
    if plan["status"] != "planned" or plan["expires_at"] is None:
        return figures.PLAN_STATES.get(plan["status"], str(plan["status"]))
    left = plan["expires_at"] - session.now
    return f"planned, expires in {duration(left)}" if left.total_seconds() > 0 else "planned, expired"


def _plan(session: PageSession, one: PlanSteps) -> None:
    plan = one.plan
    st.header(widgets.literal(plan["plan_id"]), anchor=False)
    outcomes: Counter[str] = Counter()
    for row in one.summed:
        outcomes[row["status"]] += row["number"]
    if outcomes:
        widgets.plain(f"{widgets.number(plan['steps'], 'step')}: {steps_in_words(outcomes)}.")
    approved = f", approved by {plan['approved_by']}" if plan["approved_by"] else ""
    meaning = f" ({_MEANINGS[plan['status']]})" if plan["status"] in _MEANINGS else ""
    widgets.plain(
        f"{_state(session, plan).capitalize()}{meaning}; made {second(plan['created_at'])} "
        f"by {plan['created_by'] or 'somebody'}{approved}; "
        f"{count(plan['steps'])} steps, and {widgets.number(plan['for_person'], 'other finding')} for a person."
    )
    if plan["for_person"]:
        st.caption("The plan's file lists the findings for a person, with reasons, under `needs_person`.")
    if command := _NEXT.get(plan["status"]):
        st.caption(f"{command[0]}, with the plan's file:")
        st.code(f"lakeaudit reconcile {command[1]} PLAN_FILE", language=None)
    if not one.steps:
        st.caption("No step was started.")
        return
    rows = [_sum(row) for row in one.summed]
    columns = ("action", "table", "outcome", "reversible", "steps", "last")
    widgets.grid(columns, rows, alt="Outcome of the plan's steps", numbers=("steps",))
    widgets.section("Steps, failed ones first")
    with st.container(gap="small"):
        for row in one.steps:
            _step(row)
    if (total := sum(row["number"] for row in one.summed)) > len(one.steps):
        st.caption(f"{count(total - len(one.steps))} more are not shown.")


_MEANINGS = {
    "undone": "reconcile undo has reversed its applied steps",
    "undoing": "reconcile undo is reversing its applied steps",
}
_NEXT = {
    "planned": ("To apply it", "apply"),
    "applying": ("To continue", "apply"),
    "applied": ("To undo it", "undo"),
    "undoing": ("To continue the undo", "undo"),
}


def _sum(row: Row) -> tuple[str, ...]:
    return (
        widgets.prose(row["action"].replace("_", " ")),
        widgets.prose(table_label(row["table_name"])),
        _mark(row["status"]),
        widgets.prose(row["reversibility"] or UNKNOWN),
        count(row["number"]),
        second(row["last"]),
    )


def _step(row: Row) -> None:
    with widgets.item(" \u00b7 ".join(filter(None, (second(row["done_at"]), row["error"])))):
        st.markdown(
            f"{_mark(row['status'])} **{widgets.prose(row['action'].replace('_', ' '))}**", width="content"
        )
        name = widgets.literal(visible(uri_of(row["bucket"] or "", row["key"] or "")))
        if row["discrepancy_id"]:
            widgets.link("file", name, id=row["discrepancy_id"])


def _mark(status: str) -> str:
    words = status.replace("_", " ")
    return (
        f":{_MARKS.get(status, 'orange')}-badge[{words}]"
        if words.replace(" ", "").isalpha()
        else widgets.literal(status)
    )


def _notices(session: PageSession, notices: Sequence[Row]) -> None:
    widgets.section("Notices")
    if not notices:
        command = widgets.literal(f"lakeaudit alert {operand(session.lake_file)}")
        st.caption(f"No notice was sent yet. {command} sends due notices to the receivers in `alerts`.")
        return
    rounds = _rounds(notices)
    columns: tuple[str, ...] = ("severity", "what", "table", "state", "to", "made", "run")
    rows: list[tuple[str, ...]] = [
        (*_round(session, each), widgets.prose(_why_not(each[0]))) for each in rounds
    ]
    if any(row["error"] for row in notices):
        columns = (*columns, "why not")
    else:
        rows = [row[:-1] for row in rows]
    on_phone = ("severity", "what", "table", "made")
    widgets.grid(columns, rows, alt="The newest notices", numbers=("made",), phone=on_phone)
    with st.expander("Messages"):
        for row in [row for each in rounds for row in each][:WHOLE]:
            _message(row)


def _rounds(notices: Sequence[Row]) -> Sequence[Sequence[Row]]:
    """Group notices by run, receiver and outcome: failed groups first, then the newest; in each the worst first."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in notices:
        of = (row["run_id"], row["receiver"], row["status"], row["error"] or "", str(row["attempts"]))
        groups.setdefault(of, []).append(row)
    by_worst = [sorted(rows, key=_pressing) for rows in groups.values()]
    return sorted(by_worst, key=lambda rows: rows[0]["status"] != "failed")


def _pressing(row: Row) -> tuple[bool, int, int, str]:
    return (
        bool(row["over"]),
        rank(row["severity"] or ""),
        -(row["discrepancies"] or 0),
        row["table_name"] or "",
    )


def _round(session: PageSession, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the cells of a group: its worst notice, and the number of its tables."""
    row, made = rows[0], max(row["made_at"] for row in rows)
    return (
        widgets.badge(row["severity"]) if row["severity"] else UNKNOWN,
        widgets.prose(_first_line(row)),
        _tables(rows),
        _mark(row["status"]),
        widgets.literal(row["receiver"]),
        f"{rough(max(session.now - made, timedelta(0)))} ago",
        _run(row["run_id"]),
    )


def _run(run_id: str | None) -> str:
    """Return a link named by the end of the run's id, which is random; its start is the time."""
    if not run_id:
        return UNKNOWN
    return widgets.cell_link("runs", widgets.literal(run_id.rpartition("-")[2][:8]), run=run_id)


def _why_not(row: Row) -> str:
    tries = f"{count(row['attempts'])} tries: " if (row["attempts"] or 0) > 1 else ""
    return f"{tries}{row['error']}" if row["error"] else ""


def _tables(rows: Sequence[Row]) -> str:
    named = [*dict.fromkeys(row["table_name"] for row in rows if row["table_name"])]
    if not named:
        return UNKNOWN
    more = f" and {count(len(named) - 1)} more" if len(named) > 1 else ""
    return widgets.cell_link("table", widgets.literal(widgets.shortened(named[0])), table=named[0]) + more


def _first_line(row: Row) -> str:
    """Return the first line without severity and table, which have columns of their own."""
    first = (row["message"] or (row["kind"] or "").replace("_", " ")).partition("\n")[0]
    line = first.removeprefix(f"{(row['severity'] or '').upper()}: ").replace(
        f" in {row['table_name']}", "", 1
    )
    return widgets.shortened(line, 120)


def _message(row: Row) -> None:
    if row["table_name"]:
        widgets.link("table", widgets.literal(widgets.shortened(row["table_name"])), table=row["table_name"])
    lines = (row["message"] or row["kind"] or "").split("\n")
    st.code("\n".join(map(visible, lines)), language=None, wrap_lines=True)
