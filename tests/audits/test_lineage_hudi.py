"""Whole audits of Hudi tables that lost a write or their timeline, and of healthy ones that look alike.

Copies of tables that Hudi wrote, of both layouts, are audited as they were, after each met its fate, and once more.
"""

import io
import itertools
import json
import os
import random
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.config import Lake
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, includes_soak, results_of
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.hudi import commit, lake_of, stat, unpacked, write_timeline
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

LATER = "20261123200000000"
STILL_LATER = "20261123210000000"


@dataclass
class Table:
    """A table of one layout whose newest instant is a write."""

    home: Path
    layout: int

    @property
    def timeline(self) -> Path:
        return self.home / ".hoodie" / ("" if self.layout == 1 else "timeline")

    @property
    def index(self) -> Path:
        """The timeline of its metadata table."""
        return self.home / ".hoodie" / "metadata" / ".hoodie" / ("" if self.layout == 1 else "timeline")

    @property
    def newest(self) -> str:
        return max(path.name for path in self.timeline.glob("2*commit"))[:17]

    def completed(self, begin: str, action: str = "commit") -> str:
        return f"{begin}.{action}" if self.layout == 1 else f"{begin}_{begin[:-1]}9.{action}"

    def put(self, name: str, content: str = "", *, folder: Path | None = None) -> None:
        (folder or self.timeline).joinpath(name).write_text(content)

    def lose(self, pattern: str) -> None:
        for path in self.timeline.glob(pattern):
            path.unlink()

    def copy_files(self, instant: str, number: int) -> None:
        """Files that bear an instant, as whole as the others."""
        for path in sorted(self.home.rglob(f"*_{self.newest}.parquet"))[:1]:
            for each in range(number):
                path.with_name(
                    f"{each}-of-{path.name[:20].partition('_')[0]}_0-1-{each}_{instant}.parquet"
                ).write_bytes(path.read_bytes())

    def lose_files_of(self, instant: str) -> None:
        for path in self.home.rglob(f"*_{instant}.parquet"):
            path.unlink()


def newest_write_gone(table: Table) -> None:
    table.lose(f"{table.newest}*")


def only_the_completed_file_gone(table: Table) -> None:
    table.lose(f"{table.newest}*commit")


def gone_in_the_middle(table: Table) -> None:
    """The newest write is lost, and another writer goes on."""
    newest_write_gone(table)
    table.put(table.completed(LATER), commit())


def timeline_emptied(table: Table) -> None:
    table.lose("2*")


def properties_gone(table: Table) -> None:
    (table.home / ".hoodie" / "hoodie.properties").unlink()


def properties_empty(table: Table) -> None:
    (table.home / ".hoodie" / "hoodie.properties").write_bytes(b"")


def hoodie_gone(table: Table) -> None:
    shutil.rmtree(table.home / ".hoodie")


def index_ahead(table: Table) -> None:
    """Another write was lost since, and only the metadata table has it."""
    table.put(table.completed(LATER, "deltacommit"), "{}", folder=table.index)


def files_of_an_unknown_write(table: Table) -> None:
    """A write came and went since, and left its files."""
    table.copy_files(LATER, 2)


def one_file_of_an_unknown_write(table: Table) -> None:
    table.copy_files(LATER, 1)


def files_of_a_failed_write(table: Table) -> None:
    table.put(f"{LATER}.commit.requested")
    table.put(f"{LATER}.inflight")
    table.copy_files(LATER, 2)


def files_that_a_rollback_left(table: Table) -> None:
    table.put(table.completed(STILL_LATER, "rollback"), _rollback(LATER))
    table.copy_files(LATER, 2)


def files_older_than_the_timeline(table: Table) -> None:
    table.copy_files("20250101000000000", 2)


def files_of_another_attempt(table: Table) -> None:
    """They bear the newest instant, and its commit does not list them."""
    table.copy_files(table.newest, 2)


def base_file_of_the_index_gone(table: Table) -> None:
    for path in table.home.glob(".hoodie/metadata/files/*.hfile"):
        path.unlink()


def log_file_of_the_index_gone(table: Table) -> None:
    max(table.home.glob(".hoodie/metadata/files/.files*log*"), key=lambda path: path.stat().st_size).unlink()


def log_file_of_the_index_cut_off(table: Table) -> None:
    path = max(table.home.glob(".hoodie/metadata/files/.files*log*"), key=lambda path: path.stat().st_size)
    at = path.stat().st_mtime
    path.write_bytes(path.read_bytes()[:100])
    os.utime(path, (at, at))


def instant_of_the_index_torn(table: Table) -> None:
    max(table.index.glob("2*deltacommit")).write_bytes(b"Obj")


