"""Commands as processes of their own that start in milliseconds: forked from a process that has imported everything.

`python -m tests.builders.zygote` reads a JSON object a line: `argv`, `out` (a file for both streams), `ahead` (seconds
by which the clock of the command is ahead) and `pace` (beat and expiry of leases in seconds). It forks, prints the
command's process id, waits for its end and prints its status. It has a single thread and has never sent a request.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

VICTIM = "victim"
"""The access key of these commands, by which the server knows their requests."""


@dataclass(frozen=True)
class CommandResult:
    """The exit code of a command, negative for a signal, and its output."""

    code: int
    output: str


@dataclass
class Zygote:
    """The process that forks; one command at a time."""

    process: "subprocess.Popen[str]"
    folder: Path
    pace: tuple[float, float] | None = None
    skew: float = 0
    """Seconds by which the clock of this machine is ahead, as the commands see it."""
    pid: int = 0

    def start(self, *argv: str, ahead: float = 0) -> int:
        """Start a command; its process id."""
        line = {"argv": argv, "out": str(self.folder / "out"), "ahead": ahead, "pace": self.pace}
        line |= {"skew": self.skew}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        self.pid = int(self._answer())
        return self.pid

    def end(self) -> CommandResult:
        """Wait for the end of the command that was started last."""
        code = os.waitstatus_to_exitcode(int(self._answer()))
        self.pid = 0
        return CommandResult(code, (self.folder / "out").read_text(errors="replace"))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command that runs, if any does."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def has_ended(self) -> bool:
        """Whether the command has ended, and `end` does not wait."""
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def run(self, *argv: str, ahead: float = 0) -> CommandResult:
        """A whole command."""
        self.start(*argv, ahead=ahead)
        return self.end()

    def _answer(self) -> str:
        assert self.process.stdout
        answer = self.process.stdout.readline()
        assert answer, "the process that forks has ended"
        return answer


@contextmanager
def zygote(folder: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Zygote]:
    """A process that forks commands, which ends with the block."""
    env = {**environ, "AWS_ACCESS_KEY_ID": VICTIM}
    command = [sys.executable, "-m", "tests.builders.zygote"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        forked = Zygote(process, folder)
        try:
            yield forked
        finally:
            process.kill()
            forked.send(signal.SIGKILL)  # it may stand still


def _serve() -> None:
    _import_everything()
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _command(wanted)
        print(pid, flush=True)  # noqa: T201 - the answer
        print(os.waitpid(pid, 0)[1], flush=True)  # noqa: T201 - the answer


def _import_everything() -> None:
    from lakeaudit.runtime.connections.aws import Clients, Endpoint

    Clients(Endpoint("http://127.0.0.1:9", "us-east-1", path_style=True)).s3("any")
    from lakeaudit.gates.expectation_suites import great_expectations

    great_expectations()


def _command(wanted: Mapping[str, Any]) -> None:
    from lakeaudit.cli import audits, main, reconcile, results
    from lakeaudit.ledger import lease
    from lakeaudit.runtime.connections import aws

    out = os.open(wanted["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    aws.forget_clients()
    ahead = timedelta(seconds=wanted["ahead"])
    for module in (audits, reconcile, results):
        if hasattr(module, "now"):
            vars(module)["now"] = lambda: datetime.now(UTC) + ahead
    if wanted["skew"]:
        set_clock(timedelta(seconds=wanted["skew"]))
    if wanted["pace"]:
        set_pace(lease, wanted["pace"])
    code = main(wanted["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def set_clock(skew: timedelta) -> None:
    """Let every module of the product see a clock that is wrong by so much."""

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime)

    class Skewed(datetime, metaclass=Kind):
        def __new__(cls, *args: Any, **given: Any) -> Any:
            return datetime(*args, **given)  # noqa: DTZ001 - what was asked for

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + skew

    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == "lakeaudit" and vars(module).get("datetime") is datetime:
            vars(module)["datetime"] = Skewed


def set_pace(lease: Any, pace: Sequence[float]) -> None:
    """Let leases of this process expire sooner."""
    lease.PACE = lease.Pace(*pace)


if __name__ == "__main__":
    _serve()
