"""Build the next commands for a finding: the one that restores its file, and the one that explains it.

A file behind a delete marker is restored by deleting the marker, and an overwritten file by copying its older version
over it. The two are opposites: deleting the older version by its id would destroy it for good. So each command names
the exact version: the marker's if storage returned it, in the audit or now. If it is not known, the older version is
copied, which is right in both cases. No command is run here.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeaudit.advice.aws_commands import Step, another_way, has_another_way
from lakeaudit.advice.command_lines import Value, is_loaded, operand, option, s3api
from lakeaudit.advice.format_advice import DIFFERING_CHECKPOINT, DO, NOT_BACK, format_of
from lakeaudit.formatting import shell_word, uri
from lakeaudit.keys import digest
from lakeaudit.kinds import (
    CHECKPOINT_DIFFERS,
    COVERAGE_LOST,
    KINDS,
    NEWER_TORN,
    SEVERAL_STATES,
    UNREADABLE,
    loses_state,
)
from lakeaudit.storage_classes import StorageClasses, cloud_of, restore_takes

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Endpoint

Row = Mapping[str, Any]

ARCHIVED = "archived"
LOST_COMMIT = "overwritten_commit"
LOST_LOG = "missing_metadata"
STALE_POINTER = "stale_pointer"
THINK_FIRST = ("overwritten", LOST_COMMIT)
"""Kinds whose file may be right, or must stay as it is: the advice is printed before the command."""

BROUGHT_BACK = frozenset(
    {"dropped", "dropped_history", "missing_metadata", "size_mismatch", "content_mismatch"}
)
DIFFERING_CONTENT = ("content_mismatch",)
"""Kinds whose wrong object has the recorded size and other content."""
LOSS_KINDS = BROUGHT_BACK | {"overwritten", "incomplete_commit"}
"""Kinds whose file is lost, or has other content than its writer wrote; see `results.recovery`.

A commit that was written twice is not one of them: its lost version must not be restored over the other.
"""
EXPIRED = "expired by a lifecycle rule"
"""Beginning of a cause that is not a decision about the single file (`findings.causes.DEEDS`)."""

PLANS = "lakeaudit reconcile plan "
CHECKS = "lakeaudit doctor "
PLAN_FILE, CLEAR_FILE = "plan.jsonl", "clear.jsonl"
"""Default file of a plan, and the file of a second plan for the same table."""
_INTO = "-o"
LEAVE_OUT = "Leave out `--allow restore` if somebody may have removed or replaced files on purpose."
LEFT_TO_A_PERSON = "The plan leaves files that somebody may have removed or replaced on purpose to a person."


_NOT_BACK = {
    "dropped": "Write the rows again from their source. Only after that, remove the lost file from the metadata of "
    "the table (its log or its manifests): for Delta and some Iceberg tables, plan this with the command `lakeaudit "
    "reconcile plan LAKE_FILE --table TABLE --allow remove_reference`; for other tables, use the API of the table "
    "format.",
    "dropped_history": "Accept the finding (`lakeaudit ack`).",
    "missing_metadata": "Write the rows of the lost table version again from their source. Repair the "
    "metadata of a table before anything else in it.",
    "size_mismatch": "Find out which job wrote the stored object, and whether the object or the recorded "
    "size is wrong. "
    "If the object is wrong, write its rows again from their source.",
    "content_mismatch": "Find out which job wrote the stored object, and write the rows of the file again from their "
    "source. "
    "Do not trust query results since that time.",
    "overwritten": "No older version exists for a comparison. Compare the rows of the file with their "
    "source. Let writers record checksums (`lakeaudit.emit` does), so that a later audit "
    "can compare the content.",
}
"""Advice for files that are not recoverable."""

CLEARED = frozenset(
    {
        *("uncommitted", "unvacuumed", "unreferenced", "temporary", "unfinished_upload"),
        *("duplicate_attempt", "duplicate_content"),
    }
)
"""Kinds whose files a plan removes."""
PLANNED = frozenset(
    {
        *("dropped", "dropped_history", "missing_metadata", "size_mismatch", "content_mismatch"),
        *("hidden", "tombstoned", "phantom", "metastore_stale", "metastore_broken"),
        *("unregistered_partition", "empty_partition", STALE_POINTER),
        *CLEARED,
    }
)
"""Kinds that `reconcile plan` can repair at least in part; the others need a person."""

MOST_COPIED = 5 << 30
"""Largest object in bytes that one CopyObject copies (S3 API reference, CopyObject: 5 GB)."""

_UNTYPABLE = re.compile(r"\0|\?versionId=")
"""Parts of a key that no command can contain: an argument cannot have NUL, and the AWS CLI ends the key at `?`."""


def way_back(finding: Row, at: "Endpoint | None" = None, marker: str | None = None) -> Step | None:
    """Return the command that restores the finding's file; None: there is no such command.

    Args:
        finding: a row of `findings` or of the ledger.
        at: endpoint of the file's bucket.
        marker: version id of the delete marker that is current now; None: the one of the finding is used, which may
            no longer exist.
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
    """Return whether a file of a table's own metadata is complete and only has to be restored from an archive."""
    there = finding.get("kind") == LOST_LOG and finding.get("storage_size") is not None
    return there and bool(finding["recoverable"] == "yes") and finding["recovery"] is None


