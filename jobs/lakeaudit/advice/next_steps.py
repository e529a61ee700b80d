"""What to type next about a finding: the command that brings its file back, and the one that tells more.

A file behind a delete marker comes back when the marker is deleted; one that was overwritten, when its older version is
copied over it. The two are opposites: to delete the older version by its id would destroy it for good. So each command
names the very version: the marker's where storage has told it, then or now. Where it is not known the older version is
copied, which is right in both cases. Nothing here runs anything.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeaudit.advice.aws_commands import Step, another_way, has_another_way
from lakeaudit.advice.command_lines import Value, is_loaded, operand, option, s3api
from lakeaudit.advice.format_advice import DO, NOT_BACK, format_of
from lakeaudit.formatting import shell_word, uri
from lakeaudit.kinds import KINDS, NEWER_TORN, SEVERAL_STATES, loses_state
from lakeaudit.storage_classes import StorageClasses, cloud_of, restore_takes

if TYPE_CHECKING:
    from lakeaudit.runtime.aws import Endpoint

Row = Mapping[str, Any]

ARCHIVED = "archived"
LOST_COMMIT = "overwritten_commit"
THINK_FIRST = ("overwritten", LOST_COMMIT)
"""Kinds whose file may be right as it is, or must stay as it is: what to do comes before the command."""

BROUGHT_BACK = frozenset(
    {"dropped", "dropped_history", "missing_metadata", "size_mismatch", "content_mismatch"}
)
TOLD_APART = ("content_mismatch",)
"""Kinds whose wrong object has the recorded size: the right one is one that was told apart from it."""
LOSS_KINDS = BROUGHT_BACK | {"overwritten", "incomplete_commit"}
"""Kinds whose file is lost, or has other content than was written; see `results.recovery`.

A commit that was written twice is not one of them: its lost version must not be restored over the other.
"""
EXPIRED = "expired by a lifecycle rule"
"""How a cause begins that nobody decided for the very file (`findings.causes.DEEDS`)."""

PLANS = "lakeaudit reconcile plan "
PLAN_FILE, CLEAR_FILE = "plan.jsonl", "clear.jsonl"
"""What a plan is written to unless that is said, and what a second one of the same table is."""
_INTO = "-o"
LEAVE_OUT = "Leave `--allow restore` out where somebody may have removed or replaced files on purpose."

_NOT_BACK = {
    "dropped": "Write the rows again from the source; repair the log only last.",
    "dropped_history": "Accept it (`lakeaudit ack`).",
    "missing_metadata": "Write the rows of the lost state again from their source. Do this before any other repair of "
    "the table.",
    "size_mismatch": "Find who wrote it, and rewrite the file through the table.",
    "content_mismatch": "Find who wrote it, and rewrite the file through the table; trust no result since then.",
}
"""What is left to do if a file is not recoverable."""

CLEARED = frozenset(
    {
        *("uncommitted", "unvacuumed", "unreferenced", "temporary", "unfinished_upload"),
        *("duplicate_attempt", "duplicate_content"),
    }
)
"""Kinds of which a plan takes files away."""
PLANNED = frozenset(
    {
        *("dropped", "dropped_history", "missing_metadata", "size_mismatch", "content_mismatch"),
        *("hidden", "tombstoned", "phantom", "metastore_stale", "metastore_broken"),
        *("unregistered_partition", "empty_partition", "stale_pointer"),
        *CLEARED,
    }
)
"""Kinds of which `reconcile plan` mends some; the others need a person."""

MOST_COPIED = 5 << 30
"""Bytes that one CopyObject takes (S3 API reference, CopyObject: 5 GB)."""

_UNTYPABLE = re.compile(r"\0|\?versionId=")
"""In a key: no argument holds the one, and the AWS CLI takes the other for the end of the key."""


def way_back(finding: Row, at: "Endpoint | None" = None, marker: str | None = None) -> Step | None:
    """How the finding's file comes back; None where nothing that can be typed is known.

    Args:
        finding: a row of `findings` or of the ledger.
        at: how the file's bucket is reached.
        marker: the version id of the delete marker that is the current version now, where that was asked; else the one
            that the run found is taken, which at worst is not there any more.
    """
    bucket, key, version = finding["bucket"], finding["key"], finding["recovery_version_id"]
    if not bucket or not key or _UNTYPABLE.search(key):
        return None
    if has_another_way(finding):
        return another_way(finding, at)
    place = {"Bucket": bucket, "Key": key}
    if finding.get("kind") == ARCHIVED:
        return _out_of_archive(place, finding["storage_class"], at)
    if finding["recoverable"] != "yes":
        return None
    if is_archived_metadata(finding):
        return _out_of_archive(place, finding["storage_class"], at)
    if finding.get("kind") == LOST_COMMIT and is_to_think_first(finding):
        return _beside(place, key, version, at)
    if version is not None and _is_archived(finding["storage_class"], at):
        return _version_out_of_archive(place, version, finding["storage_class"], at)
    step = _by_version(finding, place, marker or _marker_found(finding), at)
    return _after_older_states(step) if step is not None and _needs_older_states(finding) else step


def is_archived_metadata(finding: Row) -> bool:
    """Whether a file of a table's own metadata is there, whole, and only has to be restored from an archive."""
    there = finding.get("kind") == "missing_metadata" and finding.get("storage_size") is not None
    return there and bool(finding["recoverable"] == "yes") and finding["recovery"] is None


