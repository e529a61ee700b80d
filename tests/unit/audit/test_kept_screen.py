"""A cached prefilter changes no answer after any change of commits and ledger; otherwise it is computed again."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.audit import cached_prefilter
from lakeaudit.audit.cached_prefilter import PrefilterCache, PrefilterResult
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Batches, note_row
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from tests.builders import screen_lake
from tests.builders.both_readings import FirstAnswers, differences, in_full, narrowly
from tests.builders.evidence import CUT
from tests.builders.scenario import table
from tests.builders.screen_lake import ScreenLake, Source
from tests.builders.screen_rows import STEPS, Row, folder, open_row, step
from tests.builders.spilling import SharingEngine

pytestmark = pytest.mark.variant

KEYS = [f"shop/day={day}/{n}" for day in (1, 2) for n in range(20)]
"""All sources agree on these."""
NEW = "shop/day=2/new"
"""A key that nothing knows but a commit."""


def fixed_lake(place: Path) -> ScreenLake:
    """Return a lake of fixed content: keys that agree, and one for each different answer of one source."""
    lake = ScreenLake(results=Location.parse(str(place)), pinned="of this content")
    lake.rows["entries"] += [folder("shop"), folder("shop/day=1"), folder("shop/day=2")]
    lake.plain(*KEYS)
    lake.star("shop/day=3/")
    return lake


@pytest.fixture(autouse=True)
def any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys have to be read again."""
    monkeypatch.setattr(cached_prefilter, "MOST", 1)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return results of an audit with a cached prefilter, and how many files it cleared."""
    place = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_prefilter, "MOST", 1)
        return place, narrowly(fixed_lake(place), InProcessEngine(1)).files


@pytest.fixture
def lake(first: tuple[Path, int], tmp_path: Path) -> ScreenLake:
    """The lake after that audit."""
    shutil.copytree(first[0], tmp_path, dirs_exist_ok=True)
    return fixed_lake(tmp_path)


def keeper(lake: ScreenLake) -> PrefilterCache | None:
    """How an audit of the lake would keep its screen."""
    evidence = lake.evidence()
    return cached_prefilter.prefilter_cache(evidence, lake.screen(), [*evidence.observed.rows()])


def reused_screen(lake: ScreenLake) -> PrefilterResult | None:
    """Return the cached prefilter's answer to an audit of the lake, or None if it does not fit."""
    found = keeper(lake)
    return None if found is None else found.load(InProcessEngine(1))


FULL: dict[str, FirstAnswers] = {}
"""By commits and what the ledger holds what the lake answers in full, whatever was kept."""


def checked(lake: ScreenLake, shares: int = 1) -> FirstAnswers:
    """Match `fixed_lake` after a projection pass; the answers must equal those of a full match."""
    found = narrowly(lake, SharingEngine(shares) if shares > 1 else InProcessEngine(1))
    asked = repr((lake.commits, lake.known))
    if asked not in FULL:
        FULL[asked] = in_full(replace(lake, results=screen_lake.NOWHERE, pinned=""))
    assert differences(FULL[asked], found) == {}
    return found


