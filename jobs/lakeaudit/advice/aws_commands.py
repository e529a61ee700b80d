"""Build commands of the AWS CLI that repair a finding without restoring a version, see `next_steps`.

No command is run here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeaudit.advice.format_advice import format_of
from lakeaudit.evidence.kind import PLAIN
from lakeaudit.formatting import shell_word
from lakeaudit.kinds import SET_ASIDE

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Endpoint

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One action for a person, as a short description and a command line."""

    what: str
    command: str


def s3(operation: str, arguments: str, at: "Endpoint | None") -> str:
    """Return a high-level command of the AWS CLI, whose URIs contain raw keys."""
    payer = " --request-payer requester" if at is not None and at.requester_pays else ""
    endpoint = f" --endpoint-url {shell_word(at.endpoint)}" if at is not None and at.endpoint else ""
    return f"aws s3 {operation} {arguments}{payer}{endpoint}"


def has_another_way(finding: Row) -> bool:
    """Return whether the finding is repaired by another command than the restore of a version, or by none."""
    return (
        finding.get("kind") == "duplicate_content" or _is_torn_checkpoint(finding) or _lies_elsewhere(finding)
    )


def another_way(finding: Row, at: "Endpoint | None") -> Step | None:
    """Return that command; None: there is none."""
    if _is_torn_checkpoint(finding):
        return _set_aside(finding["bucket"], finding["key"], at)
    return _move_back(finding, at) if _lies_elsewhere(finding) else _remove_copy(finding, at)


_CHECKPOINT = re.compile(r"(?:.*/)?_delta_log/\d{20}\.checkpoint[^/]*")


def _is_torn_checkpoint(finding: Row) -> bool:
    """Return whether the finding is about an unreadable checkpoint that the table's state does not need."""
    there = finding.get("kind") == "missing_metadata" and finding["storage_size"] is not None
    return (
        there
        and SET_ASIDE in (finding.get("explanation") or "")
        and bool(_CHECKPOINT.fullmatch(finding["key"]))
    )


def _set_aside(bucket: str, key: str, at: "Endpoint | None") -> Step:
    """Rename the checkpoint, since readers find it by name, and remove the hint, which may name it."""
    place = f"s3://{bucket}/{key}"
    move = s3("mv", f"{shell_word(place)} {shell_word(f'{place}.torn')}", at)
    hint = s3("rm", shell_word(f"{place.rpartition('/')[0]}/_last_checkpoint"), at)
    return Step("rename it, so that query engines begin at an older checkpoint", f"{move} && {hint}")


def _remove_copy(finding: Row, at: "Endpoint | None") -> Step | None:
    """Remove the duplicate file in a table without a log; in other tables the log lists it."""
    if format_of(finding.get("manifest_kind")) != PLAIN or not finding["related_key"]:
        return None
    command = s3("rm", shell_word(f"s3://{finding['bucket']}/{finding['key']}"), at)
    return Step("remove this copy; the other file has the same content", command)


def _lies_elsewhere(finding: Row) -> bool:
    """Return whether the bytes of a lost file are under another key, as after half of a rename."""
    return finding.get("kind") == "dropped" and bool(finding.get("related_key"))


def _move_back(finding: Row, at: "Endpoint | None") -> Step:
    names = [f"s3://{finding['bucket']}/{key}" for key in (finding["related_key"], finding["key"])]
    command = s3("mv", " ".join(map(shell_word, names)), at)
    return Step("move the file back from the folder with the same content", command)
