"""`follow` beside a Delta writer, vacuums, noise, chaos and kills: it reports every loss once, and nothing else."""

import os
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from lakeaudit.config import load_lake
from lakeaudit.schemas import rows_of
from tests.builders.audits import results_of
from tests.builders.follow_world import Chaos, World, server_process

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTES = float(os.environ.get("LAKEAUDIT_FOLLOW_MINUTES", "30"))
LOSSES = int(os.environ.get("LAKEAUDIT_FOLLOW_LOSSES", "500"))
RATE = float(os.environ.get("LAKEAUDIT_FOLLOW_RATE", "200"))


def run(world: World, *, minutes: float, rate: float, kill_after: float) -> None:
    """Run everything for some minutes, then wait until all events are decided."""
    works: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        (world.write_and_vacuum, ()),
        (world.make_noise, (rate,)),
        (world.sender.run, (world.stopped,)),
        (world.follow, (kill_after,)),
    ]
    threads = [Thread(target=work, args=args, daemon=True) for work, args in works]
    for each in threads:
        each.start()
    world.lose(minutes * 60 * 0.85)
    time.sleep(minutes * 60 * 0.15)
    world.wait_until_empty(300)
    world.stopped.set()
    for each in threads:
        each.join(120)


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 1200)
@pytest.mark.parametrize("seed", [7])
def test_every_loss_is_reported_once_and_nothing_else(tmp_path: Path, seed: int) -> None:
    with server_process() as server:
        world = World(tmp_path, server, LOSSES, seed, Chaos())
        run(world, minutes=MINUTES, rate=RATE, kill_after=120)
        lake = load_lake(world.lake_file, {})
        found = [*rows_of(results_of(lake).discrepancies())]
        assert {row["key"] for row in found} == {*world.deleted}
        assert {(row["state"], row["kind"], row["cause"]) for row in found} == {
            ("open", "dropped", "deleted (ObjectRemoved:Delete)")
        }
        history = results_of(lake).history([row["discrepancy_id"] for row in found])
        assert Counter(row["transition"] for row in history) == {"opened": len(world.deleted)}
        (tmp_path / "summary.txt").write_text(summary(world))


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_most_losses_are_reported_within_a_minute(tmp_path: Path) -> None:
    with server_process() as server:
        world = World(tmp_path, server, 60, 3, Chaos(0.0, 0.0))
        run(world, minutes=5, rate=RATE, kill_after=float("inf"))
        times = world.latencies()
        assert len(times) == len(world.deleted), summary(world)
        assert times[int(len(times) * 0.95)] <= 60, summary(world)


def summary(world: World) -> str:
    times = world.latencies()
    at = {share: round(times[int(len(times) * share)], 1) for share in (0.5, 0.95, 0.99)} if times else {}
    cpu, memory = sum(each[0] for each in world.usage), max(each[1] for each in world.usage)
    return (
        f"{world.sender.sent} messages, {len(world.deleted)} losses, {len(times)} reported, {world.kills} kills, "
        f"latency {at}, {cpu:.0f} s CPU, {memory // 1024} MiB"
    )
