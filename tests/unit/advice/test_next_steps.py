"""The next steps: the commands are run as a shell and the AWS CLI would, against a versioned bucket."""

import json
import re
import shlex
import subprocess
from typing import Any, NamedTuple

import pytest

from lakeaudit.advice import next_steps
from lakeaudit.advice.aws_commands import Step
from lakeaudit.kinds import CHECKPOINT_DIFFERS, KINDS
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders import pagedata

KEYS = [
    "day=1/a b.parquet",
    "shop=12%3A30%3A00/x",
    "\u00fc+\u00e9/it's $(here)",
    "plain",
    "tab\there",
    "file:///etc/hostname",
    "-leading",
]


def run(step: Step | None, clients: Clients, bucket: str) -> None:
    """Do what the command says, as the AWS CLI does: its options are the operation's parameters."""
    assert step is not None
    words = f"printf '%s\\0' {step.command}"
    told = (
        subprocess.run(["bash", "-c", words], capture_output=True, check=True)
        .stdout.decode()
        .split("\0")[:-1]
    )
    aws, s3api, operation, *options = told
    assert (aws, s3api) == ("aws", "s3api")
    options = [part for word in options for part in (word.split("=", 1) if word.startswith("--") else [word])]
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert not any(value.startswith("file:") for value in given.values())
    names = {"--bucket": "Bucket", "--key": "Key", "--copy-source": "CopySource", "--version-id": "VersionId"}
    asked = json.loads(given.pop("--cli-input-json", "{}"))
    asked |= {names[name]: value for name, value in given.items() if name != "--endpoint-url"}
    getattr(clients.s3(bucket), operation.replace("-", "_"))(**asked)


