"""`lakeaudit guard` on real tables: which files of a delete list tables need, and which nobody does."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import BadInput
from lakeaudit.guard import listed_folders, objects, share
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import guarded
from tests.builders.audits import audited
from tests.builders.delta_lake import add, metadata, protocol
from tests.builders.guarded import DATA, MONTH, guard, printed
from tests.builders.results import NOON, publish, run
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """Two tables of six files each; `orders` has also removed some."""
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    made.write("customers")
    return made


def put(shop: Shop, key: str, age: timedelta = MONTH, body: bytes = DATA) -> str:
    return guarded.put(shop.s3, shop.bucket, key, age, body)


def lake_of(shop: Shop, tmp_path: Path) -> Lake:
    return shop.lake(tmp_path, defaults="grace: 1h")


def test_the_files_of_a_list(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    live = f"s3a://{shop.bucket}/{shop.keys('orders')[0]}"
    dead = put(shop, "warehouse/orders/day=2026-11-01/part-dead.parquet")
    young = put(shop, "warehouse/orders/part-young.parquet", timedelta(hours=1))
    log = f"s3://{shop.bucket}/warehouse/orders/_delta_log/{0:020}.json"
    nobodys = put(shop, "other/x.parquet")
    missing = f"s3://{shop.bucket}/warehouse/orders/part-missing.parquet"
    answers = guard(lake, tmp_path, [live, dead, young, log, nobodys, missing, dead])
    assert answers == {
        live: "live", dead: "free", young: "being_written", log: "live", nobodys: "unknown", missing: "absent",
    }  # fmt: skip
    assert (answers.rows[live]["table"], answers.rows[live]["rows"]) == ("orders", 50)
    assert answers.rows[dead]["lines"] == 2
    assert answers.result.exit_code == 1
    assert guard(lake, tmp_path, [dead, missing]).result.exit_code == 0
    assert guard(lake, tmp_path, [dead, nobodys]).result.exit_code == 3


@pytest.mark.variant
def test_a_removed_file_is_promised_until_its_retention_has_passed(shop: Shop, tmp_path: Path) -> None:
    removed = [f"s3://{shop.bucket}/{key}" for key in shop.keys("orders")]
    table = f"s3://{shop.bucket}/warehouse/orders"
    write_deltalake(table, pa.table({"day": ["2026-11-01"], "amount": [1]}), mode="overwrite",
                    storage_options=shop.options)  # fmt: skip
    answers = guard(lake_of(shop, tmp_path), tmp_path, removed)
    assert set(answers.values()) == {"promised"}
    until = datetime.fromisoformat(str(answers.rows[removed[0]]["until"]))
    assert timedelta(days=6, hours=23) < until - datetime.now(UTC) <= timedelta(days=7)


@pytest.mark.variant
def test_a_cleaner_that_spells_a_location_differently_does_not_get_its_files(
    shop: Shop, tmp_path: Path
) -> None:
    """Orphan files were found by comparing `s3a://` names of a listing with `s3://` names of metadata."""
    key = shop.keys("orders")[0]
    spellings = [
        f"s3://{shop.bucket}/{key}", f"s3n://{shop.bucket}/{key}", f"s3://{shop.bucket}//{key}",
        f"s3://{shop.bucket}/{key.replace('/', '//')}", f"s3://{shop.bucket}/{key.replace('=', '%3D')}",
    ]  # fmt: skip
    answers = guard(lake_of(shop, tmp_path), tmp_path, spellings)
    assert answers == dict.fromkeys(spellings, "live")


@pytest.mark.variant
def test_relative_paths_of_a_dry_run_belong_to_their_table(shop: Shop, tmp_path: Path) -> None:
    live = shop.keys("orders")[0].removeprefix("warehouse/orders/")
    put(shop, "warehouse/orders/dead.parquet")
    lake = lake_of(shop, tmp_path)
    assert guard(lake, tmp_path, [live]) == {live: "unknown"}
    assert guard(lake, tmp_path, [live, "dead.parquet"], tables=("orders",)) == {
        live: "live",
        "dead.parquet": "free",
    }


@pytest.mark.variant
def test_the_files_of_a_clone_are_referenced(shop: Shop, tmp_path: Path) -> None:
    """A shallow clone lists files at their absolute paths."""
    dead = put(shop, "warehouse/orders/of_clone.parquet")
    commit = [protocol(), metadata(), add(dead)]
    log = f"warehouse/clone/_delta_log/{0:020}.json"
    put(shop, log, body="\n".join(map(json.dumps, commit)).encode())
    assert guard(lake_of(shop, tmp_path), tmp_path, [dead]) == {dead: "free"}
    shop.tables.append("clone")
    answers = guard(lake_of(shop, tmp_path), tmp_path, [dead])
    assert answers == {dead: "referenced"}
    assert answers.rows[dead]["table"] == "clone"


def test_a_table_that_cannot_be_read_may_need_every_file(shop: Shop, tmp_path: Path) -> None:
    dead = put(shop, "warehouse/orders/dead.parquet")
    lake = lake_of(shop, tmp_path)
    put(shop, f"warehouse/customers/_delta_log/{0:020}.json", body=b"{damaged")
    answers = guard(lake, tmp_path, [dead])
    assert answers == {dead: "unknown"}
    assert "customers" in str(answers.rows[dead]["reason"])
    assert answers.result.exit_code == 3


def test_a_table_that_commits_meanwhile_keeps_its_file(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit comes after the tables were read, and before storage is read."""
    key = "warehouse/orders/late.parquet"
    late = put(shop, key)
    look = objects.current_objects

    def commit_first(*given: object) -> object:
        table = DeltaTable(f"s3://{shop.bucket}/warehouse/orders", storage_options=shop.options)
        version = table.version() + 1
        action = json.dumps(add("late.parquet", partitionValues={"day": "2026-11-01"}))
        shop.s3.put_object(
            Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{version:020}.json", Body=action.encode()
        )
        return look(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("lakeaudit.guard.answer.current_objects", commit_first)
    assert guard(lake_of(shop, tmp_path), tmp_path, [late]) == {late: "live"}


@pytest.mark.variant
def test_all_objects_below_a_prefix(shop: Shop, tmp_path: Path) -> None:
    dead = put(shop, "warehouse/orders/old/dead.parquet")
    answers = guard(lake_of(shop, tmp_path), tmp_path, f"s3://{shop.bucket}/warehouse/orders/old/")
    assert answers == {"warehouse/orders/old/dead.parquet": "free"}
    every = guard(lake_of(shop, tmp_path), tmp_path, f"s3://{shop.bucket}/warehouse/orders/")
    assert sorted(every.values()).count("live") == len(shop.keys("orders")) - 1 + 2  # and two commits
    assert dead


@pytest.mark.variant
def test_a_proposed_lifecycle_rule(shop: Shop, tmp_path: Path) -> None:
    put(shop, "warehouse/orders/tmp-1.parquet")
    rule = {
        "ID": "x",
        "Status": "Enabled",
        "Filter": {"Prefix": "warehouse/orders/tmp-"},
        "Expiration": {"Days": 30},
    }
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"Rules": [rule]}))
    assert guard(lake_of(shop, tmp_path), tmp_path, str(file), bucket=shop.bucket) == {
        "warehouse/orders/tmp-1.parquet": "free"
    }
    rule["Filter"] = {"Prefix": "warehouse/"}
    file.write_text(json.dumps({"Rules": [rule]}))
    answers = guard(lake_of(shop, tmp_path), tmp_path, str(file), bucket=shop.bucket)
    assert [*answers.values()].count("live") == len(shop.keys()) - 1 + 4  # and two commits of each table
    assert answers.result.exit_code == 1


