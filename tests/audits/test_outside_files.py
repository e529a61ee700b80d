"""Whole live audits of tables with files outside the listed prefixes: a shallow clone, a list of files."""

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Action, add, remove
from tests.builders.refusals import Refusals, refusing
from tests.conftest import Aws

pytestmark = pytest.mark.variant

BODY = b"x" * 100
GONE = "orders/day=2/c.parquet"


class Place:
    """A bucket with a shallow clone, a table of a list and a plain table, and another one with most of their files."""

    def __init__(self, aws: Aws, endpoint: Endpoint, folder: Path) -> None:
        self.s3, self.endpoint, self.folder = aws.s3, endpoint, folder
        self.bucket, self.other = (f"test-{uuid.uuid4().hex[:12]}" for _ in range(2))
        for bucket in (self.bucket, self.other):
            self.s3.create_bucket(Bucket=bucket)
        here = f"s3://{self.other}"
        orders = [f"{here}/orders/day=1/a.parquet", f"{here}/orders/day=1/b.parquet", f"{here}/{GONE}"]
        old = f"{here}/orders/day=1/old.parquet"
        self.log("clone", [*map(add, [*orders, old, "own.parquet"])], [remove(old)])
        self.log("plain", [add("d.parquet")])
        paths = [f"{here}/exports/e.parquet", f"{here}/exports/f.parquet"]
        lines = [json.dumps({"path": path, "size": 100}) for path in paths]
        ended = json.dumps({"end": True, "lines": len(lines)})
        self.s3.put_object(Bucket=self.bucket, Key="lists/1.jsonl", Body="\n".join([*lines, ended]).encode())
        keys = ("orders/day=1/a.parquet", "orders/day=1/b.parquet", "orders/day=1/old.parquet")
        for key in (*keys, "exports/e.parquet", "exports/f.parquet"):
            self.s3.put_object(Bucket=self.other, Key=key, Body=BODY)

    def log(self, table: str, *commits: Iterable[Action]) -> None:
        for version, actions in enumerate(commits):
            body = "\n".join(map(json.dumps, [*(BORN if version == 0 else ()), *actions]))
            self.s3.put_object(
                Bucket=self.bucket, Key=f"wh/{table}/_delta_log/{version:020}.json", Body=body.encode()
            )
            for name in (action["add"]["path"] for action in actions if "add" in action):
                if "://" not in name:
                    self.s3.put_object(Bucket=self.bucket, Key=f"wh/{table}/{name}", Body=BODY)

    def lake(self, confirm: str = "{}") -> Lake:
        manifests = dict.fromkeys(("clone", "plain"), "{kind: delta}")
        manifests["listed"] = f"{{kind: file_list, location: 's3://{self.bucket}/lists/', complete: true}}"
        tables = "\n".join(
            f"- {{name: {name}, location: 's3://{self.bucket}/wh/{name}', manifests: [{manifest}]}}"
            for name, manifest in manifests.items()
        )
        path = self.folder / f"lake-{uuid.uuid4().hex[:6]}.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {self.folder / path.stem}\n"
            f"s3: {{endpoint: '{self.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{self.bucket}/wh/'}}]\n"
            f"tables:\n{tables}\ndefaults: {{grace: 0s, confirm: {confirm}}}\n"
        )
        return load_lake(path, {})


@pytest.fixture(scope="module")
def place(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(aws, s3, tmp_path_factory.mktemp("outside"))


def coverage_rows(lake: Lake, outcome: Outcome, axis: str = "content") -> dict[str, dict[str, Any]]:
    rows = results_of(lake).coverage(outcome.run_id)
    return {row["table_name"]: row for row in rows if row["axis"] == axis}


@pytest.fixture(scope="module")
def live_audit(place: Place) -> tuple[Lake, Outcome]:
    lake = place.lake()
    return lake, audited(lake, live=True)


def test_a_live_audit_looks_at_listed_files_that_lie_elsewhere(
    place: Place, live_audit: tuple[Lake, Outcome]
) -> None:
    lake, outcome = live_audit
    content = coverage_rows(lake, outcome)
    judged = {name: (row["consistent"], row["findings"], row["uncovered"]) for name, row in content.items()}
    assert judged == {"clone": (4, 1, 0), "listed": (2, 0, 0), "plain": (1, 0, 0)}
    assert {row["status"] for row in content.values()} == {"complete"}
    assert content["clone"]["reason"] == "4 files were outside the covered places and checked live"
    (found,) = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    assert (found["kind"], found["table_name"], found["bucket"], found["key"], found["confirmation"]) == (
        "dropped", "clone", place.other, GONE, "live",
    )  # fmt: skip
    assert (outcome.status, outcome.exit_code) == ("complete", 0)


def test_equal_contents_among_them_are_not_claimed_to_be_judged(live_audit: tuple[Lake, Outcome]) -> None:
    rows = coverage_rows(*live_audit, "duplicate")
    assert (rows["listed"]["status"], rows["plain"]["status"]) == ("partial", "complete")
    assert rows["listed"]["reason"] == (
        "2 files were not compared with other files for equal content: they are outside the listed places"
    )


def test_what_is_beyond_the_limit_is_named_with_its_place(place: Place) -> None:
    lake = place.lake("{fresh: 1}")
    outcome = audited(lake, live=True, tables=("clone",))
    row = coverage_rows(lake, outcome)["clone"]
    assert (row["status"], row["uncovered"], outcome.exit_code) == ("partial", 3, 3)
    assert row["reason"] == (
        f"3 listed files are outside all storage sources: 3 below s3://{place.other}/orders;"
        f" to cover them, add to inventories: [{{kind: listing, location: 's3://{place.other}/orders'}}]"
        " (an audit without --live reads them);"
        " a live audit checks them one by one with a larger confirm.fresh"
    )


def test_refused_lookups_do_not_prove_absence_and_are_reported(place: Place) -> None:
    lake = place.lake()
    with refusing(Refusals(lambda request: f"{place.other}/orders/" in request, first=0)) as refusals:
        outcome = audited(lake, live=True)
    assert refusals.refused
    row = coverage_rows(lake, outcome)["clone"]
    assert (row["findings"], row["uncovered"], outcome.exit_code) == (0, 4, 3)
    assert f"4 below s3://{place.other}/orders (storage refused 4 requests)" in row["reason"]
    assert "grant s3:GetObject and s3:ListBucket there" in row["reason"]
    assert coverage_rows(lake, outcome)["listed"]["status"] == "complete"


def test_an_audit_of_the_inventories_names_the_line_that_covers_them(place: Place) -> None:
    lake = place.lake()
    outcome = audited(lake)
    row = coverage_rows(lake, outcome)["listed"]
    assert (row["status"], row["uncovered"], outcome.exit_code) == ("partial", 2, 3)
    assert row["reason"].endswith(
        f"to cover them, add to inventories: [{{kind: listing, location: 's3://{place.other}/exports'}}]"
    )
