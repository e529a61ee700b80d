"""The command line: parses, calls, prints one line for every failure, and returns the contract's exit codes.

Results go to stdout, progress and logs to stderr; the last line on stderr is the verdict.
"""

import atexit
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from typer.exceptions import TyperException

from lakeaudit import __version__
from lakeaudit.config import Lake, lake_schema, load_lake
from lakeaudit.errors import INTERRUPTED, AuditError, BadInput, CannotAudit
from lakeaudit.kinds import KINDS, SEVERITIES

if TYPE_CHECKING:
    from lakeaudit.commands.status import StatusFile
    from lakeaudit.results.read import Results, Wanted

LakeFile = Annotated[str, typer.Argument(metavar="LAKE", help="The lake file.", show_default=False)]
Tables = Annotated[
    list[str] | None, typer.Option("--table", metavar="NAME", help="Only this table; repeatable.")
]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="K", help="Only this kind; repeatable.")]
Severities = Annotated[
    list[str] | None,
    typer.Option(
        "--severity", metavar="S", help=f"Only this severity ({', '.join(SEVERITIES)}); repeatable."
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition", metavar="COL=VALUE/COL=VALUE", help="Only this partition and those below; repeatable."
    ),
]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run's id.")]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of discrepancies, or their first characters.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is shown wherever the discrepancy is.")]
Until = Annotated[str, typer.Option("--until", metavar="DAY", help="The last day, such as 2027-06-01.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who; by default the user.")]
Status = Annotated[
    str | None,
    typer.Option("--status-file", metavar="F", help="Also write the outcome as JSON to F (a path or s3://)."),
]
FailOn = Literal["critical", "error", "warning", "info", "never"]

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Nothing but the exit code and what was printed leaves here."""
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    if not debug:  # libraries log tracebacks of what ends as one line here
        logging.basicConfig(handlers=[logging.NullHandler()])
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = int(app([word for word in given if word != "--debug"], standalone_mode=False) or 0)
    except BaseException as error:  # noqa: BLE001 - every failure is one line
        if debug:
            traceback.print_exc()
        return _failed(error)
    return _say("interrupted; nothing of this run is published", code) if code == INTERRUPTED else code


def program(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command as this process, and end it.

    Exit handlers run, then the process ends at once: native threads of libraries (delta-rs, DuckDB) that are still
    alive when the interpreter takes itself apart end some processes with SIGABRT after their last row.
    """
    code = main(argv)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # whoever read the output has gone
    except OSError as error:
        code = _failed(error)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _failed(error: BaseException) -> int:
    """One line for a failure, and its exit code."""
    if isinstance(error.__context__, BrokenPipeError):  # `| head` has seen enough; typer made an exit of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    if isinstance(error, AuditError):
        return _say(str(error), error.exit_code)
    if isinstance(error, TyperException):
        return _say(f"{error.format_message()} See {_help_of(error)}.", 2)
    first = next(iter(str(error).splitlines()), "")[:200]
    told = f"unexpected {type(error).__name__}: {first}; please report it with what --debug prints"
    return _say(told, 70)


def _help_of(error: TyperException) -> str:
    """What to type for help on the very command that was mistyped."""
    context = getattr(error, "ctx", None)
    named = context.info_name if context is not None and context.parent is not None else None
    return f"lakeaudit {named} --help" if named else "lakeaudit --help"


def _say(text: str, code: int = 0) -> int:
    """The verdict on stderr; a lake file's problems are a line each."""
    for line in text.split("\n"):
        typer.echo(f"lakeaudit: {_printable(line)}", err=True)
    return code


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


