"""A whole audit of Hudi tables whose timelines contradict themselves, and of healthy ones that look alike."""

import io
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import age_all, backdate
from tests.builders.healthy_hudi import FOLDER, HudiHistory, Slice
from tests.builders.hudi import commit, stat
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAY = timedelta(days=1)
CHANGED, IDLE = [("rows_changed_by_rewrite", "error")], [("ineffective_removal", "warning")]
OVERWRITTEN = [("overwritten_commit", "critical")]


def put_slice(table: HudiHistory, begin: str, rows: Sequence[int], group: str = "") -> Slice:
    """A base file of these rows, by default of a new file group."""
    out = io.BytesIO()
    pq.write_table(pa.table({"amount": pa.array(rows, pa.int64())}), out)
    group = group or f"g{next(table.numbers)}"
    name = f"{group}_0-1-2_{begin}.parquet"
    table.put(f"{table.home}/{FOLDER}/{name}", out.getvalue())
    return Slice(group, begin, name, len(out.getvalue()), tuple(rows))


def stat_of(each: Slice, **more: object) -> dict[str, object]:
    return {**stat(f"{FOLDER}/{each.name}", each.size, len(each.rows), fileId=each.group), **more}


def replacement(
    table: HudiHistory,
    operation: str,
    written: Sequence[Mapping[str, object]],
    replaced: Mapping[str, Sequence[str]],
    begin: str,
) -> None:
    """Complete a replacecommit."""
    content = commit(*written, replaced=replaced).replace('"UPSERT"', f'"{operation}"')
    table.finish(begin, "replacecommit", content)
    table.replaced |= {group for groups in replaced.values() for group in groups}


def cluster(table: HudiHistory, *, lost: int = 0, doubled: int = 0, **more: object) -> None:
    """All file groups become one of their rows, less and more than these."""
    before = table.newest
    rows = [row for each in before.values() for row in each.rows]
    begin = table.start("replacecommit" if table.layout == 1 else "clustering")
    each = put_slice(table, begin, [*rows[lost:], *rows[:doubled]])
    table.slices.append(each)
    replacement(table, "CLUSTER", [stat_of(each, **more)], {FOLDER: sorted(before)}, begin)


def loses_rows(table: HudiHistory) -> None:
    table.insert()
    cluster(table, lost=1)


def duplicate_rows(table: HudiHistory) -> None:
    cluster(table, doubled=2)


def loses_updated_rows(table: HudiHistory) -> None:
    table.upsert()
    table.upsert()
    cluster(table, lost=3)


def loses_archived_rows(table: HudiHistory) -> None:
    table.insert()
    table.insert()
    table.archive()
    cluster(table, lost=1)


def loses_all_rows(table: HudiHistory) -> None:
    begin = table.start("replacecommit")
    replacement(table, "CLUSTER", [], {FOLDER: sorted(table.newest)}, begin)


def clustered(table: HudiHistory) -> None:
    table.insert()
    table.upsert()
    cluster(table)
    table.upsert()
    cluster(table)
    table.clean()


def clustered_with_deleted_rows(table: HudiHistory) -> None:
    """Rows that bear a mark are left out, and counted."""
    cluster(table, lost=1, numDeletes=1)


def clustered_log_files(table: HudiHistory) -> None:
    """The log file of a delta commit deletes a row."""
    (base,) = table.slices
    begin = table.start("deltacommit")
    named = base.instant if table.layout == 1 else begin
    name = f".{base.group}_{named}.log.1_0-1-2"
    table.put(f"{table.home}/{FOLDER}/{name}", "log")
    body = commit(stat(f"{FOLDER}/{name}", 3, 1, prevCommit=base.instant, fileId=base.group))
    table.finish(begin, "deltacommit", body)
    cluster(table, lost=1)


def clustered_log_files_alone(table: HudiHistory) -> None:
    """A file group that has no base file yet."""
    begin, group = table.start("deltacommit"), f"g{next(table.numbers)}"
    name = f".{group}_{begin}.log.1_0-1-2"
    table.put(f"{table.home}/{FOLDER}/{name}", "log")
    table.finish(begin, "deltacommit", commit(stat(f"{FOLDER}/{name}", 3, 1, fileId=group)))
    begin = table.start("replacecommit")
    each = put_slice(table, begin, [1, 2, 3])
    replacement(table, "CLUSTER", [stat_of(each)], {FOLDER: [*sorted(table.newest), group]}, begin)


def clustered_sums_of_flushes(table: HudiHistory) -> None:
    """Flink adds up the counts of several flushes into one file."""
    begin = table.start("commit")
    each = put_slice(table, begin, range(10))
    table.slices.append(each)
    table.finish(begin, "commit", commit(stat_of(each, numWrites=16, numInserts=10, numDeletes=0)))
    begin = table.start("commit")
    newer = put_slice(table, begin, range(11), each.group)
    table.slices.append(newer)
    body = commit(stat_of(newer, numWrites=17, prevCommit=each.instant, numInserts=1, numDeletes=0))
    table.finish(begin, "commit", body)
    cluster(table)


