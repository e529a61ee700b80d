"""Files that are lost for good are taken out of their Delta table by a commit, and put back into it by another.

`test_reconcile_restores` has this between audits.
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.manifest.delta.listed_file import ListedFile
from lakeaudit.reconcile.actions.catalogs.remove_reference import RemoveReference
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores import delta_commits
from lakeaudit.reconcile.stores.delta_commits import why_not_committed_to
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.delta_lake import add, features, metadata, protocol, remove, vector
from tests.builders.iam_policies import with_printed_policy
from tests.builders.repair_plans import RepairPlans, an_hour_old, finding_rows
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.shop import Shop
from tests.conftest import Aws

ALLOW = ("remove_reference",)


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """One table of two commits and six files, written an hour ago."""
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    an_hour_old(made)
    return made


@pytest.fixture
def repair(shop: Shop, tmp_path: Path) -> RepairPlans:
    listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]"
    return RepairPlans(shop.lake(tmp_path, inventories=listing), tmp_path)


def lose_files(shop: Shop, number: int = 1) -> list[str]:
    """So many files of the table, which are gone now."""
    keys = shop.keys("orders")[:number]
    for key in keys:
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    return keys


def steps(shop: Shop, repair: RepairPlans, keys: list[str], allow: tuple[str, ...] = ALLOW) -> list[Step]:
    rows = [ledger_row(**row) for row in finding_rows(shop, dict.fromkeys(keys, "dropped"))]
    return planned(repair, rows, allow)


def table(shop: Shop, name: str = "orders") -> DeltaTable:
    return DeltaTable(f"s3://{shop.bucket}/warehouse/{name}", storage_options=shop.options)


def adds(shop: Shop, name: str = "orders") -> list[dict[str, Any]]:
    """Return the table's files as readers of Delta see them."""
    rows = pa.table(table(shop, name).get_add_actions()).to_pylist()
    return sorted(rows, key=lambda row: str(row["path"]))


def log(name: str, version: int) -> str:
    """Return the key of a commit of a table."""
    return f"warehouse/{name}/_delta_log/{version:020}.json"


def line(shop: Shop, table: str, version: int, name: str) -> dict[str, Any]:
    """An action of a commit of a table."""
    body = shop.s3.get_object(Bucket=shop.bucket, Key=log(table, version))["Body"].read()
    found: dict[str, Any] = next(
        json.loads(each)[name] for each in body.splitlines() if name in json.loads(each)
    )
    return found


def committed(shop: Shop, table: str, version: int, *actions: Any) -> None:
    body = "".join(json.dumps(action) + "\n" for action in actions)
    shop.s3.put_object(Bucket=shop.bucket, Key=log(table, version), Body=body.encode())


# --- one plan for tables of their own ----------------------------------------------------------------------------

SINCE = {
    "removed_early": (False, False),
    "listed_early": (False, True),
    "removed_late": (True, False),
    "listed_late": (True, True),
}
"""By table: whether its commit comes between the look of the apply and its act, and whether it lists the file again."""
TABLES = (*SINCE, "came_back", "removed_too", "by_protocol", "by_checkpoint")
VECTOR = vector(1)
DAY = {"day": "2026-11-01"}


@dataclass(frozen=True)
class Together:
    """Tables that lost a file each: one plan removes these files from them, is applied, and is undone."""

    shop: Shop
    keys: dict[str, str]
    paths: dict[str, str]
    """The lost file, by table: its key, and its path below the table."""
    steps: dict[str, Step]
    commits: dict[str, int]
    """The number of commits of each table after the plan."""
    before: list[dict[str, Any]]
    """The files of the table `by_checkpoint` before the apply."""
    exit_codes: tuple[int, int]
    applied: dict[str, str]
    """What became of each step, by key: by the apply, and by the undo."""
    undone: dict[str, str]

    def became(self, table: str) -> tuple[str, str]:
        """Return the status of the table's step after the apply and after the undo."""
        return self.applied[self.keys[table]], self.undone[self.keys[table]]