def test_the_free_keys_are_written_with_their_digest(shop: Shop, tmp_path: Path) -> None:
    dead = put(shop, "warehouse/orders/dead, quoted.parquet")
    live = f"s3://{shop.bucket}/{shop.keys('orders')[0]}"
    output = tmp_path / "safe.csv"
    guard(lake_of(shop, tmp_path), tmp_path, [dead, live], form="plain", output=output)
    lines = output.read_text().splitlines()
    assert lines[0] == "bucket,key,uri,size,etag,version_id"
    assert len(lines) == 2
    assert "dead, quoted.parquet" in lines[1]
    about = json.loads(Path(f"{output}.json").read_text())
    assert about["keys"] == 1
    again = guard(lake_of(shop, tmp_path), tmp_path, str(output))
    assert set(again.values()) == {"free"}


@pytest.mark.variant
def test_without_requests_storage_sources_answer(shop: Shop, tmp_path: Path) -> None:
    """Large lists are compared with the inventory; a key that it lacks is requested, as far as the limit goes."""
    dead = put(shop, "warehouse/orders/dead.parquet")
    shop.take_inventory()
    late = put(shop, "warehouse/orders/late.parquet")
    lake = lake_of(shop, tmp_path)
    live = f"s3://{shop.bucket}/{shop.keys('orders')[0]}"
    assert guard(lake, tmp_path, [dead, live, late], max_requests=0) == {
        dead: "free",
        live: "live",
        late: "unknown",
    }