def _is_archived(storage_class: str | None, at: "Endpoint | None") -> bool:
    """Whether a class has to be restored before reading, by the names of the cloud at the endpoint."""
    classes = StorageClasses(cloud=cloud_of(at.endpoint if at else None))
    return classes.archived(storage_class) is True


def _needs_older_states(finding: Row) -> bool:
    """Whether states before the lost one are lost too, and it says nothing without them."""
    several = SEVERAL_STATES in (finding.get("explanation") or "")
    return several and not str(finding["key"]).endswith(".metadata.json")


def _after_older_states(step: Step) -> Step:
    what = f"restore the older lost states first, as `lakeaudit reconcile plan` does; then {step.what}"
    return replace(step, what=what)


def _by_version(
    finding: Row, place: dict[str, str], marker: str | None, at: "Endpoint | None"
) -> Step | None:
    """The delete marker is removed, or the older version is copied over what is current."""
    version = finding["recovery_version_id"]
    if finding["recovery"] == "delete_marker" and marker is not None:
        return Step(
            "remove the delete marker",
            _s3api("delete-object", place | {"VersionId": marker}, at),
        )
    if finding["recovery"] not in ("delete_marker", "older_version") or version is None:
        return None
    source = f"{place['Bucket']}/{place['Key']}?versionId={version}"
    what = (
        "copy the last version over the delete marker"
        if finding["recovery"] == "delete_marker"
        else "copy the older version over it"
    )
    return Step(what + _in_parts(finding), _s3api("copy-object", place | {"CopySource": source}, at))


def is_to_think_first(finding: Row) -> bool:
    """Whether what to do about the finding comes before its command, see THINK_FIRST."""
    return finding.get("kind") in THINK_FIRST and NEWER_TORN not in (finding.get("explanation") or "")


def _beside(place: dict[str, str], key: str, version: str | None, at: "Endpoint | None") -> Step | None:
    """A commit that was written twice: over the newer one the older must never be copied, for both hold files."""
    if version is None or is_loaded(key):
        return None
    name = operand(f"lost-{key.rpartition('/')[2]}")
    command = _s3api("get-object", place | {"VersionId": version}, at, name)
    return Step("fetch the lost version into a file of its own", command)


def _out_of_archive(place: dict[str, str], storage_class: str | None, at: "Endpoint | None") -> Step:
    """S3 API reference, RestoreObject: Intelligent-Tiering brings an object back for good, and takes no days."""
    for_good = storage_class == "INTELLIGENT_TIERING"
    request: dict[str, int] = {} if for_good else {"Days": 7}
    what = "have it restored" if for_good else "have a copy restored for seven days"
    return Step(
        f"{what}, which costs money and takes up to two days",
        _s3api("restore-object", {**place, "RestoreRequest": request}, at),
    )


def _version_out_of_archive(
    place: dict[str, str], version: str, storage_class: str, at: "Endpoint | None"
) -> Step:
    """The first of two steps: no copy reads a version that is archived."""
    request: dict[str, int] = {"Days": 7}
    takes = f"it is in {storage_class}, which costs money and takes {restore_takes(storage_class)}"
    return Step(
        f"first have the version restored for seven days ({takes}); bring it back once that is done",
        _s3api("restore-object", {**place, "VersionId": version, "RestoreRequest": request}, at),
    )


def _marker_found(finding: Row) -> str | None:
    """The version id of the marker that the run found: what storage has where it has no object of any size."""
    found = finding["storage_version_id"]
    is_object = finding["storage_size"] is not None or found == finding["recovery_version_id"]
    return found if finding["recovery"] == "delete_marker" and not is_object else None