@pytest.fixture(scope="module")
def together(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Together:
    shop, folder = shop_of_copies(aws, s3), tmp_path_factory.mktemp("together")
    keys = {table: shop.keys(f"{table}/")[0] for table in TABLES}
    paths = {table: key.removeprefix(f"warehouse/{table}/") for table, key in keys.items()}
    for key in keys.values():
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    entry = add(paths["by_protocol"], VECTOR, partitionValues=DAY)
    removal = remove(paths["by_protocol"], removed=datetime.now(UTC))
    committed(shop, "by_protocol", 2, features("deletionVectors"), removal, entry)
    table(shop, "by_checkpoint").create_checkpoint()
    before = adds(shop, "by_checkpoint")
    for version in range(2):  # its own commits are gone, as they are once the log was cleaned up
        shop.s3.delete_object(Bucket=shop.bucket, Key=log("by_checkpoint", version))
    listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]"
    repair = RepairPlans(shop.lake(folder, inventories=listing), folder)
    rows = [lost_row(shop, table, key) for table, key in keys.items()]
    steps = dict(zip(TABLES, planned(repair, rows, ALLOW), strict=True))
    commits = {table: number_of_commits(shop, table) for table in TABLES}
    applied = apply_among_others(shop, repair, paths, keys)
    committed(shop, "removed_too", 3, add(paths["removed_too"]))
    committed(shop, "removed_too", 4, remove(paths["removed_too"], removed=datetime.now(UTC)))
    undone = repair.undo().exit_code
    return Together(
        shop, keys, paths, steps, commits, before, (applied[0], undone), applied[1], repair.statuses()
    )


def shop_of_copies(aws: Aws, s3: Endpoint) -> Shop:
    """The tables, copies of one, written an hour ago."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    made = Shop(aws.s3, s3, bucket)
    made.write("template")
    made.copy("template", *TABLES, own_ids=True)
    an_hour_old(made)
    return made


def lost_row(shop: Shop, table: str, key: str) -> dict[str, Any]:
    """Return the row of the ledger of a lost file."""
    size = (
        100
        if table == "by_protocol"
        else next(each["size_bytes"] for each in adds(shop, table) if key.endswith(each["path"]))
    )
    return ledger_row(
        "dropped", shop.bucket, key, table_name=table, manifest_kind="delta", manifest_size=size,
        bytes_at_stake=size, rows_at_stake=50,
    )  # fmt: skip


def number_of_commits(shop: Shop, table: str) -> int:
    listed = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=f"warehouse/{table}/_delta_log/")
    return sum(each["Key"].endswith(".json") for each in listed["Contents"])


def apply_among_others(
    shop: Shop, repair: RepairPlans, paths: dict[str, str], keys: dict[str, str]
) -> tuple[int, dict[str, str]]:
    """Apply while others write, too; return the exit code and what became of each step."""

    def change(table: str) -> None:
        _, listed = SINCE[table]
        gone = remove(paths[table], removed=datetime.now(UTC))
        committed(shop, table, 2, gone, *([add(paths[table])] if listed else []))

    act = RemoveReference.act

    def after_another(self: Any, step: Any, target: Any) -> Any:
        if SINCE.get(step.table_name, (False,))[0]:
            change(step.table_name)
        return act(self, step, target)

    for name, (late, _) in SINCE.items():
        if not late:
            change(name)
    shop.s3.put_object(Bucket=shop.bucket, Key=keys["came_back"], Body=b"rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoveReference, "act", after_another)
        code = repair.apply().exit_code
    return code, repair.statuses()


@pytest.mark.variant
def test_a_removal_is_what_the_protocol_asks_for(together: Together) -> None:
    """The entry's own path and deletion vector, in a commit that says who made it and upon what."""
    shop, step = together.shop, together.steps["by_protocol"]
    assert (step.action, together.became("by_protocol")) == ("remove_reference", ("applied", "undone"))
    removal, info = line(shop, "by_protocol", 3, "remove"), line(shop, "by_protocol", 3, "commitInfo")
    expected = {
        "path": together.paths["by_protocol"], "deletionVector": VECTOR, "partitionValues": DAY, "size": 100,
        "dataChange": True,
    }  # fmt: skip
    assert {name: removal[name] for name in expected} == expected
    assert (removal["tags"], info["readVersion"], info["isBlindAppend"]) == (
        {"lakeaudit": step.action_id}, 2, False,
    )  # fmt: skip
    assert line(shop, "by_protocol", 4, "add") == line(shop, "by_protocol", 2, "add")


