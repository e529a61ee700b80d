"""Define the commands that print results, and those that accept discrepancies."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.cli.frame import app, finish, finish_with, load, now, results_of, say
from lakeaudit.cli.options import (
    By,
    Ids,
    Kinds,
    LakeFile,
    Partitions,
    Reason,
    RowFormat,
    RunId,
    Severities,
    Tables,
    Until,
    run_id_of,
    selection_of,
)
from lakeaudit.errors import BadInput
from lakeaudit.kinds import SEVERITIES

if TYPE_CHECKING:
    from lakeaudit.results.read import RowFilter


@app.command()
def findings(
    lake: LakeFile,
    run_id: RunId = None,
    kind: Kinds = None,
    table: Tables = None,
    severity: Severities = None,
    partition: Partitions = None,
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="If a finding is about many files, print a row for each of them. Only for the last run.",
        ),
    ] = False,
    format: RowFormat = "table",  # noqa: A002
    form: Annotated[
        Literal["delta-inventory", "iceberg-file-list", "s3-batch", "rclone"] | None,
        typer.Option("--as", help="Write a list of files for another tool; see docs/other-tools.md."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Path of the list that --as writes.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="X",
            help="With --as: include files that the list leaves out for safety; repeatable. `restore` adds files that "
            "somebody may have removed on purpose (only s3-batch). `older_than_onboarding` adds unused files that are "
            "older than the first complete audit of their table (not with s3-batch).",
        ),
    ] = None,
) -> int:
    """Print the findings of a run, worst first.

    --format jsonl prints every value unchanged. csv is for spreadsheets. markdown is for pull requests and
    chats. junit, sarif and github are for CI systems. --as writes a list of files for another tool: s3-batch lists
    files to restore, and the other values list unused files to delete. The list has only files with an open
    discrepancy that `reconcile plan` would repair. --allow adds more files.
    """
    from lakeaudit.commands import findings as command

    row_filter = selection_of(kind, table, severity, partition)
    if form or output or allow:
        if form is None or output is None or run_id or files or format != "table":
            what = "a list needs --as and -o, and does not combine with --run-id, --files or --format"
            raise BadInput(
                "--as", what, "write `lakeaudit findings LAKE --as delta-inventory --table T -o FILE`"
            )
        return _hand_over(lake, form, output, row_filter, allow or ())
    loaded = load(lake)
    request = command.Request(lake, run_id_of(run_id), row_filter, files, format)
    result = command.write(loaded, results_of(loaded), sys.stdout, request, now())
    return finish(result.verdict, doubts=result.warnings)


def _hand_over(lake: str, form: str, output: Path, row_filter: "RowFilter", allow: Sequence[str]) -> int:
    from lakeaudit.commands.repair import hand_over as command

    loaded = load(lake)
    request = command.ListRequest(form, output, row_filter, now(), allow)
    return finish(command.write(loaded, results_of(loaded), sys.stdout, request))


@app.command()
def discrepancies(
    lake: LakeFile,
    state: Annotated[
        Literal["pending", "open", "resolved", "all"],
        typer.Option(
            help="Print only discrepancies in this state. `pending`: one snapshot shows the fault, and nothing has "
            "confirmed it yet; no alert was sent."
        ),
    ] = "open",
    kind: Kinds = None,
    table: Tables = None,
    severity: Severities = None,
    partition: Partitions = None,
    format: RowFormat = "table",  # noqa: A002
) -> int:
    """Print the discrepancies of all runs.

    A discrepancy is a fault with its history: when it opened, who accepted it, and when it was resolved.
    """
    from lakeaudit.commands import discrepancies as command

    row_filter = selection_of(kind, table, severity, partition)
    loaded = load(lake)
    request = command.Request(lake, state, row_filter, format)
    return finish(command.write(loaded, results_of(loaded), sys.stdout, request, now()))


@app.command()
def check(
    lake: LakeFile,
    table: Annotated[
        list[str],
        typer.Option(
            "--table",
            metavar="NAME",
            help="Name of a table, or a pattern such as sales.*; repeatable. If no table matches, the answer is "
            "`unknown`.",
        ),
    ],
    min_severity: Annotated[
        str,
        typer.Option(metavar="S", help=f"Lowest severity that counts ({', '.join(SEVERITIES)})."),
    ] = "error",
    judged: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the files of the table that the last audit must have judged, such as 99%; files that are "
            "younger than `grace` of the lake file do not count. Default: 100%.",
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Highest age of the last audit, such as 36h; default: `overdue` of the lake file, else 36h.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The audit must have used a storage snapshot (an inventory report or a listing) of this time (UTC) "
            "or later, such as 2026-11-21T08:00:00Z.",
        ),
    ] = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="Format of stdout.")] = "text",  # noqa: A002
) -> int:
    """Answer whether tables may be used.

    The command reads only the results of earlier audits. A table is `ok` if its last audit is recent and judged the
    files, and if no discrepancy of severity --min-severity or higher is open or pending. Accepted discrepancies do not
    count. The exit code is 1 if a table has open discrepancies that nobody accepted, else 3 if a table is `unknown`,
    and else 0.
    """
    from lakeaudit.commands import check as command

    loaded, at = load(lake), now()
    demand = command.demand_of(loaded, min_severity, judged, max_age, after)
    answers = command.check(loaded, results_of(loaded), table, demand, at)
    verdict = command.write(loaded, answers, demand, sys.stdout, format, at)
    return say(verdict, command.exit_code(answers))


@app.command()
def explain(
    lake: LakeFile,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A file: s3://bucket/key, bucket/key, a local path, or the end of a key, such as part-00003.parquet. "
            "A folder: the same with / at the end. A discrepancy: its id, or its first 6 or more characters, such "
            "as 79684a. If a discrepancy is about a whole table or a group of files: the name that `lakeaudit "
            "discrepancies` prints for it, such as sales.orders#uncommitted.",
        ),
    ],
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also read the manifests of the table (its own records of its files), and print the commits that "
            "added and removed the file.",
        ),
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option(help="Format of stdout.")] = "text",  # noqa: A002
) -> int:
    """Explain one file, folder or discrepancy.

    The command prints what storage and the metadata stores have about the file, the findings of the last audit with
    their reasons, and the next steps. With --deep it also reads the table's own records of its files, such as a Delta
    log.
    """
    from lakeaudit.explain.explanation import explain_named
    from lakeaudit.explain.printed import as_json, as_text, verdict_line
    from lakeaudit.runtime.connections.endpoints import clients_of
    from lakeaudit.runtime.console import console_on

    loaded = load(lake)
    clients = clients_of(loaded)
    explanation = explain_named(loaded, results_of(loaded), clients, what, deep=deep)
    if format == "json":
        typer.echo(as_json(explanation))
    else:
        at = clients.endpoint(explanation.bucket, explanation.key)
        as_text(console_on(), explanation, lake, at)
    return finish(verdict_line(explanation))


@app.command()
def hazards(lake: LakeFile) -> int:
    """Print lifecycle rules and jobs that may lose data.

    The command names lifecycle rules that will delete or archive live files, and access patterns of jobs that can lose
    data. The exit code is 1 if a rule will affect live files, and 3 if something could not be checked.
    """
    from lakeaudit.commands import hazards as command
    from lakeaudit.runtime.connections.endpoints import clients_of

    loaded = load(lake)
    hazards = command.find_hazards(loaded, clients_of(loaded), now())
    return say(command.write(hazards, sys.stdout), hazards.exit_code)


@app.command()
def ack(lake: LakeFile, ids: Ids, reason: Reason, until: Until, by: By = None) -> int:
    """Accept discrepancies up to and including a day.

    Until then they affect no exit code and cause no alert. If a discrepancy gets worse, its acceptance ends.
    """
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    ack = command.ack_of(by, reason, until)
    return finish_with(command.acknowledge(loaded, results_of(loaded), ids, ack, now()))


@app.command()
def unack(lake: LakeFile, ids: Ids) -> int:
    """End the acceptance of discrepancies."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return finish_with(command.withdraw(loaded, results_of(loaded), ids, now()))


@app.command()
def baseline(lake: LakeFile, reason: Reason, until: Until, by: By = None) -> int:
    """Accept all discrepancies that are open or pending now.

    Then only new discrepancies affect exit codes and cause alerts. Repair important discrepancies first.
    """
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return finish_with(command.baseline(loaded, results_of(loaded), command.ack_of(by, reason, until), now()))
