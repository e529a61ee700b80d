"""Define the commands that protect tables: before files are deleted."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeaudit.cli.frame import app, finish_with, load, now, progress
from lakeaudit.cli.options import LakeFile


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
            "--as", help="Form of the list; by default it is recognised. docs/guard.md describes each."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Table to whose location relative paths of the list belong; repeatable."
        ),
    ] = None,
    bucket: Annotated[
        str | None, typer.Option(metavar="NAME", help="Bucket of a lifecycle configuration.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the keys that are free as CSV; FILE.json has the digest of it.",
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
            help="Most objects to request from storage; for the others the answer is unknown.",
        ),
    ] = 100_000,
    spark: Annotated[
        bool, typer.Option("--spark", help="Use Spark even if the list and the lake are small.")
    ] = False,
) -> int:
    """Check a list of files before somebody deletes them.

    The command reads the newest versions of all tables and answers for each file: `live`, `referenced`, `promised` or
    `being_written` (a table needs it), `unknown`, `free` (no table needs it) or `absent`. Nothing in the lake changes.
    The exit code is 0 if every file is free or absent, 1 if a table needs a file, and 3 if that is unknown for a file.
    """
    from lakeaudit.commands import guard as command

    request = command.Request(
        delete_list, form, tuple(table or ()), bucket, output, format, max_requests, spark
    )
    return finish_with(command.run(request, load(lake), clock=now, progress=progress(), out=sys.stdout))