def test_an_entry_of_a_checkpoint_is_taken_out_and_put_back_whole(together: Together) -> None:
    """Its own commits are gone, as they are once the log was cleaned up."""
    assert together.became("by_checkpoint") == ("applied", "undone")
    assert line(together.shop, "by_checkpoint", 2, "remove")["partitionValues"] == DAY
    assert adds(together.shop, "by_checkpoint") == together.before
    assert json.loads(line(together.shop, "by_checkpoint", 3, "add")["stats"])["numRecords"] == 50


@pytest.mark.parametrize("name", SINCE)
def test_what_changes_since_the_plan_stops_it(together: Together, name: str) -> None:
    """Before the apply, or between its look and its commit; nothing is written but the change."""
    assert together.exit_codes[0] == 3
    assert together.became(name) == ("changed", "changed")
    assert number_of_commits(together.shop, name) == together.commits[name] + 1


def test_a_file_that_came_back_stays_in_its_table(together: Together) -> None:
    assert together.became("came_back") == ("changed", "changed")
    assert len(adds(together.shop, "came_back")) == 6


def test_an_entry_that_another_removed_too_is_not_put_back(together: Together) -> None:
    assert (together.exit_codes[1], together.became("removed_too")) == (3, ("applied", "kept"))
    assert number_of_commits(together.shop, "removed_too") == together.commits["removed_too"] + 3


@pytest.mark.variant
def test_it_is_the_last_of_all_ways(shop: Shop, repair: RepairPlans) -> None:
    keys = lose_files(shop)
    assert (
        "`--allow remove_reference` removes it and its rows"
        in steps(shop, repair, keys, ())[0].evidence["why"]
    )
    versioning: Any = {"Status": "Enabled"}
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration=versioning)
    shop.s3.put_object(Bucket=shop.bucket, Key=keys[0], Body=b"other bytes")
    assert "the file exists again" in steps(shop, repair, keys)[0].evidence["why"]
    shop.s3.delete_object(Bucket=shop.bucket, Key=keys[0])
    assert "versions of it are left" in steps(shop, repair, keys)[0].evidence["why"]


