"""Commits that a log store has let through, or has not, beside the log itself."""

from tests.builders.group_scenario import GroupScenario, entry, group, unentered
from tests.builders.scenario import Row

LOST, REPLACED, UNFINISHED, PASSED_BY = (
    "lost_commit", "overwritten_commit", "incomplete_commit", "overwritten_commit:warning",
)  # fmt: skip
OPEN: Row = {"complete": False}
PAST: Row = {"past": True}
OTHER: Row = {"differs": True}


def commit(name: str, verdict: str, lost: str, row: Row, *more: Row) -> tuple[GroupScenario, GroupScenario]:
    """Return two scenarios: the verdict of the commit, and whether a committed write is lost."""
    whole = {key: value for each in (row, *more) for key, value in each.items()}
    return group("log_entries", name, verdict, whole), group(
        "lost_entries", f"{name}: is it lost", lost, whole
    )


SCENARIOS = (
    # healthy
    *commit("in the log as it was let through", "ok", "none", entry()),
    *commit("in the log, and its temporary file is gone", "ok", "none", entry(temp=False)),
    *commit("in the log, and nobody acknowledged that", "ok", "none", entry(), OPEN),
    *commit("its log was cleaned up since", "ok", "none", entry(logged=False), PAST),
    *commit("of a table that was there before", "ok", "none", entry(logged=False, temp=False), PAST),
    *commit(
        "of a table that was there before, never completed", "ok", "none", entry(logged=False), OPEN, PAST
    ),
    *commit(
        "let through just now, and not in the log yet",
        "out_of_window",
        "out_of_window",
        entry(-5, logged=False),
    ),
    *commit("being written now", "out_of_window", "none", entry(-5, logged=False), OPEN),
    *commit("another content, and written just now", "out_of_window", "none", entry(-5), OTHER),
    *commit("of a table that was recreated just now", "ok", "none", entry(-5, logged=False), PAST),
    *commit("not known to the store, and prepared by way of it", "ok", "none", unentered(prepared=True)),
    *commit(
        "not known to the store, and of a log that was copied here", "ok", "none", unentered(copied=True)
    ),
    *commit("not known to the store, and written after it was read", "out_of_window", "none", unentered(5)),
    # at fault
    *commit("the log has another commit there", REPLACED, "none", entry(), OTHER),
    *commit(
        "the log has another commit there, and nobody acknowledged its own",
        REPLACED,
        "none",
        entry(),
        OPEN,
        OTHER,
    ),
    *commit("another commit lies there, and the log begins after it", "ok", "none", entry(), OTHER, PAST),
    *commit("let through and never written to the log", UNFINISHED, "none", entry(logged=False), OPEN),
    *commit("in the store, and not in the log", "ok", LOST, entry(logged=False)),
    *commit(
        "in the store, not in the log, and no temporary file", "ok", LOST, entry(logged=False, temp=False)
    ),
    *commit(
        "never completed, and its temporary file is gone",
        "ok",
        LOST,
        entry(None, logged=False, temp=False),
        OPEN,
    ),
    *commit("entered an hour ago, and not in the log", "ok", LOST, entry(-60, logged=False)),
    *commit("entered less than an hour ago", "out_of_window", "out_of_window", entry(-59, logged=False)),
    *commit("the store does not know it, and the log was recreated", "ok", "none", unentered(), PAST),
    *commit("the store does not know it", PASSED_BY, "none", unentered()),
    *commit("the store does not know it, an hour ago", PASSED_BY, "none", unentered(-60)),
    *commit("the store does not know it, less than an hour ago", "out_of_window", "none", unentered(-59)),
)