def dropped_file(bucket: str, key: str, version: str, recovery: str) -> dict[str, Any]:
    return pagedata.dropped(1) | {
        "bucket": bucket, "key": key, "recoverable": "yes", "recovery": recovery, "recovery_version_id": version
    }  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_file_behind_a_delete_marker_comes_back_either_way(clients: Clients, bucket: str, key: str) -> None:
    s3 = clients.s3(bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for known in ("now", "then", None):
        version = s3.put_object(Bucket=bucket, Key=key, Body=b"rows")["VersionId"]
        marker = s3.delete_object(Bucket=bucket, Key=key)["VersionId"]
        row = dropped_file(bucket, key, version, "delete_marker") | {
            "storage_version_id": marker if known == "then" else None
        }
        step = next_steps.way_back(row, clients.endpoint(bucket), marker if known == "now" else None)
        run(step, clients, bucket)
        assert step is not None
        assert ("delete-object" in step.command) is (known is not None)
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"rows"
        versions = s3.list_object_versions(Bucket=bucket, Prefix=key)["Versions"]
        assert version in {each["VersionId"] for each in versions}, "no version is ever destroyed"


@pytest.mark.parametrize("key", KEYS)
def test_an_older_version_comes_back_over_the_younger_one(clients: Clients, bucket: str, key: str) -> None:
    s3 = clients.s3(bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=bucket, Key=key, Body=b"rows")["VersionId"]
    s3.put_object(Bucket=bucket, Key=key, Body=b"junk")
    run(next_steps.way_back(dropped_file(bucket, key, version, "older_version")), clients, bucket)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"rows"


OF_NO_MARKER: list[dict[str, Any]] = [
    {"storage_version_id": None}, {"storage_version_id": "v9", "storage_size": 5}, {"storage_version_id": "v1"},
    {"storage_version_id": "v9", "recovery": "older_version"},
]  # fmt: skip


@pytest.mark.parametrize("given", OF_NO_MARKER)
def test_nothing_is_deleted_that_is_not_known_to_be_a_marker(given: dict[str, Any]) -> None:
    step = next_steps.way_back(pagedata.dropped(1, recovery_version_id="v1") | given)
    assert step is not None
    assert "copy-object" in step.command


@pytest.mark.parametrize(
    ("tier", "takes"), [("DEEP_ARCHIVE", "12 hours, or 48"), ("GLACIER", "3 to 5 hours")]
)
@pytest.mark.parametrize("recovery", ["delete_marker", "older_version"])
def test_an_archived_version_is_restored_before_it_is_brought_back(
    tier: str, takes: str, recovery: str
) -> None:
    row = pagedata.dropped(1, recovery_version_id="v1", recovery=recovery, storage_class=tier)
    step = next_steps.way_back(row)
    assert step is not None
    assert step.what.startswith("restore the version")
    assert takes in step.what
    assert step.command.startswith("aws s3api restore-object --bucket ")
    assert step.command.endswith(" --version-id v1 --restore-request Days=7")


@pytest.mark.parametrize(
    ("endpoint", "restored"),
    [("http://ceph.lake.local", False), ("https://obs.eu-de.otc.t-systems.com", True)],
)
def test_a_class_of_another_cloud_is_restored_at_its_own_endpoint(endpoint: str, *, restored: bool) -> None:
    row = pagedata.dropped(1, recovery_version_id="v1", recovery="older_version", storage_class="COLD")
    step = next_steps.way_back(row, Endpoint(endpoint=endpoint))
    assert step is not None
    assert ("restore-object" in step.command) == restored


@pytest.mark.parametrize(
    ("key", "explanation", "first"),
    [
        ("t/_delta_log/5.json", "gone; 2 versions of the table are lost together: 4.json, 5.json", True),
        ("t/_delta_log/5.json", "gone", False),
        ("t/metadata/00005-x.metadata.json", "gone; 2 versions of the table are lost together: 4, 5", False),
    ],
    ids=["several commits", "one commit", "a metadata.json, which needs no older one"],
)
def test_older_lost_states_come_back_before_the_newest(key: str, explanation: str, *, first: bool) -> None:
    lost = {"kind": "missing_metadata", "key": key, "explanation": explanation}
    step = next_steps.way_back(pagedata.dropped(1, recovery_version_id="v1") | lost)
    assert step is not None
    assert (
        step.what.startswith(
            "restore the older lost versions of the table first, as `lakeaudit reconcile plan` does"
        )
        is first
    )


def test_the_lost_version_of_a_commit_is_fetched_and_never_put_back() -> None:
    lost = pagedata.dropped(1, recovery_version_id="v1") | {
        "kind": "overwritten_commit",
        "key": "t/_delta_log/1.json",
    }
    step = next_steps.way_back(lost)
    assert step is not None
    assert step.command.startswith("aws s3api get-object --bucket ")
    assert step.command.endswith(" --key t/_delta_log/1.json --version-id v1 lost-1.json")
    assert next_steps.way_back(lost | {"recovery_version_id": None}) is None


@pytest.mark.parametrize(
    ("kind", "answers", "causes", "expected"),
    [
        ("dropped", {"yes": 1}, [], True),
        ("dropped", {"yes": 1, "no": 2}, ["a request to delete it"], True),
        ("dropped", {"yes": 1}, ["expired by a lifecycle rule: rule-0"], False),
        ("dropped", {"no": 1}, [], False),
        ("phantom", {"yes": 1}, [], False),
        ("missing_metadata", {"unknown": 1}, [], True),
        ("missing_metadata", {}, [], True),
    ],
)
def test_whether_a_plan_needs_a_confirmation_that_the_change_was_not_intended(
    kind: str, answers: dict[str, int], causes: list[str], *, expected: bool
) -> None:
    assert next_steps.may_be_meant(kind, answers, causes) is expected
    command = next_steps.repair_command("lake.yaml", "t", kind, answers, causes)
    assert command.endswith(" --allow restore") is expected


LOOK, TRY, MEND = "findings L --table t --kind {} --files", "reconcile plan L --table t --kind {} --allow restore", (
    "reconcile plan L --table t --kind {}"
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "answers", "command"),
    [
        ("dropped", {"no": 2}, LOOK),
        ("dropped", {"no": 1, "unknown": 1}, TRY),
        ("size_mismatch", {"no": 1}, LOOK),
        ("content_mismatch", {"unknown": 1}, LOOK),
        ("content_mismatch", {"yes": 1}, TRY),
        ("missing_metadata", {"unknown": 1}, TRY),
        ("metastore_stale", {"unknown": 1}, MEND),
        ("lost_commit", {}, LOOK),
        ("coverage_lost", {}, "doctor L"),
        ("unreadable_evidence", {}, "doctor L"),
    ],
)
def test_a_plan_is_offered_where_it_may_hold_a_step(kind: str, answers: dict[str, int], command: str) -> None:
    assert next_steps.repair_command("L", "t", kind, answers) == f"lakeaudit {command.format(kind)}"