@pytest.mark.variant
def test_a_line_is_hostile(shop: Shop, tmp_path: Path) -> None:
    lines = [
        "s3://b/'; DROP TABLE x; --", "s3://b/\x1b[31m", "x" * 10_000, "s3://", "://", "%zz", "s3://b/%ff%fe",
        "s3://b/a\x00b", "=cmd|' /C calc'!A0",
    ]  # fmt: skip
    answers = guard(lake_of(shop, tmp_path), tmp_path, lines)
    assert set(answers.values()) <= {"unknown", "absent"}
    assert len(answers) == len(lines)


@pytest.mark.variant
@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_a_list_without_files_proves_nothing(shop: Shop, tmp_path: Path, lines: list[str]) -> None:
    """The program that made it may have failed."""
    answers = guard(lake_of(shop, tmp_path), tmp_path, lines)
    assert (answers, answers.result.exit_code) == ({}, 3)
    assert answers.result.verdict == "UNDECIDED: the list names no file"


ODD_TEXTS = {
    "a space at the end": "{uri} ",
    "two files in a line": "{uri} {uri}",
    "a version": "{uri}?versionId=abc",
    "a pattern": "s3://{bucket}/warehouse/orders/*/*.parquet",
    "a folder": "s3://{bucket}/warehouse/orders/day=2026-11-01",
    "the folder of the table": "s3://{bucket}/warehouse/orders",
    "the beginning of a name": "s3://{bucket}/warehouse/orders/day=2026-11-01/part-",
    "quotes": "'{uri}'",
    "a command": "rm {uri}",
    "encoded twice": "{twice}",
}


@pytest.mark.variant
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_a_text_that_another_program_may_read_differently_is_not_absent(
    shop: Shop, tmp_path: Path, name: str
) -> None:
    key = shop.keys("orders")[0]
    uri = f"s3://{shop.bucket}/{key}"
    twice = uri.replace("=", "%253D")
    answers = guard(
        lake_of(shop, tmp_path), tmp_path, [ODD_TEXTS[name].format(uri=uri, bucket=shop.bucket, twice=twice)]
    )
    assert [*answers.values()] == ["unknown"]
    assert answers.result.exit_code == 3


@pytest.mark.variant
def test_a_relative_path_without_a_file_proves_nothing(shop: Shop, tmp_path: Path) -> None:
    answers = guard(lake_of(shop, tmp_path), tmp_path, ["orders/part-0.parquet"], tables=("orders",))
    assert set(answers.values()) == {"unknown"}


