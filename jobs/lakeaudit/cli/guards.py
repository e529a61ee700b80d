"""Define the commands that protect tables before files are deleted, and pipelines before they read tables."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeaudit.cli.frame import app, finish_with, load, now, progress, results_of, say
from lakeaudit.cli.options import LakeFile
from lakeaudit.runtime.connections.request_limit import MAX_GUARD_REQUESTS


@app.command()
def guard(
    lake: LakeFile,
    delete_list: Annotated[
        str,
        typer.Argument(
            metavar="LIST",
            help="Path or s3:// URI of a list of files to delete; `-` reads the standard input. A location that ends "
            "in / stands for all objects below it.",
        ),
    ],
    form: Annotated[
        Literal["plain", "csv", "jsonl", "json", "parquet", "s3-batch", "hudi-clean", "lifecycle"] | None,
        typer.Option(
            "--as",
            help="Form of the list; default: the command recognises it. docs/guard.md describes each form.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Resolve relative paths of the list against the location of this table; repeatable.",
        ),
    ] = None,
    bucket: Annotated[
        str | None, typer.Option(metavar="NAME", help="Bucket to which a lifecycle configuration belongs.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Also write two files: FILE, a CSV list of the files that are free, and FILE.json, with the SHA-256 "
            "of FILE and the time until which the answers are valid.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        Literal["text", "json", "jsonl", "csv"], typer.Option(help="Format of stdout.")
    ] = "text",
    max_requests: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Send at most N requests to storage, one for each file. If the list has more than N files, the "
            "command first searches the storage sources of the lake file, such as inventory reports, and sends "
            "requests only for files that it does not find there. After N requests, the other files get the answer "
            "unknown.",
        ),
    ] = MAX_GUARD_REQUESTS,
    spark: Annotated[
        bool, typer.Option("--spark", help="Use Spark even if the list and the lake are small.")
    ] = False,
) -> int:
    """Check a list of files before somebody deletes them.

    The command reads the newest versions of all tables and gives one answer for each file. Four answers mean that a
    table needs the file: `live` (the newest version of the table lists it), `promised` (an older version lists it, and
    readers can still ask for that version), `referenced` (a clone, a tag or another table lists it), `being_written` (a
    writer may still commit it). `free`: no table needs the file. `absent`: the file does not exist. `unknown`: the
    command could not decide.
    Nothing in the lake changes. The exit code is 1 if a table needs a file. Otherwise it is 3 if an answer is unknown,
    or if the list is empty or not complete. Otherwise it is 0.
    """
    from lakeaudit.commands import guard as command
    from lakeaudit.commands.guard_output import Request

    request = Request(delete_list, form, tuple(table or ()), bucket, output, format, max_requests, spark)
    return finish_with(command.run(request, load(lake), clock=now, progress=progress(), out=sys.stdout))


@app.command()
def follow(
    lake: LakeFile,
    once: Annotated[
        bool, typer.Option("--once", help="End when the queue is empty and all events are decided.")
    ] = False,
    most: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after this time, such as 30m.")
    ] = None,
) -> int:
    """Report lost files within a minute.

    The command receives the events of the queue that the lake file names (`follow`). If an object was deleted,
    overwritten or expired and a table still needs it, the command opens a discrepancy and sends the alerts at once.
    It runs until it is stopped by SIGTERM or Ctrl-C. With --once or --for, the exit code is 1 if losses were reported,
    else 3 if events were lost or could not be understood, and else 0.
    """
    from lakeaudit.commands import follow as command
    from lakeaudit.commands.option_values import duration_option

    request = command.Request(lake, once, duration_option("--for", most, "30m") if most else None)
    return finish_with(command.run(request, load(lake), clock=now, progress=progress()))


@app.command()
def verified(
    lake: LakeFile,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name of a table, or a pattern such as sales.*; repeatable. Default: all."
        ),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Require that all commits up to this time (UTC), such as 2026-11-21T08:00:00Z, are verified.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Require that all commits older than this, such as 24h, are verified. Default: `overdue` of the lake "
            "file, else 36h.",
        ),
    ] = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="Format of stdout.")] = "text",  # noqa: A002
) -> int:
    """Print the time up to which commits are verified.

    The time of each table is followed by `yes` if it is equal to or later than the requested time (--through or
    --within), else by `no` or `unknown`. A commit is verified if an audit judged every file that the commit added and
    that the table still needs, and if none of these files has an open discrepancy of severity error or critical. The
    command reads only the result tables.
    The exit code is 1 if an answer is `no` (discrepancies are open). Otherwise it is 3 if an answer is `unknown`
    (audits judged too little). Otherwise it is 0.
    """
    from lakeaudit.commands import verified as command

    loaded, at = load(lake), now()
    demanded = command.demanded_time(loaded, through, within, at)
    answers = command.verified(loaded, results_of(loaded), table or (), demanded, at)
    return say(command.write(loaded, answers, demanded, sys.stdout, format), command.exit_code(answers))
