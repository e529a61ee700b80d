"""Whole audits of Hudi tables on S3 with a lost update or lost old instants, and of healthy ones that look alike."""

import itertools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, includes_soak, results_of
from tests.builders.backdate import age_all
from tests.builders.healthy_hudi import FOLDER, HudiHistory, Slice
from tests.builders.hudi import commit, stat
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAY = timedelta(days=1)
LOST_UPDATE, LOST = [("lost_commit", "critical")], [("missing_metadata", "critical")]


def rivals(table: HudiHistory, actions: tuple[str, str] = ("commit", "commit")) -> list[Slice]:
    """Two writes of one file group, each of which reads the file of the first insert."""
    (base,) = table.slices
    begins = [table.start(action) for action in actions]
    written = [table.write(base.group, begin) for begin in begins]
    for begin, action, each in zip(begins, actions, written, strict=True):
        table.slices = [base]
        table.complete(begin, action, [each])
    table.slices = [base, *written]
    return written


def lost_update(table: HudiHistory) -> None:
    rivals(table)


def lost_update_in_a_merging_table(table: HudiHistory) -> None:
    """Each write puts its inserts into the small base file of a file group that has no log file."""
    rivals(table, ("deltacommit", "deltacommit"))


def lost_update_built_on(table: HudiHistory) -> None:
    rivals(table)
    table.upsert()


def first_rolled_back(table: HudiHistory) -> None:
    """The first write failed after it was completed, and was rolled back before the second one began."""
    (base,) = table.slices
    table.upsert()
    table.take_back()
    table.slices = [base]
    table.upsert()


def in_turn(table: HudiHistory) -> None:
    for _ in range(3):
        table.upsert()


def compacted_beside_a_delta_commit(table: HudiHistory) -> None:
    rivals(table, ("deltacommit", "commit"))


def compacted_twice(table: HudiHistory) -> None:
    """Log files, and no writer's base file, are between the two compactions."""
    table.finish(table.start("deltacommit"), "deltacommit", commit())
    rivals(table, ("commit", "commit"))


def replaced_since(table: HudiHistory) -> None:
    rivals(table)
    table.overwrite()


def without_the_older_instant(table: HudiHistory) -> None:
    """The writer records no instant that it read, as for a file group of its own."""
    (base,) = table.slices
    for _ in range(2):
        begin = table.start("commit")
        each = table.write(base.group, begin)
        body = commit(stat(f"{FOLDER}/{each.name}", each.size, len(each.rows), prevCommit="null"))
        table.finish(begin, "commit", body)
        table.slices.append(each)


FATES: dict[Callable[[HudiHistory], None], list[tuple[str, str]]] = {
    lost_update: LOST_UPDATE,
    lost_update_in_a_merging_table: LOST_UPDATE,
    lost_update_built_on: LOST_UPDATE,
    first_rolled_back: [],
    in_turn: [],
    compacted_beside_a_delta_commit: [],
    compacted_twice: [],
    replaced_since: [],
    without_the_older_instant: [],
}
"""Changes of a table of one insert before the audit, and the findings above info."""


def oldest_instants_expired(table: HudiHistory) -> None:
    """A lifecycle rule took them, without an archive."""
    for begin in sorted(table.instants)[:2]:
        for key in table._listed(f"{table.timeline}/{begin}"):
            table.remove(key)


def older_instant_completed(table: HudiHistory) -> None:
    """A clustering that began before the newest write is completed after the audit."""
    begin = f"{int(max(table.instants)) - 1}"
    before = sorted(table.newest)
    written = table.write(f"g{next(table.numbers)}", begin)
    table.complete(begin, "replacecommit", [written], replaced={FOLDER: before[:3]})


