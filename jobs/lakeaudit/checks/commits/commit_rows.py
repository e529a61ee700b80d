"""FINDINGS rows about single commits: written twice, surely or probably, and batches appended twice."""

from typing import Any

from lakeaudit.checks.commits.commits import Loss
from lakeaudit.checks.commits.suspect_commits import Judged, Repeated, Suspect
from lakeaudit.formatting import count, number, second, size
from lakeaudit.kinds import KINDS
from lakeaudit.rules.file_rules import RULES

Finding = dict[str, Any]


def finding(one: Judged) -> Finding:
    """The row of a commit whose verdict is a finding: what it is and where, and what the rule that fired rests on."""
    file, kind = one.suspect.file, KINDS[RULES[one.rule].verdict]
    return {
        "table_name": file.table,
        "axis": kind.axis,
        "kind": kind.name,
        "severity": one.severity,
        "subject_type": "commit",
        "subject": file.place.uri,
        "bucket": file.place.bucket,
        "key": file.place.key,
        "category": "log",
        "table_version": file.version,
        "commit_id": str(file.version),
        "manifest_kind": "delta",
        "confirmation": "not_needed",
        **_OF_RULE[one.rule](one),
    }


def _overwritten(one: Judged) -> Finding:
    """A commit of which storage keeps the lost version, which may be one that cannot be read."""
    other, compared = one.suspect.other, one.suspect.compared
    if other is None or compared is None:
        return {}
    told = in_words(compared.operation, compared.loss)
    if compared.unread:
        told = f"its versions cannot be compared: {compared.unread}"
    more = f"; {number(one.more, 'more version')} of it went the same way" if one.more else ""
    return {
        "manifest_etag": other.lost_etag,
        "manifest_version_id": other.lost_version_id,
        "manifest_time": other.lost_at,
        "storage_etag": other.etag,
        "storage_version_id": other.version_id,
        "storage_time": other.written_at,
        "explanation": f"commit {other.version} was written at {second(other.lost_at)} and again, with other content, "
        f"at {second(other.written_at)}: the first commit is gone; {told}{more}",
        **({"recoverable": "unknown"} if compared.unread else _lost(one.suspect, compared.loss)),
    }


def _lost(one: Suspect, loss: Loss) -> Finding:
    """Of what the lost version removed, and is read still, the log does not say how much it is."""
    added = loss.files or not loss.undone
    return {
        "files": loss.files + loss.undone,
        "rows_at_stake": loss.rows if added else None,
        "bytes_at_stake": loss.bytes if added else None,
        "recoverable": "yes",
        "recovery": "older_version",
        "recovery_version_id": one.other.lost_version_id if one.other else None,
    }


def in_words(operation: str, loss: Loss) -> str:
    """What the lost version said and nothing says since."""
    rows = f", {count(loss.rows)} rows" if loss.rows is not None else ""
    sample = f" ({', '.join(loss.sample)}{', ...' if loss.files > len(loss.sample) else ''})"
    told = [
        f"added {number(loss.files, 'file')}{rows}, {size(loss.bytes)}, that no state lists{sample}"
        if loss.files
        else "",
        f"removed {number(loss.undone, 'file')} still listed" if loss.undone else "",
        "changed the table's metadata" if loss.of_table else "",
    ]
    return f"the lost version{f' ({operation})' if operation else ''} " + "; ".join(filter(None, told))


def _doubted(one: Judged) -> Finding:
    """A commit that was written twice by what its log alone shows."""
    doubt = one.suspect.doubt
    if doubt is None:
        return {}
    likely = "" if doubt.sure else "probably "
    return {
        "recoverable": "unknown",
        "explanation": f"commit {doubt.commit.version} was {likely}written twice: {doubt.why}; what the first one said "
        "is not known here: look for an older version of the file, and for files never committed of that time",
    }


def _repeated(one: Judged) -> Finding:
    """A batch that was appended twice, at its younger commit."""
    pair, batches = one.suspect.repeats, one.suspect.batches
    if pair is None or batches is None:
        return {}
    return {
        "files": batches.younger.live,
        "rows_at_stake": batches.younger.rows,
        "bytes_at_stake": batches.younger.bytes,
        "related_key": pair.older.place.key,
        "manifest_time": pair.younger_at,
        "explanation": f"commits {pair.older.version} of {second(pair.older_at)} and {one.suspect.file.version} of "
        f"{second(pair.younger_at)} {_in_common(pair)}",
    }


def _in_common(pair: Repeated) -> str:
    """What the two commits of a pair share."""
    if pair.transaction is None:
        return (
            f"each added {count(pair.files)} files of equal sizes, row counts and statistics, and both are live: "
            "probably one batch appended twice"
        )
    sums = (
        "as many files, rows and bytes"
        if pair.same_sums
        else "other numbers of files, rows or bytes, so their files are not copies"
    )
    return (
        f"carry the same transaction ({pair.transaction}) and added {sums}; both are live: readers may get the rows of "
        "one batch twice"
    )


def _unclassified(one: Judged) -> Finding:
    return {"explanation": RULES[one.rule].because}


_OF_RULE = {
    "commit.lost": _overwritten,
    "commit.unreadable": _overwritten,
    "commit.proved": _doubted,
    "commit.doubted": _doubted,
    "commit.repeated": _repeated,
    "commit.unclassified": _unclassified,
}
"""By rule what its findings rest on."""
