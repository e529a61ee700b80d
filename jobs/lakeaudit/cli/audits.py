"""Commands that audit, and those that follow an audit."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.cli.frame import app, ended_well, load, loaded_with, now, results_of, say, warn
from lakeaudit.cli.options import FailOn, LakeFile, RunId, Status, Tables, run_id_of
from lakeaudit.errors import CannotAudit

if TYPE_CHECKING:
    from lakeaudit.config import Lake


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
    from lakeaudit.audit.plan import Options
    from lakeaudit.commands import audit as command
    from lakeaudit.commands.status import kept
    from lakeaudit.runtime.progress import progress_on

    with kept(status_file, "audit") as status:
        loaded = loaded_with(lake, status)
        parts = tuple(partition or ())
        options = Options(tuple(table or ()), live, parts, command.as_of_time(as_of), run_id_of(run_id))
        request = command.Request(lake, options, fail_on, format, status, spark)
        told = command.run(request, loaded, clock=now, progress=progress_on(sys.stderr), out=sys.stdout)
    warn(told.warnings)
    typer.echo(told.verdict, err=True)
    return told.exit_code


@app.command()
def alert(lake: LakeFile, status_file: Status = None) -> int:
    """Send notifications for new, escalated, reopened and resolved discrepancies."""
    from lakeaudit.commands import alert as command
    from lakeaudit.commands.status import kept

    with kept(status_file, "alert") as status:
        loaded = loaded_with(lake, status)
        done = command.send(loaded, lake, status.clients, now())
        code = 3 if done.failures else 0
        said = command.said(done, loaded)
        status.end("alert", code, said, retry=bool(done.failures))
    return say(said, code)


@app.command()
def report(
    lake: LakeFile,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="A path or s3://, by default report.html here."),
    ] = None,
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write it beside the result tables instead.")
    ] = False,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate",
            help="State as JSON (certificate.json) that all is decided and nothing lost, or say why not.",
        ),
    ] = False,
    status_file: Status = None,
) -> int:
    """Write the last published run as one self-contained page, or a certificate of it."""
    if certificate:
        return _certificate(lake, output, in_results, status_file)
    from lakeaudit.commands.status import kept, write_whole
    from lakeaudit.explain import text_output
    from lakeaudit.report.gather import gather, source_limits
    from lakeaudit.report.page import render
    from lakeaudit.report.page_data import MAX_FINDINGS

    with kept(status_file, "report") as status:
        loaded = loaded_with(lake, status)
        results = results_of(loaded)
        names = [table.name for table in loaded.tables]
        limits, run = source_limits(loaded), results.published(None)
        page = gather(results, run, lake, now(), MAX_FINDINGS, names, limits=limits)
        name = _goes_to(loaded, "report.html", output, in_results)
        write_whole(name, render(page).encode(), status.clients, f"the report {name}")
        typer.echo(name)
        said = text_output.verdict_line(page)
        status.end("report", 0, said)
    return ended_well(said)


def _goes_to(lake: "Lake", name: str, output: str | None, in_results: bool) -> str:
    return lake.results.join(name).path_or_uri if in_results else output or name


def _certificate(lake: str, output: str | None, in_results: bool, status_file: str | None) -> int:
    from lakeaudit.commands.certificate import made
    from lakeaudit.commands.status import kept, write_whole

    with kept(status_file, "certificate") as status:
        loaded = loaded_with(lake, status)
        content, said = made(loaded, results_of(loaded), now())
        if content is None:
            verdict = (
                f"CRITICAL: no certificate: {len(said)} reasons"
                if len(said) > 1
                else "CRITICAL: no certificate"
            )
            status.end("certificate", 1, verdict)
            return say("\n".join([*said, verdict]), 1)
        name = _goes_to(loaded, "certificate.json", output, in_results)
        write_whole(name, content, status.clients, f"the certificate {name}")
        typer.echo(name)
        status.end("certificate", 0, said[0])
    return ended_well(said[0])


@app.command()
def dashboard(
    lake: LakeFile,
    host: Annotated[
        str, typer.Option(metavar="ADDR", help="Where to listen; by default for this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="By default 8501, or a free one.")
    ] = None,
    base_path: Annotated[
        str, typer.Option(metavar="PATH", help="What a proxy puts before every page, like /lakeaudit.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that is answered too; may be repeated."),
    ] = None,
) -> int:
    """Serve pages over the results until Ctrl-C: the lake, its tables, files and runs. No Spark, no JVM.

    There are no users: everybody who is admitted reads the results and may query sources about single files. Beyond
    this machine (--host) a token is asked for: that of LAKEAUDIT_DASHBOARD_TOKEN, else the one in the printed address.
    """
    from lakeaudit.commands import dashboard as command

    load(lake)
    with suppress(KeyboardInterrupt):
        told = partial(typer.echo, file=sys.stdout)
        command.run(lake, host, port, told, names=allow_host or (), base_path=base_path)
    return 0


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
        from lakeaudit.demo.scenario import run
    except ModuleNotFoundError as error:
        raise CannotAudit("demo", f"needs {error.name}", "pip install 'lakeaudit[demo]'") from error
    return run(directory, seed=seed, faults=faults, keep=keep, progress=progress_on(sys.stderr))
