"""Tables on object storage whose metadata names local paths: the audit reads nothing of its own host."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.keys import LOCAL_ELSEWHERE, Location, true_place
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, add
from tests.builders.iceberg import NO_WAIT
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.conftest import Aws

pytestmark = pytest.mark.variant

REASON = "a local path in a table on object storage"
OTHERS = ("hdfs://nn:8020/x.parquet", "http://169.254.169.254/latest/meta-data", "file:relative.parquet")


def put_log(aws: Aws, bucket: str, table: str, *paths: str) -> None:
    actions = [*BORN, add("own.parquet"), *map(add, paths)]
    body = "\n".join(map(json.dumps, actions)).encode()
    aws.s3.put_object(Bucket=bucket, Key=f"wh/{table}/_delta_log/{0:020}.json", Body=body)
    aws.s3.put_object(Bucket=bucket, Key=f"wh/{table}/own.parquet", Body=b"x" * 100)


def lake_of(endpoint: Endpoint, folder: Path, bucket: str, tables: dict[str, str], listing: str = "") -> Lake:
    entries = "\n".join(
        f"- {{name: {name}, location: '{listing or f's3://{bucket}'}/wh/{name}', manifests: [{manifest}]}}"
        for name, manifest in tables.items()
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: '{listing or f's3://{bucket}'}/wh/'}}]\n"
        f"tables:\n{entries}\ndefaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})


def contents(lake: Lake, run_id: str) -> dict[str, dict[str, Any]]:
    return {row["table_name"]: row for row in results_of(lake).coverage(run_id) if row["axis"] == "content"}


@pytest.mark.parametrize("live", [True, False])
def test_local_paths_in_tables_on_s3_are_undecided_and_the_host_is_not_read(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, live: bool
) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "secret.parquet").write_bytes(b"s" * 77)  # another size than the manifests record
    secret = f"{host}/secret.parquet"
    put_log(aws, bucket, "plain")
    put_log(aws, bucket, "by_uri", f"file://{secret}", f"file:{host}/absent.parquet")
    put_log(aws, bucket, "by_path", secret)
    put_log(aws, bucket, "others", *OTHERS)
    lines = [
        {"path": f"s3://{bucket}/wh/listed/own.parquet", "size": 100},
        {"path": f"file://{secret}", "size": 1},
    ]
    ended = [*map(json.dumps, lines), json.dumps({"end": True, "lines": len(lines)})]
    aws.s3.put_object(Bucket=bucket, Key="lists/1.jsonl", Body="\n".join(ended).encode())
    aws.s3.put_object(Bucket=bucket, Key="wh/listed/own.parquet", Body=b"x" * 100)
    write_metadata(host / "ice", {1: Snapshot({"m1": [Entry("a.parquet")]}, at=datetime.now(UTC))})
    for file in (host / "ice/metadata").glob(
        "*.json"
    ):  # names its manifest list, which is there, by the host's path
        aws.s3.put_object(Bucket=bucket, Key=f"wh/ice/metadata/{file.name}", Body=file.read_bytes())
    delta = dict.fromkeys(("plain", "by_uri", "by_path", "others"), "{kind: delta}")
    listed = f"{{kind: file_list, location: 's3://{bucket}/lists/', complete: true}}"
    lake = lake_of(s3, tmp_path, bucket, {**delta, "listed": listed, "ice": "{kind: iceberg}"})

    outcome = audited(lake, live=live)

    rows = contents(lake, outcome.run_id)
    assert {name: (row["consistent"], row["findings"], row["uncovered"]) for name, row in rows.items()} == {
        "plain": (1, 0, 0), "by_uri": (1, 0, 2), "by_path": (1, 0, 1), "others": (1, 0, 3), "listed": (1, 0, 1),
        "ice": (1, 0, 0),
    }  # fmt: skip
    assert (rows["plain"]["status"], rows["plain"]["reason"]) == ("complete", None)
    for name in ("by_uri", "by_path", "listed", "others"):
        assert REASON in rows[name]["reason"], name
    assert REASON in rows["ice"]["reason"]
    reasons = [row["reason"] for row in rows.values() if row["reason"]]
    assert not any("to cover them" in reason or "refused" in reason for reason in reasons)
    kinds = {(row["table_name"], row["kind"]) for row in rows_of(results_of(lake).findings(outcome.run_id))}
    assert kinds <= {("ice", "unreadable_evidence")}


def test_a_lake_on_a_local_disk_reads_the_paths_that_its_tables_name(s3: Endpoint, tmp_path: Path) -> None:
    home, other = tmp_path / "wh/t", tmp_path / "wh/source.parquet"
    (home / "_delta_log").mkdir(parents=True)
    actions = [*BORN, add("own.parquet"), add(f"file://{other}")]
    (home / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    for file in (home / "own.parquet", other):
        file.write_bytes(b"x" * 100)
    lake = lake_of(s3, tmp_path, "", {"t": "{kind: delta}"}, str(tmp_path))
    outcome = audited(lake, live=True)
    row = contents(lake, outcome.run_id)["t"]
    assert (row["status"], row["consistent"], row["findings"]) == ("complete", 2, 0)


def test_a_lake_on_both_reads_local_paths_inside_its_local_places_alone(s3: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\ninventories:\n"
        "- {kind: listing, location: 's3://b/'}\n- {kind: listing, location: /data/wh}\ntables:\n"
        "- {name: far, location: 's3://b/far', manifests: [{kind: delta}]}\n"
        "- {name: near, location: /data/wh/near, manifests: [{kind: delta}]}\n"
    )
    names = clients_of(load_lake(path, {})).names
    assert true_place(names, "", "data/wh/near/a") == ("", "data/wh/near/a")
    assert true_place(names, "", "data/wh2/a") == (LOCAL_ELSEWHERE, "data/wh2/a")
    assert true_place(names, "b", "far/a") == ("b", "far/a")
    assert Location(LOCAL_ELSEWHERE, "data/wh2/a").uri == "file:/data/wh2/a"
