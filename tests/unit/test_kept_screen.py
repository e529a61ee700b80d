"""What a kept screen spares changes no answer, whatever commits and the ledger have become; else it is made anew."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.keys import Location
from lakeaudit.pipeline import kept_screen
from lakeaudit.pipeline.engine import InProcessEngine
from lakeaudit.pipeline.kept_screen import KeptScreen, Screened
from tests.builders.both_readings import FirstAnswers, SharingEngine, differences, in_full, narrowly
from tests.builders.evidence import CUT
from tests.builders.scenario import table
from tests.builders.screen_lake import ScreenLake, Source
from tests.builders.screen_rows import STEPS, Row, folder, known, step

KEYS = [f"shop/day={day}/{n}" for day in (1, 2) for n in range(20)]
"""All sources agree on these."""
NEW = "shop/day=2/new"
"""A key that nothing knows but a commit."""


@pytest.fixture
def lake(tmp_path: Path) -> ScreenLake:
    return laid(tmp_path)


def laid(place: Path) -> ScreenLake:
    """Files of fixed content: keys that agree, and one for everything that one source may say instead."""
    lake = ScreenLake(results=Location.parse(str(place)), pinned="of this content")
    lake.rows["entries"] += [folder("shop"), folder("shop/day=1"), folder("shop/day=2")]
    lake.plain(*KEYS)
    lake.star("shop/day=3/")
    return lake


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Screened | None]:
    """What kept screens said, each time that one was asked."""
    answers: list[Screened | None] = []
    last = KeptScreen.last

    def noted(self: KeptScreen, engine: Any) -> Screened | None:
        answers.append(last(self, engine))
        return answers[-1]

    monkeypatch.setattr(KeptScreen, "last", noted)
    return answers


@pytest.fixture(autouse=True)
def any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys have to be read again."""
    monkeypatch.setattr(kept_screen, "MOST", 1)


def read(lake: ScreenLake) -> FirstAnswers:
    """The lake read narrowly."""
    return narrowly(lake, InProcessEngine(1))


def checked(lake: ScreenLake) -> FirstAnswers:
    """The same, which must answer as in full."""
    found = narrowly(lake, SharingEngine(2))
    assert differences(in_full(lake), found) == {}
    return found


def test_what_has_not_changed_is_let_go_again(lake: ScreenLake, said: list[Screened | None]) -> None:
    first = read(lake)
    assert checked(lake).files == first.files
    assert [each is not None for each in said] == [False, True]


@pytest.mark.parametrize(
    ("newer", "left"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([step(NEW, version=6)], 0, id="a file that nobody has"),
        pytest.param([step(KEYS[0], version=6, added=False, time=CUT)], 1, id="removed"),
        pytest.param([step(KEYS[0], version=6), step(KEYS[30], version=6)], 2, id="added again"),
        pytest.param([step(KEYS[0], "clone", version=6)], 1, id="listed by another table"),
    ],
)
def test_what_commits_name_is_read_again(
    lake: ScreenLake, said: list[Screened | None], newer: list[Row], left: int
) -> None:
    before = read(lake).files
    assert checked(replace(lake, commits=newer)).files == before - left
    assert said[1] is not None


def test_what_was_loose_is_read_again_when_it_is_not_any_more(
    lake: ScreenLake, said: list[Screened | None]
) -> None:
    before = read(replace(lake, commits=[step(KEYS[0], version=6, added=False)], known=[known(KEYS[1])]))
    assert checked(lake).files == before.files
    assert said[1] is not None


def test_what_the_ledger_holds_open_is_read_again(lake: ScreenLake, said: list[Screened | None]) -> None:
    before = read(lake).files
    assert checked(replace(lake, known=[known(KEYS[3])])).files == before - 1
    assert said[1] is not None