def _in_parts(finding: Row) -> str:
    return " (above 5 GiB a copy in parts is needed)" if (finding["manifest_size"] or 0) > MOST_COPIED else ""


def _s3api(operation: str, parameters: Mapping[str, Value], at: "Endpoint | None", *files: str) -> str:
    """The AWS CLI percent-encodes the source of a copy itself."""
    payer = ("--request-payer requester",) if at is not None and at.requester_pays else ()
    endpoint = (f"--endpoint-url {shell_word(at.endpoint)}",) if at is not None and at.endpoint else ()
    return s3api(operation, parameters, *files, *payer, *endpoint)


def plan_all(lake: str, *, meant: bool) -> str:
    """The command that plans what mends anything; `meant`: see `may_be_meant`."""
    return f"{PLANS}{operand(lake)}{ALLOW if meant else ''}"


def mend(
    lake: str, table: str | None, kind: str, answers: Mapping[str, int], causes: Sequence[str] = ()
) -> str:
    """The command that plans what mends discrepancies of a kind, or names their files for a person; it changes nothing.

    Args:
        lake: the lake file as the reader would type it.
        table: that holds them; None: several do.
        kind: of the discrepancies.
        answers: number of lost files by whether they are recoverable: yes, no, unknown.
        causes: those known.
    """
    of_table = f" {option('--table', table)}" if table is not None else ""
    about = f"{operand(lake)}{of_table} {option('--kind', kind)}"
    if not may_be_mended(kind, answers):
        return f"lakeaudit findings {about} --files"
    return f"{PLANS}{about}{ALLOW if may_be_meant(kind, answers, causes) else ''}"


def beside_others(command: str, name: str) -> str:
    """A plan in a file of its own name, where others are typed beside it: each would be written over the last."""
    return f"{command} {_INTO} {operand(f'{name}.jsonl')}" if command.startswith(PLANS) else command


def mend_all(lake: str, table: str, groups: "Sequence[Asked]") -> list[str]:
    """What to type about all that is broken in a table: a plan of what is mended, lists, a plan of what is taken away.

    Plans lie in files of their own, since a second one would be written over the first.
    """
    losing = any(
        loses_state(each.kind) for each in groups
    )  # what no state lists may be all that is left of it
    planned = [
        each for each in groups
        if may_be_mended(each.kind, each.answers) and not (losing and each.kind in CLEARED)
    ]  # fmt: skip
    about = f"{operand(lake)} {option('--table', table)}"
    meant = any(may_be_meant(each.kind, each.answers, each.causes) for each in planned)
    mended = _kinds(each.kind for each in planned if each.kind not in CLEARED)
    cleared = _kinds(each.kind for each in planned if each.kind in CLEARED)
    rest = [
        f"lakeaudit findings {about} {option('--kind', each.kind)} --files"
        for each in groups
        if each not in planned
    ]
    return [
        *([f"{PLANS}{about}{mended}{ALLOW if meant else ''}"] if mended else []),
        *dict.fromkeys(rest),
        *([f"{PLANS}{about}{cleared} {_INTO} {CLEAR_FILE}"] if cleared else []),
    ]


def after_plans(lines: Sequence[str], literal: Callable[[str], str]) -> str:
    """What to do once the plans among these lines are made, and how to plan less; empty where there are none.

    `literal` is how a stored text is written.
    """
    plans = [line for line in lines if line.startswith(PLANS)]
    names = " and ".join(literal(f"lakeaudit reconcile apply {_file_of(plan)}") for plan in plans)
    many = f"Read both plans; {names} do what they say." if len(plans) > 1 else ""
    one = f"Read the plan; {names} does what it says." if len(plans) == 1 else ""
    leave_out = LEAVE_OUT if any(ALLOW in plan for plan in plans) else ""
    return " ".join(filter(None, (many, one, leave_out)))


def _file_of(plan: str) -> str:
    """What a plan is written to, as it is typed."""
    *_, option, _ = shlex.split(plan)
    return plan.rpartition(f" {_INTO} ")[2] if option == _INTO else PLAN_FILE


def _kinds(of: Iterable[str]) -> str:
    return "".join(f" {option('--kind', kind)}" for kind in dict.fromkeys(of))


class Asked(Protocol):
    """What `mend_all` is asked about: discrepancies of one kind."""

    @property
    def kind(self) -> str: ...
    @property
    def answers(self) -> Mapping[str, int]: ...
    @property
    def causes(self) -> Sequence[str]: ...


ALLOW = " --allow restore"