LATER: dict[Callable[[HudiHistory], None], list[tuple[str, str]]] = {
    oldest_instants_expired: LOST,
    older_instant_completed: [],
}
"""Changes of a table of five inserts between two audits."""
CASES = [(fate, layout) for fate in (*FATES, *LATER) for layout in (1, 2)]
IN_BOTH = (lost_update, in_turn, *LATER)
FEW = [(fate, layout) for n, (fate, layout) in enumerate(CASES) if fate in IN_BOTH or n % 4 in (0, 3)]
"""The other fates run in one layout, in turn; the long tests run the other one."""


@pytest.fixture(scope="module")
def results(
    aws: Aws, s3: Endpoint, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Results:
    """Audit all tables before those of `LATER` are changed, and then these; the long tests audit all of them again."""
    bucket, numbers, long = "hudi-updates", itertools.count(1), includes_soak(request)
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    tables = {
        (fate, layout): HudiHistory(shop, f"{fate.__name__}_{layout}", random.Random(1), numbers, layout, DAY)
        for fate, layout in (CASES if long else FEW)
    }
    for (fate, _), table in tables.items():
        table.begin()
        if fate in FATES:
            fate(table)
        else:
            for _ in range(4):
                table.insert()
    age_all(bucket, DAY)
    lake = shop.lake(
        tmp_path_factory.mktemp("updates"),
        tables=[f"- {table.entry}" for table in tables.values()],
        inventories=f"[{{kind: listing, location: 's3://{bucket}/'}}]",
    )
    audited(lake, run_id="before", live=True)
    changed = tuple(table.name for (fate, _), table in tables.items() if fate in LATER)
    runs: dict[str, tuple[str, ...]] = {"after": (), "last": ()} if long else {"after": changed}
    for (fate, _), table in tables.items():
        if fate in LATER:
            fate(table)
    for run, scope in runs.items():
        audited(lake, run_id=run, live=True, tables=scope)
    return results_of(lake)


def _of(results: Results, run: str, name: str) -> list[dict[str, Any]]:
    rows = rows_of(results.findings(run))
    return [row for row in rows if row["table_name"] == name and row["severity"] not in ("info", "warning")]


RUNS = {"before": FATES, "after": LATER, "last": {}}
"""By audit the fates whose tables were just changed; the long tests look at all tables in the later audits."""
JUDGED = [
    pytest.param(run, *case, marks=() if case in FEW and case[0] in RUNS[run] else pytest.mark.soak)
    for run in RUNS
    for case in CASES
    if run != "before" or case[0] in FATES
]


@pytest.mark.parametrize(
    ("run", "fate", "layout"), JUDGED, ids=lambda value: getattr(value, "__name__", value)
)
def test_only_a_lost_update_or_instant_is_a_finding(
    results: Results, run: str, fate: Callable[[HudiHistory], None], layout: int
) -> None:
    rows = _of(results, run, f"{fate.__name__}_{layout}")
    assert [(row["kind"], row["severity"]) for row in rows] == (FATES | LATER)[fate], [
        row["explanation"] for row in rows
    ]


@pytest.mark.parametrize("layout", [1, 2])
def test_a_lost_update_names_both_writes_and_keeps_the_files_of_the_first(
    results: Results, layout: int
) -> None:
    (row,) = _of(results, "before", f"lost_update_{layout}")
    assert (row["files"], row["subject_type"]) == (1, "file")
    assert row["key"].endswith("commit")
    assert "each rewrote 1 file group, such as g" in row["explanation"]
    coverage = {
        each["axis"]: each["status"]
        for each in results.coverage("before")
        if each["table_name"] == f"lost_update_{layout}"
    }
    assert coverage["leftover"] == "partial"


def test_the_newest_write_is_named_with_the_files_that_it_lists_no_more(results: Results) -> None:
    (row,) = _of(results, "after", "oldest_instants_expired_2")
    assert (row["files"], row["subject_type"]) == (2, "commit")
    assert "counted 5 files in table version" in row["explanation"]


def test_no_table_has_a_finding_before_its_instants_are_lost(results: Results) -> None:
    assert [_of(results, "before", f"{fate.__name__}_{n}") for fate in LATER for n in (1, 2)] == [[]] * 4
