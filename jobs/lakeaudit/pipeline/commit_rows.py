"""FINDINGS rows about single commits: written twice, surely or probably, and batches appended twice."""

from collections.abc import Mapping
from typing import Any

from lakeaudit.compare.commits import Loss, Rewritten
from lakeaudit.compare.repeated_batches import LiveBatch
from lakeaudit.config import Table
from lakeaudit.evidence.protocol import CommitFile, Doubt
from lakeaudit.formatting import count, second, size
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS

OVERWRITTEN, REPEATED = "overwritten_commit", "duplicate_commit"

Finding = dict[str, Any]


def overwritten(table: Table, one: Rewritten, told: str, loss: Loss | None) -> Finding:
    """A commit of which storage keeps the lost version; `loss` None: what that said cannot be read."""
    return _row(table, one.version, one.place) | {
        "severity": table.severity_of(OVERWRITTEN, "critical"),
        "files": loss.files if loss else None,
        "rows_at_stake": loss.rows if loss else None,
        "bytes_at_stake": loss.bytes if loss else None,
        "manifest_etag": one.lost_etag,
        "manifest_version_id": one.lost_version_id,
        "manifest_time": one.lost_at,
        "storage_etag": one.etag,
        "storage_version_id": one.version_id,
        "storage_time": one.written_at,
        "recoverable": "yes" if loss else "unknown",
        "recovery": "older_version" if loss else None,
        "recovery_version_id": one.lost_version_id if loss else None,
        "explanation": f"commit {one.version} was written at {second(one.lost_at)} and again, with other content, at "
        f"{second(one.written_at)}: the first commit is gone; {told}",
    }


def in_words(operation: str, loss: Loss) -> str:
    """What the lost version said and nothing says since."""
    rows = f", {count(loss.rows)} rows" if loss.rows is not None else ""
    sample = f" ({', '.join(loss.sample)}{', ...' if loss.files > len(loss.sample) else ''})"
    told = [
        f"added {count(loss.files)} files{rows}, {size(loss.bytes)}, that no state lists{sample}"
        if loss.files
        else "",
        f"removed {count(loss.undone)} files that are listed still" if loss.undone else "",
        "changed the table's metadata" if loss.of_table else "",
    ]
    return f"the lost version{f' ({operation})' if operation else ''} " + "; ".join(filter(None, told))


def doubted(table: Table, doubt: Doubt) -> Finding:
    """A commit that was written twice by what its log alone shows."""
    likely = "" if doubt.sure else "probably "
    return _row(table, doubt.commit.version, doubt.commit.place) | {
        "severity": table.severity_of(OVERWRITTEN, "critical" if doubt.sure else "warning"),
        "recoverable": "unknown",
        "explanation": f"commit {doubt.commit.version} was {likely}written twice: {doubt.why}; what the first one said "
        "is not known here: look for an older version of the file, and for files never committed of that time",
    }


def repeated(
    table: Table, pair: Mapping[str, Any], files: tuple[CommitFile, CommitFile], live: LiveBatch
) -> Finding:
    """A batch that was appended twice, at its younger commit."""
    older, younger = files
    return _row(table, younger.version, younger.place, REPEATED) | {
        "severity": table.severity_of(REPEATED, "warning"),
        "files": live.live,
        "rows_at_stake": live.rows,
        "bytes_at_stake": live.bytes,
        "related_key": older.place.key,
        "manifest_time": pair["younger_at"],
        "explanation": f"commits {older.version} of {second(pair['older_at'])} and {younger.version} of "
        f"{second(pair['younger_at'])} each added {count(pair['files'])} files of equal sizes, row counts and "
        "statistics, and both are live: probably one batch appended twice",
    }


def _row(table: Table, version: int, place: Location, kind: str = OVERWRITTEN) -> Finding:
    """What findings about a commit have in common."""
    return {
        "table_name": table.name,
        "axis": KINDS[kind].axis,
        "kind": kind,
        "subject_type": "commit",
        "subject": place.uri,
        "bucket": place.bucket,
        "key": place.key,
        "category": "log",
        "table_version": version,
        "commit_id": str(version),
        "manifest_kind": "delta",
        "confirmation": "not_needed",
    }
