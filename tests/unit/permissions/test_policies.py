"""`lakeaudit policy`: which permissions a lake file needs, and the parts without a policy. No lake gets a request."""

import ast
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from lakeaudit import cli
from lakeaudit.config import Lake
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence import registry
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.grants import Grant, S3Grant, literal, partition_of, wildcards
from lakeaudit.keys import Location
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.runtime.connections.aws import Endpoint, session_of
from tests.builders.iam_policies import Policy, RequiredAction, allowing, matches
from tests.builders.slowness import slowness

ORDERS = "tables: [{name: orders, location: s3://lake/wh/orders, manifests: [{kind: delta}]}]\n"
HEAD = "version: 1\nlake: shop\nresults: s3://results/shop\n"
INVENTORY = "inventories: [{kind: s3_inventory, location: s3://ev/daily/}]\n"
LISTING = "inventories: [{kind: listing, location: s3://lake/wh/}]\n"
AUDITS = "arn:aws:iam::123456789012:role/audits"

Run = Callable[..., tuple[int, Any, list[str]]]


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command for a lake file of this text; return exit code, document and the lines on stderr."""

    def run(text: str, *options: str) -> tuple[int, Any, list[str]]:
        file = tmp_path / "lake.yaml"
        file.write_text(text)
        code = cli.main(["policy", str(file), *options])
        told = capsys.readouterr()
        return code, json.loads(told.out) if told.out else None, told.err.splitlines()

    return run


def lines_of(policy: Policy) -> set[str]:
    """One line for each action and resource, with the prefixes."""
    return {
        " ".join([action.partition(":")[2], resource.removeprefix("arn:aws:"), *_prefixes(each)])
        for each in policy["Statement"]
        for action in each["Action"]
        for resource in each["Resource"]
    }


def _prefixes(statement: Any) -> list[str]:
    return statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", [])  # type: ignore[no-any-return]


RESULTS = {
    *("GetObject s3:::results/shop", "GetObject s3:::results/shop/*", "PutObject s3:::results/shop"),
    *("PutObject s3:::results/shop/*", "DeleteObject s3:::results/shop", "DeleteObject s3:::results/shop/*"),
    "ListBucket s3:::results shop shop/*",
}
TABLE = {
    *("GetObject s3:::lake/wh/orders", "GetObject s3:::lake/wh/orders/*"),
    *("GetObjectVersion s3:::lake/wh/orders", "GetObjectVersion s3:::lake/wh/orders/*"),
    *("ListBucket s3:::lake wh/orders wh/orders/*", "ListBucketVersions s3:::lake wh/orders wh/orders/*"),
    *("GetBucketVersioning s3:::lake", "GetLifecycleConfiguration s3:::lake"),
    "ListBucketMultipartUploads s3:::lake",
}
DYNAMODB = "dynamodb:*:*:table/guard"


def folder(key: str, bucket: str = "ev") -> set[str]:
    return {
        *(f"GetObject s3:::{bucket}/{key}", f"GetObject s3:::{bucket}/{key}/*"),
        f"ListBucket s3:::{bucket} {key} {key}/*",
    }


MANIFEST, METADATA = "2026-11-01T01-00Z/manifest.json", "metadata/1.metadata.json"

SOURCES = [
    ("", set()),
    ("inventories: [{kind: s3_inventory, location: s3://ev/daily/}]", {
        *folder("daily"), "GetInventoryConfiguration s3:::lake"}),
    (f"inventories: [{{kind: s3_inventory, location: s3://ev/lake/daily/{MANIFEST}, covers: [s3://a/x]}}]", {
        *folder("lake/daily"), "GetInventoryConfiguration s3:::a"}),
    (f"inventories: [{{kind: s3_metadata, location: s3://ev/t/{METADATA}, covers: [s3://lake/]}}]", folder("t")),
    (f"inventories: [{{kind: s3_metadata, location: s3://63a8--table-s3/{METADATA}, covers: [s3://lake/]}}]", {
        "GetTableData s3tables:*:*:bucket/aws-s3/table/*"}),
    ("events: [{kind: s3_access_log, location: s3://ev/logs/}]", folder("logs")),
    ("events: [{kind: s3_journal, location: s3://ev/journal/}]", folder("journal")),
    ("metastores: [{kind: s3guard, table: guard, location: s3://lake/wh/orders/}]", {
        f"DescribeTable {DYNAMODB}", f"GetItem {DYNAMODB}", f"Scan {DYNAMODB}"}),
    ("metastores: [{kind: emrfs, export: s3://ev/AWSDynamoDB/, location: s3://lake/wh/orders/}]", {
        *folder("AWSDynamoDB")}),
    ("metastores: [{kind: delta_log_store, table: guard, dynamodb: {region: eu-west-1}}]", {
        f"{each} dynamodb:eu-west-1:*:table/guard" for each in ("DescribeTable", "GetItem", "Scan")}),
    ("metastores: [{kind: glue, databases: [sales, 'raw_?'], catalog_id: '123456789012', region: eu-west-1}]", {
        "GetDatabases glue:eu-west-1:123456789012:catalog", "GetDatabases glue:eu-west-1:123456789012:database/*",
        *(f"{action} glue:eu-west-1:123456789012:{resource}"
          for action in ("GetTables", "GetTable", "GetPartitions")
          for resource in ("catalog", "database/sales", "database/raw_?", "table/sales/*", "table/raw_?/*"))}),
    ("metastores: [{kind: hive, uri: 'thrift://hms:9083'}]", set()),
    ("alerts: [{kind: sns, topic_arn: 'arn:aws:sns:eu-west-1:123456789012:audits'}]", {
        "Publish sns:eu-west-1:123456789012:audits"}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "more"), SOURCES)
def test_a_source_needs_its_own_permissions_and_no_others(printed: Run, source: str, more: set[str]) -> None:
    code, policy, _ = printed(f"{HEAD}{ORDERS}{source}\n")
    assert (code, lines_of(policy)) == (0, TABLE | RESULTS | more)


def test_the_policy_is_valid_and_stable(printed: Run) -> None:
    text = Path("conf/example.yaml").read_text()
    first, again = (printed(text, "--role", "arn:aws:iam::123456789012:role/lakeaudit") for _ in range(2))
    assert first == again
    sids = [each["Sid"] for each in first[1]["Statement"]]
    assert first[1]["Version"] == "2012-10-17"
    assert all(sid.isalnum() for sid in sids)
    assert len({*sids}) == len(sids)


GUARD = "table: guard, location: s3://lake/wh"
FILES = {"PutObject s3:::lake/wh/orders/*", "AbortMultipartUpload s3:::lake/wh/orders/*"}
WRITES = [
    ("", FILES, {"quarantine", "dynamodb", "glue"}),
    (
        "quarantine: s3://kept/q\n",
        {"PutObject s3:::kept/q/*", "DeleteObjectVersion s3:::kept/q/*"},
        {"dynamodb"},
    ),
    (
        "replicas: [{of: s3://lake/wh, at: s3://copy/wh}]\n",
        {"GetObject s3:::copy/wh/*"},
        {"dynamodb", "quarantine"},
    ),
    (f"metastores: [{{kind: s3guard, {GUARD}}}]\n", {f"PutItem {DYNAMODB}", f"Query {DYNAMODB}"}, {"Scan"}),
    (f"metastores: [{{kind: emrfs, {GUARD}}}]\n", {f"PutItem {DYNAMODB}"}, {"Scan", "Query"}),
    (
        "metastores: [{kind: glue, databases: [sales]}]\n",
        {"CreatePartition glue:*:*:table/sales/*", "UpdateTable glue:*:*:table/sales/*"},
        {"dynamodb"},
    ),
]


@pytest.mark.parametrize(("block", "granted", "absent"), WRITES)
def test_reconcile_needs_what_possible_actions_need(
    printed: Run, block: str, granted: set[str], absent: set[str]
) -> None:
    _, policy, _ = printed(f"{HEAD}{ORDERS}{block}", "--for", "reconcile")
    lines = lines_of(policy)
    assert granted <= lines
    assert not [line for line in lines for word in absent if word in line]
    assert not [each for each in lines if "sns" in each or "GetInventoryConfiguration" in each]


AROUND = [f"wh/{folder}{end}" for folder in (".hoodie", "_delta_log", "metadata") for end in ("", "/*")]
OTHERS = [
    (ORDERS, {" ".join(["ListBucket s3:::lake", *AROUND])}, ""),
    (
        f"{INVENTORY}tables: [{{discover: {{from: inventory, under: ['s3://lake/wh/']}}}}]\n",
        {"ListBucket s3:::lake wh wh/*", "GetObject s3:::lake/wh/*", "GetObject s3:::ev/daily/*"},
        "",
    ),
    (
        f"{ORDERS}metastores: [{{kind: glue, databases: [sales], location: s3://lake/all/}}]\n",
        {"GetTables glue:*:*:table/sales/*", "ListBucket s3:::lake all all/*", "GetObject s3:::lake/all/*"},
        "",
    ),
    (
        f"{ORDERS}metastores: [{{kind: glue, databases: [sales]}}]\n",
        {"GetTables glue:*:*:table/sales/*"},
        "catalog default: each of its tables is read, and the lake file does not say where they are",
    ),
]
"""By lake file the rights to find and read tables that it does not name, and what is not covered."""


@pytest.mark.parametrize("task", ["guard", "reconcile"])
@pytest.mark.parametrize(("blocks", "granted", "gap"), OTHERS)
def test_removals_need_the_rights_to_read_every_table(
    printed: Run, task: str, blocks: str, granted: set[str], gap: str
) -> None:
    code, policy, lines = printed(f"{HEAD}{blocks}", "--for", task)
    assert granted <= lines_of(policy)
    gaps = [line for line in lines if line.startswith("warning: not covered: ")]
    assert (code, len(gaps)) == ((3, 1) if gap else (0, 0))
    assert all(gap in line for line in gaps)
    writes = {line.partition(" ")[0] for line in lines_of(policy)} & {"PutObject", "DeleteObject"}
    assert bool(writes) == (task == "reconcile")


def test_every_action_describes_its_permissions(printed: Run) -> None:
    """Those of Hive and REST catalogs need none of AWS beyond the files of tables."""
    _, policy, _ = printed(
        Path("conf/example.yaml").read_text(), "--for", "reconcile", "--role", AUDITS.replace("audits", "lakeaudit")
    )  # fmt: skip
    assert all(callable(action.permissions) for action in ACTIONS.values())
    sids = {each["Sid"] for each in policy["Statement"]}
    assert {"KeepQuarantine", "MoveUnusedFiles", "RepairPartitions", "PointTables", "RestoreFiles"} <= sids


HOSTILE = ["a*b", "a?b", "a$b", "${aws:username}", "*", "'\"\\", "ü/日本", "a b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_with_wildcards_stand_for_themselves(printed: Run, name: str) -> None:
    place = json.dumps(f"s3://lake/wh/{name}").replace("${", "$${")
    _, policy, _ = printed(f"{HEAD}tables: [{{name: t, location: {place}, manifests: [{{kind: delta}}]}}]\n")
    inside = RequiredAction("s3:GetObject", f"arn:aws:s3:::lake/wh/{name}/part-1")
    assert allowing(policy, inside)
    assert allowing(policy, RequiredAction("s3:ListBucket", "arn:aws:s3:::lake", f"wh/{name}/"))
    for other in ("axb", "ab", "bob", "x"):
        assert not allowing(policy, RequiredAction("s3:GetObject", f"arn:aws:s3:::lake/wh/{other}/part-1"))
        assert not allowing(policy, RequiredAction("s3:ListBucket", "arn:aws:s3:::lake", f"wh/{other}/"))


def test_patterns_of_buckets_are_patterns_of_the_policy(printed: Run) -> None:
    discovered = "tables: [{discover: {from: inventory, under: ['s3://prod-[ab]-*/wh$']}}]\n"
    code, policy, _ = printed(f"{HEAD}{INVENTORY}{discovered}")
    assert code == 0
    assert allowing(policy, RequiredAction("s3:GetObject", "arn:aws:s3:::prod-a-1/wh$/t/f"))
    assert not allowing(policy, RequiredAction("s3:GetObject", "arn:aws:s3:::test-a-1/wh$/t/f"))
    assert not allowing(policy, RequiredAction("s3:PutObject", "arn:aws:s3:::prod-a-1/wh$/t/f"))


@pytest.mark.parametrize(("text", "pattern"), [("a*?$b", "a${*}${?}${$}b"), ("plain/é", "plain/é")])
def test_literals(text: str, pattern: str) -> None:
    assert literal(text) == pattern
    assert matches(pattern, text)
    assert not matches(pattern, f"{text}x")


def test_globs_and_partitions() -> None:
    assert wildcards("a-[xyz]?**$") == "a-???*${$}".replace("???", "??")
    regions = {"cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "eu-west-1": "aws", None: "aws"}
    assert {region: partition_of(region) for region in regions} == regions


GCS = "buckets: [{match: gcs, endpoint: 'https://storage.googleapis.com'}]\n"
UNCOVERED = [
    (f"{ORDERS}inventories: [{{kind: azure_inventory, location: 'abfss://r@acme.dfs.core.windows.net/'}}]\n",
     "abfss://r@acme.dfs.core.windows.net/: is not in AWS"),
    (f"{ORDERS}{GCS}events: [{{kind: s3_journal, location: 'gs://gcs/x'}}]\n", "s3://gcs/x: is not in AWS"),
    ("metastores: [{kind: glue, name: main}]\ntables: [{discover: {from: glue}}]\n",
     "catalog main: its tables are discovered, and the lake file does not say where they are"),
    (f"{ORDERS}metastores: [{{kind: s3guard, table: guard}}]\n", "metastore guard: its files are in every bucket"),
    ("tables:\n" + "".join(f"- {{name: t{n}, location: s3://lake/{n:040}}}\n" for n in range(40)),
     "and AWS takes 6,144: attach its statements as several managed policies"),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "line"), UNCOVERED)
def test_what_the_policy_does_not_cover_is_named(printed: Run, blocks: str, line: str) -> None:
    code, policy, lines = printed(f"{HEAD}{blocks}")
    assert (code, policy["Version"]) == (3, "2012-10-17")
    assert [each for each in lines if each.startswith("warning: not covered: ") and line in each]
    assert lines[-1].startswith("PARTIAL: ")


LOCAL = "version: 1\nlake: shop\nresults: /data/results\n"
REFUSED = [
    (f"{LOCAL}tables: [{{name: t, location: /data/t}}]\n", (), "no part of it is in AWS"),
    (f"{LOCAL}tables: [{{name: t, location: 'abfss://c@acme.dfs.core.windows.net/t'}}]\n", (), "abfss://c@acme"),
    (f"{HEAD}{ORDERS}", ("--role", AUDITS), f"no request is sent with {AUDITS}; one of: the lake file names none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "line"), REFUSED)
def test_without_anything_in_aws_there_is_no_policy(
    printed: Run, text: str, options: tuple[str, ...], line: str
) -> None:
    code, policy, lines = printed(text, *options)
    assert (code, policy) == (2, None)
    assert line in lines[-1]


def test_each_role_has_a_policy_of_its_own(printed: Run) -> None:
    roles = f"s3: {{role_arn: '{AUDITS}', region: eu-west-1}}\nbuckets: [{{match: results}}]\n"
    topic = "alerts: [{kind: sns, topic_arn: 'arn:aws:sns:eu-west-1:123456789012:audits'}]\n"
    code, own, lines = printed(f"{HEAD}{ORDERS}{roles}{topic}")
    assert lines_of(own) == {"Publish sns:eu-west-1:123456789012:audits", f"AssumeRole {AUDITS[8:]}"}
    assert [each for each in lines if f"--role {AUDITS}" in each]
    _, of_role, _ = printed(f"{HEAD}{ORDERS}{roles}{topic}", "--role", AUDITS)
    assert (code, lines_of(of_role)) == (0, TABLE | RESULTS)


def test_a_location_is_only_for_scan(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["policy", "s3://lake/wh"]) == 2
    assert "add `--for scan`" in capsys.readouterr().err
    assert cli.main(["policy", "s3://lake/wh/orders", "--for", "scan"]) == 0
    lines = lines_of(json.loads(capsys.readouterr().out))
    assert lines == TABLE | {"GetInventoryConfiguration s3:::lake"}


class OwnManifest(ManifestSource):
    kind: Literal["own_records"]


def test_a_kind_of_another_package_contributes(printed: Run) -> None:
    def permissions(source: OwnManifest, lake: Lake) -> Iterator[Grant]:
        yield S3Grant(f"Read{len(lake.tables)}", Location("own", source.kind), ("s3:GetObject",))

    unused = deferred("lakeaudit.none:none")
    own = ManifestKind(
        name="own_records", title="", model=OwnManifest, read=unused, changes=unused, look_up=unused,
        permissions=permissions,
    )  # fmt: skip
    registry.register(own)
    try:
        _, policy, _ = printed(f"{HEAD}{ORDERS.replace('delta', 'own_records')}")
    finally:
        registry.unregister(own)
    more = {"GetObject s3:::own/own_records", "GetObject s3:::own/own_records/*"}
    assert lines_of(policy) == TABLE | RESULTS | more


def test_many_tables_take_seconds(printed: Run) -> None:
    tables = "".join(f"- {{name: t{n}, location: s3://lake/wh/{n % 70}/{n}}}\n" for n in range(3_000))
    begun = time.monotonic()
    printed(f"{HEAD}{LISTING}tables:\n{tables}")
    took = time.monotonic() - begun
    assert took < 30 * slowness()


# --- CloudFormation ----------------------------------------------------------------------------------------------

FULL = f"""{HEAD}{ORDERS}
inventories: [{{kind: s3_inventory, location: s3://ev/lake/daily/, covers: [s3://lake/wh/]}}]
events:
- {{kind: s3_access_log, location: s3://ev/logs/}}
- {{kind: cloudtrail, location: s3://ev/AWSLogs/1/CloudTrail/}}
- {{kind: s3_journal, location: s3://ev/journal/}}
"""


@pytest.fixture
def stacks(s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Any:
    """moto's CloudFormation; it imports the validator of API Gateway, which no stack here needs."""
    for name in ("", ".validation", ".validation.exceptions"):
        module: Any = ModuleType(f"openapi_spec_validator{name}")
        module.validate, module.OpenAPIValidationError, module.__path__ = None, Exception, []
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return session_of(s3).client("cloudformation", endpoint_url=s3.endpoint, region_name="us-east-1")


def test_a_stack_has_the_role_and_a_closed_bucket(printed: Run, stacks: Any, s3: Endpoint) -> None:
    text = FULL.replace("s3://results/", "s3://stack-results/")
    code, template, _ = printed(text, "--format", "cloudformation")
    trusted = {"ParameterKey": "TrustedPrincipal", "ParameterValue": "arn:aws:iam::123456789012:role/job"}
    stacks.create_stack(StackName="audits", TemplateBody=json.dumps(template), Parameters=[trusted])
    (stack,) = stacks.describe_stacks(StackName="audits")["Stacks"]
    resources = stacks.list_stack_resources(StackName="audits")["StackResourceSummaries"]
    names = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources}
    iam = session_of(s3).client("iam", endpoint_url=s3.endpoint)
    objects = session_of(s3).client("s3", endpoint_url=s3.endpoint)
    role = iam.get_role(RoleName=names["Role"])["Role"]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    inline = iam.get_role_policy(RoleName=names["Role"], PolicyName="lakeaudit-audit")["PolicyDocument"]
    assert (code, stack["StackStatus"]) == (0, "CREATE_COMPLETE")
    assert trust["Principal"] == {"AWS": "arn:aws:iam::123456789012:role/job"}
    assert ast.literal_eval(str(inline)) == printed(text)[1]  # moto keeps it as a text of Python
    rules = objects.get_bucket_encryption(Bucket="stack-results")["ServerSideEncryptionConfiguration"][
        "Rules"
    ]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    declared = template["Resources"]["ResultsBucket"]["Properties"]  # moto leaves these out
    assert declared["VersioningConfiguration"] == {"Status": "Enabled"}
    assert {*declared["PublicAccessBlockConfiguration"].values()} == {True}
    assert len(template["Description"].encode()) <= 1024
    stacks.delete_stack(StackName="audits")


BUCKETS = [
    ("s3://results/shop", True),
    ("s3://lake/results", False),
    ("s3://ev/results", False),
    ("/data/results", False),
]


@pytest.mark.parametrize(("results", "created"), BUCKETS)
def test_the_bucket_is_created_only_for_results_alone(printed: Run, results: str, created: bool) -> None:
    _, template, _ = printed(FULL.replace("s3://results/shop", results), "--format", "cloudformation")
    assert ("ResultsBucket" in template["Resources"]) is created
    assert ("CreateResultsBucket" in template["Parameters"]) is created


def test_a_stack_lists_the_rest_in_its_metadata(printed: Run) -> None:
    more = "- {discover: {from: inventory, under: ['s3://prod-*/wh']}}\n- {discover: {from: glue}}\n"
    tables = (
        f"tables:\n- {{name: orders, location: s3://lake/wh/orders}}\n{more}metastores: [{{kind: glue}}]\n"
    )
    code, template, _ = printed(FULL.replace(ORDERS, tables), "--format", "cloudformation")
    notes = template["Metadata"]["NotCovered"]
    assert code == 3
    for begin in (
        "catalog default: ",
        "the steps leave out the buckets that match s3://prod-*/wh",
        "S3 has no right",
    ):
        assert [note for note in notes if note.startswith(begin)]


def test_steps_are_valid_requests(printed: Run) -> None:
    """The parameters of each command are those of its operation."""
    _, template, _ = printed(FULL, "--format", "cloudformation")
    steps = template["Metadata"]["Steps"]
    commands = [each["Command"] for each in steps if each["Command"].startswith("aws ")]
    names = [_validated(command) for command in commands]
    assert names == [
        "PutBucketInventoryConfiguration", "PutBucketLogging", "PutEventSelectors", "CreateBucketMetadataConfiguration",
    ]  # fmt: skip
    statements = [json.loads(each["Command"]) for each in steps if not each["Command"].startswith("aws ")]
    assert [each["Sid"] for each in statements] == ["DeliverInventories", "DeliverAccessLogs"]


def _validated(command: str) -> str:
    _, service, operation, *words = shlex.split(command)
    model = get_session().get_service_model("s3" if service == "s3api" else service)
    name = "".join(part.capitalize() for part in operation.split("-"))
    given: dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        member = "".join(part.capitalize() for part in option.removeprefix("--").split("-"))
        given[member] = json.loads(value) if value[0] in "[{" else value
    shape: Any = model.operation_model(name).input_shape
    report = ParamValidator().validate(given, shape)
    assert not report.has_errors(), report.generate_report()
    return name


INVENTORIES = [
    ("s3://ev/lake/daily/", "daily", None),
    ("s3://ev/reports/lake/daily/", "daily", "reports"),
    ("s3://ev/reports/", "lakeaudit", "reports"),
]


@pytest.mark.parametrize(("location", "id_", "prefix"), INVENTORIES)
def test_an_inventory_delivers_where_the_lake_file_reads(
    printed: Run, location: str, id_: str, prefix: str | None
) -> None:
    """S3 adds the bucket and the id of the configuration to the prefix."""
    text = FULL.replace("s3://ev/lake/daily/", location)
    _, template, _ = printed(text, "--format", "cloudformation")
    words = shlex.split(template["Metadata"]["Steps"][0]["Command"])
    configuration = json.loads(words[-1])
    assert (configuration["Id"], configuration["Filter"]) == (id_, {"Prefix": "wh/"})
    assert configuration["Destination"]["S3BucketDestination"].get("Prefix") == prefix
