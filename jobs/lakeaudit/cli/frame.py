"""What all commands share: the application, how it speaks, and how it reaches a lake and its results."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit import __version__
from lakeaudit.config import Lake, load_lake

if TYPE_CHECKING:
    from lakeaudit.commands.status import StatusFile
    from lakeaudit.results.read import Results

EXIT_CODES = (
    "Exit codes: 0 audited; 1 findings at or above --fail-on; 2 bad command line or lake file; 3 audited in part; "
    "10 nothing could be audited; 11 a gate refused; 12 evidence lacks too much to be believed; 13 another audit is at "
    "work here, or was since; 14 results could not be written; 70 a bug of lakeaudit."
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Compares what writers, metadata stores and storage say of every file of a data lake, and names what differs.",
    epilog=EXIT_CODES,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print tracebacks; anywhere on the line.")] = False,  # noqa: ARG001
) -> int:
    if version:
        typer.echo(__version__)
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
    return 0


def say(text: str, code: int = 0) -> int:
    """The verdict on stderr; a lake file's problems are a line each."""
    for line in text.split("\n"):
        typer.echo(f"lakeaudit: {printable(line)}", err=True)
    return code


def ended_well(said: str) -> int:
    """The last line on stderr of a command that did what was asked."""
    typer.echo(said, err=True)
    return 0


def load(path: str) -> Lake:
    """Load the lake of a lake file, and warn where it is a demo lake whose server has ended."""
    from lakeaudit.demo import server_has_ended

    lake = load_lake(path, os.environ)
    if server_has_ended(Path(path), lake.s3.endpoint):
        told = "the server of this demo lake has ended with its command: what was found can still be read"
        warn([f"{told}; `lakeaudit demo --keep` lets it stay"])
    return lake


def loaded_with(path: str, status: "StatusFile") -> Lake:
    """The lake, and the status file reached as its stores are."""
    from lakeaudit.runtime.endpoints import clients_of

    lake = load(path)
    status.clients = clients_of(lake)
    return lake


def warn(warnings: Sequence[str]) -> None:
    """A line each on stderr."""
    for warning in warnings:
        typer.echo(f"warning: {printable(warning)}", err=True)


def printable(line: str) -> str:
    """A line that moves no cursor and starts no line of its own."""
    return "".join(c if c.isprintable() else " " for c in line)


def results_of(lake: Lake) -> "Results":
    """The lake's result tables."""
    from lakeaudit.results.read import Results
    from lakeaudit.runtime.endpoints import clients_of

    return Results(lake.results, clients_of(lake), lake.name)


def now() -> datetime:
    """The clock of all commands."""
    return datetime.now(UTC)
