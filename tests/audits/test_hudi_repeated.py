"""Inserts of Hudi tables that were written twice by a retried job, and healthy ones that look alike."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.results.read import Results
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import commit, lake_of, stat, write_timeline

pytestmark = pytest.mark.variant


@dataclass(frozen=True)
class Insert:
    """One write of a file for each of two days: `day` of November, the `first` key, and how many keys a file has."""

    day: int
    first: int = 0
    rows: int = 20
    operation: str = "BULK_INSERT"
    action: str = "commit"
    onto: int | None = None
    """The day of the write whose file groups it rewrites."""

    @property
    def instant(self) -> str:
        return f"202611{self.day:02}100000000"


TWICE = (Insert(3), Insert(4))
REPORTED = [("duplicate_commit", "warning")]
CASES: dict[str, tuple[Sequence[Insert], list[tuple[str, str]]]] = {
    "twice": (TWICE, REPORTED),
    "twice_by_insert": ([Insert(3, operation="INSERT"), Insert(4, operation="INSERT")], REPORTED),
    "twice_into_a_merging_table": (
        [Insert(3, action="deltacommit"), Insert(5, action="deltacommit")],
        REPORTED,
    ),
    "twice_among_others": ([Insert(1, 500, rows=30), *TWICE, Insert(5, 900, rows=30)], REPORTED),
    "of_other_keys": ([Insert(3), Insert(4, 100)], []),
    "of_few_rows": ([Insert(3, rows=5), Insert(4, rows=5)], []),
    "a_week_apart": ([Insert(3), Insert(11)], []),
    "every_day": ([Insert(day) for day in range(3, 8)], []),
    "upserts": ([Insert(3, operation="UPSERT"), Insert(4, operation="UPSERT")], []),
    "rewritten_since": ([*TWICE, Insert(5, operation="UPSERT", onto=4)], []),
}
"""Writes of a table, and the findings above info."""
EACH = [("twice", 2), *((name, 1 + number % 2) for number, name in enumerate(CASES))]
"""Each in one of the layouts of a timeline, the first one in both."""


def write(home: Path, inserts: Sequence[Insert], layout: int) -> None:
    instants = {}
    for each in inserts:
        files = [stat(**file) for file in _files(home, each)]
        name = f"{each.instant}.{each.action}"
        if layout == 2:
            name = f"{each.instant}_{each.instant[:-1]}9.{each.action}"
        instants[name] = commit(*files).replace('"UPSERT"', f'"{each.operation}"')
    write_timeline(home, instants, layout=layout)


def _files(home: Path, insert: Insert) -> Iterator[dict[str, Any]]:
    for number in (1, 2):
        group = f"0000{insert.onto or insert.day:02}-{number}"
        path = home / f"day={number}" / f"{group}_0-{insert.day}-0_{insert.instant}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        keys = range(insert.first, insert.first + insert.rows)
        rows = {
            "_hoodie_commit_time": [insert.instant] * insert.rows,
            "_hoodie_commit_seqno": [f"{insert.instant}_{number}_{key}" for key in keys],
            "id": list(keys),
            "price": [key * number / 7 for key in keys],
        }
        pq.write_table(pa.table(rows), path)
        at = datetime(2026, 11, insert.day, 10, tzinfo=UTC).timestamp()
        os.utime(path, (at, at))
        before = {"prevCommit": f"202611{insert.onto:02}100000000"} if insert.onto else {}
        relative = str(path.relative_to(home))
        yield {"path": relative, "size": path.stat().st_size, "rows": insert.rows, **before}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("repeated")
    for name, layout in EACH:
        write(folder / "wh" / f"{name}_{layout}", CASES[name][0], layout)
    lake = lake_of(folder, [f"{name}_{layout}" for name, layout in EACH])
    audited(lake, run_id="r", clock=lambda: datetime(2026, 11, 25, tzinfo=UTC))
    return results_of(lake)


@pytest.mark.parametrize(("name", "layout"), EACH)
def test_an_insert_that_was_written_twice_is_reported_once(results: Results, name: str, layout: int) -> None:
    rows = [row for row in rows_of(results.findings("r")) if row["table_name"] == f"{name}_{layout}"]
    found = [(row["kind"], row["severity"]) for row in rows if row["severity"] != "info"]
    assert found == CASES[name][1], [row["explanation"] for row in rows]
    for row in rows:
        assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"] > 0) == (2, 40, True)
        assert "20261103100000000" in row["explanation"]
