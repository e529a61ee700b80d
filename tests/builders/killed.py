"""Audits in a process group of their own, killed with SIGKILL at a chosen moment, and what is left of them.

Run as a program it is the victim: one audit with a JVM that starts fast, then it waits to be killed.
"""

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakeaudit.aws import Endpoint
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.outcome import Outcome
from lakeaudit.progress import JsonProgress, Progress, SilentProgress
from lakeaudit.results.read import Results
from lakeaudit.run import Options, audit
from lakeaudit.schemas import RESULTS
from lakeaudit.spark import build_session
from lakeaudit.stores import clients_of
from tests.builders.shop import Shop
from tests.conftest import Aws

EARLIER, NIGHTLY = "earlier", "nightly"
"""The run that was published before, and the one that is killed."""

CLOCK_COLUMNS = ("started_at", "finished_at")
PATIENCE = 240.0
_ROOT = Path(__file__).parents[2]
_OPTIONS = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B"

Tables = dict[str, list[str]]
"""Every row of each result table, in one order, without what a clock says."""


@dataclass(frozen=True)
class Moment:
    """When to kill: `after` that stage's line, at the first new file of `table`, and `delay` seconds later.

    An empty `after` means from the start on, an empty `table` means at once. `first`: nothing was ever published here.
    """

    after: str
    table: str
    delay: float
    first: bool

    def __str__(self) -> str:
        where = f"in the write of {self.table}" if self.table else "at work"
        place = "an empty place" if self.first else "a place with results"
        return f"{where}, {self.delay * 1000:.0f} ms on, after {self.after or 'the start'}, in {place}"


_SIGNS = (
    ("", "runs"),
    ("make findings", "coverage"),
    ("make findings", "leftover_files"),
    ("make findings", "findings"),
    ("make findings", "runs"),
)
_STAGES = ("start Spark", "open results", "observe", "match and classify", "look again at suspects")


def new_seed() -> int:
    """A seed of this test run's own, or the one to repeat."""
    return int(os.environ.get("LAKEAUDIT_KILL_SEED") or secrets.randbelow(2**32))


def moments(count: int, seed: int) -> list[Moment]:
    """Moments in turn inside each table's write, and somewhere else; half of them in an empty place."""
    chance = random.Random(seed)
    return [_moment(number, chance) for number in range(count)]


def _moment(number: int, chance: random.Random) -> Moment:
    turn = number % (len(_SIGNS) + 1)
    signs = (*_SIGNS, (chance.choice(_STAGES), ""))
    after, table = signs[turn]
    longest = chance.choice((0.0, 0.03, 0.5)) if table else 1.0
    first = (number + number // len(signs)) % 2 == 0
    return Moment(after, table, chance.uniform(0, longest), first)


@dataclass(frozen=True)
class Frozen:
    """A lake whose sources do not change any more, and what a run that nobody killed makes of it."""

    shop: Shop
    spark: SparkSession
    as_of: datetime
    published: Path
    expected: dict[bool, Tables]

    def lake(self, folder: Path, *, first: bool) -> Lake:
        """The lake with results of its own in `folder`."""
        folder.mkdir(parents=True)
        if not first:
            shutil.copytree(self.published, folder / "results")
        return self.shop.lake(folder, defaults=_OPTIONS)

    def audited(self, lake: Lake, run_id: str = NIGHTLY) -> Outcome:
        """One whole audit, in the tests' own session."""
        return run_once(lake, run_id, self.as_of, self.spark, SilentProgress())


def freeze(spark: SparkSession, aws: Aws, s3: Endpoint, bucket: str, folder: Path) -> Frozen:
    """A damaged lake with a row for every result table, audited in a new place and in one with results."""
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("customers", commits=1)
    gone, torn = shop.keys("orders")[:2]
    kept = shop.keys("customers")[0]
    aws.s3.delete_object(Bucket=bucket, Key=gone)
    aws.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    stray = kept.replace(".parquet", "-stray.parquet")
    aws.s3.put_object(Bucket=bucket, Key=stray, Body=b"nobody lists this")
    shop.take_inventory()
    time.sleep(1.1)  # S3 tells whole seconds: now everything there is older than `as_of`
    frozen = Frozen(shop, spark, datetime.now(UTC), folder / "published" / "results", {})
    for first, run_id in ((True, EARLIER), (False, NIGHTLY)):
        place = frozen.published.parent if first else folder / "again"
        frozen.audited(frozen.lake(place, first=first), run_id)
        frozen.expected[first] = tables_at(place / "results")
    frozen.expected[True] = {
        name: [row.replace(EARLIER, NIGHTLY) for row in rows] for name, rows in frozen.expected[True].items()
    }
    return frozen


def run_once(lake: Lake, run_id: str, as_of: datetime, spark: SparkSession, progress: Progress) -> Outcome:
    return audit(
        lake, Options(run_id=run_id, as_of=as_of), spark=spark, clients=clients_of(lake),
        clock=lambda: datetime.now(UTC), progress=progress,
    )  # fmt: skip


def tables_at(results: Path) -> Tables:
    """All rows of all result tables, published or not."""
    return {name: _rows(results / name) for name in RESULTS}


def _rows(table: Path) -> list[str]:
    return _texts(DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def _texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(_without_clock(row).items())) for row in rows)


