"""Report the stages of a running command on stderr: live on a terminal, else as one JSON line for each stage."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol, TextIO

from rich.console import Console
from rich.markup import escape

from lakeaudit.runtime.console import console_on

Count = int | float | str


class StageLog(Protocol):
    """Collects the counts of a stage while it runs."""

    def note(self, **counts: Count) -> None:
        """Add counts to the report of the stage; a repeated name keeps its last value."""


class Progress(Protocol):
    """The stages of a command, one after the other or nested."""

    def stage(self, name: str) -> AbstractContextManager[StageLog]:
        """Open a stage: it begins with the `with` block and ends, or fails, with it."""


@dataclass
class Counts:
    """The plain `StageLog`."""

    noted: dict[str, Count] = field(default_factory=dict)

    def note(self, **counts: Count) -> None:
        """Keep the counts."""
        self.noted |= counts


class SilentProgress:
    """Reports nothing."""

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:  # noqa: ARG002 - the protocol's name
        """One stage."""
        yield Counts()


class JsonProgress:
    """One JSON object a line when a stage ends: time, stage, seconds, failed, and the stage's counts."""

    def __init__(self, stream: TextIO, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._stream = stream
        self._clock = clock

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        """One stage."""
        began, log = monotonic(), Counts()
        failed = True
        try:
            yield log
            failed = False
        finally:
            at = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {"time": at, "stage": name, "seconds": round(monotonic() - began, 3), "failed": failed}
            print(json.dumps(line | log.noted, default=str), file=self._stream, flush=True)


class LiveProgress:
    """A spinner with the running stage and its seconds; a line with its counts when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        """One stage; inside another one its line is indented and the spinner stays the outer stage's."""
        began, log, depth = monotonic(), Counts(), len(self._open)
        self._open.append(name)
        mark = "[red]✗[/red]"
        try:
            with self._spinner(name, depth):
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
        return self._console.status(f"{escape(name)} ...")


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
