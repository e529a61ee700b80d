"""Report the stages of a running command on stderr: live on a terminal, else as JSON lines.

A stage that takes long is also reported while it runs: on a terminal by a bar, else by a line every 15 seconds. Both
have the completed part of the work, if the stage knows it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.markup import escape

from lakeaudit.runtime.console import console_on

if TYPE_CHECKING:
    from rich.status import Status

Count = int | float | str

EVERY, REFRESH = 15.0, 0.5
"""Seconds between reports of a running stage: as JSON lines, and on a terminal."""
BAR = 24
"""Width of the bar in characters."""


@dataclass(frozen=True)
class Work:
    """The completed part of the work of a stage, in `unit`s such as parts or tasks."""

    done: int
    total: int
    unit: str


Watch = Callable[[], Work | None]
"""Returns the completed part of the work; None: it is not known. It is called from another thread, at any time."""


class StageLog(Protocol):
    """Collects the counts of a stage while it runs."""

    def note(self, **counts: Count) -> None:
        """Add counts to the report of the stage; a repeated name keeps its last value."""

    def watch(self, work: Watch) -> None:
        """Let reports of the running stage contain its completed part."""

    def say(self, text: str, **fields: Count) -> None:
        """Report a result of the running stage at once: its text on a terminal, else a line with text and fields."""


class Progress(Protocol):
    """The stages of a command, one after the other or nested."""

    def stage(self, name: str) -> AbstractContextManager[StageLog]:
        """Open a stage: it begins with the `with` block and ends, or fails, with it."""


@dataclass
class Counts:
    """The plain `StageLog`."""

    noted: dict[str, Count] = field(default_factory=dict)
    work: Watch = lambda: None
    report: Callable[[str, Mapping[str, Count]], None] = lambda _text, _fields: None

    def note(self, **counts: Count) -> None:
        """Keep the counts."""
        self.noted |= counts

    def watch(self, work: Watch) -> None:
        """Keep the function."""
        self.work = work

    def say(self, text: str, **fields: Count) -> None:
        """Report the result."""
        self.report(text, fields)


class SilentProgress:
    """Reports nothing."""

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:  # noqa: ARG002 - the protocol's name
        """One stage."""
        yield Counts()


class JsonProgress:
    """One JSON object a line when a stage ends: time, level, stage, seconds, failed, and the stage's counts.

    While it runs, a line every `every` seconds has time, stage, seconds, and `done` and `total` of its work if known. A
    line about a result also has `text` and the fields of the result. The level is `error` for a stage that failed, that
    of the severity for a result, and else `info`.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        every: float = EVERY,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._every = every

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        """One stage."""
        began, log = monotonic(), Counts()
        log.report = lambda text, fields: self._print(
            name, began, **{"running": True, **_completed(log), "text": text, **fields}
        )
        failed = True
        try:
            with _repeated(self._every, lambda: self._print(name, began, running=True, **_completed(log))):
                yield log
            failed = False
        finally:
            self._print(name, began, failed=failed, **log.noted)

    def _print(self, name: str, began: float, **more: Count) -> None:
        level = "error" if more.get("failed") else more.get("severity", "info")
        at = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": at, "level": level, "stage": name, "seconds": round(monotonic() - began, 3)}
        print(json.dumps(line | more, default=str), file=self._stream, flush=True)


def _completed(log: Counts) -> dict[str, Count]:
    work = log.work()
    return {} if work is None else {"done": work.done, "total": work.total, "unit": work.unit}


@contextmanager
def _repeated(seconds: float, report: Callable[[], None]) -> Iterator[None]:
    """Call `report` in another thread whenever these seconds have passed; a report that fails is left out."""
    stopped = Event()

    def repeat() -> None:
        while not stopped.wait(seconds):
            with suppress(Exception):
                report()

    thread = Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


class LiveProgress:
    """A spinner with the running stage and a bar of its work; a line with its counts when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: list[str] = []
        self._status: Status | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        """One stage; inside another one its line is indented and the spinner stays the outer stage's."""
        began, log, depth = monotonic(), Counts(), len(self._open)
        self._open.append(name)
        log.report = lambda text, _: self._console.print(f"{'  ' * depth}{escape(text)}", highlight=False)
        mark = "[red]✗[/red]"
        try:
            with (
                self._spinner(name, depth),
                _repeated(REFRESH, lambda: self._show(running_text(name, monotonic() - began, log.work()))),
            ):
                yield log
            mark = "[green]✓[/green]"
        finally:
            self._open.pop()
            counts = ", ".join(f"{count_text(count)} {what}" for what, count in log.noted.items())
            seconds = f"{monotonic() - began:.1f} s"
            self._console.print(
                f"{'  ' * depth}{mark} {escape(name)} [dim]{seconds}  {escape(counts)}[/dim]", highlight=False
            )

    def _spinner(self, name: str, depth: int) -> AbstractContextManager[object]:
        """Return a spinner for an outer stage; a terminal has room for one, and a spinner needs ANSI sequences."""
        if depth or self._console.color_system is None:
            return nullcontext()
        self._status = self._console.status(f"{escape(name)} ...")
        return self._status

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))


def running_text(name: str, seconds: float, work: Work | None) -> str:
    """Return a running stage with its seconds; with a bar, counts and the estimated rest if its work is known."""
    if work is None or not work.total:
        return f"{name} ... {seconds:.0f} s"
    share = min(work.done / work.total, 1.0)
    filled = round(share * BAR)
    rest = f", about {seconds / share - seconds:.0f} s left" if share else ""
    bar = "\u2501" * filled + "\u2500" * (BAR - filled)
    return f"{name} {bar} {work.done:,} of {work.total:,} {work.unit}, {seconds:.0f} s{rest}"


def count_text(count: Count) -> str:
    """Return a count with thousands separators."""
    if isinstance(count, str):
        return "".join(c if c.isprintable() else "?" for c in count)
    return f"{count:,}" if isinstance(count, int) else f"{count:,.1f}"


def progress_on(stream: TextIO) -> Progress:
    """Return live progress if `stream` is a terminal, else JSON lines."""
    if stream.isatty():
        return LiveProgress(console_on(stream))
    return JsonProgress(stream)