@app.command()
def audit(
    lake: LakeFile,
    table: Tables = None,
    live: Annotated[bool, typer.Option("--live", help="List the tables now, read no inventory.")] = False,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=VALUE/COL=VALUE", help="With --live: list this partition only; repeatable."
        ),
    ] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="Judge as of this time (UTC).")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Use Spark even for a small --live audit.")] = False,
    run_id: RunId = None,
    fail_on: Annotated[FailOn, typer.Option(help="Exit 1 from this severity on.")] = "critical",
    format: Annotated[Literal["text", "json"], typer.Option()] = "text",  # noqa: A002
    status_file: Status = None,
) -> int:
    """Audit a lake once and publish what was found.

    A results place has a single writer: a second audit at the same time is refused.
    """
    from lakeaudit.commands import audit as command
    from lakeaudit.commands.status import kept
    from lakeaudit.pipeline.audit_plan import Options
    from lakeaudit.runtime.progress import progress_on

    with kept(status_file, "audit") as status:
        loaded = _loaded(lake, status)
        parts = tuple(partition or ())
        options = Options(tuple(table or ()), live, parts, command.as_of_time(as_of), _run_id(run_id))
        request = command.Request(lake, options, fail_on, format, status, spark)
        told = command.run(request, loaded, clock=_now, progress=progress_on(sys.stderr), out=sys.stdout)
    _warn(told.warnings)
    typer.echo(told.verdict, err=True)
    return told.exit_code


@app.command()
def findings(
    lake: LakeFile,
    run_id: RunId = None,
    kind: Kinds = None,
    table: Tables = None,
    severity: Severities = None,
    partition: Partitions = None,
    files: Annotated[
        bool, typer.Option("--files", help="A row per file instead of a group; last run only.")
    ] = False,
    format: Annotated[Literal["table", "csv", "jsonl"], typer.Option()] = "table",  # noqa: A002
) -> int:
    """Print the findings of a run, by default the last published one, worst first.

    jsonl is exact. csv is for spreadsheets: a text that begins like a formula gets a leading apostrophe.
    """
    from lakeaudit.commands import findings as command

    wanted = _wanted(kind, table, severity, partition)
    loaded = _load(lake)
    verdict = command.write(
        loaded,
        lake,
        _results(loaded),
        sys.stdout,
        run_id=_run_id(run_id),
        wanted=wanted,
        files=files,
        format=format,
    )
    return _told(verdict)


@app.command()
def discrepancies(
    lake: LakeFile,
    state: Annotated[Literal["pending", "open", "resolved", "all"], typer.Option()] = "open",
    kind: Kinds = None,
    table: Tables = None,
    severity: Severities = None,
    partition: Partitions = None,
    format: Annotated[Literal["table", "csv", "jsonl"], typer.Option()] = "table",  # noqa: A002
) -> int:
    """Print the ledger: what is open over all runs, since when, and who accepts it."""
    from lakeaudit.commands import discrepancies as command

    wanted = _wanted(kind, table, severity, partition)
    loaded = _load(lake)
    verdict = command.write(loaded, _results(loaded), sys.stdout, state=state, wanted=wanted, format=format)
    return _told(verdict)


@app.command()
def ack(lake: LakeFile, ids: Ids, reason: Reason, until: Until, by: By = None) -> int:
    """Accept discrepancies until a day: they count for no exit code and page nobody, unless they get worse."""
    from lakeaudit.commands import discrepancies as command

    loaded = _load(lake)
    said = command.acknowledge(loaded, _results(loaded), ids, command.ack_of(by, reason, until), _now())
    return _told(said)


@app.command()
def unack(lake: LakeFile, ids: Ids) -> int:
    """Accept discrepancies no longer."""
    from lakeaudit.commands import discrepancies as command

    loaded = _load(lake)
    return _told(command.withdraw(loaded, _results(loaded), ids))


@app.command()
def baseline(lake: LakeFile, reason: Reason, until: Until, by: By = None) -> int:
    """Accept all that is open today as known debt, so that only what is new speaks."""
    from lakeaudit.commands import discrepancies as command

    loaded = _load(lake)
    return _told(command.baseline(loaded, _results(loaded), command.ack_of(by, reason, until), _now()))


