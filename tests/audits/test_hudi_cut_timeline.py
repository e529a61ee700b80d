"""Hudi tables whose oldest instants are gone without an archive: their files may be live, whatever is known since."""

import itertools
import json
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import age_all
from tests.builders.healthy_hudi import FOLDER, HudiHistory
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


def removed(table: HudiHistory) -> None:
    """A lifecycle rule removes what is oldest; every instant wrote file groups of its own."""
    for _ in range(4):
        table.insert()
    rows = table.rows()
    _expire(table, sorted(table.instants)[:3])
    assert table.rows() == rows


def removed_of_many(table: HudiHistory) -> None:
    for _ in range(24):
        table.insert()
    _expire(table, sorted(table.instants)[:3])


def removed_with_their_archive(table: HudiHistory) -> None:
    """Only the younger half of the archive is left."""
    for _ in range(3):
        table.insert()
    table.archive()
    table.insert()
    table.insert()
    table.archive()
    history = f"{table.timeline}/history"
    *_, newest = table._listed(f"{history}/manifest_")
    first, *rest = json.loads(table._read(newest))["files"]
    table.remove(f"{history}/{first['fileName']}")
    table.put(newest, json.dumps({"files": rest}))


def young(table: HudiHistory) -> None:
    table.upsert()


def failed_at_first(table: HudiHistory) -> None:
    """The files of a write that was rolled back are gone, and a clean took the older slices."""
    table.fail()
    table.upsert()
    table.clean()


def archived(table: HudiHistory) -> None:
    for _ in range(4):
        table.insert()
    table.archive()


def saved(table: HudiHistory) -> None:
    """A savepoint keeps the first write in the timeline, and those after it are archived."""
    (first,) = table.instants
    (kept,) = table.slices
    files = {"partitionPath": FOLDER, "savepointDataFile": [kept.name]}
    content = {
        "savepointedBy": "tests",
        "savepointedAt": 1,
        "comments": "",
        "partitionMetadata": {FOLDER: files},
    }
    done = first if table.layout == 1 else f"{first}_{int(first) + 2}"
    table.put(f"{table.timeline}/{done}.savepoint", json.dumps(content))
    for _ in range(4):
        table.insert()
    own = table.instants.pop(first)
    table.archive()
    table.instants[first] = own


def _expire(table: HudiHistory, instants: list[str]) -> None:
    for instant in instants:
        for key in table._listed(f"{table.timeline}/{instant}"):
            table.remove(key)


CUT: dict[str, tuple[Callable[[HudiHistory], None], tuple[int, ...]]] = {
    "removed": (removed, (1, 2)),
    "removed_of_many": (removed_of_many, (1,)),
    "removed_with_their_archive": (removed_with_their_archive, (2,)),
}
HEALTHY: dict[str, tuple[Callable[[HudiHistory], None], tuple[int, ...]]] = {
    "young": (young, (1, 2)),
    "failed_at_first": (failed_at_first, (1, 2)),
    "archived": (archived, (2,)),
    "saved": (saved, (2,)),
}
NAMES = {
    f"{name}_{layout}": (name, layout) for name, (_, layouts) in (CUT | HEALTHY).items() for layout in layouts
}


@pytest.fixture(scope="module")
def results(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Results:
    bucket = "hudi-cut-timelines"
    aws.s3.create_bucket(Bucket=bucket)
    shop, numbers = Shop(aws.s3, s3, bucket), itertools.count(1)
    tables = []
    for called, (name, layout) in NAMES.items():
        table = HudiHistory(shop, called, random.Random(1), numbers, layout, timedelta(days=5))
        table.begin()
        (CUT | HEALTHY)[name][0](table)
        tables.append(f"- {table.entry}")
    age_all(bucket, timedelta(days=5))
    listing = f"[{{kind: listing, location: 's3://{bucket}/'}}]"
    lake = shop.lake(tmp_path_factory.mktemp("cut"), tables=tables, inventories=listing, defaults="grace: 1h")
    audited(lake, live=True, run_id="one")
    return results_of(lake)


@pytest.mark.parametrize("called", NAMES)
def test_files_older_than_the_known_timeline_are_not_judged(results: Results, called: str) -> None:
    found = [row for row in rows_of(results.findings("one")) if row["table_name"] == called]
    status = {row["axis"]: row["status"] for row in results.coverage("one") if row["table_name"] == called}
    if NAMES[called][0] in HEALTHY:
        assert ([row["explanation"] for row in found], status["content"], status["leftover"]) == (
            [],
            "complete",
            "complete",
        )
        return
    assert [(row["kind"], row["severity"]) for row in found] == [("unreadable_evidence", "warning")]
    assert "these may be live files of removed instants" in found[0]["explanation"]
    assert (status["content"], status["leftover"]) == ("partial", "partial")
