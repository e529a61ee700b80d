"""Report missing and broken files of a table's own metadata, and the files that they hide. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeaudit.evidence.manifest.iceberg.current.lines import contested_commits
from lakeaudit.evidence.manifest.iceberg.state.lists import GONE, Unread
from lakeaudit.evidence.manifest.iceberg.state.manifests import Problem
from lakeaudit.evidence.manifest.iceberg.state.readings import TableReading
from lakeaudit.evidence.manifest.iceberg.state.rows import Manifest
from lakeaudit.evidence.manifest.iceberg.witnesses.lineage import why_unfinished
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.kinds import UNREADABLE
from lakeaudit.runtime.connections.aws_failures import ARCHIVED

NAMED = 5


def evidence_gaps(read: TableReading, source: str) -> Iterator[EvidenceGap]:
    """Yield the lists and manifests of a table that could not be read, or not whole.

    Those that a commit wrote which may have lost a race cause no finding: a writer that loses deletes them.
    """
    contested = _contested(read)
    for unread in read.unread:
        gap = _of_list(unread, read, source)
        yield _without_finding(gap) if str(unread.snapshot) in contested else gap
    for problem in read.problems:
        if not problem.replaced:
            gap = _of_manifest(problem, read, source)
            yield _without_finding(gap) if str(_manifest(problem, read).added_by) in contested else gap


def _contested(read: TableReading) -> frozenset[str]:
    if read.found.file is None or not read.found.doubt:
        return frozenset()
    return contested_commits(read.found.file, read.metadata, read.found.others)


def _without_finding(gap: EvidenceGap) -> EvidenceGap:
    return replace(gap, kind="", reason=f"{gap.reason}, and its commit may have lost a race")


def warnings(read: TableReading) -> Iterator[str]:
    """Yield the faults of a table's metadata that hide nothing."""
    if odd := read.found.doubt or read.found.elsewhere:
        yield f"{read.name}: {odd}"
    yield from (f"{read.name}: {difference}" for difference in _totals(read))
    if empty := without_current(read):
        yield f"{read.name}: {empty}"


def without_current(read: TableReading) -> str:
    """Describe a main branch without a snapshot while some are retained; empty otherwise, or if that is a loss."""
    metadata = read.metadata
    if metadata.current is not None or not metadata.snapshots or metadata.lost_current is not None:
        return ""
    return (
        f"main has no current snapshot, so query engines read no row, but {len(metadata.snapshots)} "
        "snapshots are retained"
        ", whose files are kept: CREATE OR REPLACE TABLE and writes to other branches leave a table so, and so does a "
        "metadata.json that lost its current-snapshot-id"
    )


def leftovers_kept(read: TableReading) -> str | None:
    """Return why files that the table does not list may still be in use."""
    if read.metadata.properties.get("gc.enabled", "true").lower() == "false":
        return "its property gc.enabled is false: other tables may have its files"
    return read.found.doubt or read.found.elsewhere or why_unfinished(read.found)


_TOTALS = (("total-data-files", "data files", False), ("total-delete-files", "delete files", True))


def _totals(read: TableReading) -> Iterator[str]:
    """Yield totals of main's summary that differ from the lists of its manifests."""
    heads = [each for each in read.metadata.snapshots if each.heads]
    main = next((number for number, each in enumerate(heads) if each.id == read.metadata.current), None)
    if main is None or read.unread:
        return
    for key, what, deletes in _TOTALS:
        total = heads[main].summary.get(key, "")
        counts = [each.files for each in read.manifests if main in each.heads and each.deletes == deletes]
        known = [count for count in counts if count is not None]
        if total.isdecimal() and len(known) == len(counts) and int(total) != sum(known):
            yield f"its newest snapshot counts {total} {what}, but its manifests have {sum(known)}"


def _of_list(unread: Unread, read: TableReading, source: str) -> EvidenceGap:
    snapshot = next(each for each in read.metadata.snapshots if each.id == unread.snapshot)
    counted = snapshot.summary.get("total-data-files", "")
    files = f"{counted} data files" if counted.isdecimal() else "every file"
    hides = f"{files} of {_states(snapshot.heads, f'snapshot {snapshot.id}')}"
    kind = _kind(unread.reason, needed=bool(snapshot.heads))
    return EvidenceGap(source, unread.reason, unread.path, read.name, hides, kind=kind)


def _of_manifest(problem: Problem, read: TableReading, source: str) -> EvidenceGap:
    manifest = _manifest(problem, read)
    if not problem.unread:
        hides = f"{problem.count} of the files that this manifest names"
        return EvidenceGap(source, problem.reason, problem.subject, read.name, hides, problem.count)
    heads = [each.heads for each in read.metadata.snapshots if each.heads]
    names = [name for number in manifest.heads for name in heads[number]]
    files = "files" if manifest.files is None else f"{manifest.files} files"
    hides = f"{files} of {_states(names, 'older snapshots')}"
    kind = _kind(problem.reason, needed=bool(names))
    return EvidenceGap(source, problem.reason, problem.subject, read.name, hides, kind=kind)


def _manifest(problem: Problem, read: TableReading) -> Manifest:
    return next(each for each in read.manifests if each.number == problem.manifest)


def _states(heads: Sequence[str], otherwise: str) -> str:
    more = f" and {len(heads) - NAMED} more" if len(heads) > NAMED else ""
    return f"{', '.join(heads[:NAMED])}{more}" if heads else otherwise


def _kind(reason: str, *, needed: bool) -> str:
    """Return the kind of finding: missing, broken or archived files are lost to readers, unreadable ones are not.

    An archived file that only older snapshots need is not lost: it can be restored.
    """
    if reason == ARCHIVED and needed:
        return "missing_metadata"
    if reason != GONE and not reason.startswith(BROKEN):
        return UNREADABLE
    return "missing_metadata" if needed else "dropped_history"


BROKEN = "it is "
"""How reasons begin for files that nobody can read."""
