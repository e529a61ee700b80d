"""Runs a command and measures all of its processes: seconds, CPU seconds, memory, and the load of the machine."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EVERY = 0.2
PSS_AT_MOST_EVERY = 0.5
GREW = 1.1
"""Proportional memory is expensive to read (70 ms per GiB): it is read when resident memory reaches a new high, and
within half a second only if that is a tenth higher."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessUsage:
    """The resources that one process and its descendants used.

    Attributes:
        cpu: CPU seconds of all processes.
        cpu_of: the same by kind of process: JVM, worker (Python started by a JVM), driver (the rest).
        pss: highest sum of proportional set sizes, in bytes: pages that processes share count once.
        rss: highest sum of resident set sizes, in bytes.
        load: the machine's load average (1 minute) before and after.
    """

    seconds: float
    cpu: float
    cpu_of: dict[str, float]
    pss: int
    rss: int
    load: tuple[float, float]
    code: int
    out: str
    err: str


@dataclass
class _Tree:
    """A process and its descendants, as observed so far."""

    root: int
    ticks: dict[int, int] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    rss: int = 0
    pss: int = 0
    _looked: float = 0.0
    _at_look: int = 0

    def look(self) -> None:
        pids = family(self.root)
        for pid in pids:
            self.ticks[pid] = max(_ticks(pid), self.ticks.get(pid, 0))
            if kind := _kind(pid):
                self.kinds[pid] = kind
        now = sum(map(_resident, pids))
        self.rss = max(self.rss, now)
        due = time.monotonic() - self._looked > PSS_AT_MOST_EVERY
        if now > self._at_look * (1 if due else GREW):
            self.pss, self._at_look = max(self.pss, sum(map(_proportional, pids))), now
            self._looked = time.monotonic()

    def cpu_of(self) -> dict[str, float]:
        """Return CPU seconds by kind of process."""
        seconds: dict[str, float] = {}
        for pid, ticks in self.ticks.items():
            kind = self.kinds.get(pid, "driver")
            seconds[kind] = seconds.get(kind, 0) + ticks / _TICKS
        return {kind: round(each, 2) for kind, each in seconds.items()}


def run_watched(
    command: Sequence[str], environment: Mapping[str, str], logs: Path, *, allowed: Sequence[int] = (0,)
) -> ProcessUsage:
    """Run the command to its end; its output is written to `logs`.

    Raises:
        RuntimeError: it ended with a code that is not allowed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    before, begun = os.getloadavg()[0], time.monotonic()
    with (logs / "out").open("wb") as out, (logs / "err").open("wb") as err:
        process = subprocess.Popen(command, env=dict(environment), stdout=out, stderr=err)
        tree = _Tree(process.pid)
        try:
            while process.poll() is None:
                tree.look()
                time.sleep(EVERY)
        finally:
            process.kill()
    seconds = time.monotonic() - begun
    texts = [(logs / name).read_text(errors="replace") for name in ("out", "err")]
    if process.returncode not in allowed:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{texts[1][-3000:]}")
    load = (before, os.getloadavg()[0])
    cpu = tree.cpu_of()
    return ProcessUsage(seconds, sum(cpu.values()), cpu, tree.pss, tree.rss, load, process.returncode, *texts)


def family(root: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {
        int(path.name): _parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    found, more = {root}, True
    while more:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        found, more = found | children, bool(children)
    return found


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def _ticks(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return _text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _kind(pid: int) -> str:
    """Return the kind of a process; empty if the process has ended."""
    command = _text(f"/proc/{pid}/cmdline").split("\0")
    if not command[0]:
        return ""
    if command[0].endswith("/java"):
        return "JVM"
    daemon = any("daemon" in part or "python_worker" in part for part in command[1:])
    return "worker" if daemon else "driver"


def _resident(pid: int) -> int:
    fields = _text(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _proportional(pid: int) -> int:
    lines = _text(f"/proc/{pid}/smaps_rollup").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""
