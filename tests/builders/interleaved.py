"""One plan, applied while writers are at work, and what came of it."""

import io
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.builders.hostile import OLD, Writers
from tests.builders.ledger import opened
from tests.builders.repair_plans import RepairPlans, finding_rows
from tests.builders.shop import Shop

FILES = 8


def _leftover(bucket: str, key: str, size: int) -> dict[str, Any]:
    return {
        "kind": "uncommitted", "table_name": "orders", "bucket": bucket, "key": key, "category": "data",
        "storage_size": size, "bytes_at_stake": size, "storage_time": datetime.now(UTC) - OLD, "files": 1,
    }  # fmt: skip


@dataclass(frozen=True)
class InterleavingResult:
    """Counts of one interleaving; `held` steps are those whose files no writer touched, `applied` is a part of them."""

    steps: int
    held: int
    applied: int
    acts: int
    statuses: dict[str, str]


def interleaved(shop: Shop, folder: Path, seed: int, how_often: float = 0.12) -> InterleavingResult:
    """Break a table, plan, and apply while writers work on it; nothing of theirs may be lost.

    Raises:
        AssertionError: a live file is lost, a step was applied twice, or a removed file came back.
    """
    chance = random.Random(seed)
    writers = Writers(shop, chance)
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    writers.create(FILES)
    kinds = {}
    for name in chance.sample(sorted(writers.live), 4):
        writers.lose(name, markers=chance.choice((1, 2)))
        kinds[writers.key(name)] = "dropped"
    known = finding_rows(shop, kinds)
    for number in range(3):
        left = f"left-{number}.parquet"
        writers.leave(left)
        known.append(_leftover(shop.bucket, writers.key(left), len(writers.stored[left])))
    quarantine = f"quarantine: {{location: 's3://{shop.bucket}-quarantine/q', keep: 30d}}\n"
    mending = RepairPlans(shop.lake(folder, extra=quarantine), folder)
    opened(mending.lake, known)
    mending.plan(io.StringIO(), allow=("restore", "older_than_onboarding"))
    writers.touched.clear()
    with writers.at_work(how_often):
        mending.apply()
    statuses = mending.statuses()
    told = f"seed {seed}: {dict(writers.done)}, {statuses}"
    assert not writers.lost_files(), f"lost: {writers.lost_files()}; {told}"
    assert not writers.came_back(), f"came back: {writers.came_back()}; {told}"
    assert all(number == 1 for number in writers.acts.values()), f"done twice; {told}"
    held = [key for key in statuses if key.rpartition("/")[2] not in writers.touched]
    applied = sum(statuses[key] == "applied" for key in held)
    return InterleavingResult(len(statuses), len(held), applied, sum(writers.done.values()), statuses)
