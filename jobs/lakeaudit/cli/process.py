"""Run one command as a process; print every failure as one line with one of the contract's exit codes."""

import atexit
import gc
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from typer.exceptions import TyperException

from lakeaudit.cli import audits, certificates, guards, reconcile, results, setup
from lakeaudit.cli.flags import DEBUG, IS_QUIET, NO_COLOR, QUIET, split_flags
from lakeaudit.cli.frame import app, say
from lakeaudit.errors import INTERRUPTED, AuditError, one_line
from lakeaudit.runtime.console import NO_COLOR as NO_COLOR_VARIABLE
from lakeaudit.runtime.console import has_color
from lakeaudit.runtime.extras import explain_missing
from lakeaudit.runtime.failures import is_full_disk, named_place, no_room
from lakeaudit.runtime.interrupt import end_on_interrupt, was_interrupted

COMMANDS = (audits, results, guards, certificates, reconcile, setup)
"""Modules whose functions are the application's commands, in the order of its help."""


GARBAGE = 50_000
"""New objects between two collections of cyclic garbage: with 700, imports and many tables are a tenth slower."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no exception leaves this function."""
    flags, words = split_flags(sys.argv[1:] if argv is None else argv)
    IS_QUIET.set(QUIET in flags)
    if NO_COLOR in flags:
        os.environ[NO_COLOR_VARIABLE] = "1"  # for all consoles, and for child processes
    debug = DEBUG in flags
    if not debug:  # libraries log tracebacks of failures that are one line here
        logging.basicConfig(handlers=[logging.NullHandler()])
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        color = None if has_color() else False
        code = int(app(words, standalone_mode=False, prog_name="lakeaudit", color=color) or 0)
    except BaseException as error:  # noqa: BLE001 - every failure is one line
        if debug and not isinstance(error, SystemExit):
            traceback.print_exc()
        return _failed(error)
    return say(_INTERRUPTED, code) if code == INTERRUPTED else code


_INTERRUPTED = "interrupted; nothing of this run is published"
_SERVERS = ("dashboard", "demo", "follow")
"""Commands that handle Ctrl-C themselves."""


def program(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command as this process, and end it.

    Exit handlers run, then the process ends at once: native threads of libraries (delta-rs, DuckDB) that are still
    alive when the interpreter takes itself apart end some processes with SIGABRT after their last row.
    """
    gc.set_threshold(GARBAGE)
    _, words = split_flags(sys.argv[1:] if argv is None else argv)
    if next(iter(words), "") not in _SERVERS:
        end_on_interrupt(f"lakeaudit: {_INTERRUPTED}", INTERRUPTED)
    code = main(argv)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader of the output has closed the pipe
    except OSError as error:
        code = _failed(error)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _failed(error: BaseException) -> int:
    """Print a failure as one line and return its exit code."""
    if isinstance(error.__context__, BrokenPipeError):  # `| head` closed the pipe; typer raised Exit for it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    if isinstance(error, SystemExit):  # Typer's completion ends so
        return int(error.code or 0)
    if not isinstance(error, AuditError) and is_full_disk(error):
        error = no_room(named_place(error), error)
    if isinstance(error, ModuleNotFoundError):
        error = explain_missing(error) or error
    if isinstance(error, AuditError):
        return say(str(error), error.exit_code)
    if isinstance(error, TyperException):
        return say(f"{error.format_message()} See {_help_of(error)}.", 2)
    if was_interrupted():
        return say(_INTERRUPTED, INTERRUPTED)
    first = one_line(next(iter(str(error).splitlines()), ""), 200)
    message = f"unexpected {type(error).__name__}: {first}; please report it with the traceback of --debug"
    return say(message, 70)


def _help_of(error: TyperException) -> str:
    """Return the command line that prints the help of the mistyped command."""
    context = getattr(error, "ctx", None)
    words = ["--help"]
    while context is not None and context.parent is not None:
        words.insert(0, str(context.info_name))
        context = context.parent
    return " ".join(["lakeaudit", *words])
