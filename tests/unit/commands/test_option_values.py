"""Times, durations and patterns of options: each bad value is one line that names the option, with exit code 2."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.commands.option_values import duration_option, end_option, pattern_option, time_option
from lakeaudit.errors import BadInput
from lakeaudit.keys import Location
from tests.builders.results import lake_file, publish, run

TIMES = {
    "2026-11-21": datetime(2026, 11, 21, tzinfo=UTC),
    "2026-11-21T08:00:00Z": datetime(2026, 11, 21, 8, tzinfo=UTC),
    "2026-11-21T08:00:00+02:00": datetime(2026, 11, 21, 6, tzinfo=UTC),
    "2026-11-21 08:00:00.25": datetime(2026, 11, 21, 8, 0, 0, 250000, tzinfo=UTC),
    "1970-01-01": datetime(1970, 1, 1, tzinfo=UTC),
    "9799-12-31T23:59:59-14:00": None,
    "1969-12-31T23:59:59Z": None,
    "0001-01-01": None,
    "0001-01-01T00:00:00+14:00": None,
    "9999-12-31T23:59:59-14:00": None,
    "9999-12-31": None,
    "2026-11-31": None,
    "2026-11-21T25:00:00Z": None,
    "2026-11-21T08:00:00 UTC": None,
    "1763712000": None,
    "yesterday": None,
    "\u0662\u0660\u0662\u0666-11-21": None,
    "2026-11-21\n": None,
    "": None,
}


@pytest.mark.parametrize("text", TIMES)
def test_times(text: str) -> None:
    if at := TIMES[text]:
        assert time_option("--after", text) == at
        return
    with pytest.raises(BadInput, match=r"^--after .*(is not a timestamp|from 1970 to 9799)"):
        time_option("--after", text)


def test_a_day_ends_at_midnight_and_a_time_is_itself() -> None:
    assert end_option("--until", "2027-06-01") == datetime(2027, 6, 2, tzinfo=UTC)
    assert end_option("--until", "2027-06-01T12:00:00Z") == datetime(2027, 6, 1, 12, tzinfo=UTC)


DURATIONS = {
    "36h": timedelta(hours=36),
    "0s": timedelta(0),
    "36500d": timedelta(days=36500),
    "36501d": None,
    "9999999999d": None,
    "99999999999d": None,
    "1.5h": None,
    "-1h": None,
    "1w": None,
    "36": None,
    "\u0663h": None,
    "24h\n": None,
    "": None,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_durations(text: str) -> None:
    if (value := DURATIONS[text]) is not None:
        assert duration_option("--within", text, "24h") == value
        return
    with pytest.raises(BadInput, match=r"^--within .*is not a duration; write 24h or 2d$"):
        duration_option("--within", text, "24h")


def test_a_range_of_letters_that_runs_backwards_is_not_a_pattern() -> None:
    with pytest.raises(BadInput, match=r"^--table \[z-a\]: is not a pattern"):
        pattern_option("--table", "[z-a]")


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31", "1"]
)
@pytest.mark.parametrize(
    "command",
    [
        ("check", "--table", "orders", "--after"),
        ("audit", "--as-of"),
        ("verified", "--through"),
        ("baseline", "--reason", "x", "--until"),
    ],
)
def test_each_command_refuses_a_bad_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...], time: str
) -> None:
    place = Location.parse(str(tmp_path / "results"))
    publish(place, runs=[run("r1")])
    name, *rest = command
    assert cli.main([name, lake_file(tmp_path, place), *rest, time]) == 2
    printed = capsys.readouterr().err.strip()
    assert printed.splitlines()[-1].startswith(f"lakeaudit: {rest[-1]} {time}: is not a ")
