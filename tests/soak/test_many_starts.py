"""Many starts of `lakeaudit findings` on a loaded machine: each prints its last row, and none ends with SIGABRT.

A native thread that is alive when the interpreter takes itself apart ends a process after its last row ("terminate
called without an active exception"): one in twenty of them, and only where threads are late. See `cli.program`.

`LAKEAUDIT_SOAK_STARTS` sets another number of starts.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.results import covered, finding, lake_file, publish, run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

STARTS = int(os.environ.get("LAKEAUDIT_SOAK_STARTS", "500"))
AT_ONCE = 4
"""More than there are cores for, beside the loops that keep those busy."""
LOOPS = 2


@pytest.fixture
def busy() -> Iterator[None]:
    """Processes that want all they can get of the machine."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_every_start_ends_with_its_last_row(tmp_path: Path, busy: None) -> None:
    place = Location.parse(str(tmp_path / "results"))
    rows = [finding("dropped", f"orders/{number}") for number in range(20)]
    publish(place, runs=[run()], coverage=[covered()], findings=rows)
    program = Path(sys.executable).with_name("lakeaudit")
    line = [str(program), "findings", lake_file(tmp_path, place), "--format", "jsonl"]

    def start(_: int) -> tuple[int, int, str]:
        ended = subprocess.run(line, check=False, capture_output=True, text=True)
        sound = ended.returncode == 0
        return ended.returncode, len(ended.stdout.splitlines()), "" if sound else ended.stderr[-500:]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert Counter(pool.map(start, range(STARTS))) == {(0, len(rows), ""): STARTS}
