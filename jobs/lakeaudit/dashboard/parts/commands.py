"""Shows the commands for a repair; their plans restore questionable files only if the reader chooses that."""

from collections.abc import Callable, Sequence

import streamlit as st

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import widgets
from lakeaudit.formatting import visible

RESTORE = "Also restore files that somebody may have removed or replaced on purpose"


def show(address: widgets.Address, commands: Callable[[bool], Sequence[str]], of: str = "") -> None:
    """Show commands and an instruction for the plans among them.

    Args:
        address: the page's address, which holds the choice.
        commands: returns the commands without and with the permission to restore such files.
        of: an id that distinguishes these commands from others of the page.
    """
    careful, permitted = commands(False), commands(True)
    differ = careful != permitted
    chosen = differ and address.flag("allow", "restore", RESTORE, of)
    lines = permitted if chosen else careful
    st.code("\n".join(map(visible, lines)), language=None, wrap_lines=True)
    left = next_steps.LEFT_TO_A_PERSON if differ and not chosen else ""
    if hint := " ".join(filter(None, (next_steps.after_plans(lines, widgets.literal), left))):
        st.caption(hint)