@pytest.mark.variant
def test_a_folder_and_a_link_of_a_local_table_are_not_free(tmp_path: Path) -> None:
    table = tmp_path / "lake" / "t"
    write_deltalake(str(table), pa.table({"day": ["a"], "x": [1]}), partition_by=["day"])
    (tmp_path / "link").symlink_to(table)
    live = str(next((table / "day=a").iterdir()))
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: local\nresults: {tmp_path}/results\n"
        f"tables: [{{name: t, location: {table}, manifests: [{{kind: delta}}]}}]\ndefaults: {{leftover_age: 0s}}\n"
    )
    answers = guard(load_lake(file, {}), tmp_path, [f"{table}/day=a", f"{table}/day=a/", live])
    assert answers == {f"{table}/day=a": "unknown", f"{table}/day=a/": "unknown", live: "live"}


@pytest.mark.variant
def test_a_table_inside_of_a_table_that_the_lake_file_does_not_name(shop: Shop, tmp_path: Path) -> None:
    shop.write("orders/archive")
    shop.tables.remove("orders/archive")
    inner = f"s3://{shop.bucket}/{shop.keys('orders/archive')[0]}"
    answers = guard(lake_of(shop, tmp_path), tmp_path, [inner])
    assert answers[inner] in ("unknown", "being_written")