def _is_archived(storage_class: str | None, at: "Endpoint | None") -> bool:
    """Return whether a class has to be restored before reading, by the names of the cloud at the endpoint."""
    classes = StorageClasses(cloud=cloud_of(at.endpoint if at else None))
    return classes.archived(storage_class) is True


def _needs_older_states(finding: Row) -> bool:
    """Return whether earlier states are lost too, and the state needs them."""
    several = SEVERAL_STATES in (finding.get("explanation") or "")
    return several and not str(finding["key"]).endswith(".metadata.json")


def _after_older_states(step: Step) -> Step:
    what = f"restore the older lost versions of the table first, as `lakeaudit reconcile plan` does; then {step.what}"
    return replace(step, what=what)


def _by_version(
    finding: Row, place: dict[str, str], marker: str | None, at: "Endpoint | None"
) -> Step | None:
    """Return the command that removes the delete marker, or copies the older version over the current one."""
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
        else "copy the older version over the current object"
    )
    return Step(what + _in_parts(finding), _s3api("copy-object", place | {"CopySource": source}, at))


def is_to_think_first(finding: Row) -> bool:
    """Return whether the advice is printed before the command, see THINK_FIRST."""
    return finding.get("kind") in THINK_FIRST and NEWER_TORN not in (finding.get("explanation") or "")


def _beside(place: dict[str, str], key: str, version: str | None, at: "Endpoint | None") -> Step | None:
    """Return the command that fetches the older version of a commit; the newer one must not be replaced."""
    if version is None or is_loaded(key):
        return None
    name = operand(f"lost-{key.rpartition('/')[2]}")
    command = _s3api("get-object", place | {"VersionId": version}, at, name)
    return Step("download the lost version into a separate file", command)


def _out_of_archive(place: dict[str, str], storage_class: str | None, at: "Endpoint | None") -> Step:
    """Return the restore; Intelligent-Tiering restores for good, without days (S3 API reference, RestoreObject)."""
    for_good = storage_class == "INTELLIGENT_TIERING"
    request: dict[str, int] = {} if for_good else {"Days": 7}
    what = "restore it" if for_good else "restore a copy for seven days"
    return Step(
        f"{what} (this costs money and takes up to two days)",
        _s3api("restore-object", {**place, "RestoreRequest": request}, at),
    )


