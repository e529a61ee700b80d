"""Logs held packed say what their files' names, sizes and times say, one by one: gaps, doubles and junk included."""

import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.delta.log import log_files
from lakeaudit.evidence.manifest.delta.log.commit_runs import NEWEST_POSSIBLE, time_at
from lakeaudit.evidence.manifest.delta.log.layout import CLOCK_STEP, Log, gaps, parse, plan, written_late
from lakeaudit.evidence.manifest.delta.log.log_files import CommitFiles, LogFile, each, runs, weight
from lakeaudit.keys import Location

FOLDER = Location("lake", "orders/_delta_log")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
JUNK = ("_last_checkpoint", "{:019}.json", "{:021}.json", "{:020}.JSON", "{:020}.json.tmp", "{:020}.crc",
        "x{:020}.json", "{:020}.checkpoint.0000000001.0000000002.json", "\u0660{:019}.json",
        "{:020}.checkpoint..parquet")  # fmt: skip
"""Names of neither commits nor checkpoints; one has a digit that is not ASCII."""
TOO_LARGE = 10**20 - 1

runs_of_versions = st.lists(
    st.builds(
        lambda first, length: range(first, min(first + length, NEWEST_POSSIBLE + 1)),
        st.one_of(st.integers(0, 60), st.integers(NEWEST_POSSIBLE - 5, NEWEST_POSSIBLE)),
        st.integers(1, 9),
    ),
    max_size=5,
)
versions = runs_of_versions.map(lambda found: sorted({version for run in found for version in run}))
seconds = st.integers(-20, 20)


@st.composite
def listings(draw: st.DrawFn) -> list[File]:
    """Files of a log in any order: commits, checkpoints of all forms, and junk; a name may come twice."""
    commits = draw(versions)
    whole = draw(st.lists(st.sampled_from([*commits, 3, 7]), max_size=3))
    names = [f"{version:020}.json" for version in [*commits, *commits[: draw(st.integers(0, 2))]]]
    names += [f"{version:020}.checkpoint.{draw(st.sampled_from(_FORMS))}" for version in whole]
    names += [name.format(draw(st.integers(0, 30))) for name in draw(st.lists(st.sampled_from(JUNK)))]
    names += draw(st.sampled_from([[], [f"{TOO_LARGE}.json", f"{TOO_LARGE}.checkpoint.parquet"]]))
    if not draw(st.booleans()):
        names = draw(st.permutations(names))
    return [
        File(FOLDER.join(name), draw(st.integers(0, 40)), NOON + timedelta(seconds=draw(seconds)))
        for name in names
    ]


_FORMS = (
    "parquet",
    "80a083e8-7026-4e79-81be-64bd76c43a11.json",
    "z.parquet",
    "0000000001.0000000001.parquet",
)


def by_version(files: Sequence[File]) -> dict[int, File]:
    """Commits one by one; of two of one version the last one counts."""
    found = {int(file.name[:20]): file for file in files if _is_commit(file.name)}
    return dict(sorted(found.items()))


def _is_commit(name: str) -> bool:
    return (
        len(name) == 25
        and name.isascii()
        and name[:20].isdigit()
        and name[20:] == ".json"
        and name[:20] < str(TOO_LARGE)
    )


def commit_times(commits: Mapping[int, File]) -> dict[int, datetime]:
    """Return the commit times, each later than the one before."""
    times: dict[int, datetime] = {}
    last: datetime | None = None
    for version, file in commits.items():
        last = file.modified_at if last is None else max(file.modified_at, last + MILLISECOND)
        times[version] = last
    return times


@settings(max_examples=60, deadline=None)
@given(listings(), st.integers(-1, 70))
def test_a_log_gives_back_what_was_listed(files: list[File], version: int) -> None:
    log, expected = parse(FOLDER, files), by_version(files)
    told = {v: (size, time) for v, size, time in log.commits.files()}
    assert told == {v: (file.size, file.modified_at) for v, file in expected.items()}
    assert [*log.commits] == [*expected]
    assert [v for first, last in log.commits.runs() for v in range(first, last + 1)] == [*expected]
    assert all(a_last + 1 < first for (_, a_last), (first, _) in pairwise(log.commits.runs()))
    assert (version in log.commits, log.commits.newest) == (version in expected, max(expected, default=None))
    found = expected.get(version)
    assert log.commits.written_at(version) == (found.modified_at if found else None)
    assert [*log.commits.after(version)] == [v for v in expected if v > version]
    assert [*log.until(version).commits] == [v for v in expected if v <= version]
    assert {v: time for v, _, time in log.commits_as_made.files()} == commit_times(expected)
    again = pickle.loads(pickle.dumps(log))
    assert [*again.commits.files()] == [*log.commits.files()]
    assert [*again.checkpoints] == [*log.checkpoints]


@settings(max_examples=60, deadline=None)
@given(listings(), st.integers(-1, 70))
def test_checkpoints_come_back_as_they_were_listed(files: list[File], version: int) -> None:
    listed = parse(FOLDER, files)
    whole = [file for file in files if f".checkpoint.{file.name[32:]}" in {f".checkpoint.{form}" for form in _FORMS}
             and int(file.name[:20]) <= NEWEST_POSSIBLE]  # fmt: skip
    told = sorted((point.version, part.name) for point in listed.checkpoints for part in point.parts)
    assert {*told} == {(int(file.name[:20]), file.name) for file in whole}
    assert [point.version for point in listed.checkpoints] == sorted(p.version for p in listed.checkpoints)
    times = commit_times(by_version(files))
    assert [listed.time_of(p) for p in listed.checkpoints] == [
        times.get(p.version, p.written_at) for p in listed.checkpoints
    ]
    assert [time_at(time) for time in listed.state_times] == [listed.time_of(p) for p in listed.checkpoints]
    kept = listed.until(version).checkpoints
    assert [*kept] == [point for point in listed.checkpoints if point.version <= version]
    every = [*by_version(files).values(), *whole]
    assert listed.newest == max((int(file.name[:20]) for file in every), default=None)


