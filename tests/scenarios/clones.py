"""Files that a table lists below another table's root, and what that other table makes of them."""

from tests.builders.group_scenario import GroupScenario, clone, group
from tests.builders.scenario import Row

RISK = "clone_at_risk"


def file(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("clones", name, verdict, row)


UNSURE: Row = {"x_certain": False}
CLONE_UNSURE: Row = {"c_certain": False}
LOST: Row = {"s_presence": "absent"}
NO_LOG: Row = {"o_logged": False}

SCENARIOS = (
    # healthy
    file("the source lists it too", "ok", clone("live")),
    file("the source lists it, as far as its log can be read", "ok", clone("live", **UNSURE)),
    file("the source has no log: nothing removes its files", "ok", clone(None, **NO_LOG)),
    file("the source has no log, and its lists are not whole", "ok", clone(None, **NO_LOG, o_complete=False)),
    file("it is lost already, which is another finding", "none", clone("history", **LOST)),
    file("lost already, though the source lists it", "none", clone("live", **LOST)),
    file("lost already, and the clone may have removed it", "none", clone("live", **LOST, **CLONE_UNSURE)),
    file("lost already, and the source may have removed it", "none", clone("history", **LOST, **UNSURE)),
    file("lost already, and the source has no log", "none", clone(None, **LOST, **NO_LOG)),
    file("lost already, and the source's log has a gap", "none", clone(None, **LOST, h_references=True)),
    file("lost already, and the source never listed it", "none", clone(None, **LOST)),
    # at risk
    file("only older states of the source list it", RISK, clone("history")),
    file("gone in its source", RISK, clone("gone")),
    file("removed by the lists of a source without a log", RISK, clone("gone", **NO_LOG)),
    file("its source, whose log has a gap elsewhere, has removed it for certain", RISK,
         clone("history", h_references=True)),
    file("its source has forgotten it", RISK, clone(None)),
    # cannot be told
    file("the clone may have removed it in a gap", "undecided", clone("live", **CLONE_UNSURE)),
    file("the clone may have removed it in a gap, and its source has", "undecided", clone("history", **CLONE_UNSURE)),
    file("the clone may have removed it in a gap, and its source has no log", "undecided",
         clone(None, **CLONE_UNSURE, **NO_LOG)),
    file("the clone may have removed it in a gap, and its source never listed it", "undecided",
         clone(None, **CLONE_UNSURE)),
    file("the removal may have been undone in a gap", "undecided", clone("history", **UNSURE)),
    file("the removal may have been undone, by lists of a source without a log", "undecided",
         clone("gone", **UNSURE, **NO_LOG)),
    file("its source's log has a gap", "undecided", clone(None, h_references=True)),
    file("its source could not be read", "undecided", clone(None, o_complete=False)),
)  # fmt: skip