@pytest.fixture(scope="module")
def unread(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Nothing of its table is read, nor was anything written."""
    return Shop(aws.s3, s3, "no-such-bucket", ["orders"]).lake(tmp_path_factory.mktemp("unread"))


@pytest.mark.parametrize(
    ("told", "settings", "why"),
    [
        (protocol(), {}, None),
        (features("deletionVectors", "columnMapping", "v2Checkpoint"), {}, None),
        (protocol(1, 7, writerFeatures=["appendOnly", "changeDataFeed"]), {"appendOnly": "false"}, None),
        (protocol(1, 8), {}, "its protocol version is not supported"),
        (
            features("rowTracking", "domainMetadata"),
            {},
            "its writers need features that are not supported: rowTracking",
        ),
        (features("inCommitTimestamp"), {}, "inCommitTimestamp"),
        (features("icebergCompatV2"), {}, "icebergCompatV2"),
        (features("a_feature_of_next_year"), {}, "a_feature_of_next_year"),
        (protocol(), {"appendOnly": "true"}, "append-only"),
        (protocol(1, 4), {"enableChangeDataFeed": "TRUE"}, "change data feed"),
        (protocol(), {"enableRowTracking": "true"}, "tracks rows"),
        (protocol(), {"enableInCommitTimestamps": "true"}, "in-commit timestamps"),
        (protocol(), {"universalFormat.enabledFormats": "iceberg"}, "other formats"),
        (protocol(), {"enableIcebergCompatV1": "true"}, "other formats"),
        (protocol(), {"compatibility.symlinkFormatManifest.enabled": "true"}, "symlink manifests"),
    ],
)
def test_which_tables_are_committed_to(
    told: dict[str, Any], settings: dict[str, str], why: str | None, unread: Lake
) -> None:
    meta = metadata()["metaData"] | {
        "configuration": {f"delta.{name}": value for name, value in settings.items()}
    }
    listed = ListedFile(1, (), None, told["protocol"], meta)
    found = why_not_committed_to(unread, unread.tables[0], listed)
    assert (found is None) is (why is None)
    assert (why or "") in (found or "")


def test_writers_that_go_by_dynamodb_are_not_overtaken(
    shop: Shop, repair: RepairPlans, tmp_path: Path
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(file.read_text() + "metastores: [{kind: delta_log_store, table: delta-log}]\n")
    (step,) = steps(shop, RepairPlans(load_lake(file, {}), tmp_path), lose_files(shop))
    assert "its writers coordinate commits with DynamoDB" in step.evidence["why"]


# --- what happens meanwhile --------------------------------------------------------------------------------------


@pytest.mark.variant
def test_commits_of_others_come_first(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step's own commit is written upon theirs, and none of theirs is lost."""
    keys = lose_files(shop, 3)
    steps(shop, repair, keys)
    commit, first = delta_commits.commit, [3]

    def after_another(*given: Any) -> None:
        if first[0]:
            first[0] -= 1
            shop.write("orders", commits=1)
        commit(*given)

    monkeypatch.setattr("lakeaudit.reconcile.actions.catalogs.remove_reference.commit", after_another)
    assert repair.apply().exit_code == 0
    assert repair.statuses() == dict.fromkeys(keys, "applied")
    assert len(adds(shop)) == 6 - 3 + 3 * 3
    assert repair.undo().exit_code == 0
    assert len(adds(shop)) == 6 + 3 * 3


@pytest.mark.variant
def test_no_commit_is_written_where_it_could_overwrite_another(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = lose_files(shop)
    steps(shop, repair, keys)
    monkeypatch.setattr(Forms, "honoured", lambda *_: frozenset())
    assert repair.apply().exit_code == 3
    assert set(repair.statuses().values()) == {"needs_person"}
    assert len(adds(shop)) == 6


class Killed(BaseException):
    """The process ends here."""


def is_killed(run: Callable[[], Any], method: str, *, acted: bool) -> None:
    """End a run before or after the first commit that this method of the action makes."""
    real = getattr(RemoveReference, method)

    def dying(*given: Any) -> None:
        if acted:
            real(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as once:
        once.setattr(RemoveReference, method, dying)
        with pytest.raises(Killed):
            run()


@pytest.mark.parametrize("acted", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_killed_before_or_after_a_commit(shop: Shop, repair: RepairPlans, acted: bool) -> None:
    """Both the apply and the undo are killed, and go on."""
    keys, before = lose_files(shop), adds(shop)
    steps(shop, repair, keys)
    is_killed(repair.apply, "act", acted=acted)
    with with_printed_policy(repair.folder / "lake.yaml"):
        assert repair.apply().exit_code == 0
    assert (repair.statuses(), len(adds(shop))) == (dict.fromkeys(keys, "applied"), 5)
    with with_printed_policy(repair.folder / "lake.yaml"):
        is_killed(repair.undo, "take_back", acted=acted)
    assert repair.undo().exit_code == 0
    assert (adds(shop), table(shop).version()) == (before, 3)
