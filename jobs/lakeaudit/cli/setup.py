"""Define the commands that write and check lake files."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeaudit.cli.frame import app, finish, finish_with, load_with_status, now, progress
from lakeaudit.cli.options import (
    FailOn,
    LakeFile,
    Status,
)
from lakeaudit.runtime.connections.request_limit import MAX_REQUESTS


@app.command()
def init(
    place: Annotated[str, typer.Argument(metavar="PLACE", help="s3://bucket/prefix, or a local folder.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Path to write; the file must not exist.")
    ] = "lake.yaml",
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="S3 endpoint, for a store other than AWS.")
    ] = None,
) -> int:
    """Find tables in a location and write a lake file.

    The command lists folders, and reads the inventory configurations, versioning and lifecycle rules of the bucket. It
    writes only the lake file, which has comments and works with `audit`.
    """
    from lakeaudit.commands import init as command
    from lakeaudit.runtime.connections.aws import Clients, Endpoint

    location = command.place_of(place)
    clients = Clients(Endpoint(endpoint, path_style=endpoint is not None))
    surroundings = command.look_around(location, clients, now())
    command.write_lake_file(surroundings, output, command.results_beside(location, Path.cwd()), endpoint)
    typer.echo(output)
    return finish(command.verdict(surroundings, output))


@app.command()
def scan(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="PLACE", help="s3://bucket/prefix, or a local folder. Give either PLACE or --catalog."
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="URL",
            help="Judge the tables of a catalog instead: glue://, glue://DATABASE, hive://HOST:PORT, "
            "hive://HOST:PORT/DATABASE, or the URL of an Iceberg REST catalog.",
        ),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="S3 endpoint, for a store other than AWS.")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Also write a lake file of the tables to FILE, which must not exist yet.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with 1 if a finding has this severity or a higher one.")
    ] = "critical",
    format: Annotated[  # noqa: A002 - the option's name
        Literal["text", "json"], typer.Option("--format", help="Format of stdout.")
    ] = "text",
    price: Annotated[
        float | None,
        typer.Option(
            "--price",
            metavar="DOLLARS",
            min=0,
            max=1_000_000,
            help="Storage price of a GiB for a month. From this price, the command calculates what unneeded files "
            "cost. Default on AWS: the list price of S3 Standard.",
        ),
    ] = None,
    max_requests: Annotated[
        int,
        typer.Option(
            "--max-requests",
            metavar="N",
            min=1,
            help="Send at most N requests to S3. After the limit, the remaining tables are not judged.",
        ),
    ] = MAX_REQUESTS,
) -> int:
    """Find and judge tables, without a lake file.

    The command lists the location (or the tables of a catalog) and reads the logs of all Delta, Iceberg and Hudi
    tables. It prints lost and changed files, files that no table lists, and everything that was not judged. It writes
    nothing except the file of --save. docs/commands.md lists the exit codes. Exit code 3 means that something was
    not judged: for example, a folder could not be searched.
    """
    from lakeaudit.commands import init
    from lakeaudit.commands import scan as command
    from lakeaudit.commands.scan_scope import Request

    location = None if place is None else init.place_of(place)
    request = Request(location, endpoint, fail_on, format, save, price, catalog, max_requests)
    result = command.run(request, clock=now, progress=progress(), out=sys.stdout)
    return finish_with(result)


@app.command()
def doctor(lake: LakeFile, status_file: Status = None) -> int:
    """Check that an audit can run, and print what to repair.

    The command checks Java, credentials, every source and the results location. It writes a small table `_probe` and
    the object `_canary` to the results location, and removes both. If the lake file has `follow`, it also writes and
    removes an object in `_lakeaudit_canary/` next to the tables of each bucket, and waits a minute for the events.
    """
    from lakeaudit.commands import doctor as command
    from lakeaudit.commands.status import open_status

    with open_status(status_file, "doctor") as status:
        loaded = load_with_status(lake, status)
        result = command.run(loaded, status.clients, os.environ, now(), sys.stdout)
        status.end("doctor", result.exit_code, result.verdict, retry=result.retry)
    return finish(result.verdict, result.exit_code)


@app.command()
def policy(
    lake: Annotated[
        str,
        typer.Argument(
            metavar="LAKE", help="Path of the lake file; with --for scan also s3://bucket/prefix."
        ),
    ],
    task: Annotated[
        Literal["audit", "follow", "guard", "reconcile", "scan"],
        typer.Option("--for", help="Task that needs the permissions."),
    ] = "audit",
    format: Annotated[  # noqa: A002 - the option's name
        Literal["iam", "cloudformation", "commands"],
        typer.Option(
            "--format",
            help="An IAM policy, a stack with the role and the results bucket, or (for follow) a script for bash.",
        ),
    ] = "iam",
    role: Annotated[
        str | None,
        typer.Option(
            "--role", metavar="ARN", help="Print the policy of this role of the lake file (`role_arn`)."
        ),
    ] = None,
) -> int:
    """Print the least AWS permissions for a lake file.

    The command sends no request. `audit` includes `doctor`, `explain`, `hazards` and `audit --live`. `follow`
    includes `audit`; `--format commands` prints a script that creates its queue and adds to the notifications of the
    buckets. Parts of the lake
    file that the policy does not cover are named on stderr, and the exit code is then 3.
    """
    from lakeaudit.commands import policy as command

    result = command.run(command.Request(lake, task, format, role), os.environ, sys.stdout, sys.stderr)
    return finish_with(result)


@app.command()
def schema(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schema.")] = "lake",
    list_: Annotated[bool, typer.Option("--list", help="Print the names of all schemas.")] = False,
) -> int:
    """Print the JSON Schema of a document.

    Without a name, the command prints the schema of the lake file. The other schemas describe the output of commands
    and the requests that lakeaudit sends. docs/schemas contains all of them.
    """
    from lakeaudit.documents import DOCUMENTS, document_schema

    typer.echo("\n".join(DOCUMENTS) if list_ else json.dumps(document_schema(name), indent=2))
    return 0
