"""Ctrl-C or SIGTERM ends the process within two seconds, whatever the main thread waits for.

Python raises KeyboardInterrupt in the main thread, which cannot react while it waits inside a library (a connection of
delta-rs or obstore, the start of Spark). So a separate thread waits for the signal: it gives the main thread a moment
to end by itself, runs the registered last acts, and ends the process.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import NoReturn

PATIENCE = 1.0
"""Seconds in which the main thread may end by itself."""
LAST_ACTS = 0.6
"""Seconds for all registered last acts."""

NOTICED = 0.05
"""Seconds until the thread that waits for signals has certainly read one."""

_received = Event()
_acts: list[Callable[[], object]] = []
_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_terminated = Event()


def was_interrupted() -> bool:
    """Return whether Ctrl-C or SIGTERM has just ended a call, which a library may report as an error of its own."""
    return _received.wait(NOTICED)


def was_terminated() -> bool:
    """Return whether SIGTERM ends this process: a service manager sent it, so a retry may succeed."""
    return _terminated.is_set()


@contextmanager
def at_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """Run `act` if an interrupt has to end the process inside the block; it may fail, or not be finished."""
    _acts.append(act)
    try:
        yield
    finally:
        with suppress(ValueError):
            _acts.remove(act)


def end_on_interrupt(message: str, code: int) -> None:
    """From now on end this process after Ctrl-C or SIGTERM, with a message on stderr and an exit code.

    Python's own handler of Ctrl-C stays: a main thread that can react ends the command as usual.
    """
    signal.signal(signal.SIGTERM, _terminate)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    Thread(target=_wait, args=(reader, message, code), name="interrupt", daemon=True).start()


def _terminate(*_: object) -> NoReturn:
    _terminated.set()
    raise KeyboardInterrupt


def _wait(reader: int, message: str, code: int) -> None:
    while _SIGNALS.isdisjoint(received := os.read(reader, 64)):
        pass
    _received.set()
    if signal.SIGTERM in received:  # the main thread may be unable to run its handler
        _terminated.set()
    time.sleep(PATIENCE)
    acts = Thread(target=_run_acts, name="last acts", daemon=True)
    acts.start()
    acts.join(LAST_ACTS)
    shown = "\x1b[?25h" if os.isatty(2) else ""  # a live display hides the cursor
    with suppress(OSError):
        os.write(2, f"{shown}{message}\n".encode())
    os._exit(code)


def _run_acts() -> None:
    for act in reversed([*_acts]):
        with suppress(Exception):
            act()
