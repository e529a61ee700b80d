"""Files that are lost for good are taken out of their Delta table by a commit, and put back into it by another.

`test_reconcile_restores` has this between audits.
"""

import json
from collections.abc import Callable
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
from tests.builders.repair_plans import RepairPlans, an_hour_old, finding_rows
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.shop import Shop
from tests.conftest import Aws

ALLOW = ("remove_reference",)
LOG = "warehouse/orders/_delta_log"


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


def table(shop: Shop) -> DeltaTable:
    return DeltaTable(f"s3://{shop.bucket}/warehouse/orders", storage_options=shop.options)


def adds(shop: Shop) -> list[dict[str, Any]]:
    """Return the table's files as readers of Delta see them."""
    rows = pa.table(table(shop).get_add_actions()).to_pylist()
    return sorted(rows, key=lambda row: str(row["path"]))


def line(shop: Shop, version: int, name: str) -> dict[str, Any]:
    """An action of a commit."""
    body = shop.s3.get_object(Bucket=shop.bucket, Key=f"{LOG}/{version:020}.json")["Body"].read()
    found: dict[str, Any] = next(
        json.loads(each)[name] for each in body.splitlines() if name in json.loads(each)
    )
    return found


def committed(shop: Shop, version: int, *actions: Any) -> None:
    body = "".join(json.dumps(action) + "\n" for action in actions)
    shop.s3.put_object(Bucket=shop.bucket, Key=f"{LOG}/{version:020}.json", Body=body.encode())


def test_a_removal_is_what_the_protocol_asks_for(shop: Shop, repair: RepairPlans) -> None:
    """The entry's own path and deletion vector, in a commit that says who made it and upon what."""
    (key,) = lose_files(shop)
    path = key.removeprefix("warehouse/orders/")
    dv = vector(1)
    entry = add(path, dv, partitionValues={"day": "2026-11-01"})
    committed(shop, 2, features("deletionVectors"), remove(path, removed=datetime.now(UTC)), entry)
    (step,) = steps_by_hand(shop, repair, key)
    assert (step.action, repair.apply().exit_code) == ("remove_reference", 0)
    removal, info = line(shop, 3, "remove"), line(shop, 3, "commitInfo")
    assert {name: removal[name] for name in ("path", "deletionVector", "partitionValues", "size", "dataChange")} == {
        "path": path, "deletionVector": dv, "partitionValues": {"day": "2026-11-01"}, "size": 100, "dataChange": True,
    }  # fmt: skip
    assert (removal["tags"], info["readVersion"], info["isBlindAppend"]) == (
        {"lakeaudit": step.action_id}, 2, False,
    )  # fmt: skip
    assert repair.undo().exit_code == 0
    assert line(shop, 4, "add") == line(shop, 2, "add")


def steps_by_hand(shop: Shop, repair: RepairPlans, *keys: str) -> list[Step]:
    """The same for a table that delta-rs does not read."""
    rows = [ledger_row("dropped", shop.bucket, key, rows_at_stake=50, manifest_size=100) for key in keys]
    return planned(repair, rows, ALLOW)


def test_an_entry_of_a_checkpoint_is_taken_out_and_put_back_whole(shop: Shop, repair: RepairPlans) -> None:
    """Its own commits are gone, as they are once the log was cleaned up."""
    table(shop).create_checkpoint()
    (key,) = lose_files(shop)
    before, rows = adds(shop), finding_rows(shop, {key: "dropped"})
    for version in range(2):
        shop.s3.delete_object(Bucket=shop.bucket, Key=f"{LOG}/{version:020}.json")
    planned(repair, [ledger_row(**row) for row in rows], ALLOW)
    assert repair.apply().exit_code == 0
    assert line(shop, 2, "remove")["partitionValues"] == {"day": "2026-11-01"}
    assert repair.undo().exit_code == 0
    assert adds(shop) == before
    assert json.loads(line(shop, 3, "add")["stats"])["numRecords"] == 50


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


def lost_rows_text(shop: Shop, key: str) -> Callable[[], None]:
    path = key.removeprefix("warehouse/orders/")
    return lambda: committed(shop, 2, remove(path, removed=datetime.now(UTC)))


def listed_anew(shop: Shop, key: str) -> Callable[[], None]:
    path = key.removeprefix("warehouse/orders/")
    return lambda: committed(shop, 2, remove(path, removed=datetime.now(UTC)), add(path))


@pytest.mark.parametrize("change", [lost_rows_text, listed_anew])
@pytest.mark.parametrize("late", [False, True])
def test_what_changes_since_the_plan_stops_it(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch, change: Any, late: bool
) -> None:
    """Before the apply, or between its look and its commit."""
    (key,) = lose_files(shop)
    steps(shop, repair, [key])
    act, changed = RemoveReference.act, change(shop, key)

    def after_another(self: Any, step: Any, target: Any) -> Any:
        changed()
        return act(self, step, target)

    if late:
        monkeypatch.setattr(RemoveReference, "act", after_another)
    else:
        changed()
    commits = len(shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=LOG)["Contents"])
    assert repair.apply().exit_code == 3
    assert repair.statuses() == {key: "changed"}
    assert len(shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=LOG)["Contents"]) == commits + late


def test_a_file_that_came_back_stays_in_its_table(shop: Shop, repair: RepairPlans) -> None:
    (key,) = lose_files(shop)
    steps(shop, repair, [key])
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"rows")
    assert repair.apply().exit_code == 3
    assert (repair.statuses(), len(adds(shop))) == ({key: "changed"}, 6)


def test_an_entry_that_another_removed_too_is_not_put_back(shop: Shop, repair: RepairPlans) -> None:
    (key,) = lose_files(shop)
    path = key.removeprefix("warehouse/orders/")
    steps(shop, repair, [key])
    repair.apply()
    committed(shop, 3, add(path))
    committed(shop, 4, remove(path, removed=datetime.now(UTC)))
    assert repair.undo().exit_code == 3
    assert repair.statuses() == {key: "kept"}


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


@pytest.mark.parametrize(
    ("method", "acted"),
    [
        ("act", True),
        ("take_back", True),
        pytest.param("act", False, marks=pytest.mark.soak),
        pytest.param("take_back", False, marks=pytest.mark.soak),
    ],
)
def test_killed_before_or_after_a_commit(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch, acted: bool, method: str
) -> None:
    keys, before = lose_files(shop), adds(shop)
    steps(shop, repair, keys)
    real = getattr(RemoveReference, method)

    def dying(*given: Any) -> None:
        if acted:
            real(*given)
        raise Killed

    if method == "take_back":
        repair.apply()
    with monkeypatch.context() as once:
        once.setattr(RemoveReference, method, dying)
        with pytest.raises(Killed):
            (repair.apply if method == "act" else repair.undo)()
    if method == "act":
        assert repair.apply().exit_code == 0
        assert (repair.statuses(), len(adds(shop))) == (dict.fromkeys(keys, "applied"), 5)
    assert repair.undo().exit_code == 0
    assert (adds(shop), table(shop).version()) == (before, 3)
