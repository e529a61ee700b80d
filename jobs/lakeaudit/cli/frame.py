"""Define the application, its output lines, and its access to a lake and its results, for all commands."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from lakeaudit import __version__
from lakeaudit.cli.flags import DEBUG, IS_QUIET, NO_COLOR, QUIET
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput

if TYPE_CHECKING:
    from lakeaudit.commands.status import CommandResult, StatusFile
    from lakeaudit.results.read import Results
    from lakeaudit.runtime.progress import Progress

EXAMPLES = """\b
Examples:
  lakeaudit scan s3://lake/warehouse      judge all tables of a location
  lakeaudit init s3://lake/warehouse      write a lake file, lake.yaml
  lakeaudit audit lake.yaml               audit, and publish the findings
  lakeaudit findings lake.yaml            print the findings
  lakeaudit explain lake.yaml FILE        explain a file of a finding
  lakeaudit reconcile plan lake.yaml      plan the repairs
"""

EXIT_CODES = """\b
Exit codes:
   0  success
   1  the audit has findings at or above --fail-on; for `check` and
      `verified`: discrepancies are open; for `guard`: a table needs
      a file of the list; for `hazards`: a lifecycle rule will remove
      live files; the run cannot be certified; a certificate was
      changed
   2  the command line, the lake file or the plan is wrong
   3  only a part was done: a source could not be read completely,
      or a step of a plan was not done; for `check`, `guard`,
      `verified` and `certificate verify`: an answer is unknown
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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the application. Raises BadInput if the shell to complete for is not known."""
        if _COMPLETION.intersection(args) and not ctx.resilient_parsing:
            _require_shell()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command. Raises a TyperException that names the command of a group, if one has this name."""
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            for name, group in self.commands.items():
                if args[0] in getattr(group, "commands", {}):
                    error.message = f"No such command '{args[0]}'. Did you mean '{name} {args[0]}'?"
            raise


_COMPLETION = frozenset(("--install-completion", "--show-completion"))
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def _require_shell() -> None:
    """Raise BadInput unless the command runs in a shell that Typer can complete for."""
    from shellingham import ShellDetectionFailure, detect_shell  # type: ignore[import-untyped]

    try:
        shell, _ = detect_shell()
    except ShellDetectionFailure:
        shell = ""
    if shell not in _SHELLS:
        what = f"there is no completion for the shell {shell}" if shell else "the shell is not known"
        hint = "`_LAKEAUDIT_COMPLETE=source_bash lakeaudit` prints the script of bash; also source_zsh, source_fish"
        raise BadInput("completion", what, hint)


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Compare the records of writers, metadata stores and storage for every file of a data lake, and report the "
    "differences.\n\nStart with `lakeaudit scan` or `lakeaudit demo`. `lakeaudit COMMAND --help` prints the options "
    "of a command. --debug, --quiet and --no-color may also follow the name of the command.",
    epilog=f"{EXAMPLES}\n{EXIT_CODES}",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Print the traceback of a failure.")] = False,  # noqa: ARG001
    quiet: Annotated[  # noqa: ARG001
        bool, typer.Option(QUIET, help="On stderr, print only warnings and the reason of a failure.")
    ] = False,
    no_color: Annotated[  # noqa: ARG001
        bool, typer.Option(NO_COLOR, help="Print without colour, as with the variable NO_COLOR.")
    ] = False,
) -> int:
    if version:
        typer.echo(__version__)
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


def say(text: str, code: int = 0) -> int:
    """Print the lines of a verdict or failure on stderr, and return the exit code. --quiet omits those of a success."""
    for line in () if _omits(code) else text.split("\n"):
        typer.echo(f"lakeaudit: {printable(line)}", err=True)
    return code


def finish(verdict: str, code: int = 0, doubts: Sequence[str] = ()) -> int:
    """Print the last line on stderr, and return the exit code.

    --quiet omits the verdict of a success and prints its doubts as warnings.
    """
    if _omits(code):
        warn(doubts)
    else:
        typer.echo("; ".join([verdict, *doubts]), err=True)
    return code


def finish_with(result: "CommandResult") -> int:
    """Print the warnings and the verdict of a command, and return its exit code."""
    warn(result.warnings)
    return finish(result.verdict, result.exit_code)


def _omits(code: int) -> bool:
    return code == 0 and IS_QUIET.get()


def progress() -> "Progress":
    """Return the progress of a command, which reports on stderr."""
    from lakeaudit.runtime.progress import SilentProgress, progress_on

    return SilentProgress() if IS_QUIET.get() else progress_on(sys.stderr)


def load(path: str) -> Lake:
    """Load the lake of a lake file, and warn where it is a demo lake whose server has ended."""
    from lakeaudit.commands.lake_text import open_lake
    from lakeaudit.demo import server_has_ended

    lake = open_lake(path)
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