@settings(max_examples=60, deadline=None)
@given(listings(), st.integers(0, 70), st.integers(0, 70))
def test_gaps_are_the_versions_between_that_are_missing(files: list[File], first: int, last: int) -> None:
    log, expected = parse(FOLDER, files), by_version(files)
    missing = [version for version in range(first, last + 1) if version not in expected]
    found = gaps(log.commits, first, last)
    assert [version for gap in found for version in range(gap.first, gap.last + 1)] == missing
    assert all(gap.first <= gap.last for gap in found)


@settings(max_examples=60, deadline=None)
@given(listings(), st.integers(-1, 20))
def test_commits_written_late_are_found_one_by_one(files: list[File], since: int) -> None:
    log = parse(FOLDER, files)
    times = {v: file.modified_at for v, file in by_version(files).items() if v > since}
    late = tuple(v for v in times if v + 1 in times and times[v] > times[v + 1] + CLOCK_STEP)
    assert written_late(log, since) == (late if len(late) <= max(3, len(times) // 20) else ())


@settings(max_examples=100, deadline=None)
@given(listings(), st.none() | seconds, st.integers(0, 3))
def test_the_state_to_read_is_the_one_that_looking_at_all_of_them_gives(
    files: list[File], needed: int | None, bad: int
) -> None:
    log = parse(FOLDER, files)
    broken = [part.place for point in log.checkpoints[:bad] for part in point.parts]
    back = None if needed is None else NOON + timedelta(seconds=needed)
    chosen, expected = plan(log, broken, back), _planned(log, by_version(files), broken, back)
    assert (chosen and chosen.base_version, chosen and [*chosen.commits]) == expected


def _planned(
    log: Log, commits: Mapping[int, File], broken: Sequence[Location], needed: datetime | None
) -> tuple[int | None, list[int] | None]:
    """The version of the state, and the commits after it."""
    times, newest = commit_times(commits), log.newest
    bases = [(-1, times[0])] if 0 in commits else []
    bases += [(point.version, times.get(point.version, point.written_at)) for point in log.checkpoints
              if not point.places & {*broken}]  # fmt: skip
    if newest is None or not bases:
        return None, None
    unbroken = newest + 1
    while unbroken - 1 in commits:
        unbroken -= 1
    whole = [base for base in bases if base[0] >= unbroken - 1]
    old_enough = [base for base in whole if needed is not None and base[1] <= needed]
    version = [*whole[:1], *old_enough][-1][0] if whole else bases[-1][0]
    return version, [v for v in commits if v > version]


@settings(max_examples=60, deadline=None)
@given(st.lists(listings(), max_size=3), st.integers(1, 7), st.integers(1, 60))
def test_tasks_are_given_every_file_once_in_order_and_no_more_than_they_read(
    tables: list[list[File]], most_files: int, most_bytes: int
) -> None:
    given_files: list[CommitFiles | LogFile] = []
    for number, files in enumerate(tables):
        log = parse(FOLDER, files)
        given_files.append(CommitFiles(f"t{number}", FOLDER, FOLDER, log.commits_as_made))
        given_files += [
            LogFile(f"t{number}", FOLDER, p.version, NOON, True, p.parts[0]) for p in log.checkpoints
        ]
    every = each(given_files)
    with patch.multiple(log_files, _TASK_FILES=most_files, _TASK_BYTES=most_bytes):
        cut = [*runs(given_files)]
    assert [file for pieces in cut for file in each(pieces)] == every
    assert [[file.file.place for file in each(pieces)] for pieces in cut] == _split(
        every, most_files, most_bytes
    )
    assert [weight(pieces) for pieces in cut] == [sum(f.file.size for f in each(pieces)) for pieces in cut]


def _split(files: Sequence[LogFile], most_files: int, most_bytes: int) -> list[list[Location]]:
    cut: list[list[LogFile]] = []
    for file in files:
        held = sum(each.file.size for each in cut[-1]) if cut else 0
        if not cut or len(cut[-1]) == most_files or held + file.file.size > most_bytes:
            cut.append([])
        cut[-1].append(file)
    return [[file.file.place for file in run] for run in cut]


def test_a_driver_holds_a_long_log_in_few_bytes_a_commit() -> None:
    """A commit a minute for two weeks, with a checkpoint after every tenth; and what tasks are handed of it."""
    count = 20_160
    names = [f"{version:020}.json" for version in range(count)]
    names += [f"{version:020}.checkpoint.parquet" for version in range(0, count, 10)]
    found = (File(FOLDER.join(name), 900, NOON + timedelta(minutes=n)) for n, name in enumerate(names))
    log = parse(FOLDER, found)
    assert len(pickle.dumps(log)) < 20 * count
    parts = [
        pickle.dumps(pieces) for pieces in runs([CommitFiles("orders", FOLDER, FOLDER, log.commits_as_made)])
    ]
    assert sum(map(len, parts)) < 24 * count
    assert len(parts) == -(-count // 256)