def _version_out_of_archive(
    place: dict[str, str], version: str, storage_class: str, at: "Endpoint | None"
) -> Step:
    """Return the first of two steps: an archived version cannot be copied."""
    request: dict[str, int] = {"Days": 7}
    takes = f"it is in {storage_class}; this costs money and takes {restore_takes(storage_class)}"
    return Step(
        f"restore the version for seven days ({takes}), and then copy it back",
        _s3api("restore-object", {**place, "VersionId": version, "RestoreRequest": request}, at),
    )


def _marker_found(finding: Row) -> str | None:
    """Return the version id of the marker in the finding: the stored version without a size."""
    version = finding["storage_version_id"]
    is_object = finding["storage_size"] is not None or version == finding["recovery_version_id"]
    return version if finding["recovery"] == "delete_marker" and not is_object else None


def _in_parts(finding: Row) -> str:
    return (
        " (a file of more than 5 GiB needs a copy in parts)"
        if (finding["manifest_size"] or 0) > MOST_COPIED
        else ""
    )


def _s3api(operation: str, parameters: Mapping[str, Value], at: "Endpoint | None", *files: str) -> str:
    """Return a command of `s3api` for an endpoint; the AWS CLI percent-encodes the source of a copy itself."""
    payer = ("--request-payer requester",) if at is not None and at.requester_pays else ()
    endpoint = (f"--endpoint-url {shell_word(at.endpoint)}",) if at is not None and at.endpoint else ()
    return s3api(operation, parameters, *files, *payer, *endpoint)


def plan_all(lake: str, *, meant: bool, tables: Sequence[str] = ()) -> str:
    """Return the command that plans all repairs, or those of some tables; `meant`: see `may_be_meant`."""
    of_tables = "".join(f" {option('--table', table)}" for table in tables)
    return f"{PLANS}{operand(lake)}{of_tables}{ALLOW if meant else ''}"


def repair_command(
    lake: str,
    table: str | None,
    kind: str,
    answers: Mapping[str, int],
    causes: Sequence[str] = (),
    *,
    restore: bool = True,
    file: str | None = None,
) -> str:
    """Return the command that plans repairs for a kind, or prints its files for a person; it changes nothing.

    Args:
        lake: the lake file as the reader would type it.
        table: table of the discrepancies; None: several.
        kind: kind of the discrepancies.
        answers: number of lost files by whether they are recoverable: yes, no, unknown.
        causes: known causes.
        restore: whether the plan may restore files that somebody perhaps removed on purpose.
        file: URI of the only file to repair; None: all files.
    """
    if not may_be_repaired(kind, answers):
        return list_command(lake, table, kind)
    meant = restore and may_be_meant(kind, answers, causes)
    of_file = f" {option('--file', file)}" if file is not None else ""
    return f"{PLANS}{_about(lake, table, kind)}{of_file}{_allowances([kind], restore=meant)}"


def list_command(lake: str, table: str | None, kind: str) -> str:
    """Return the command that lists the files of a kind, or checks the sources if evidence is missing.

    `table` None: of every table.
    """
    if kind in (COVERAGE_LOST, UNREADABLE):
        return check_command(lake)
    return f"lakeaudit findings {_about(lake, table, kind)} --files"


def _about(lake: str, table: str | None, kind: str) -> str:
    of_table = f" {option('--table', table)}" if table is not None else ""
    return f"{operand(lake)}{of_table} {option('--kind', kind)}"


def beside_others(command: str, name: str) -> str:
    """Add a file name to a plan command, so that several plans do not overwrite each other.

    The name of a table may be hostile: the file is always in the current folder.
    """
    tame = _NOT_OF_FILES.sub("_", name).lstrip(".-")
    file = tame if tame == name else f"{tame}-{digest(name)[:8]}"
    return f"{command} {_INTO} {operand(f'{file}.jsonl')}" if command.startswith(PLANS) else command


_NOT_OF_FILES = re.compile(r"[^A-Za-z0-9._-]")


