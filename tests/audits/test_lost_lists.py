"""Tables whose manifests are lists: a newest list that is lost, and manifests that lie in the table's own folder."""

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, leftover_status, results_of
from tests.builders.delta_lake import BORN, add
from tests.builders.iceberg import NO_WAIT
from tests.conftest import Aws

pytestmark = pytest.mark.variant


class Lists:
    """Tables below `wh/` of one bucket, by the names of their kinds' cases."""

    def __init__(self, aws: Aws, bucket: str) -> None:
        self.s3, self.bucket = aws.s3, bucket

    def put(self, key: str, content: bytes | str) -> None:
        body = content.encode() if isinstance(content, str) else content
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def data(self, key: str) -> str:
        self.put(key, b"x" * 100)
        return f"s3://{self.bucket}/{key}"

    def batch(self, table: str, number: int) -> None:
        path = self.data(f"wh/{table}/part-{number}.bin")
        entry = {"path": path, "size": 100, "modificationTime": int(time.time() * 1000), "action": "add"}
        self.put(f"wh/{table}/_spark_metadata/{number}", f"v1\n{json.dumps(entry)}")

    def list(self, table: str, number: int) -> None:
        path = self.data(f"wh/{table}/{number}.bin")
        rows = [
            {"path": path, "size": 100},
            {"end": True, "lines": 1},
        ]
        self.put(f"lists/{table}/{number}.jsonl", "\n".join(map(json.dumps, rows)))

    def unload(self, table: str, number: int) -> None:
        url = self.data(f"wh/{table}/u{number}.bin")
        entry = {"url": url, "meta": {"content_length": 100}}
        self.put(f"wh/{table}/u{number}_manifest", json.dumps({"entries": [entry]}))

    def mark(self, table: str, number: int) -> None:
        self.data(f"wh/{table}/d=1/p{number}.bin")
        self.put(
            f"wh/{table}/d=1/_committed_{number}", json.dumps({"added": [f"p{number}.bin"], "removed": []})
        )

    def lake(self, folder: Path, s3: Endpoint, tables: dict[str, str]) -> Lake:
        entries = "".join(
            f"- {{name: {name}, location: 's3://{self.bucket}/wh/{name}', manifests: [{{{kind}}}]}}\n"
            for name, kind in tables.items()
        )
        path = folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
            f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{self.bucket}/'}}]\n"
            f"tables:\n{entries}defaults: {{{NO_WAIT}}}\n"
        )
        return load_lake(path, {})


def findings_of(lake: Lake, run_id: str) -> dict[str, list[tuple[str, str]]]:
    rows: dict[str, list[tuple[str, str]]] = {}
    for row in rows_of(results_of(lake).findings(run_id)):
        rows.setdefault(row["table_name"], []).append((row["kind"], (row["key"] or "").rpartition("/")[2]))
    return {name: sorted(each) for name, each in rows.items()}


def rule(name: str, prefix: str) -> dict[str, Any]:
    return {"ID": name, "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": 30}}


@dataclass(frozen=True)
class Audited:
    """A lake whose newest lists were lost after its first audit."""

    lake: Lake
    tables: dict[str, str]


@pytest.fixture(scope="module")
def audit(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    lists = Lists(aws, bucket)
    tables = write_tables(lists) | write_expiring_tables(lists)
    lake = lists.lake(tmp_path_factory.mktemp("lists"), s3, tables)
    audited(lake, run_id="first")
    time.sleep(1.1)
    lost = [
        "wh/sink_lost/_spark_metadata/1",
        "lists/list_lost/1.jsonl",
        "wh/unload_lost/u1_manifest",
        "wh/dbx_lost/d=1/_committed_1",
        "wh/gone/_spark_metadata/0",
    ]
    for key in lost:
        aws.s3.delete_object(Bucket=bucket, Key=key)
    audited(lake, run_id="second")
    return Audited(lake, tables)


def write_tables(lists: Lists) -> dict[str, str]:
    """Tables of each kind of list, of two lists each; `gone` has one list. Returns their manifests by table."""
    at = f"location: 's3://{lists.bucket}/wh/{{0}}', complete: true"
    writers = {"sink": lists.batch, "list": lists.list, "unload": lists.unload, "dbx": lists.mark}
    kinds = {
        "sink": "kind: spark_sink",
        "list": f"kind: file_list, location: 's3://{lists.bucket}/lists/{{0}}/', complete: true",
        "unload": f"kind: redshift_unload, {at}",
        "dbx": "kind: databricks_commits, complete: true",
    }
    tables = {
        f"{kind}_{end}": text.format(f"{kind}_{end}")
        for kind, text in kinds.items()
        for end in ("lost", "ok")
    }
    for name in tables:
        for number in (0, 1):
            writers[name.partition("_")[0]](name, number)
    lists.batch("gone", 0)
    return tables | {"gone": kinds["sink"]}


def write_expiring_tables(lists: Lists) -> dict[str, str]:
    """Lifecycle rules for the log of one table, and for a file of `far` outside its folder."""
    log = "\n".join(map(json.dumps, [*BORN, add("own.bin")]))
    lists.put(f"wh/list_ok/_delta_log/{0:020}.json", log)
    lists.data("outside/z.bin")
    far = add("z.bin") | {"add": add("z.bin")["add"] | {"path": f"s3://{lists.bucket}/outside/z.bin"}}
    lists.put(f"wh/far/_delta_log/{0:020}.json", "\n".join(map(json.dumps, [*BORN, far])))
    rules: Any = {
        "Rules": [rule("out", "outside/"), rule("log", "wh/sink_ok/_spark_metadata/"), rule("tmp", "tmp/")]
    }
    lists.s3.put_bucket_lifecycle_configuration(Bucket=lists.bucket, LifecycleConfiguration=rules)
    return {"far": "kind: delta"}


def test_lists_that_a_lifecycle_rule_will_delete_are_reported(audit: Audited) -> None:
    expected = {"far": [("will_expire", "")], "sink_ok": [("will_expire", "")]}
    assert findings_of(audit.lake, "first") == expected


@pytest.mark.parametrize("run", ["second", pytest.param("third", marks=pytest.mark.soak)])
def test_a_newest_list_that_is_lost_leaves_no_file_unused(audit: Audited, run: str) -> None:
    if run == "third":
        audited(audit.lake, run_id=run)
    assert findings_of(audit.lake, run) == {
        "sink_lost": [("missing_metadata", "1")],
        "list_lost": [("missing_metadata", "1.jsonl")],
        "unload_lost": [("missing_metadata", "u1_manifest")],
        "gone": [("table_missing", "0")],
        "far": [("will_expire", "")],
        "sink_ok": [("will_expire", "")],
    }
    assert leftover_status(audit.lake, run) == {
        name: "partial" if name.endswith("lost") or name == "gone" else "complete" for name in audit.tables
    }