def index_compacted(table: Table) -> None:
    """Its compaction and its clean bear more digits than a write in layout 1."""
    folder = table.home / ".hoodie" / "metadata" / "files"
    old = [path for path in folder.iterdir() if "files-0000-0" in path.name]
    begins = ("001", "002") if table.layout == 1 else ("", "")
    compaction, clean = (f"{LATER[:-1]}{n}{end}" for n, end in enumerate(begins))
    base = folder / f"files-0000-0_7-7-7_{compaction}.hfile"
    base.write_bytes(next(path for path in old if path.suffix == ".hfile").read_bytes())
    written = stat(f"files/{base.name}", base.stat().st_size, 3)
    table.put(table.completed(compaction), commit(written), folder=table.index)
    names = [path.name for path in old]
    cleaned = {"partitionPath": "files", "successDeleteFiles": names, "failedDeleteFiles": []}
    table.put(
        table.completed(clean, "clean"),
        json.dumps({"partitionMetadata": {"files": cleaned}}),
        folder=table.index,
    )
    for path in old:
        path.unlink()


def index_compacted_and_gone(table: Table) -> None:
    index_compacted(table)
    base_file_of_the_index_gone(table)


def index_gone(table: Table) -> None:
    """Its readers list the folders then."""
    shutil.rmtree(table.home / ".hoodie" / "metadata")


def index_without_a_clean(table: Table) -> None:
    """The files that an unreadable instant removed are unknown."""
    table.put(table.completed(LATER, "clean"), "{}", folder=table.index)
    log_file_of_the_index_gone(table)


def untouched(table: Table) -> None:
    pass


def written_on(table: Table) -> None:
    table.put(table.completed(LATER), commit())


def under_way(table: Table) -> None:
    """A write that failed, or runs, after the metadata table has it."""
    table.put(f"{LATER}.commit.requested")
    table.put(f"{LATER}.inflight")
    table.put(table.completed(LATER, "deltacommit"), "{}", folder=table.index)


def rolled_back(table: Table) -> None:
    newest = table.newest
    newest_write_gone(table)
    table.lose_files_of(newest)
    table.put(table.completed(LATER, "rollback"), _rollback(newest))


def rollback_planned(table: Table) -> None:
    newest = table.newest
    only_the_completed_file_gone(table)
    table.lose_files_of(newest)
    plan = {"instantToRollback": {"commitTime": newest, "action": "commit"}, "RollbackRequests": []}
    table.put(f"{LATER}.rollback.requested", json.dumps(plan))


def restored(table: Table) -> None:
    newest = table.newest
    newest_write_gone(table)
    table.lose_files_of(newest)
    undone = {"instantsToRollback": [newest], "hoodieRestoreMetadata": {newest: []}}
    table.put(table.completed(LATER, "restore"), json.dumps(undone))


def rolled_back_with_its_index(table: Table) -> None:
    """The metadata table still has a write that was taken back."""
    table.put(table.completed(LATER, "deltacommit"), "{}", folder=table.index)
    table.put(table.completed(STILL_LATER, "rollback"), _rollback(LATER))


def created_again(table: Table) -> None:
    shutil.rmtree(table.home)
    write_timeline(table.home, {table.completed(LATER): commit()}, layout=table.layout)


def created_again_without_a_write(table: Table) -> None:
    shutil.rmtree(table.home)
    write_timeline(table.home, {}, layout=table.layout)


def archived(table: Table) -> None:
    """The newest write, and all before it, move to the archive."""
    newest = table.newest
    for path in (table.timeline / "history").glob("*"):
        path.unlink()
    rows = [
        {"instantTime": path.name[:17], "completionTime": path.name[18:35], "action": path.suffix[1:],
         "metadata": path.read_bytes()}
        for path in sorted(table.timeline.glob("2*_*"))
    ]  # fmt: skip
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), written)
    history = table.timeline / "history"
    history.mkdir(exist_ok=True)
    name = f"{rows[0]['instantTime']}_{newest}_0.parquet"
    history.joinpath(name).write_bytes(written.getvalue())
    history.joinpath("manifest_1").write_text(json.dumps({"files": [{"fileName": name, "fileLen": 1}]}))
    history.joinpath("_version_").write_text("1")
    table.lose("2*")
    table.put(table.completed(LATER), commit())


def _rollback(instant: str) -> str:
    return json.dumps({"commitsRollback": [instant], "partitionMetadata": {}})