@app.command()
def alert(lake: LakeFile, status_file: Status = None) -> int:
    """Send notifications for new, escalated, reopened and resolved discrepancies."""
    from lakeaudit.commands import alert as command
    from lakeaudit.commands.status import kept

    with kept(status_file, "alert") as status:
        loaded = _loaded(lake, status)
        done = command.send(loaded, lake, status.clients, _now())
        code = 3 if done.failures else 0
        said = command.said(done, loaded)
        status.end("alert", code, said, retry=bool(done.failures))
    return _say(said, code)


@app.command()
def explain(
    lake: LakeFile,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A file (s3://bucket/key, a local path, or the end of its path), the id of a discrepancy or its first "
            "characters, or a group's subject.",
        ),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read the manifests: which commit added it, which removed it.")
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option()] = "text",  # noqa: A002
) -> int:
    """Say what each source knows of one file, what was found about it and why, and what to do."""
    from rich.console import Console

    from lakeaudit.commands import explain as command
    from lakeaudit.commands.explanation import explain_named, verdict_line
    from lakeaudit.runtime.endpoints import clients_of

    loaded = _load(lake)
    clients = clients_of(loaded)
    told = explain_named(loaded, _results(loaded), clients, what, deep=deep)
    if format == "json":
        typer.echo(command.as_json(told))
    else:
        at = clients.endpoint(told.bucket, told.key)
        command.as_text(Console(highlight=False), told, lake, at)
    return _told(verdict_line(told))


@app.command()
def hazards(lake: LakeFile) -> int:
    """Print lifecycle rules that will delete or archive live files: which, from when, per table and partition."""
    from lakeaudit.commands import hazards as command
    from lakeaudit.runtime.endpoints import clients_of

    loaded = _load(lake)
    found = command.find(loaded, clients_of(loaded), _now())
    return _say(command.write(found, sys.stdout), 1 if found.rows else 3 if found.untold else 0)


@app.command()
def report(
    lake: LakeFile,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="A path or s3://.")
    ] = "report.html",
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write report.html beside the result tables instead.")
    ] = False,
    status_file: Status = None,
) -> int:
    """Write the last published run as one self-contained page."""
    from lakeaudit import text_output
    from lakeaudit.commands.status import kept, write_whole
    from lakeaudit.report.page import MAX_FINDINGS, render
    from lakeaudit.results.page_data import gather

    with kept(status_file, "report") as status:
        loaded = _loaded(lake, status)
        results = _results(loaded)
        names = [table.name for table in loaded.tables]
        page = gather(results, results.published(None), lake, _now(), MAX_FINDINGS, names)
        place = loaded.results.join("report.html")
        name = (place.spark_path if place.is_local else place.uri) if in_results else output
        write_whole(name, render(page).encode(), status.clients, f"the report {name}")
        typer.echo(name)
        said = text_output.verdict_line(page)
        status.end("report", 0, said)
    return _told(said)


@app.command()
def dashboard(
    lake: LakeFile,
    host: Annotated[
        str, typer.Option(metavar="ADDR", help="Where to listen; by default for this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="By default 8501, or a free one.")
    ] = None,
) -> int:
    """Serve pages over the results until Ctrl-C: the lake, its tables, files and runs. No Spark, no JVM.

    There is no login: whoever reaches the address reads the results, and may have the sources asked about single files.
    """
    from lakeaudit.commands import dashboard as command

    _load(lake)
    with suppress(KeyboardInterrupt):
        command.run(lake, host, port, partial(typer.echo, file=sys.stdout))
    return 0


@app.command()
def init(
    place: Annotated[str, typer.Argument(metavar="PLACE", help="s3://bucket/prefix, or a local folder.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A new file.")] = "lake.yaml",
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="Of a store other than AWS.")
    ] = None,
) -> int:
    """Look around a place and write a lake file with comments, which `audit` takes as it is.

    Lists folders, reads the bucket's inventory configurations, versioning and lifecycle, and writes nothing else.
    """
    from lakeaudit.commands import init as command
    from lakeaudit.runtime.aws import Clients, Endpoint

    location = command.place_of(place)
    clients = Clients(Endpoint(endpoint, path_style=endpoint is not None))
    found = command.look_around(location, clients, _now())
    s3 = {"endpoint": json.dumps(endpoint), "path_style": "true"} if endpoint else {}
    command.write_lake_file(found, output, command.results_beside(location, Path.cwd()), s3)
    typer.echo(output)
    return _told(command.said(found, output))


