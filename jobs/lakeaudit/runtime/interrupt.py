"""Ctrl-C and SIGTERM end the process within two seconds, whatever the main thread waits for.

Python raises KeyboardInterrupt in the main thread, which cannot react while it waits inside a library (a connection of
delta-rs or obstore, the start of Spark). So a separate thread waits for the signal: it gives the main thread a moment
to end by itself, runs the registered last acts, and ends the process.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

PATIENCE = 1.0
"""Seconds in which the main thread may end by itself."""
LAST_ACTS = 0.6
"""Seconds for all registered last acts."""

_acts: list[Callable[[], object]] = []


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

    Python's own handler stays: a main thread that can react ends the command as usual.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    Thread(target=_wait, args=(reader, message, code), name="interrupt", daemon=True).start()


def _wait(reader: int, message: str, code: int) -> None:
    while not {signal.SIGINT, signal.SIGTERM} & {*os.read(reader, 64)}:
        pass
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