class Group(NamedTuple):
    """Discrepancies of one kind."""

    kind: str
    answers: dict[str, int]
    causes: tuple[str, ...] = ()


MIXED = [
    Group("dropped", {"yes": 1}),
    Group("lost_commit", {}),
    Group("hidden", {}),
    Group("dropped", {"no": 1}),
]
DEBRIS = [Group("uncommitted", {}), Group("temporary", {})]
"""While a state is lost these may be all that is left of it."""
CLEAR = "lakeaudit reconcile plan L --table t --kind uncommitted --kind temporary -o clear.jsonl"
LIST = "lakeaudit findings L --table t --kind dropped --files"
ONE_PLAN = "lakeaudit reconcile plan L --table t --kind dropped --kind hidden --allow restore"


@pytest.mark.parametrize(
    ("groups", "lines"),
    [
        (MIXED[:1], ["lakeaudit reconcile plan L --table t --kind dropped --allow restore"]),
        (MIXED[1:3], ["lakeaudit reconcile plan L --table t --kind hidden",
                      "lakeaudit findings L --table t --kind lost_commit --files"]),
        (MIXED[:3], [ONE_PLAN, "lakeaudit findings L --table t --kind lost_commit --files"]),
        (MIXED, [ONE_PLAN, "lakeaudit findings L --table t --kind lost_commit --files",
                 "lakeaudit findings L --table t --kind dropped --files"]),
        (MIXED[1:2], ["lakeaudit findings L --table t --kind lost_commit --files"]),
        ([*MIXED[:1], *DEBRIS], ["lakeaudit reconcile plan L --table t --kind dropped --allow restore", CLEAR]),
        ([*MIXED[1:2], *DEBRIS], ["lakeaudit findings L --table t --kind lost_commit --files",
                                  "lakeaudit findings L --table t --kind uncommitted --files",
                                  "lakeaudit findings L --table t --kind temporary --files"]),
    ],
)  # fmt: skip
def test_a_table_has_one_plan_and_lists_of_the_rest(groups: list[Group], lines: list[str]) -> None:
    assert next_steps.commands_for_table("L", "t", groups) == lines


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ([ONE_PLAN], ["plan.jsonl"]),
        ([LIST, CLEAR], ["clear.jsonl"]),
        ([ONE_PLAN, LIST, CLEAR], ["plan.jsonl", "clear.jsonl"]),
        ([next_steps.plan_all("a -o b.yaml", meant=True)], ["plan.jsonl"]),
        ([next_steps.beside_others(ONE_PLAN, "a.t.dropped")], ["a.t.dropped.jsonl"]),
        ([LIST], []),
    ],
)
def test_what_to_do_with_a_plan_names_its_file(lines: list[str], files: list[str]) -> None:
    told = next_steps.after_plans(lines, "<{}>".format)
    assert re.findall(r"<lakeaudit reconcile apply ([^>]+)>", told) == files
    assert told.startswith({0: "", 1: "Read the plan; ", 2: "Read both plans; "}[len(files)])
    assert (next_steps.LEAVE_OUT in told) == any(next_steps.ALLOW in line for line in lines)
    named = [next_steps.with_plan_file(line) for line in lines]
    assert [line.rpartition(" -o ")[2] for line in named if line.startswith(next_steps.PLANS)] == files
    assert [next_steps.with_plan_file(line) for line in named] == named