def clustered_rows_that_add_up(table: HudiHistory) -> None:
    begin = table.start("commit")
    each = put_slice(table, begin, range(10))
    table.finish(begin, "commit", commit(stat_of(each, numInserts=10)))
    begin = table.start("commit")
    newer = put_slice(table, begin, range(8), each.group)
    body = commit(stat_of(newer, prevCommit=each.instant, numInserts=1, numDeletes=3))
    table.finish(begin, "commit", body)
    table.slices += [each, newer]
    cluster(table, lost=1)


def clustered_rows_not_written(table: HudiHistory) -> None:
    """A write failed for some of the rows that it counts."""
    begin = table.start("commit")
    each = put_slice(table, begin, range(8))
    table.slices.append(each)
    table.finish(begin, "commit", commit(stat_of(each, numWrites=10, totalWriteErrors=2)))
    cluster(table)


def clustering_rolled_back(table: HudiHistory) -> None:
    before = set(table.replaced)
    cluster(table, lost=1)
    *_, each = table.slices
    table.slices.remove(each)
    table.remove(table.instants.pop(each.instant))
    table.replaced = before
    table.roll_back(each.instant, [each])


def overwritten_by_fewer(table: HudiHistory) -> None:
    table.insert()
    table.overwrite()


def replaces_unknown_groups(table: HudiHistory) -> None:
    begin = table.start("replacecommit")
    each = put_slice(table, begin, [1, 2, 3])
    replacement(table, "INSERT_OVERWRITE", [stat_of(each)], {FOLDER: ["nobody", "nothing"]}, begin)


def clusters_unknown_groups(table: HudiHistory) -> None:
    (base,) = table.slices
    begin = table.start("replacecommit")
    each = put_slice(table, begin, base.rows)
    replacement(table, "CLUSTER", [stat_of(each)], {FOLDER: [f"{base.group}-1"]}, begin)


def drops_unknown_groups(table: HudiHistory) -> None:
    replacement(table, "DELETE_PARTITION", [], {FOLDER: ["nobody"]}, table.start("replacecommit"))


def replaces_also_unknown_groups(table: HudiHistory) -> None:
    begin = table.start("replacecommit")
    each = put_slice(table, begin, [1, 2, 3])
    replaced = {FOLDER: [*sorted(table.newest), "nobody"]}
    replacement(table, "INSERT_OVERWRITE", [stat_of(each)], replaced, begin)


def replaces_nothing(table: HudiHistory) -> None:
    """A partition without file groups is dropped, and one is overwritten for the first time."""
    replacement(table, "DELETE_PARTITION", [], {"d=2": []}, table.start("replacecommit"))
    begin = table.start("replacecommit")
    each = put_slice(table, begin, [1, 2])
    replacement(table, "INSERT_OVERWRITE", [stat_of(each)], {}, begin)


def replaces_archived_groups(table: HudiHistory) -> None:
    table.insert()
    table.insert()
    table.archive()
    table.overwrite()


def replaces_paths(table: HudiHistory) -> None:
    """A tool that registers files of another format names file groups by their paths."""
    replacement(table, "DELETE_PARTITION", [], {FOLDER: ["part-1.parquet"]}, table.start("replacecommit"))


def replaces_a_second_attempt(table: HudiHistory) -> None:
    """A task left a file of a group that its commit does not list, which readers that list folders took until then."""
    (base,) = table.slices
    each = put_slice(table, base.instant, [1, 2, 3])
    backdate(
        table.shop.bucket, f"{table.home}/{FOLDER}/{each.name}", datetime.now(UTC) - timedelta(minutes=1)
    )
    table.slices.append(each)
    table.overwrite()


def replaces_expired_groups(table: HudiHistory) -> None:
    """A lifecycle rule took the oldest instants; their files are there."""
    table.overwrite()
    table.insert()
    for key in table._listed(f"{table.timeline}/{min(table.instants)}"):
        table.remove(key)


def overwrites_one_state(table: HudiHistory) -> None:
    before = {FOLDER: sorted(table.newest)}
    begins = [table.start("replacecommit") for _ in range(2)]
    for begin in begins:
        each = put_slice(table, begin, [1, 2, 3])
        table.slices.append(each)
        replacement(table, "INSERT_OVERWRITE", [stat_of(each)], before, begin)


