"""Define the application, its output lines, and its access to a lake and its results, for all commands."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from lakeaudit import __version__
from lakeaudit.config import Lake, load_lake

if TYPE_CHECKING:
    from lakeaudit.commands.status import StatusFile
    from lakeaudit.results.read import Results

EXIT_CODES = """\b
Exit codes:
   0  success
   1  the audit has findings at or above --fail-on, or `check` has
      discrepancies
   2  the command line, the lake file or the plan is wrong
   3  only a part was done: a source could not be read completely,
      or a step of a plan was not done; `check` cannot tell
  10  nothing could be audited
  11  the results failed a check before their publication
      (docs/gates.md); nothing is published
  12  a source lacks many files, and a live check does not confirm
      the loss; the audit is published, but it reports only confirmed
      losses for the affected tables
  13  another run writes to the same results, or a newer run has
      already judged a table
  14  the results could not be written, or a disk is full
  70  a bug in lakeaudit: please report it
 130  somebody interrupted the command (Ctrl-C)
"""


class _Commands(TyperGroup):
    """The commands of the application; a command of a group is suggested by its full name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command. Raises a TyperException that names the command of a group, if one has this name."""
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            for name, group in self.commands.items():
                if args[0] in getattr(group, "commands", {}):
                    error.message = f"No such command '{args[0]}'. Did you mean '{name} {args[0]}'?"
            raise


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Compare the records of writers, metadata stores and storage for every file of a data lake, and report the "
    "differences.\n\nStart with `lakeaudit init` or `lakeaudit demo`. `lakeaudit COMMAND --help` prints the options "
    "of a command.",
    epilog=EXIT_CODES,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--debug",
            help="Print the traceback of a failure. The option may also follow the name of the command.",
        ),
    ] = False,
) -> int:
    if version:
        typer.echo(__version__)
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
    return 0


def say(text: str, code: int = 0) -> int:
    """Print the lines of a verdict or failure on stderr, and return the exit code."""
    for line in text.split("\n"):
        typer.echo(f"lakeaudit: {printable(line)}", err=True)
    return code


def finish(verdict: str) -> int:
    """Print the last line on stderr of a command that succeeded, and return exit code 0."""
    typer.echo(verdict, err=True)
    return 0


def load(path: str) -> Lake:
    """Load the lake of a lake file, and warn where it is a demo lake whose server has ended."""
    from lakeaudit.demo import server_has_ended

    lake = load_lake(path, os.environ)
    if server_has_ended(Path(path), lake.s3.endpoint):
        warning = "the S3 server of this demo lake has stopped; only its results can be read"
        warn([f"{warning}. `lakeaudit demo --keep` keeps the server running"])
    return lake


def load_with_status(path: str, status: "StatusFile") -> Lake:
    """Load the lake, and let the status file use its clients."""
    from lakeaudit.runtime.connections.endpoints import clients_of

    lake = load(path)
    status.clients = clients_of(lake)
    return lake


def warn(warnings: Sequence[str]) -> None:
    """Print each warning as a line on stderr."""
    for warning in warnings:
        typer.echo(f"warning: {printable(warning)}", err=True)


def printable(line: str) -> str:
    """Replace control characters, which could move the cursor or start a new line."""
    return "".join(c if c.isprintable() else " " for c in line)


def results_of(lake: Lake) -> "Results":
    """Return the lake's result tables."""
    from lakeaudit.results.read import Results
    from lakeaudit.runtime.connections.endpoints import clients_of

    return Results(lake.results, clients_of(lake), lake.name)


def now() -> datetime:
    """Return the current time for all commands."""
    return datetime.now(UTC)