def commands_for_table(
    lake: str, table: str, groups: "Sequence[BrokenGroup]", *, restore: bool = True
) -> list[str]:
    """Return commands for all broken groups of a table: a plan of repairs, lists, and a plan of removals.

    Each plan has its own file, since a second one would overwrite the first. `restore`: see `repair_command`.
    """
    # after the loss of a state, an unused file may be all that is left of it
    losing = any(loses_state(each.kind) for each in groups)
    planned = [
        each for each in groups
        if may_be_repaired(each.kind, each.answers) and not (losing and each.kind in CLEARED)
    ]  # fmt: skip
    about = f"{operand(lake)} {option('--table', table)}"
    meant = restore and any(may_be_meant(each.kind, each.answers, each.causes) for each in planned)
    rest = [
        line
        for each in groups
        if each not in planned
        for line in (
            judge_again(lake, table, each.kind)
            if each.kind == COVERAGE_LOST
            else [list_command(lake, table, each.kind)]
        )
    ]
    of_cleared, of_repaired = (
        [each.kind for each in planned if (each.kind in CLEARED) is clears] for clears in (True, False)
    )
    repaired, cleared = _kinds(of_repaired), _kinds(of_cleared)
    return [
        *([f"{PLANS}{about}{repaired}{_allowances(of_repaired, restore=meant)}"] if repaired else []),
        *dict.fromkeys(rest),
        *([f"{PLANS}{about}{cleared}{_allowances(of_cleared)} {_INTO} {CLEAR_FILE}"] if cleared else []),
    ]


def after_plans(lines: Sequence[str], literal: Callable[[str], str]) -> str:
    """Return the instruction for the plans among these lines; empty: there are none. `literal` formats a command."""
    plans = [line for line in lines if line.startswith(PLANS)]
    names = " and ".join(literal(apply_command(plan)) for plan in plans)
    many = f"Read both plans; {names} apply them." if len(plans) > 1 else ""
    one = f"Read the plan; {names} applies it." if len(plans) == 1 else ""
    leave_out = LEAVE_OUT if any(ALLOW in plan for plan in plans) else ""
    return " ".join(filter(None, (many, one, leave_out)))


def with_plan_file(line: str) -> str:
    """Return a plan command with the name of its file, which the command that applies the plan needs; others as is."""
    if not line.startswith(PLANS) or shlex.split(line)[-2] == _INTO:
        return line
    return f"{line} {_INTO} {PLAN_FILE}"


def apply_command(plan: str) -> str:
    """Return the command that applies the plan of a plan command."""
    return f"lakeaudit reconcile apply {_file_of(plan)}"


def check_command(lake: str) -> str:
    """Return the command that checks all sources."""
    return f"{CHECKS}{operand(lake)}"


NOT_JUDGED = (COVERAGE_LOST, UNREADABLE)
"""Kinds whose cause is a source: no plan repairs them."""


def judge_again(lake: str, table: str | None, kind: str) -> list[str]:
    """Return the command that checks all sources, and for lost coverage of a table the audit that needs no report."""
    live = [f"lakeaudit audit {operand(lake)} --live {option('--table', table)}"] if table else []
    return [check_command(lake), *(live if kind == COVERAGE_LOST else [])]


def _file_of(plan: str) -> str:
    """Return the file of a plan command."""
    *_, option, _ = shlex.split(plan)
    return plan.rpartition(f" {_INTO} ")[2] if option == _INTO else PLAN_FILE


def _kinds(of: Iterable[str]) -> str:
    return "".join(f" {option('--kind', kind)}" for kind in dict.fromkeys(of))


class BrokenGroup(Protocol):
    """Discrepancies of one kind, for `commands_for_table`."""

    @property
    def kind(self) -> str: ...
    @property
    def answers(self) -> Mapping[str, int]: ...
    @property
    def causes(self) -> Sequence[str]: ...


