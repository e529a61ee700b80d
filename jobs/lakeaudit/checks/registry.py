"""The checks of an audit, in the order in which their findings, reasons and warnings are reported.

A new check is a module and a line here; docs/add-a-check.md shows one.
"""

from lakeaudit.checks import selections
from lakeaudit.checks.checksum_checks import judge_checksums
from lakeaudit.checks.commits.commit_checks import judge_commits
from lakeaudit.checks.folder_moves import judge_half_moved
from lakeaudit.checks.hazards.hazard_checks import judge_access, judge_clones, judge_lifecycles
from lakeaudit.checks.log_store_checks import judge_log_stores
from lakeaudit.checks.pointers.pointer_checks import judge_pointers
from lakeaudit.checks.protocol import Check
from lakeaudit.checks.watch_checks import judge_watched
from lakeaudit.checks.write_checks import judge_attempts, judge_writes
from lakeaudit.errors import CannotAudit

_BUILT_IN = (
    Check("unnamed_fields", select=selections.select_unnamed_fields),
    Check(
        "half_moved", judge_half_moved, selections.select_moved, selections.combine_moved, of_partitions=True
    ),
    Check("states", select=selections.select_states),
    Check("commits", judge_commits, selections.select_commits, selections.combine_commits),
    Check("writes", judge_writes),
    Check("checksums", judge_checksums),
    Check("copies", judge_attempts, selections.select_copies, selections.combine_copies, of_partitions=True),
    Check("log_stores", judge_log_stores),
    Check("pointers", judge_pointers),
    Check("watched", judge_watched, selections.select_watched, selections.combine_watched),
    Check("clones", judge_clones, selections.select_clones),
    Check("lifecycles", judge_lifecycles),
    Check("access", judge_access),
)
_CHECKS = {check.name: check for check in _BUILT_IN}


def checks() -> tuple[Check, ...]:
    """Return the checks of an audit."""
    return tuple(_CHECKS.values())


def register(check: Check) -> None:
    """Add a check to those of this process.

    Raises:
        CannotAudit: another check has its name.
    """
    if _CHECKS.setdefault(check.name, check) is not check:
        raise CannotAudit(f"check {check.name}", "another check has this name", "rename one of the two")


def unregister(check: Check) -> None:
    """Remove a check."""
    _CHECKS.pop(check.name, None)
