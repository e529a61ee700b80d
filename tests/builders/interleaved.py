"""One plan, applied while writers are at work, and what came of it."""

import io
import random
from dataclasses import dataclass
from pathlib import Path

from tests.builders.hostile import Writers
from tests.builders.ledger import opened
from tests.builders.mending import Mending, found
from tests.builders.shop import Shop

FILES = 8


@dataclass(frozen=True)
class Ended:
    """Of one interleaving: `held` steps whose files no writer touched, and how many of those were applied."""

    steps: int
    held: int
    applied: int
    acts: int
    statuses: dict[str, str]


def interleaved(shop: Shop, folder: Path, seed: int, how_often: float = 0.12) -> Ended:
    """Break a table, plan, and apply while writers work on it; nothing of theirs may be lost.

    Raises:
        AssertionError: a live file is lost, a step was done twice, or what was given up came back.
    """
    chance = random.Random(seed)
    writers = Writers(shop, chance)
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    writers.create(FILES)
    kinds = {}
    for name in chance.sample(sorted(writers.live), 4):
        writers.lose(name, markers=chance.choice((1, 2)))
        kinds[writers.key(name)] = "dropped"
    mending = Mending(shop.lake(folder), folder)
    opened(mending.lake, found(shop, kinds))
    mending.plan(io.StringIO())
    writers.touched.clear()
    with writers.at_work(how_often):
        mending.apply()
    statuses = mending.statuses()
    told = f"seed {seed}: {dict(writers.done)}, {statuses}"
    assert not writers.lost(), f"lost: {writers.lost()}; {told}"
    assert not writers.came_back(), f"came back: {writers.came_back()}; {told}"
    assert all(number == 1 for number in writers.acts.values()), f"done twice; {told}"
    held = [key for key in statuses if key.rpartition("/")[2] not in writers.touched]
    applied = sum(statuses[key] == "applied" for key in held)
    return Ended(len(statuses), len(held), applied, sum(writers.done.values()), statuses)