LAKE_FILE, TABLE = "LAKE_FILE", "TABLE"
"""Placeholders in the commands of advice, see `with_names`."""
ALLOW = " --allow restore"
ALLOWED_ALONE = {
    "unfinished_upload": "abort_upload",
    STALE_POINTER: "repoint_table",
    "empty_partition": "drop_partition",
}
"""By kind the value of `--allow` without which a plan has no step for it."""


def _allowances(kinds: Iterable[str], *, restore: bool = False) -> str:
    """Return the options `--allow` that a plan for these kinds needs."""
    alone = (f" --allow {ALLOWED_ALONE[kind]}" for kind in dict.fromkeys(kinds) if kind in ALLOWED_ALONE)
    return "".join([*alone, *([ALLOW] if restore else [])])


def may_be_repaired(kind: str, answers: Mapping[str, int]) -> bool:
    """Return whether `reconcile plan` may have a step for a kind; see `repair_command`.

    A lost file without a version has none. Neither has other content without a version that is known to differ, or a
    finding of another kind that is known to be repaired only by hand. If no answer is recorded (as for metadata in
    results of an earlier version), the plan checks storage.
    """
    if kind not in BROUGHT_BACK:
        return kind in PLANNED and {answer for answer, number in answers.items() if number} != {"no"}
    if kind in DIFFERING_CONTENT:
        return bool(answers.get("yes"))
    return bool(answers.get("yes") or answers.get("unknown") or not answers.get("no"))


def waits(row: Row, beside: Collection[str] = ()) -> bool:
    """Return whether another discrepancy of the same file has to be repaired first.

    No file is restored over a commit that was written twice. If the object is not the one that its writer recorded, or
    is lost and an older state needs it, the entry of a metadata store may be the last record of it. A file that is to
    be removed needs no entry.

    Args:
        row: the discrepancy.
        beside: kinds of all open discrepancies of its file.
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
"""By kind of an entry the kinds of its file that have to be repaired first."""


def may_be_meant(kind: str, answers: Mapping[str, int], causes: Sequence[str]) -> bool:
    """Return whether a plan may restore files that somebody perhaps removed on purpose; see `repair_command`."""
    expired = bool(causes) and all(cause.startswith(EXPIRED) for cause in causes)
    return kind in BROUGHT_BACK and may_be_repaired(kind, answers) and not expired


OVER = "over"


def ending(kind: str, resolution: str | None) -> str:
    """Return the ledger's resolution; OVER for `restored` if no file was lost or changed; empty: no resolution."""
    never_lost = kind in KINDS and kind not in LOSS_KINDS
    return OVER if resolution == "restored" and never_lost else resolution or ""


def resolution_text(row: Row) -> str:
    """Return the resolution of a discrepancy for people."""
    how = ending(row["kind"], row["resolution"])
    return _RESOLUTIONS.get(how, how.replace("_", " ") or "resolved, it is not known how")


_RESOLUTIONS = {
    OVER: "fault no longer found",
    "reference_removed": "closed, not restored",
    "metastore_mended": "metadata store repaired",
    "accepted": "ignored by the lake file",
    "retired": "no longer tracked",
}


def look_at_versions(finding: Row, at: "Endpoint | None" = None) -> str | None:
    """Return the command that lists every version of a finding's file; it changes nothing."""
    if not finding["bucket"] or not finding["key"]:
        return None
    place = {"Bucket": finding["bucket"], "Prefix": finding["key"]}
    return _s3api("list-object-versions", place, at)


_COLUMN = re.compile(r" \(`[a-z_]+`(?: of the log's file|, and `[a-z_]+`[^)]*)?\)")
"""A column name in a sentence of docs/kinds.md: useful in SQL, but not on a page."""


