"""Healthy lakes, drawn at random and audited between their writers' acts: no audit reports anything above info.

Writers commit, compact, roll back, restore, clean up, race and drop tables. Everything that is old enough is judged,
a plan takes no row from any reader, and the audit after it is as quiet as those before.
"""

import io
import os
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.healthy_lake import HealthyLake, drawn_lake
from tests.builders.repair_plans import RepairPlans
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

ALLOW = ("restore", "older_than_onboarding", "probable", "remove_reference", "abort_upload")
FEW = range(1, 2)
MANY = int(os.environ.get("LAKEAUDIT_HEALTHY_HISTORIES", "200"))
A_LAKE = 10
"""Histories that share a lake, and so its audits, where they are many."""
OVERTAKEN, PARTIAL = 13, 3
"""Exit codes of an audit of the past, after which a newer one was published, and of tables that are in doubt."""
UNREADABLE = "unreadable_evidence"
"""The kind that an audit of the past reports where metadata was cleaned up since."""
A_DAY = timedelta(days=1)
JUDGED = ("content", "leftover", "duplicate", "commit")
COUNTS = ("files", "consistent", "undecided", "uncovered", "unconfirmed", "out_of_window", "moved_on")


@dataclass
class History:
    """One lake, from its first audit to the one after a plan."""

    healthy: HealthyLake
    folder: Path
    runs: int = 0
    wrong: list[str] = field(default_factory=list)

    def audit(self, **options: Any) -> None:
        """One audit, of which everything above info and everything that was not judged is noted."""
        run, self.runs = f"run-{self.runs}", self.runs + 1
        lake = self.healthy.lake(self.folder)
        outcome = audited(lake, run_id=run, **options)
        about = f"{run} {options or ''}"
        self.wrong += [
            f"{about}: {row['table_name']} {row['kind']} ({row['severity']}) {row['explanation']}"
            for row in rows_of(results_of(lake).findings(run))
            if row["severity"] != "info" and not (options and row["kind"] == UNREADABLE)
        ]
        doubted = any(each.doubted for each in self.healthy.tables)
        allowed = (0, OVERTAKEN if options else PARTIAL if doubted else 0)
        self.wrong += [f"{about}: exit code {outcome.exit_code}, {outcome.status}"] * (
            outcome.exit_code not in allowed
        )
        if not options:
            self.wrong += [f"{about}: {words}" for words in self._unjudged(lake, run)]

    def _unjudged(self, lake: Lake, run: str) -> Iterator[str]:
        """Axes of which something that is old enough was not judged; young files are those of a grace alone."""
        rows = {(row["table_name"], row["axis"]): row for row in results_of(lake).coverage(run)}
        young = self.healthy.grace != "0s"
        for each in self.healthy.tables:
            content, old = rows.get((each.name, "content")), self.healthy.old_files(each)
            if content is not None and content["consistent"] < old:
                yield f"{each.name}: {content['consistent']} of {old} old files are judged"
            for axis in JUDGED:
                row = rows.get((each.name, axis))
                if row is None:
                    yield f"{each.name} has no {axis}"
                elif not each.doubted and (
                    row["status"] not in ("complete", "off")
                    or row["undecided"]
                    or row["uncovered"]
                    or row["unconfirmed"]
                    or (row["out_of_window"] and not young)
                ):
                    counts = {name: row[name] for name in COUNTS if row[name]}
                    yield f"{each.name} {axis} is {row['status']} ({row['reason']}), {counts}"

    def repair(self) -> None:
        """Apply a plan with everything allowed, and check that no reader loses a row."""
        rows, mending = self.healthy.rows, RepairPlans(self.healthy.lake(self.folder), self.folder)
        mending.plan(io.StringIO(), allow=ALLOW)
        mending.apply()
        if self.healthy.rows != rows:
            self.wrong.append(f"rows changed: {rows} -> {self.healthy.rows}, {mending.statuses()}")


def wrong_of(healthy: HealthyLake, folder: Path, rounds: int, *, long: bool) -> list[str]:
    """Return the faults of the audits of one lake, after each of so many rounds of acts.

    `long` has more acts in a round, and an audit of the past.
    """
    history = History(healthy, folder)
    healthy.begin()
    healthy.settle(datetime.now(UTC) - A_DAY)
    history.audit()
    for _ in range(rounds):
        healthy.go_on(healthy.chance.randint(2, 6) if long else 2)
        healthy.settle()
        history.audit()
    if long and healthy.by_inventory and not healthy.glue:  # a catalog knows nothing of the past
        history.audit(as_of=datetime.now(UTC) - A_DAY / 2)
    history.repair()
    healthy.settle()
    history.audit()
    return history.wrong


@contextmanager
def new_bucket(aws: Aws, name: str) -> Iterator[str]:
    """A bucket that keeps versions, emptied at the end."""
    aws.s3.create_bucket(Bucket=name)
    aws.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    yield name


def false_alarms(
    aws: Aws, s3: Endpoint, clients: Clients, folder: Path, seeds: range, histories: int
) -> list[str]:
    """Return the faults by seed; each lake has so many histories, and a short story if it has one."""
    wrong: list[str] = []
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        with new_bucket(aws, f"healthy-{seed}-{uuid.uuid4().hex[:8]}") as bucket:
            shop = Shop(aws.s3, s3, bucket)
            healthy = drawn_lake(
                shop, clients, random.Random(seed), by_inventory=bool(seed % 2), histories=histories
            )
            long = histories > 1
            found = wrong_of(healthy, place, rounds=1 + long, long=long)
            wrong += [f"seed {seed}: {each}" for each in (*found, *([healthy.story] * bool(found)))]
    return wrong


def test_few_healthy_histories_are_quiet(aws: Aws, s3: Endpoint, clients: Clients, tmp_path: Path) -> None:
    assert false_alarms(aws, s3, clients, tmp_path, FEW, 1) == []


@pytest.mark.soak
@pytest.mark.timeout(14400)
def test_many_healthy_histories_are_quiet(aws: Aws, s3: Endpoint, clients: Clients, tmp_path: Path) -> None:
    lakes = range(FEW.stop, FEW.stop + (MANY + A_LAKE - 1) // A_LAKE)
    assert false_alarms(aws, s3, clients, tmp_path, lakes, A_LAKE) == []