@pytest.mark.parametrize("name", ["s3://evil/t", "../t", "/etc/t", "-o", "a\nb", "a t", "a_t", "$(x)"])
def test_the_file_of_a_plan_is_in_the_current_folder_whatever_the_table_is_called(name: str) -> None:
    line = next_steps.beside_others(ONE_PLAN, f"{name}.dropped")
    assert re.fullmatch(r"\w[\w.-]*\.jsonl", shlex.split(line)[-1])
    others = {next_steps.beside_others(ONE_PLAN, f"{other}.dropped") for other in ("a b", "a.t")}
    assert line not in others


@pytest.mark.parametrize(
    ("storage_class", "key", "ends"),
    [
        ("GLACIER", "t/a b", " --bucket lake --key 't/a b' --restore-request Days=7"),
        ("DEEP_ARCHIVE", "t/a", " --bucket lake --key t/a --restore-request Days=7"),
        ("INTELLIGENT_TIERING", "t/a", " --bucket lake --key t/a --restore-request '{}'"),
        ("GLACIER", None, None),
        ("GLACIER", "t/\0", None),
    ],
)
def test_an_archived_object_is_restored_from_the_archive(
    storage_class: str, key: str | None, ends: str | None
) -> None:
    row = pagedata.dropped(1) | {"kind": "archived", "storage_class": storage_class, "recoverable": None}
    step = next_steps.way_back(row | {"bucket": "lake", "key": key})
    assert (step and step.command) == (ends and f"aws s3api restore-object{ends}")


@pytest.mark.parametrize(
    ("kind", "recorded", "stored", "beside", "waits"),
    [
        ("metastore_stale", 5, 3, (), True), ("metastore_stale", 5, 5, (), False),
        ("metastore_stale", None, 3, (), False), ("metastore_stale", 5, None, (), False),
        ("metastore_stale", 5, 5, ("content_mismatch",), True), ("size_mismatch", 5, 3, (), False),
        ("missing_metadata", 5, 3, ("overwritten_commit",), True), ("missing_metadata", 5, 3, (), False),
        ("phantom", None, None, ("overwritten_commit",), False),
        ("phantom", None, None, ("dropped_history",), True), ("phantom", None, None, ("hidden",), False),
        ("hidden", None, 3, ("duplicate_content",), True), ("hidden", None, 3, ("leftover",), False),
    ],
)  # fmt: skip
def test_an_entry_waits_for_its_object_and_a_log_for_its_commit(
    kind: str, recorded: int | None, stored: int | None, beside: tuple[str, ...], *, waits: bool
) -> None:
    row = {"kind": kind, "manifest_size": recorded, "storage_size": stored}
    assert next_steps.waits(row, beside) is waits


@pytest.mark.parametrize(
    ("kind", "resolution", "told"),
    [
        ("dropped", "restored", "restored"), ("size_mismatch", "restored", "restored"),
        ("clone_at_risk", "restored", "fault no longer found"),  # it may be over because the file is lost
        ("temporary", "restored", "fault no longer found"), ("of another version", "restored", "restored"),
        ("phantom", "metastore_mended", "metadata store repaired"), ("dropped", None, "resolved, it is not known how"),
        ("dropped", "reference_removed", "closed, not restored"),
    ],
)  # fmt: skip
def test_only_what_was_lost_is_restored(kind: str, resolution: str | None, told: str) -> None:
    assert next_steps.resolution_text({"kind": kind, "resolution": resolution}) == told


NO_WAY: list[dict[str, Any]] = [
    {"recoverable": "no"}, {"recoverable": None}, {"recoverable": "unknown"}, {"recovery": "replica"},
    {"recovery_version_id": None}, {"bucket": ""}, {"key": None}, {"key": "a\0b"}, {"key": "a?versionId=b"},
]  # fmt: skip


@pytest.mark.parametrize("given", NO_WAY)
def test_a_finding_without_a_command_has_no_step(given: dict[str, Any]) -> None:
    assert next_steps.way_back(pagedata.dropped(1) | given) is None