LOST, MISSING = [("missing_metadata", "critical")], [("table_missing", "critical")]
BROKEN = [("missing_metadata", "error")]
UNUSED, READ = [("uncommitted", "warning")], [("stale_visible", "warning")]
Fate = Callable[[Table], None]
FATES: dict[Fate, list[tuple[str, str]]] = {
    newest_write_gone: LOST,
    only_the_completed_file_gone: LOST,
    gone_in_the_middle: LOST,
    timeline_emptied: LOST,
    index_ahead: LOST,
    files_of_an_unknown_write: LOST,
    base_file_of_the_index_gone: BROKEN,
    log_file_of_the_index_gone: BROKEN,
    log_file_of_the_index_cut_off: [("size_mismatch", "error")],
    instant_of_the_index_torn: BROKEN,
    index_compacted: [],
    index_compacted_and_gone: BROKEN,
    index_gone: [],
    index_without_a_clean: [],
    properties_gone: MISSING,
    properties_empty: MISSING,
    hoodie_gone: MISSING,
    untouched: [],
    written_on: [],
    under_way: [],
    one_file_of_an_unknown_write: [],
    files_of_a_failed_write: UNUSED,
    files_that_a_rollback_left: UNUSED,
    files_older_than_the_timeline: [("unreadable_evidence", "warning")],
    files_of_another_attempt: READ,
    rolled_back: [],
    rollback_planned: [],
    restored: [],
    rolled_back_with_its_index: [],
    created_again: [],
    created_again_without_a_write: [],
    archived: [],
}
"""Changes of a table, and the findings above info."""
LOSING = (newest_write_gone, only_the_completed_file_gone, gone_in_the_middle, index_ahead)
WITH_INDEX = (
    *(index_ahead, under_way, rolled_back_with_its_index, base_file_of_the_index_gone),
    *(log_file_of_the_index_gone, log_file_of_the_index_cut_off, instant_of_the_index_torn),
    *(index_gone, index_without_a_clean, index_compacted, index_compacted_and_gone),
)
CASES = [(fate, layout) for fate in FATES for layout in (1, 2) if (fate, layout) != (archived, 1)]
IN_BOTH = {
    *(*LOSING, files_of_an_unknown_write, written_on, files_of_another_attempt, files_of_a_failed_write),
    *(files_older_than_the_timeline, files_that_a_rollback_left, timeline_emptied, restored, index_compacted),
    *(base_file_of_the_index_gone, properties_gone, untouched, rolled_back, created_again),
}
FEW = [
    (fate, layout)
    for number, fate in enumerate(FATES)
    for layout in (1, 2)
    if fate in IN_BOTH or layout == (2 if fate is archived else 1 + number % 2)
]
"""Both layouts where a rule reads the layout; else one, in turn, and the other one in the long tests."""
AUDITED_ONCE_MORE = {
    *(
        newest_write_gone,
        gone_in_the_middle,
        index_ahead,
        files_of_an_unknown_write,
        base_file_of_the_index_gone,
    ),
    *(log_file_of_the_index_cut_off, hoodie_gone, written_on, files_of_a_failed_write, created_again),
    *(files_older_than_the_timeline, files_of_another_attempt, restored),
}
"""Fates of the third audit: at least one of each kind of finding. The long tests have the others as well."""


def _name(fate: Fate, layout: int) -> str:
    return f"{fate.__name__}_{layout}"


MARKED = ("written", "rolled_back", "in_seconds", "created_again")
"""Tables in a bucket that keeps versions; a delete marker hides the newest write of each."""


def lay_marked(shop: Shop, folder: Path) -> None:
    """The write of `rolled_back` was taken back before; the instants of `in_seconds` have no milliseconds.

    `created_again` was dropped, and the writer of the new table has a clock behind that of the old one.
    """
    put, bucket = shop.s3.put_object, shop.bucket
    shop.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    home = unpacked(folder, 1, ["written", "rolled_back"])
    write_timeline(
        home / "in_seconds", {"20261101100000.commit": commit(), "20261102100000.commit": commit()}
    )
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        put(Bucket=bucket, Key=f"warehouse/{path.relative_to(home)}", Body=path.read_bytes())
    lost = max((home / "written" / ".hoodie").glob("2*.commit"))
    taken_back = "warehouse/rolled_back/.hoodie/20261123154137612.commit"
    put(Bucket=bucket, Key=taken_back, Body=lost.read_bytes())
    old = "warehouse/in_seconds/.hoodie/20261102100000.commit"
    for key in (f"warehouse/written/.hoodie/{lost.name}", taken_back, old):
        shop.s3.delete_object(Bucket=bucket, Key=key)
    again = HudiHistory(shop, "created_again", random.Random(1), itertools.count(1), age=timedelta(hours=2))
    for act in (again.begin, again.insert, again.create_again):
        act()
    shop.take_inventory(all_versions=True)