def files(lake: ScreenLake) -> list[Path]:
    """Return the files of cleared keys, and the prefilter's own, in order of writing."""
    found = [path for path in Path(lake.results.spark_path, ".screen").rglob("*") if path.is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def test_unchanged_files_are_cleared_again(lake: ScreenLake, first: tuple[Path, int]) -> None:
    kept = files(lake)
    assert checked(lake).files == first[1] >= len(KEYS)
    assert files(lake) == kept


NEWER: dict[str, Any] = {
    "commits": [
        step(NEW, version=6),
        step(KEYS[0], version=6, added=False, time=CUT),
        step(KEYS[1], version=6),
        step(KEYS[30], "clone", version=6),
    ],
    "known": [open_row(KEYS[3])],
}
"""Commits after the first audit, of both days, and a file that is open in the ledger since."""


def test_what_commits_and_the_ledger_name_is_read_again(lake: ScreenLake, first: tuple[Path, int]) -> None:
    now = replace(lake, **NEWER)
    assert checked(now, shares=2).files == first[1] - 4
    assert reused_screen(now) is not None


@pytest.mark.soak
def test_what_was_loose_is_read_again_when_it_is_not_any_more(tmp_path: Path) -> None:
    lake = fixed_lake(tmp_path)
    gone = [step(KEYS[0], version=6, added=False)]
    before = narrowly(replace(lake, commits=gone, known=[open_row(KEYS[1])]), InProcessEngine(1))
    assert checked(lake).files == before.files
    assert reused_screen(lake) is not None


any_steps = st.lists(
    st.builds(
        lambda key, of: [step(key, **{"version": 6, **given}) for given in of],
        st.sampled_from([*KEYS[:6], NEW, "shop/day=3/plain,plain,plain"]),
        st.sampled_from([*STEPS.values()]),
    ),
    max_size=4,
).map(lambda drawn: [row for rows in drawn for row in rows])
any_known = st.lists(st.sampled_from(KEYS[:6]).map(open_row), max_size=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=60)
@given(st.lists(st.tuples(any_steps, any_known), min_size=2, max_size=3))
def test_whatever_becomes_of_commits_and_ledger(
    tmp_path_factory: pytest.TempPathFactory, audits: list[tuple[list[Row], list[Row]]]
) -> None:
    lake = fixed_lake(tmp_path_factory.mktemp("results"))
    for commits, still_open in audits:
        checked(replace(lake, commits=commits, known=still_open))


def other_grace(lake: ScreenLake) -> ScreenLake:
    return replace(lake, tables=[table("shop", grace=timedelta(days=4)), table("clone")])


def other_report(lake: ScreenLake) -> ScreenLake:
    return replace(lake, pinned="of another content")


def later_report(lake: ScreenLake) -> ScreenLake:
    later = (Source(start=CUT + timedelta(minutes=5)),)
    return replace(lake, storage=later, metastores=later)


def another_table(lake: ScreenLake) -> ScreenLake:
    return replace(lake, tables=[*lake.tables, table("inner", at="shop/day=1")])


def table_with_a_gap(lake: ScreenLake) -> ScreenLake:
    return replace(lake, tables=[table("shop", holed=True), table("clone")])


@pytest.mark.parametrize("change", [other_grace, other_report, later_report, another_table, table_with_a_gap])
def test_where_anything_else_differs_the_screen_does_not_fit(
    lake: ScreenLake, change: Callable[[ScreenLake], ScreenLake]
) -> None:
    assert reused_screen(lake) is not None
    assert reused_screen(change(lake)) is None


def test_other_code_makes_another_screen(lake: ScreenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_prefilter, "code_of_prefilter", lambda: "another version")
    assert reused_screen(lake) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"kept": ("entries",)},
        {"kept": ("versions",)},
        {"kept": ("steps",)},
        {"pinned": ""},
        {"scope": ["clone"]},
    ],
    ids=["a scan", "a listing", "logs of commits alone", "nothing is fixed", "a part of the lake"],
)
def test_settings_that_differ_in_each_audit_are_not_cached(lake: ScreenLake, changes: dict[str, Any]) -> None:
    assert keeper(replace(lake, **changes)) is None


def test_where_much_would_be_read_again_the_screen_does_not_fit(
    lake: ScreenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_prefilter, "MOST", 20)
    few, many = ([step(key, version=6) for key in KEYS[:count]] for count in (2, 8))
    fits = [reused_screen(replace(lake, commits=commits)) is not None for commits in (few, many)]
    assert fits == [True, False]


HARMS = [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-3])]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("which", [0, 1], ids=["keys", "the screen"])
def test_a_file_that_is_gone_or_torn_is_as_good_as_none(
    lake: ScreenLake, which: int, harm: Callable[[Path], Any]
) -> None:
    harm(files(lake)[which])
    assert reused_screen(replace(lake, commits=[step(KEYS[0], version=6)])) is None


def faulty(kind: str, rows: pa.Table, con: duck.Connection) -> Batches:
    yield kind, rows
    yield "notes", note_row("source", "part", "cannot be read")


def test_only_the_last_screen_is_kept_and_none_of_a_reading_with_a_fault(
    lake: ScreenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = files(lake)
    narrowly(other_report(lake), InProcessEngine(1))
    assert len(files(lake)) == len(kept)
    assert not {*files(lake)} & {*kept}
    monkeypatch.setattr(screen_lake, "_single_batch", faulty)
    assert differences(in_full(lake), narrowly(lake, InProcessEngine(1))) == {}
    assert files(lake) == []


def test_a_name_is_the_same_in_every_process() -> None:
    told = [
        cached_prefilter._stable_text(cached_prefilter._parameters(fixed_lake(Path("/nowhere")).screen()))
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert " at 0x" not in told[0]
