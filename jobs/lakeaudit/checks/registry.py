"""The checks of an audit, in the order in which their findings, reasons and warnings are reported.

A new check of lakeaudit is a module and a line here. A check of another package is an entry point of the group
`lakeaudit.checks`, whose value is the check; a program may also `register` one. docs/add-a-check.md shows both.
"""

from functools import cache
from importlib.metadata import entry_points

from lakeaudit.checks import selections
from lakeaudit.checks.checksum_checks import judge_checksums
from lakeaudit.checks.commits.commit_checks import judge_commits
from lakeaudit.checks.folders.folder_moves import judge_half_moved
from lakeaudit.checks.folders.watch_checks import judge_watched
from lakeaudit.checks.hazards.hazard_checks import judge_access, judge_clones, judge_lifecycles
from lakeaudit.checks.pointers.pointer_checks import judge_pointers
from lakeaudit.checks.protocol import Check
from lakeaudit.checks.records.log_store_checks import judge_log_stores
from lakeaudit.checks.records.write_checks import judge_attempts, judge_writes
from lakeaudit.engine.chunks import ROUTES
from lakeaudit.errors import CannotAudit
from lakeaudit.evidence.registry import imported, row_kinds

_BUILT_IN = (
    Check("unnamed_fields", select=selections.select_unnamed_fields),
    Check(
        "half_moved",
        judge_half_moved,
        selections.select_moved,
        selections.combine_moved,
        of_partitions=True,
        routes={"moved": "hash(judged_table, name, size, content) >> 32"},
    ),
    Check("states", select=selections.select_states),
    Check("commits", judge_commits, selections.select_commits, selections.combine_commits),
    Check("writes", judge_writes),
    Check("checksums", judge_checksums),
    Check(
        "copies",
        judge_attempts,
        selections.select_copies,
        selections.combine_copies,
        of_partitions=True,
        routes={
            "same": "hash(judged_table, place, size, content) >> 32",
            "alike": "hash(judged_table, place, size, name) >> 32",
        },
    ),
    Check("log_stores", judge_log_stores),
    Check("pointers", judge_pointers),
    Check(
        "watched",
        judge_watched,
        selections.select_watched,
        selections.combine_watched,
        routes={"watched": "hash(bucket, folder) >> 32"},
    ),
    Check("clones", judge_clones, selections.select_clones),
    Check("lifecycles", judge_lifecycles),
    Check("access", judge_access),
)
_CHECKS = {check.name: check for check in _BUILT_IN}
GROUP = "lakeaudit.checks"
"""The group of entry points."""


def checks() -> tuple[Check, ...]:
    """Return the checks of an audit."""
    _load()
    return tuple(_CHECKS.values())


def register(check: Check) -> None:
    """Add a check to those of this process.

    Raises:
        CannotAudit: it is not a Check, another check has its name, or its rows cannot be routed.
    """
    if not isinstance(check, Check):
        raise CannotAudit(f"check {check!r}", "it is not a Check", "see docs/add-a-check.md")
    if fault := _fault(check):
        raise CannotAudit(f"check {check.name}", *fault)
    _CHECKS[check.name] = check


def _fault(check: Check) -> tuple[str, str] | None:
    """Return why a check cannot be used and what to do; None: it can."""
    if _CHECKS.get(check.name, check) is not check:
        return "another check has this name", "rename one of the two"
    if check.combine and not check.routes:
        return "its `combine` gets no rows", "name the kinds that `select` yields for it in `routes`"
    if check.routes and not (check.select and check.combine):
        return "its `routes` are of no use", "give it `select` and `combine`, or leave `routes` out"
    others = [each.routes for each in _CHECKS.values() if each is not check]
    for kind in check.routes:
        if any(kind in routes for routes in (ROUTES, row_kinds(), *others)):
            return f"another row has the kind {kind!r}", "give the rows a kind of their own"
    return None


@cache
def _load() -> None:
    """Load the checks of other packages, once."""
    for entry in entry_points(group=GROUP):
        register(imported(entry, "check"))


def unregister(check: Check) -> None:
    """Remove a check."""
    _CHECKS.pop(check.name, None)