def to_do(kind: str, recoverable: str | None = None, manifest_kind: str | None = None) -> str:
    """Return the advice for a kind as plain text; empty for an unknown kind.

    Args:
        kind: kind of the finding.
        recoverable: `no` selects the advice for a file that is not recoverable.
        manifest_kind: kind of the table's manifest, for advice in the terms of its format.
    """
    if kind not in KINDS:
        return ""
    is_lost = recoverable == "no" and kind in _NOT_BACK
    general, of_formats = (_NOT_BACK[kind], NOT_BACK) if is_lost else (KINDS[kind].do, DO)
    text = of_formats.get(kind, {}).get(format_of(manifest_kind) or "", general)
    return _plain(text)


def with_names(advice: str, lake: str, tables: Sequence[str | None] = ()) -> str:
    """Return advice whose commands name the lake file and a table, so that they can be pasted as they are.

    Args:
        advice: from `to_do`.
        lake: the lake file as the reader would type it.
        tables: tables of the discrepancies (None: of no table); a command that needs a table names the first.
    """
    named = advice.replace(LAKE_FILE, operand(lake))
    table = next(filter(None, tables), None)
    return named.replace(f"--table {TABLE}", option("--table", table)) if table else named


def to_do_for(finding: Row, beside: Collection[str] = ()) -> str:
    """Return the advice for one finding as plain text: the part of the advice for its kind that applies to it.

    Args:
        finding: a row of `findings` or of the ledger.
        beside: kinds of all findings about its file.
    """
    if follows_lost_commit(finding, beside):
        return f"Follow the advice of the finding {LOST_COMMIT} of the same file."
    if finding["kind"] == LOST_LOG and CHECKPOINT_DIFFERS in (finding["explanation"] or ""):
        return _plain(DIFFERING_CHECKPOINT)
    return to_do(finding["kind"], finding["recoverable"], finding["manifest_kind"])


def _plain(text: str) -> str:
    return _COLUMN.sub("", text).replace("`", "")


def is_by_hand(finding: Row) -> bool:
    """Return whether no plan repairs a finding of a kind that plans repair.

    An object of a table's log exists, and no action overwrites one. Or a table's own metadata, and no catalog, points
    at an old version.
    """
    if finding["kind"] == STALE_POINTER:
        return bool(finding["category"] == "log")
    return bool(finding["kind"] == LOST_LOG and finding["storage_size"] is not None)


def follows_lost_commit(finding: Row, beside: Collection[str]) -> bool:
    """Return whether the finding `overwritten_commit` of the same file says how to repair this one."""
    return bool(finding["kind"] == LOST_LOG and LOST_COMMIT in beside)


def advice(finding: Row, step: Step | None, beside: Collection[str] = ()) -> str:
    """Return the advice to print with the command of a finding; empty if the command alone is enough.

    Args:
        finding: a row of `findings` or of the ledger.
        step: the command that is printed with it.
        beside: kinds of all findings about its file.
    """
    if step is not None and not is_to_think_first(finding):
        return ""
    return to_do_for(finding, beside)


def printed_step(
    finding: Row, at: "Endpoint | None" = None, marker: str | None = None, beside: Collection[str] = ()
) -> Step | None:
    """Return the command to print with a finding, as `way_back` does; None if another finding of its file has it."""
    return None if follows_lost_commit(finding, beside) else way_back(finding, at, marker)


def typed_file(finding: Row) -> str | None:
    """Return the URI of the only file of a finding as a command can have it; None: it has no such file."""
    place = uri(finding)
    return place if finding["subject_type"] == "file" and place and "\0" not in place else None


def learn_more(lake: str, run_id: str, finding: Row) -> str:
    """Return the command that explains a finding: `explain` for a file, else `findings` with its kind and table."""
    if (place := typed_file(finding)) is not None:
        return f"lakeaudit explain {operand(lake)} {operand(place)}"
    table = f" {option('--table', finding['table_name'])}" if finding["table_name"] else ""
    files = " --files" if finding["axis"] == "leftover" else ""
    return f"lakeaudit findings {operand(lake)} {option('--run-id', run_id)} --kind {finding['kind']}{table}{files}"