any_steps = st.lists(
    st.builds(
        lambda key, of: [step(key, **{"version": 6, **given}) for given in of],
        st.sampled_from([*KEYS[:6], NEW, "shop/day=3/plain,plain,plain"]),
        st.sampled_from([*STEPS.values()]),
    ),
    max_size=4,
).map(lambda drawn: [row for rows in drawn for row in rows])
any_known = st.lists(st.sampled_from(KEYS[:6]).map(known), max_size=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=60)
@given(st.lists(st.tuples(any_steps, any_known), min_size=2, max_size=3))
def test_whatever_becomes_of_commits_and_ledger(
    tmp_path_factory: pytest.TempPathFactory, audits: list[tuple[list[Row], list[Row]]]
) -> None:
    lake = laid(tmp_path_factory.mktemp("results"))
    for commits, still_open in audits:
        checked(replace(lake, commits=commits, known=still_open))


def other_grace(lake: ScreenLake) -> ScreenLake:
    return replace(lake, tables=[table("shop", grace=timedelta(days=4)), table("clone")])


def other_report(lake: ScreenLake) -> ScreenLake:
    return replace(lake, pinned="of another content")


def later_report(lake: ScreenLake) -> ScreenLake:
    later = (Source(start=CUT + timedelta(minutes=5)),)
    return replace(lake, storage=later, metastores=later)


def read_live(lake: ScreenLake) -> ScreenLake:
    return replace(lake, kept=("entries",))


def another_table(lake: ScreenLake) -> ScreenLake:
    return replace(lake, tables=[*lake.tables, table("inner", at="shop/day=1")])


def less_scope(lake: ScreenLake) -> ScreenLake:
    return replace(lake, scope=["clone"])


@pytest.mark.parametrize(
    "change", [other_grace, other_report, later_report, another_table, less_scope, read_live]
)
def test_where_anything_else_differs_the_screen_is_made_anew(
    lake: ScreenLake, said: list[Screened | None], change: Callable[[ScreenLake], ScreenLake]
) -> None:
    read(lake)
    read(change(lake))
    assert [*filter(None, said)] == []


def test_where_much_would_be_read_again_the_screen_is_made_anew(
    lake: ScreenLake, said: list[Screened | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_screen, "MOST", 20)
    read(lake)
    few, many = ([step(key, version=6) for key in KEYS[:count]] for count in (2, 8))
    for commits in (few, many):
        read(replace(lake, commits=commits))
    assert [each is not None for each in said] == [False, True, False]


def files(lake: ScreenLake) -> list[Path]:
    return sorted(
        (path for path in Path(lake.results.spark_path, ".screen").rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_mtime,
    )


def test_nothing_is_kept_of_a_reading_with_a_fault(lake: ScreenLake) -> None:
    read(replace(lake, torn=True, pinned="torn"))
    assert files(lake) == []


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-3])])
@pytest.mark.parametrize("which", [0, -1], ids=["keys", "the screen"])
def test_a_file_that_is_gone_or_torn_is_as_good_as_none(
    lake: ScreenLake, said: list[Screened | None], which: int, harm: Callable[[Path], Any]
) -> None:
    read(lake)
    harm(files(lake)[which])
    assert read(replace(lake, commits=[step(KEYS[0], version=6)])).files > 0
    assert said[1] is None


def test_only_the_last_screen_is_kept(lake: ScreenLake) -> None:
    read(lake)
    count = len(files(lake))
    read(other_report(lake))
    assert len(files(lake)) == count


def test_other_code_makes_another_screen(
    lake: ScreenLake, said: list[Screened | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(lake)
    monkeypatch.setattr(kept_screen, "code_of_screens", lambda: "another version")
    read(lake)
    assert said[1] is None


def test_a_name_is_the_same_in_every_process() -> None:
    told: Sequence[str] = [
        kept_screen._told(kept_screen._made_with(laid(Path("/nowhere")).screen())) for _ in range(2)
    ]
    assert told[0] == told[1]
    assert " at 0x" not in told[0]