@pytest.mark.variant
def test_a_lost_state_that_an_audit_reported_may_need_the_file(shop: Shop, tmp_path: Path) -> None:
    dead = put(shop, "warehouse/orders/dead.parquet")
    lake = shop.lake(tmp_path, inventories=f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]",
                     defaults="grace: 0s")  # fmt: skip
    audited(lake)
    shop.s3.delete_object(Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{1:020}.json")
    assert guard(lake, tmp_path, [dead])[dead] in ("unknown", "live", "promised")


@pytest.mark.variant
def test_the_list_of_an_earlier_run_does_not_stay(shop: Shop, tmp_path: Path) -> None:
    dead = put(shop, "warehouse/orders/dead.parquet")
    output, lake = tmp_path / "safe.csv", lake_of(shop, tmp_path)
    guard(lake, tmp_path, [dead, dead.replace("s3://", "s3a://")], output=output)
    assert len(output.read_text().splitlines()) == 2, "one object in two spellings"
    with pytest.raises(BadInput):
        guard(lake, tmp_path, str(tmp_path / "missing"), output=output)
    assert not output.exists()
    output.write_text("of somebody else")
    with pytest.raises(BadInput, match="guard did not write it"):
        guard(lake, tmp_path, [dead], output=output)


@pytest.mark.variant
def test_a_lost_state_that_the_lake_file_ignores_may_need_the_file(shop: Shop, tmp_path: Path) -> None:
    """The ledger has no discrepancy, but the last audit has recorded that a state is lost."""
    dead = put(shop, "warehouse/orders/dead.parquet")
    lake = lake_of(shop, tmp_path)
    lost = {"run_id": "r1", "lake": "shop", "table_name": "orders", "manifest_kind": "delta", "as_of": NOON,
            "number": 1, "standing": "lost", "state": f"{1:020}.json"}  # fmt: skip
    publish(lake.results, runs=[run(lake="shop")], states=[lost])
    answers = guard(lake, tmp_path, [dead])
    assert answers == {dead: "unknown"}
    assert "missing_metadata" in str(answers.rows[dead]["reason"])


UNNAMED = {
    "inside of the table": ("orders/archive", True),
    "in the folder of a partition": ("orders/day=2026-11-01", True),
    "around the table": ("", True),
    "beside the table": ("customers", False),
}


@pytest.mark.variant
@pytest.mark.parametrize("name", UNNAMED)
def test_a_table_that_the_lake_file_does_not_name(shop: Shop, tmp_path: Path, name: str) -> None:
    place, is_doubt = UNNAMED[name]
    folder = "/".join(filter(None, ["warehouse", place]))
    dead = put(shop, "warehouse/orders/day=2026-11-01/dead.parquet")
    inside = put(shop, f"{folder}/dead.parquet")
    put(shop, f"{folder}/_delta_log/{0:020}.json", body=b"{}")
    shop.tables.remove("customers")
    expected = "unknown" if is_doubt and dead.startswith(f"s3://{shop.bucket}/{folder}") else "free"
    assert guard(lake_of(shop, tmp_path), tmp_path, [dead, inside]) == {dead: expected, inside: "unknown"}


@pytest.mark.variant
def test_more_folders_than_are_searched_for_tables(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of partitions are searched last, and raise no doubt if there are too many of them."""
    monkeypatch.setattr(listed_folders, "MOST_FOLDERS", 2)
    of_partitions = [put(shop, f"warehouse/customers/day={n}/dead.parquet") for n in range(3)]
    others = [put(shop, f"warehouse/orders/{n}/dead.parquet") for n in range(3)]
    answers = guard(lake_of(shop, tmp_path), tmp_path, [*of_partitions, *others])
    assert answers == dict.fromkeys(of_partitions, "free") | dict.fromkeys(others, "unknown")
    assert "1 folder of it not searched" in str(answers.rows[others[0]]["reason"])


@pytest.mark.variant
def test_a_clock_far_ahead_of_storage_does_not_make_files_old(shop: Shop, tmp_path: Path) -> None:
    """Storage writes its own time into each response."""
    young = put(shop, "warehouse/orders/young.parquet", timedelta(hours=1))
    removed = [f"s3://{shop.bucket}/{key}" for key in shop.keys("customers")]
    write_deltalake(f"s3://{shop.bucket}/warehouse/customers", pa.table({"day": ["2026-11-01"], "amount": [1]}),
                    mode="overwrite", storage_options=shop.options)  # fmt: skip
    answers = guard(lake_of(shop, tmp_path), tmp_path, [young, *removed], ahead=MONTH)
    assert answers == {young: "being_written"} | dict.fromkeys(removed, "promised")
    assert any("the clock of this machine is 30" in each for each in answers.result.warnings)


@pytest.mark.variant
def test_signatures_and_control_characters_are_not_printed(shop: Shop, tmp_path: Path) -> None:
    key = "warehouse/orders/dead\x1b[2J.parquet"
    dead = put(shop, key)
    signed = f"https://{shop.bucket}.s3.amazonaws.com/warehouse/orders/x?X-Amz-Signature=5ec2e7"
    of_other = "https://user:5ec2e7@example.com/x?sig=5ec2e7"
    texts = {
        form: printed(lake_of(shop, tmp_path), tmp_path, [dead, signed, of_other], form)
        for form in ("text", "json", "jsonl", "csv")
    }
    assert [form for form, text in texts.items() if "5ec2e7" in text or "\x1b" in text] == []
    output = tmp_path / "safe.csv"
    guard(lake_of(shop, tmp_path), tmp_path, [dead], output=output)
    assert f"{shop.bucket},{key},s3://{shop.bucket}/{key}," in output.read_text()


@pytest.mark.variant
@pytest.mark.parametrize("requests", [0, 100])
def test_a_list_that_does_not_stay_in_memory(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """The keys are written to files, and the free ones come from the storage sources or from requests."""
    monkeypatch.setattr(share, "KEYS_IN_MEMORY", 0)
    live = [f"s3a://{shop.bucket}/{key}" for key in shop.keys("orders")]
    dead = [put(shop, f"warehouse/orders/day={n}/dead.parquet") for n in range(20)]
    shop.take_inventory()
    output = tmp_path / "safe.csv"
    answers = guard(
        lake_of(shop, tmp_path), tmp_path, [*live, *dead, *dead], max_requests=requests, output=output
    )
    assert answers == dict.fromkeys(live, "live") | dict.fromkeys(dead, "free")
    assert {row["lines"] for row in answers.rows.values() if row["status"] == "free"} == {2}
    assert [line.split(",")[2] for line in output.read_text().splitlines()[1:]] == dead