def drops_what_is_clustered(table: HudiHistory) -> None:
    """The clustering brings the rows back that a dropped partition had."""
    before = {FOLDER: sorted(table.newest)}
    replacement(table, "DELETE_PARTITION", [], before, table.start("replacecommit"))
    table.replaced = set()
    cluster(table)


def overwrites_one_state_and_all_since(table: HudiHistory) -> None:
    overwrites_one_state(table)
    table.overwrite()


def drops_twice(table: HudiHistory) -> None:
    before = {FOLDER: sorted(table.newest)}
    for _ in range(2):
        replacement(table, "DELETE_PARTITION", [], before, table.start("replacecommit"))


def completed_by(table: HudiHistory, action: str, rows: Sequence[int]) -> None:
    """Another completed file for the instant of the newest write."""
    begin = max(table.instants)
    each = put_slice(table, begin, rows)
    name = f"{begin}.{action}" if table.layout == 1 else f"{begin}_{int(begin) + 2}.{action}"
    table.put(f"{table.timeline}/{name}", commit(stat_of(each)))


def completed_twice(table: HudiHistory) -> None:
    table.insert()
    completed_by(table, "replacecommit" if table.layout == 1 else "commit", [7, 8])
    table.insert()


def completed_as_another_action(table: HudiHistory) -> None:
    table.insert()
    completed_by(table, "deltacommit", [7, 8])


def completed_twice_with_one_content(table: HudiHistory) -> None:
    """The writer repeated a request that had succeeded."""
    table.insert()
    begin = max(table.instants)
    name = f"{begin}.replacecommit" if table.layout == 1 else f"{begin}_{int(begin) + 2}.commit"
    table.put(f"{table.timeline}/{name}", table._read(table.instants[begin]))


def saved(table: HudiHistory) -> None:
    """A savepoint has the instant of its write."""
    (begin,), (kept,) = table.instants, table.slices
    folder = {"partitionPath": FOLDER, "savepointDataFile": [kept.name]}
    content = {
        "savepointedBy": "t",
        "savepointedAt": 1,
        "comments": "",
        "partitionMetadata": {FOLDER: folder},
    }
    done = begin if table.layout == 1 else f"{begin}_{int(begin) + 2}"
    table.put(f"{table.timeline}/{done}.savepoint", json.dumps(content))


def content_of_another(table: HudiHistory) -> None:
    """The first write's content over one in the middle."""
    for _ in range(3):
        table.insert()
    first, second, *_ = sorted(table.instants)
    table.put(table.instants[second], table._read(table.instants[first]))


def content_of_another_over_the_newest(table: HudiHistory) -> None:
    table.overwrite()
    first, second = sorted(table.instants)
    table.put(table.instants[second], table._read(table.instants[first]))


def content_of_another_without_a_plan(table: HudiHistory) -> None:
    """Leave only the completed file of the instant."""
    content_of_another(table)
    _, second, *_ = sorted(table.instants)
    for key in table._listed(f"{table.timeline}/{second}"):
        if key != table.instants[second]:
            table.remove(key)


def log_files_of_the_base_instant(table: HudiHistory) -> None:
    """Log files bear the instant of their base file in layout 1, also after an upgrade."""
    (base,) = table.slices
    begin = table.start("deltacommit")
    name = f".{base.group}_{base.instant}.log.1_0-1-2"
    table.put(f"{table.home}/{FOLDER}/{name}", "log")
    body = commit(stat(f"{FOLDER}/{name}", 3, 1, prevCommit=base.instant, fileId=base.group))
    table.finish(begin, "deltacommit", body)


FATES: dict[Callable[[HudiHistory], None], list[tuple[str, str]]] = {
    loses_rows: CHANGED,
    duplicate_rows: CHANGED,
    loses_updated_rows: CHANGED,
    loses_archived_rows: CHANGED,
    loses_all_rows: CHANGED,
    clustered_rows_that_add_up: CHANGED,
    clustered: [],
    clustered_with_deleted_rows: [],
    clustered_log_files: [],
    clustered_log_files_alone: [],
    clustered_sums_of_flushes: [],
    clustered_rows_not_written: [],
    clustering_rolled_back: [],
    overwritten_by_fewer: [],
    replaces_unknown_groups: IDLE,
    clusters_unknown_groups: IDLE,
    drops_unknown_groups: IDLE,
    replaces_also_unknown_groups: IDLE,
    replaces_nothing: [],
    replaces_archived_groups: [],
    replaces_paths: [],
    replaces_a_second_attempt: [],
    replaces_expired_groups: [("unreadable_evidence", "warning")],
    overwrites_one_state: IDLE,
    drops_what_is_clustered: IDLE,
    overwrites_one_state_and_all_since: [],
    drops_twice: [],
    completed_twice: OVERWRITTEN,
    completed_as_another_action: OVERWRITTEN,
    completed_twice_with_one_content: [],
    saved: [],
    content_of_another: OVERWRITTEN,
    content_of_another_over_the_newest: OVERWRITTEN,
    content_of_another_without_a_plan: OVERWRITTEN,
    log_files_of_the_base_instant: [],
}
"""Changes of a table of one insert, and the findings above info."""
YOUNG = "young"
OF_LAYOUT_2 = (loses_archived_rows, replaces_archived_groups)
IN_BOTH = (loses_rows, clustered, clustered_log_files, replaces_unknown_groups, overwrites_one_state,
           completed_twice, content_of_another, log_files_of_the_base_instant)  # fmt: skip