def _without_clock(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in CLOCK_COLUMNS}
    if kept.get("sources"):
        kept["sources"] = [{n: v for n, v in source.items() if n != "seconds"} for source in kept["sources"]]
    return kept


def assert_same(found: Tables, expected: Tables) -> None:
    """Row by row; a failure shows only the rows that differ."""
    for name, rows in expected.items():
        assert rows, f"{name} is empty, so it proves nothing"
        odd = Counter(found[name]) - Counter(rows), Counter(rows) - Counter(found[name])
        assert odd == (Counter(), Counter()), f"{name}: rows that only the rerun has, and rows that it lacks"


def kill(lake_file: Path, as_of: datetime, moment: Moment) -> None:
    """Start the audit, and kill it with all its processes at that moment.

    Raises:
        AssertionError: the moment never came.
    """
    folder = lake_file.parent
    with _victim(lake_file, as_of) as process:
        told = _told(folder / "stderr")
        _wait(process, lambda: f'"stage": "{moment.after}"' in told() if moment.after else True, told)
        before = _files(folder / "results" / moment.table)
        if moment.table:
            _wait(process, lambda: bool(_files(folder / "results" / moment.table) - before), told)
        time.sleep(moment.delay)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, told()


def check_killed_and_run_again(frozen: Frozen, moment: Moment, folder: Path) -> None:
    """The one cycle: kill, look as a reader does, run again under the same id, compare every row."""
    lake = frozen.lake(folder, first=moment.first)
    kill(folder / "lake.yaml", frozen.as_of, moment)
    check_what_readers_see(frozen, lake, first=moment.first)
    frozen.audited(lake)
    assert_same(tables_at(folder / "results"), frozen.expected[moment.first])
    assert results_of(lake).published(None)["run_id"] == NIGHTLY


def check_what_readers_see(frozen: Frozen, lake: Lake, *, first: bool) -> None:
    """The killed run is either published whole, or not at all."""
    results = results_of(lake)
    if any(run["run_id"] == NIGHTLY and run["status"] != "running" for run in results.runs()):
        assert_same(tables_at(Path(lake.results.spark_path)), frozen.expected[first])
        return
    with pytest.raises(BadInput, match=NIGHTLY):
        results.published(NIGHTLY)
    if first:
        with pytest.raises(CannotAudit, match="no finished audit"):
            results.published(None)
        return
    assert results.published(None)["run_id"] == EARLIER
    found = [row for batch in results.findings(EARLIER) for row in batch.to_pylist()]
    assert _texts(found) == [row for row in frozen.expected[False]["findings"] if EARLIER in row]


@contextmanager
def _victim(lake_file: Path, as_of: datetime) -> Iterator[subprocess.Popen[bytes]]:
    """The audit in a process group of its own; whatever happens, nothing of it is left."""
    folder = lake_file.parent
    scratch = folder / "scratch"
    command = [sys.executable, "-m", "tests.builders.killed", str(lake_file), as_of.isoformat()]
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(scratch), "PYTHONPATH": str(_ROOT)}
    with (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=err, stderr=err, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _told(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(errors="replace")


def _wait(process: subprocess.Popen[bytes], come: Callable[[], bool], told: Callable[[], str]) -> None:
    last = time.monotonic() + PATIENCE
    while not come():
        assert process.poll() is None, f"the audit ended too early:\n{told()[-3000:]}"
        assert time.monotonic() < last, f"the moment never came:\n{told()[-3000:]}"
        time.sleep(0.002)


def _files(folder: Path) -> set[str]:
    return {str(Path(where, name)) for where, _, names in os.walk(folder) for name in names}


def results_of(lake: Lake) -> Results:
    return Results(lake.results, clients_of(lake), lake.name)


def main(arguments: Sequence[str]) -> None:
    """The victim: LAKE AS_OF."""
    lake_file, as_of = arguments
    lake = load_lake(Path(lake_file), os.environ)
    progress = JsonProgress(sys.stderr)
    with progress.stage("start Spark"):
        spark = build_session(
            "killed", s3=clients_of(lake).default, small=True, extra={"spark.master": "local[2]"}
        )
    run_once(lake, NIGHTLY, datetime.fromisoformat(as_of), spark, progress)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
