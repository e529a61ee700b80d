"""Build FINDINGS rows of single commits: written twice, surely or probably, and batches appended twice."""

from typing import Any

from lakeaudit.checks.commits.commits import Loss
from lakeaudit.checks.commits.suspect_commits import JudgedSuspect, RepeatedBatch, Suspect
from lakeaudit.formatting import count, number, second, size
from lakeaudit.kinds import KINDS
from lakeaudit.rules.file_rules import RULES

Finding = dict[str, Any]


def finding(one: JudgedSuspect) -> Finding:
    """Return the row of a commit whose outcome is a finding, with the evidence of its rule."""
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
        **_COLUMNS_BY_RULE[one.rule](one),
    }


def _overwritten_commit(one: JudgedSuspect) -> Finding:
    """Return the columns of a commit whose lost version storage keeps, whether it can be read or not."""
    other, compared = one.suspect.other, one.suspect.compared
    if other is None or compared is None:
        return {}
    loss = in_words(compared.operation, compared.loss)
    if compared.unread:
        loss = f"the two versions of its file cannot be compared: {compared.unread}"
    more = f"; {number(one.more, 'more version')} of this commit lost as well" if one.more else ""
    return {
        "manifest_etag": other.lost_etag,
        "manifest_version_id": other.lost_version_id,
        "manifest_time": other.lost_at,
        "storage_etag": other.etag,
        "storage_version_id": other.version_id,
        "storage_time": other.written_at,
        "explanation": f"commit {other.version} was written at {second(other.lost_at)} and again, with other content, "
        f"at {second(other.written_at)}: the table no longer has the first content; {loss}{more}",
        **({"recoverable": "unknown"} if compared.unread else _loss_columns(one.suspect, compared.loss)),
    }


def _loss_columns(one: Suspect, loss: Loss) -> Finding:
    """Return the amounts at stake; the log does not record rows and bytes of files whose removal was lost."""
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
    """Describe the actions that only the lost version records."""
    rows = f", {count(loss.rows)} rows" if loss.rows is not None else ""
    sample = f" ({', '.join(loss.sample)}{', ...' if loss.files > len(loss.sample) else ''})"
    undone = number(loss.undone, "file")
    actions = [
        f"added {number(loss.files, 'file')}{rows}, {size(loss.bytes)}, and no version of the table lists them{sample}"
        if loss.files
        else "",
        f"removed {undone} from the table; because this removal is lost, the table still lists the {undone}"
        if loss.undone
        else "",
        "changed the table's metadata" if loss.of_table else "",
    ]
    return f"the lost version of the commit{f' ({operation})' if operation else ''} " + "; ".join(
        filter(None, actions)
    )


def _doubtful_commit(one: JudgedSuspect) -> Finding:
    """Return the columns of a commit that was written twice, as its log alone shows."""
    doubt = one.suspect.doubt
    if doubt is None:
        return {}
    likely = "" if doubt.sure else "probably "
    return {
        "recoverable": "unknown",
        "explanation": f"commit {doubt.commit.version} was {likely}written twice: {doubt.why}; the first "
        "content is not known: look for an older version of the file, and for uncommitted files of that time",
    }


def _repeated_batch(one: JudgedSuspect) -> Finding:
    """Return the columns of a batch that was appended twice; the subject is its younger commit."""
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


def _in_common(pair: RepeatedBatch) -> str:
    """Describe the common properties of the two commits of a pair."""
    if pair.transaction is None:
        return (
            f"each added {number(pair.files, 'file')} with equal sizes, row counts and statistics, and the "
            "files of both "
            "are live: probably one batch was appended twice"
        )
    sums = (
        "the same number of files, rows and bytes"
        if pair.same_sums
        else "different numbers of files, rows or bytes, so the files are not copies"
    )
    return (
        f"carry the same transaction ({pair.transaction}) and added {sums}; the files of both are live: "
        "query engines may "
        "read the rows of one batch twice"
    )


def _unclassified_commit(one: JudgedSuspect) -> Finding:
    return {"explanation": RULES[one.rule].because}


_COLUMNS_BY_RULE = {
    "commit.lost": _overwritten_commit,
    "commit.unreadable": _overwritten_commit,
    "commit.proved": _doubtful_commit,
    "commit.doubted": _doubtful_commit,
    "commit.repeated": _repeated_batch,
    "commit.unclassified": _unclassified_commit,
}
"""By rule the function that returns the columns of its findings."""