CASES = [
    (fate, layout)
    for number, fate in enumerate(FATES)
    for layout in (1, 2)
    if fate in IN_BOTH or layout == (2 if fate in OF_LAYOUT_2 else 1 + number % 2)
]


@dataclass(frozen=True)
class Audited:
    """The results of one audit of all cases, and its findings."""

    results: Results
    findings: list[dict[str, Any]]


@pytest.fixture(scope="module")
def audit(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    bucket, numbers = "hudi-contradictions", itertools.count(1)
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    tables = []
    for fate, layout in CASES:
        table = HudiHistory(shop, f"{fate.__name__}_{layout}", random.Random(1), numbers, layout, DAY)
        table.begin()
        fate(table)
        tables.append(f"- {table.entry}")
    young = HudiHistory(shop, YOUNG, random.Random(1), numbers, 1, DAY)
    young.begin()
    replaces_a_second_attempt(young)
    tables.append(f"- {young.entry.removesuffix('}')}, leftover_age: 2d}}")
    age_all(bucket, DAY)
    listing = f"[{{kind: listing, location: 's3://{bucket}/'}}]"
    lake = shop.lake(tmp_path_factory.mktemp("contradictions"), tables=tables, inventories=listing)
    audited(lake, run_id="one", live=True)
    results = results_of(lake)
    return Audited(results, list(rows_of(results.findings("one"))))


def test_a_replaced_group_whose_files_are_too_young_to_be_unused_is_not_reported(audit: Audited) -> None:
    """The second attempt of a task explains the group; its file counts as unused only after leftover_age."""
    assert [row["kind"] for row in audit.findings if row["table_name"] == YOUNG] == []


def _of(audit: Audited, fate: Callable[[HudiHistory], None], layout: int) -> list[dict[str, Any]]:
    name = f"{fate.__name__}_{layout}"
    return [row for row in audit.findings if row["table_name"] == name and row["severity"] != "info"]


@pytest.mark.parametrize(("fate", "layout"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_only_a_contradiction_is_a_finding(
    audit: Audited, fate: Callable[[HudiHistory], None], layout: int
) -> None:
    rows = _of(audit, fate, layout)
    assert [(row["kind"], row["severity"]) for row in rows] == FATES[fate], [
        row["explanation"] for row in rows
    ]


@pytest.mark.parametrize(
    ("fate", "numbers", "files", "rows"),
    [
        (loses_rows, "with 4 rows by base files with 3", None, 1),
        (duplicate_rows, "with 2 rows by base files with 4", None, 2),
        (loses_updated_rows, "with 6 rows by base files with 3", None, 3),
        (replaces_unknown_groups, "replaces 2 file groups that no instant", 1, 2),
        (replaces_also_unknown_groups, "replaces 1 file group that no instant", 0, 0),
        (drops_unknown_groups, "(DELETE_PARTITION) replaces 1 file group", 1, 2),
        (clusters_unknown_groups, "replaces 1 file group that no instant", 1, 2),
        (overwrites_one_state, "both replaced 1 file group", 1, None),
        (completed_twice, "completed files, which list different files", 1, None),
        (content_of_another, "lists 1 base file, and none has this instant in its name", None, None),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_contradiction_is_shown_with_its_numbers(
    audit: Audited, fate: Callable[[HudiHistory], None], numbers: str, files: int | None, rows: int | None
) -> None:
    row, *_ = (row for layout in (1, 2) for row in _of(audit, fate, layout))
    assert numbers in row["explanation"]
    assert (row["subject_type"], row["files"], row["rows_at_stake"]) == ("commit", files, rows)


@pytest.mark.parametrize("layout", [1, 2])
def test_a_table_with_an_overwritten_write_is_not_called_complete(audit: Audited, layout: int) -> None:
    coverage = {
        (each["table_name"], each["axis"]): each["status"]
        for each in audit.results.coverage("one")
        if each["table_name"]
    }
    for fate in (completed_twice, content_of_another):
        name = f"{fate.__name__}_{layout}"
        assert (coverage[name, "content"], coverage[name, "leftover"]) == ("partial", "partial")
    assert coverage[f"loses_rows_{layout}", "leftover"] == "complete"
