"""Define the commands that audit, and those that follow an audit."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.cli.certificates import write_certificate
from lakeaudit.cli.frame import (
    app,
    finish,
    finish_with,
    load,
    load_with_status,
    now,
    progress,
    results_of,
    say,
    warn,
)
from lakeaudit.cli.options import FailOn, LakeFile, NewRunId, Status, Tables, run_id_of
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.formatting import number

if TYPE_CHECKING:
    from lakeaudit.config import Lake


@app.command()
def audit(
    lake: LakeFile,
    table: Tables = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="List the files of the tables now. By default, the audit reads the storage sources of the lake "
            "file, such as inventory reports.",
        ),
    ] = False,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=VALUE/COL=VALUE",
            help="With --live: audit only this partition, such as year=2026/month=05; repeatable.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Judge the lake as it was at this time (UTC), such as 2026-11-21T08:00:00Z."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Use Spark even if the audit is small enough to run without it.")
    ] = False,
    run_id: NewRunId = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with 1 if a finding has this severity or a higher one.")
    ] = "critical",
    format: Annotated[Literal["text", "json"], typer.Option(help="Format of stdout.")] = "text",  # noqa: A002
    status_file: Status = None,
) -> int:
    """Audit a lake once and publish the findings.

    The command reads all sources of the lake file, writes the findings to the result tables (`results` in the lake
    file), and sends the alerts. It changes no table of the lake. Only one audit at a time can write to the same
    results. A second audit ends with exit code 13.
    """
    from lakeaudit.gates.second_process import checker

    with checker() as check:  # begins to import beside all that follows
        from lakeaudit.audit.plan import Options
        from lakeaudit.commands import audit as command
        from lakeaudit.commands.status import open_status

        with open_status(status_file, "audit") as status:
            loaded = load_with_status(lake, status)
            parts = tuple(partition or ())
            options = Options(tuple(table or ()), live, parts, command.as_of_time(as_of), run_id_of(run_id))
            request = command.Request(lake, options, fail_on, format, status, spark)
            result = command.run(request, loaded, clock=now, progress=progress(), out=sys.stdout, check=check)
    return finish_with(result)


@app.command()
def alert(
    lake: LakeFile,
    test: Annotated[
        bool,
        typer.Option(
            "--test", help="Send an example through each route instead, and print whether it arrived."
        ),
    ] = False,
    route: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --test: only this route, by its variable or topic."),
    ] = None,
    status_file: Status = None,
) -> int:
    """Send the alerts that are due.

    Alerts are about discrepancies that are new, got worse, opened again or were resolved, and about audits that failed
    or are late. Every audit sends the alerts at its end, too.
    """
    from lakeaudit.commands import alert as command
    from lakeaudit.commands.status import open_status

    if route is not None and not test:
        raise BadInput("--route", "works only with --test", "add --test")
    if test:
        with open_status(status_file, "alert") as status:
            deliveries = command.try_routes(
                load_with_status(lake, status), lake, status.clients, now(), route
            )
            failed = sum(bool(each.failure) for each in deliveries)
            code = 3 if failed else 0
            verdict = f"{number(len(deliveries) - failed, 'route')} of {len(deliveries)} got the example"
            status.end("alert", code, verdict)
        for each in deliveries:
            typer.echo(each.line())
        return say(verdict, code)
    with open_status(status_file, "alert") as status:
        loaded = load_with_status(lake, status)
        sent = command.send(loaded, lake, status.clients, now())
        code, verdict = 3 if sent.failures else 0, command.verdict(sent, loaded)
        status.end("alert", code, verdict, retry=bool(sent.failures))
    return say(verdict, code)


@app.command()
def report(
    lake: LakeFile,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Path or s3:// URI to write; default: report.html, or certificate.json with --certificate.",
        ),
    ] = None,
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write to the results location instead of -o.")
    ] = False,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate",
            help="Write a certificate instead of the page: it states that every file was judged and that no file is "
            "lost. If that is not true, print the reasons, write nothing and exit with 1.",
        ),
    ] = False,
    status_file: Status = None,
) -> int:
    """Write the last published run as one HTML page.

    The page needs no server and no network. With --certificate the command writes a certificate instead.
    """
    if certificate:
        return write_certificate(lake, None, output, status_file, in_results=in_results)
    from lakeaudit.advice.command_place import place_of_commands
    from lakeaudit.commands.status import open_status, write_whole
    from lakeaudit.explain import text_output
    from lakeaudit.report.gather import gather, source_limits
    from lakeaudit.report.page import render
    from lakeaudit.report.page_data import MAX_FINDINGS

    with open_status(status_file, "report") as status:
        loaded = load_with_status(lake, status)
        results = results_of(loaded)
        names = [table.name for table in loaded.tables]
        limits, run = source_limits(loaded), results.published(None)
        page = gather(
            results, run, lake, now(), MAX_FINDINGS, names,
            limits=limits, dashboard=loaded.dashboard_url, run_at=place_of_commands(lake),
        )  # fmt: skip
        name = _output_name(loaded, "report.html", output, in_results)
        write_whole(name, render(page).encode(), status.clients, f"the report {name}")
        typer.echo(name)
        verdict = text_output.verdict_line(page)
        status.end("report", 0, verdict)
    return finish(verdict)


def _output_name(lake: "Lake", name: str, output: str | None, in_results: bool) -> str:
    return lake.results.join(name).path_or_uri if in_results else output or name


@app.command()
def dashboard(
    lakes: Annotated[
        list[str],
        typer.Argument(
            metavar="LAKE...",
            help="Lake files (paths or s3:// URIs), or folders of lake files.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDR", help="Address to listen on; the default address serves only this machine."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=65535, help="Port; default: 8501, or a free port if it is taken."
        ),
    ] = None,
    base_path: Annotated[
        str, typer.Option(metavar="PATH", help="Path prefix of a reverse proxy, such as /lakeaudit.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also serve requests for this host name; repeatable."),
    ] = None,
) -> int:
    """Serve web pages about the results until Ctrl-C.

    The pages show the lake, its tables, files and runs; with several lakes, a start page shows all of them. The command
    needs neither Spark nor Java. There are no user accounts: every visitor can read the results, and can query the
    sources about single files. With --host, visitors from other machines need a token. The token is the value of
    LAKEAUDIT_DASHBOARD_TOKEN, or a random token in the printed address. Visitors with a token can also accept
    discrepancies.
    """
    from lakeaudit.commands import dashboard as command

    warn(command.usable(lakes, load))
    with suppress(KeyboardInterrupt):
        ready = partial(typer.echo, file=sys.stdout)
        command.run(lakes, host, port, ready, names=allow_host or (), base_path=base_path)
    return 0


@app.command()
def demo(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory for the demo lake; overwritten if it exists.")
    ] = Path("demo-lake"),
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed that selects the faults; default: random.")
    ] = None,
    faults: Annotated[
        int | None, typer.Option(metavar="N", help="Number of faults; 0 builds a healthy lake.")
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Keep the S3 server of the demo running until Ctrl-C, so that you can try commands.",
        ),
    ] = False,
) -> int:
    """Build a small lake, damage it, and audit it.

    Then the command plans repairs, applies them, audits again, undoes the repairs, and audits a last time. The exit
    code is 0 if every audit reports exactly the damage that exists.
    """
    try:
        from lakeaudit.demo.scenario import run
    except ModuleNotFoundError as error:
        raise CannotAudit("demo", f"needs {error.name}", "pip install 'lakeaudit[demo]'") from error
    return run(directory, seed=seed, faults=faults, keep=keep, progress=progress())