def lake_with_marked(shop: Shop, folder: Path, names: Sequence[str]) -> Lake:
    """A lake file of the tables in the local folder and of those in the bucket."""
    place, endpoint = f"s3://{shop.bucket}", shop.endpoint.endpoint
    return lake_of(
        folder,
        names,
        tables=[
            f"{{name: {name}, location: '{place}/warehouse/{name}', manifests: [{{kind: hudi}}]}}"
            for name in MARKED
        ],
        inventories=[f"{{kind: s3_inventory, location: '{place}/inventories/', margin: 0s}}"],
        extra=f"s3: {{endpoint: '{endpoint}', region: us-east-1, path_style: true}}\n",
    )


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Results:
    """Results of three audits; the tables of `MARKED` are only in the second one."""
    folder, cases = tmp_path_factory.mktemp("lineage"), CASES if includes_soak(request) else FEW
    shop = Shop(aws.s3, s3, f"test-{uuid.uuid4().hex[:12]}")
    aws.s3.create_bucket(Bucket=shop.bucket)
    lay_marked(shop, folder / "marked")
    tables = [(fate, Table(folder / "wh" / _name(fate, layout), layout)) for fate, layout in cases]
    for layout in (1, 2):
        source = unpacked(folder / f"of_{layout}", layout, ["cleaned", "restored"])
        for fate, table in tables:
            if table.layout == layout:
                shutil.copytree(source / ("restored" if fate in WITH_INDEX else "cleaned"), table.home)
    names = [table.home.name for _, table in tables]
    assert audited(lake_of(folder, names), run_id="before").summary["findings"] == {}
    for fate, table in tables:
        fate(table)
    audited(lake_with_marked(shop, folder, names), run_id="after")
    lake = lake_of(folder, names)
    more = [table.home.name for fate, table in tables if includes_soak(request) or fate in AUDITED_ONCE_MORE]
    audited(lake, run_id="last", tables=tuple(more))
    return results_of(lake)


def _of(results: Results, run: str, table: str) -> list[dict[str, Any]]:
    rows = rows_of(results.findings(run))
    return [row for row in rows if row["table_name"] == table and row["severity"] != "info"]


@pytest.mark.parametrize(
    ("fate", "layout"),
    [pytest.param(*case, marks=() if case in FEW else pytest.mark.soak) for case in CASES],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_only_a_lost_write_is_a_finding_until_it_is_restored(
    request: pytest.FixtureRequest, results: Results, fate: Fate, layout: int
) -> None:
    for run in ("after", "last") if includes_soak(request) or fate in AUDITED_ONCE_MORE else ("after",):
        rows = _of(results, run, _name(fate, layout))
        assert [(row["kind"], row["severity"]) for row in rows] == FATES[fate], [
            row["explanation"] for row in rows
        ]


@pytest.mark.parametrize("layout", [1, 2])
def test_no_file_is_called_unused_while_a_write_is_lost(results: Results, layout: int) -> None:
    rows = [row for row in results.coverage("after") if row["axis"] == "leftover"]
    status = {row["table_name"]: row["status"] for row in rows}
    for fate in (*LOSING, files_of_an_unknown_write):
        assert status[_name(fate, layout)] == "partial"
    assert status[_name(written_on, layout)] == "complete"


@pytest.mark.parametrize("layout", [1, 2])
def test_a_write_that_the_next_writer_would_roll_back_says_so(results: Results, layout: int) -> None:
    (half,) = _of(results, "after", _name(only_the_completed_file_gone, layout))
    (whole,) = _of(results, "after", _name(newest_write_gone, layout))
    assert "the next writer will roll the write back" in half["explanation"]
    assert "roll the write back" not in whole["explanation"]
    assert half["key"].endswith("commit")


def test_a_write_that_a_delete_marker_hides_is_lost_unless_it_was_taken_back(results: Results) -> None:
    rows = [row for name in MARKED for row in _of(results, "after", name)]
    assert sorted((row["table_name"], row["kind"], row["severity"]) for row in rows) == [
        ("in_seconds", "missing_metadata", "critical"),
        ("written", "missing_metadata", "critical"),
    ], [row["explanation"] for row in rows]
    (row,) = (row for row in rows if row["table_name"] == "written")
    assert (row["recoverable"], row["files"] > 0, row["rows_at_stake"] > 0) == ("yes", True, True)
    assert "only version 2026" in row["explanation"]


@pytest.mark.parametrize("layout", [1, 2])
def test_a_write_that_only_its_files_name_is_shown_with_them(results: Results, layout: int) -> None:
    (row,) = _of(results, "after", _name(files_of_an_unknown_write, layout))
    assert (row["files"], row["bytes_at_stake"] > 0, row["table_version"]) == (2, True, int(LATER))
    assert "2 data files have the instant" in row["explanation"]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize(
    ("fate", "storage_only"),
    [
        (files_of_another_attempt, False),
        (files_older_than_the_timeline, False),
        (files_of_a_failed_write, True),
        (files_that_a_rollback_left, True),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_files_that_readers_find_by_listing_cost_more_than_storage(
    results: Results, layout: int, fate: Fate, storage_only: bool
) -> None:
    (row,) = _of(results, "after", _name(fate, layout))
    assert ("only costs storage" in row["explanation"]) == storage_only