@app.command()
def doctor(lake: LakeFile, status_file: Status = None) -> int:
    """Check Java, jars, credentials, every source and the results place, and say what to do.

    The objects `_probe` and `_canary` are written to the results place and removed again.
    """
    from lakeaudit.commands import doctor as command
    from lakeaudit.commands.status import kept

    with kept(status_file, "doctor") as status:
        loaded = _loaded(lake, status, quiet=True)
        done = command.run(loaded, status.clients, os.environ, _now(), sys.stdout)
        status.end("doctor", done.exit_code, done.verdict, retry=done.retry)
    typer.echo(done.verdict, err=True)
    return done.exit_code


@app.command()
def demo(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Replaced.")] = Path("demo-lake"),
    seed: Annotated[int | None, typer.Option(metavar="N", help="Draws the faults.")] = None,
    faults: Annotated[int | None, typer.Option(metavar="N", help="How many; 0 for a healthy lake.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Let its server stay until Ctrl-C, to try commands on the lake.")
    ] = False,
) -> int:
    """Build a small lake, break it on purpose, audit it and compare: exit 0 only if both agree."""
    from lakeaudit.runtime.progress import progress_on

    try:
        from lakeaudit.demo import run
    except ModuleNotFoundError as error:
        raise CannotAudit("demo", f"needs {error.name}", "pip install 'lakeaudit[demo]'") from error
    return run(directory, seed=seed, faults=faults, keep=keep, progress=progress_on(sys.stderr))


@app.command()
def schema() -> int:
    """Print the JSON Schema of the lake file."""
    typer.echo(json.dumps(lake_schema(), indent=2))
    return 0


def _told(said: str) -> int:
    """The last line on stderr of a command that did what was asked."""
    typer.echo(said, err=True)
    return 0


def _load(path: str, *, quiet: bool = False) -> Lake:
    from lakeaudit.demo import ended

    lake = load_lake(path, os.environ)
    _warn(() if quiet else lake.warnings)
    if ended(Path(path), lake.s3.endpoint):
        told = "the server of this demo lake has ended with its command: what was found can still be read"
        _warn([f"{told}; `lakeaudit demo --keep` lets it stay"])
    return lake


def _loaded(path: str, status: "StatusFile", *, quiet: bool = False) -> Lake:
    """The lake, and the status file reached as its stores are."""
    from lakeaudit.runtime.endpoints import clients_of

    lake = _load(path, quiet=quiet)
    status.clients = clients_of(lake)
    return lake


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {_printable(warning)}", err=True)


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)


def _results(lake: Lake) -> "Results":
    from lakeaudit.results.read import Results
    from lakeaudit.runtime.endpoints import clients_of

    return Results(lake.results, clients_of(lake), lake.name)


def _run_id(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text):
        raise BadInput("--run-id", "is no run id", "write up to 128 letters, digits, `.`, `_` and `-`")
    return text


def _wanted(
    kinds: Sequence[str] | None,
    tables: Sequence[str] | None,
    severities: Sequence[str] | None,
    partitions: Sequence[str] | None,
) -> "Wanted":
    from lakeaudit.results.read import Wanted

    for option, noun, given, known in (
        ("--kind", "kind", kinds, KINDS),
        ("--severity", "severity", severities, SEVERITIES),
    ):
        if unknown := set(given or ()) - set(known):
            raise BadInput(option, f"no {noun} {', '.join(sorted(unknown))}", f"one of {', '.join(known)}")
    below = [each.strip("/") for each in partitions or ()]
    return Wanted(kinds or (), tables or (), severities or (), below)


def _now() -> datetime:
    return datetime.now(UTC)