def may_be_mended(kind: str, answers: Mapping[str, int]) -> bool:
    """Whether `reconcile plan` may have a step for any of a kind; see `mend`.

    Of a lost file it has none where no version is left, and of other content none that nobody has told apart. Where
    nobody has said (as results of an earlier version do of metadata) the plan looks.
    """
    if kind not in BROUGHT_BACK:
        return kind in PLANNED
    if kind in TOLD_APART:
        return bool(answers.get("yes"))
    return bool(answers.get("yes") or answers.get("unknown") or not answers.get("no"))


def waits(row: Row, beside: Collection[str] = ()) -> bool:
    """Whether something else of the same file comes first.

    Over a commit that was written twice nothing is brought back; where the object is not what its writer recorded, or
    is gone and an older state needs it, the entry of a metadata store may be the last that says how it should be; and
    a file that is to go needs none.

    Args:
        row: the discrepancy.
        beside: kinds of all that is open of its file.
    """
    if row["kind"] in BROUGHT_BACK:
        return LOST_COMMIT in beside
    recorded, stored = row["manifest_size"], row["storage_size"]
    differs = None not in (recorded, stored) and recorded != stored
    if row["kind"] == "metastore_stale" and differs:
        return True
    return not _COMES_AFTER.get(row["kind"], frozenset()).isdisjoint(beside)


_COMES_AFTER = {
    "metastore_stale": frozenset({"size_mismatch", "content_mismatch"}),
    "phantom": frozenset({"dropped", "dropped_history"}),
    "hidden": frozenset({"duplicate_content", "duplicate_attempt"}),
}
"""By kind of an entry what is mended of its file before."""


def may_be_meant(kind: str, answers: Mapping[str, int], causes: Sequence[str]) -> bool:
    """Whether a plan may restore files that somebody perhaps removed on purpose; see `mend`."""
    expired = bool(causes) and all(cause.startswith(EXPIRED) for cause in causes)
    return kind in BROUGHT_BACK and may_be_mended(kind, answers) and not expired


OVER = "over"


def ending(kind: str, resolution: str | None) -> str:
    """The ledger's resolution; OVER where that is `restored`, and nothing was lost or altered; empty where none is."""
    never_lost = kind in KINDS and kind not in LOSS_KINDS
    return OVER if resolution == "restored" and never_lost else resolution or ""


def ended(row: Row) -> str:
    """How a discrepancy ended, in words."""
    how = ending(row["kind"], row["resolution"])
    return _ENDED.get(how, how.replace("_", " ") or "how is not known")


_ENDED = {
    OVER: "no longer so",
    "reference_removed": "closed, not restored",
    "metastore_mended": "metadata store mended",
    "accepted": "ignored by the lake file",
    "retired": "not followed any more",
}


def look_at_versions(finding: Row, at: "Endpoint | None" = None) -> str | None:
    """The command that shows every version of a finding's file; changes nothing."""
    if not finding["bucket"] or not finding["key"]:
        return None
    place = {"Bucket": finding["bucket"], "Prefix": finding["key"]}
    return _s3api("list-object-versions", place, at)


_COLUMN = re.compile(r" \(`[a-z_]+`(?: of the log's file|, and `[a-z_]+`[^)]*)?\)")
"""The column that a sentence of docs/kinds.md speaks of: of use in SQL, in the way on a page."""


def to_do(kind: str, recoverable: str | None = None, manifest_kind: str | None = None) -> str:
    """What to do about a kind, as plain text; empty for a kind that this version does not know.

    Args:
        kind: of the finding.
        recoverable: `no` gives the advice for a file that is not recoverable.
        manifest_kind: of the table, for advice in the terms of its format.
    """
    if kind not in KINDS:
        return ""
    is_lost = recoverable == "no" and kind in _NOT_BACK
    general, of_formats = (_NOT_BACK[kind], NOT_BACK) if is_lost else (KINDS[kind].do, DO)
    text = of_formats.get(kind, {}).get(format_of(manifest_kind) or "", general)
    return _COLUMN.sub("", text).replace("`", "")


def learn_more(lake: str, run_id: str, finding: Row) -> str:
    """What to type to learn more: `explain` for a file, else `findings` with the finding's kind and table."""
    place = uri(finding)
    if finding["subject_type"] == "file" and place and "\0" not in place:
        return f"lakeaudit explain {operand(lake)} {operand(place)}"
    table = f" {option('--table', finding['table_name'])}" if finding["table_name"] else ""
    files = " --files" if finding["axis"] == "leftover" else ""
    return f"lakeaudit findings {operand(lake)} {option('--run-id', run_id)} --kind {finding['kind']}{table}{files}"
