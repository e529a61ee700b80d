"""Report unreadable files of a table's timeline, and the files that they hide. Pure."""

from collections.abc import Iterator

from lakeaudit.evidence import lineage
from lakeaudit.evidence.lineage import MissingState
from lakeaudit.evidence.manifest.hudi.state.notes import GONE, Problem
from lakeaudit.evidence.manifest.hudi.state.readings import TableReading
from lakeaudit.evidence.manifest.hudi.timeline.instants import COMPLETED
from lakeaudit.evidence.manifest.hudi.timeline.payload import EMPTY
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.formatting import number
from lakeaudit.kinds import UNREADABLE
from lakeaudit.runtime.connections.aws_failures import ARCHIVED

_REMOVING = ("", "clean", "rollback", "restore")
"""Actions that remove files; without them intentional removals are unknown. Empty: an archive may have all of them."""
_HIDES = {
    "": "the files that its instants wrote and removed",
    "clean": "which files this action removed",
    "rollback": "which files this action removed",
    "restore": "which files this action removed",
    "savepoint": "which files this savepoint keeps",
}


def evidence_gaps(read: TableReading, source: str) -> Iterator[EvidenceGap]:
    """Yield the instants, and the files of the archive, that could not be read."""
    for problem in read.problems:
        hides = _HIDES.get(problem.action, "the files that this write wrote and replaced")
        yield EvidenceGap(source, problem.reason, problem.subject, read.name, hides, kind=_kind(problem))
    location = read.found.table.location.uri
    if read.found.lost:
        yield EvidenceGap(source, read.found.lost, location, read.name, _HIDES[""], kind="missing_metadata")
    elif read.unknown and not read.problems:
        come = f"{number(read.unknown, 'file group')} {'comes' if read.unknown == 1 else 'come'}"
        reason = f"the timeline begins after {read.before}, but {come} from that instant"
        yield EvidenceGap(source, reason, location, read.name, "files that older instants wrote")


def archived_state(read: TableReading) -> MissingState | None:
    """Return why no reader can open any write: storage archived the files of all instants; None if one is readable."""
    cold = {each.subject for each in read.problems if each.reason == ARCHIVED}
    writes = [each.file.place.uri for each in read.found.writes]
    return MissingState(lineage.ARCHIVED, writes[-1]) if writes and cold.issuperset(writes) else None


def warnings(read: TableReading) -> Iterator[str]:
    """Yield writes of the active timeline that record lost rows themselves: the newest one, and how many."""
    if read.not_written:
        newest = max(read.not_written)
        more = f" ({len(read.not_written) - 1} older writes did so, too)" if len(read.not_written) > 1 else ""
        rows = read.not_written[newest]
        yield f"{read.name}: the write {newest} says that it could not write {rows} of its rows{more}"


def leftovers_kept(read: TableReading) -> str | None:
    """Return why files that the timeline does not name may still be in use."""
    found = read.found
    writes = sum(each.state == COMPLETED and each.action.endswith("commit") for each in found.instants)
    if found.archive or writes < KEPT_AT_LEAST:
        return None
    return f"its timeline has {writes} writes and no archive, so that older ones may not be known"


KEPT_AT_LEAST = 20
"""Writes that an archival leaves in the timeline, unless `hoodie.keep.min.commits` is set."""


def removals_known(read: TableReading) -> bool:
    """Return whether all intentional removals are known."""
    return read.found.lost is None and not any(each.action in _REMOVING for each in read.problems)


_NOT_NEEDED = (*_REMOVING, "savepoint")
_PLANS = (".requested", ".inflight")
"""Suffixes of files that readers of live files do not read."""


def _kind(problem: Problem) -> str:
    """Return the kind of finding: missing, broken or archived files are lost to readers, unreadable ones are not.

    Hudi deletes empty cleans and empty plans itself (`CleanActionExecutor`, `CleanPlanner`), and readers need neither.
    """
    if problem.reason == EMPTY and (problem.action == "clean" or problem.subject.endswith(".requested")):
        return UNREADABLE
    if problem.reason == ARCHIVED and (problem.action in _NOT_NEEDED or problem.subject.endswith(_PLANS)):
        return UNREADABLE
    return (
        "missing_metadata"
        if problem.reason in (GONE, ARCHIVED) or problem.reason.startswith("it is ")
        else UNREADABLE
    )
