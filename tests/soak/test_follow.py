"""`follow` beside writers, vacuums, cleans, noise, chaos and kills: it reports every loss once, and nothing else."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.schemas import rows_of
from tests.builders.audits import results_of
from tests.builders.catcher import catching
from tests.builders.event_sender import Chaos
from tests.builders.follow_world import World, server_processes

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTES = float(os.environ.get("LAKEAUDIT_FOLLOW_MINUTES", "30"))
LOSSES = int(os.environ.get("LAKEAUDIT_FOLLOW_LOSSES", "500"))
RATE = float(os.environ.get("LAKEAUDIT_FOLLOW_RATE", "200"))
EVENTS = int(os.environ.get("LAKEAUDIT_FOLLOW_EVENTS", "1000000"))
LATENCY_MINUTES = float(os.environ.get("LAKEAUDIT_FOLLOW_LATENCY_MINUTES", "5"))
KILL_AFTER = float(os.environ.get("LAKEAUDIT_FOLLOW_KILL_AFTER", "120"))


def run(world: World, *, minutes: float, rate: float, kill_after: float) -> None:
    """Run everything for some minutes, then let `follow` decide what is left in the queue."""
    works: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        (world.write_and_vacuum, ()),
        (world.write_and_clean, ()),
        (world.make_noise, (rate,)),
        (world.send, ()),
        (world.follow, (kill_after,)),
    ]
    threads = [Thread(target=work, args=args, daemon=True) for work, args in works]
    for each in threads:
        each.start()
    world.lose(minutes * 60 * 0.85)
    time.sleep(minutes * 60 * 0.15)
    world.stopped.set()
    for each in threads:
        each.join(120)
    world.stopped.clear()
    last = Thread(target=world.follow, daemon=True)
    last.start()
    assert world.wait_until_empty(300), summary(world)
    world.stopped.set()
    last.join(60)


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 1200)
@pytest.mark.parametrize("seed", [7])
def test_every_loss_is_reported_once_and_nothing_else(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_processes(twice=0.01) as servers, catching() as caught:
        monkeypatch.setenv("FOLLOW_TEST_HOOK", caught.url)
        alerts = "alerts: [{kind: webhook, url_env: FOLLOW_TEST_HOOK}]\n"
        world = World(tmp_path, servers, LOSSES, seed, Chaos(), alerts)
        run(world, minutes=MINUTES, rate=RATE, kill_after=KILL_AFTER)
        (tmp_path / "summary.txt").write_text(summary(world))
        lake = load_lake(world.lake_file, {})
        found = [*rows_of(results_of(lake).discrepancies())]
        assert {row["key"]: (row["state"], row["kind"], row["cause"]) for row in found} == {
            key: ("open", loss.kind, loss.cause) for key, loss in world.lost.items()
        }
        history = results_of(lake).history([row["discrepancy_id"] for row in found])
        assert Counter(row["transition"] for row in history) == {"opened": len(world.lost)}
        assert opened(caught.posts) == len(world.lost)


def opened(posts: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of losses in all messages: too high if a loss comes twice, and too low if one is missing."""
    notices = [notice for post in posts for notice in post["notices"]]
    changes = [change for notice in notices for change in notice["changes"]]
    return sum(change["discrepancies"] for change in changes if change["transition"] == "opened")


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_most_losses_are_reported_within_a_minute(tmp_path: Path) -> None:
    with server_processes() as servers:
        world = World(tmp_path, servers, int(12 * LATENCY_MINUTES), 3, Chaos(0.0, 0.0))
        run(world, minutes=LATENCY_MINUTES, rate=RATE, kill_after=float("inf"))
        (tmp_path / "summary.txt").write_text(summary(world))
        times = world.latencies()
        assert len(times) == len(world.lost), summary(world)
        assert times[int(len(times) * 0.95)] <= 60, summary(world)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_memory_stays_bounded_over_many_events(tmp_path: Path) -> None:
    """As fast as `follow` decides them, without pauses; its list of decided events is full after the first fifth."""
    with server_processes() as servers:
        world = World(tmp_path, servers, 40, 5, Chaos(0.0, 0.0))
        works = (world.write_and_vacuum, world.write_and_clean, world.send, world.follow)
        threads = [Thread(target=work, daemon=True) for work in works]
        for each in threads:
            each.start()
        losing = Thread(target=world.lose, args=(120,), daemon=True)
        losing.start()
        world.send_many(EVENTS)
        time.sleep(60)
        assert world.left() < 1000, summary(world)
        world.stopped.set()
        for each in threads:
            each.join(60)
        (tmp_path / "summary.txt").write_text(f"{summary(world)}; MiB by events: {world.rss()}")
        early, late = (
            max(mib for at, mib in world.rss() if (at > EVENTS / 5) == is_late) for is_late in (0, 1)
        )
        assert late < 1.25 * early, world.rss()


def summary(world: World) -> str:
    times = world.latencies()
    at = {share: round(times[int(len(times) * share)], 1) for share in (0.5, 0.95, 0.99)} if times else {}
    cpu, memory = sum(each[0] for each in world.usage), max((each[1] for each in world.usage), default=0)
    sent, busy = world.sender, ", ".join(f"{number} x {name}" for name, number in world.rounds.items())
    return (
        f"{sent.events} events in {sent.messages} messages, {len(world.lost)} losses, {len(times)} reported, "
        f"{world.kills} kills, latency {at}, {cpu:.0f} s CPU, {memory // 1024} MiB; {busy}"
    )
