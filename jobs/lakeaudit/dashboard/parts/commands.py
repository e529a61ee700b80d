"""Shows the commands for a repair; their plans restore questionable files only if the reader chooses that."""

from collections.abc import Callable, Collection, Sequence

import streamlit as st

from lakeaudit.advice import next_steps
from lakeaudit.advice.causes import ByCause, purpose_question
from lakeaudit.dashboard import widgets
from lakeaudit.formatting import visible
from lakeaudit.results.recovery import Recovery

RESTORE = "Also restore files that somebody may have removed or replaced on purpose (--allow restore)"


def before_plan(
    recovery: Recovery, kinds: Collection[str], by_cause: ByCause, *, restore: bool, scope: str = ""
) -> str:
    """Return how many lost files a plan repairs, and the question to answer before it restores them; empty if none.

    `scope`: see `Recovery.plan_extent`.
    """
    if not kinds:
        return ""
    question = purpose_question(kinds, by_cause, recovery.losses)
    box = "" if restore else " If nobody did, select the box above."
    purpose = "If somebody did, clear the box above, and" if restore else "If somebody did,"
    then = f"{box} {purpose} accept the discrepancies (lakeaudit ack)."
    extent = recovery.plan_extent(restore=restore, scope=scope)
    if recovery.plannable.get("unknown"):
        extent += " “Ask now” on the page of a file finds out whether it can be restored."
    return f"{extent} Answer this question first: {question}{then}".strip()


def show(
    address: widgets.Address,
    commands: Callable[[bool], Sequence[str]],
    of: str = "",
    before: Callable[[bool], str] | None = None,
) -> None:
    """Show commands and an instruction for the plans among them.

    Args:
        address: the page's address, which holds the choice.
        commands: returns the commands without and with the permission to restore such files.
        of: an id that distinguishes these commands from others of the page.
        before: returns the sentence above the commands, without and with that permission.
    """
    careful, permitted = commands(False), commands(True)
    differ = careful != permitted
    chosen = bool(differ and address.flag("allow", "restore", RESTORE, of))
    lines = [next_steps.with_plan_file(line) for line in (permitted if chosen else careful)]
    if differ and before and (sentence := before(chosen)):
        widgets.plain(sentence)
    st.code("\n".join(map(visible, lines)), language=None, wrap_lines=True)
    left = next_steps.LEFT_TO_A_PERSON if differ and not chosen else ""
    if hint := " ".join(filter(None, (next_steps.after_plans(lines, widgets.literal), left))):
        st.caption(hint)