def test_how_the_bucket_is_reached_stands_in_the_command() -> None:
    step = next_steps.way_back(pagedata.dropped(1), Endpoint("http://127.0.0.1:5000", requester_pays=True))
    assert step is not None
    assert step.command.endswith(" --request-payer requester --endpoint-url http://127.0.0.1:5000")
    big = next_steps.way_back(pagedata.dropped(1, manifest_size=6 << 30))
    assert big is not None
    assert "in parts" in big.what
    assert "s3api list-object-versions" in str(next_steps.look_at_versions(pagedata.dropped(1)))
    assert next_steps.look_at_versions(pagedata.dropped(1, bucket="")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_to_do(kind: str) -> None:
    assert next_steps.to_do(kind)
    assert "`" not in next_steps.to_do(kind)
    assert next_steps.to_do("of_another_version") == ""


FINDINGS = "lakeaudit findings 'my lake.yaml' --run-id r1 --kind "


@pytest.mark.parametrize(("finding", "said"), [
    (pagedata.finding("dropped", "a/b"), "lakeaudit explain 'my lake.yaml' s3://lake/a/b"),
    (pagedata.finding("dropped", "a b"), "lakeaudit explain 'my lake.yaml' 's3://lake/a b'"),
    (pagedata.finding("dropped", "a/b", bucket=""), "lakeaudit explain 'my lake.yaml' /a/b"),
    (pagedata.finding("dropped", "a\0b"), FINDINGS + "dropped --table sales.orders"),
    (pagedata.finding("temporary", "a/", subject_type="prefix"), FINDINGS + "temporary --table sales.orders --files"),
    (pagedata.finding("unreadable_evidence", None, table_name=None), FINDINGS + "unreadable_evidence"),
])  # fmt: skip
def test_the_command_that_tells_more(finding: dict[str, Any], said: str) -> None:
    assert next_steps.learn_more("my lake.yaml", "r1", finding) == said


def metadata(**given: Any) -> dict[str, Any]:
    known = {
        "recoverable": "unknown",
        "storage_size": 7,
        "recovery_version_id": "v",
        "manifest_kind": "delta",
    }
    return pagedata.finding("missing_metadata", "t/_delta_log/2.checkpoint.parquet", **{**known, **given})


RENAME, RESTORE = "Rename the checkpoint and delete the hint _last_checkpoint", "Restore each file from"


@pytest.mark.parametrize(
    ("row", "beside", "begin"),
    [
        (metadata(explanation=f"2 files differ; {CHECKPOINT_DIFFERS}"), (), RENAME),
        (metadata(explanation="this file is torn"), (), RESTORE),
        (metadata(explanation=None), ("missing_metadata", "dropped"), RESTORE),
        (
            metadata(),
            ("missing_metadata", "overwritten_commit"),
            "Follow the advice of the finding overwritten_commit",
        ),
        (pagedata.dropped(1), ("dropped", "overwritten_commit"), "Restore the file while"),
    ],
)
def test_only_the_advice_that_applies_is_printed(
    row: dict[str, Any], beside: tuple[str, ...], begin: str
) -> None:
    assert next_steps.to_do_for(row, beside).startswith(begin)


def test_a_torn_commit_is_restored_by_the_step_of_the_finding_about_its_lost_content() -> None:
    row = metadata(recoverable="yes", recovery="older_version")
    step = next_steps.printed_step(row)
    assert step is not None
    assert next_steps.advice(row, step) == ""
    assert next_steps.printed_step(row, beside=("overwritten_commit",)) is None
    assert [next_steps.is_by_hand(each) for each in (row, row | {"storage_size": None})] == [True, False]


@pytest.mark.parametrize(
    ("answers", "may"),
    [({}, True), ({"unknown": 1, "no": 1}, True), ({"no": 2}, False), ({"no": 2, "unknown": 0}, False)],
)
def test_no_plan_is_offered_for_pointers_that_are_set_by_hand(answers: dict[str, int], may: bool) -> None:
    assert next_steps.may_be_repaired("stale_pointer", answers) is may


@pytest.mark.parametrize(("category", "by_hand"), [("log", True), (None, False)])
def test_only_catalogs_are_pointed_by_a_plan(category: str | None, by_hand: bool) -> None:
    assert (
        next_steps.is_by_hand({"kind": "stale_pointer", "category": category, "storage_size": None})
        is by_hand
    )
