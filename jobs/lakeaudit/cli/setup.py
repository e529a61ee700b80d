"""Define the commands that write and check lake files."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lakeaudit.cli.frame import app, finish, load_with_status, now
from lakeaudit.cli.options import (
    LakeFile,
    Status,
)
from lakeaudit.config import lake_schema


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
    s3 = {"endpoint": json.dumps(endpoint), "path_style": "true"} if endpoint else {}
    command.write_lake_file(surroundings, output, command.results_beside(location, Path.cwd()), s3)
    typer.echo(output)
    return finish(command.verdict(surroundings, output))


@app.command()
def doctor(lake: LakeFile, status_file: Status = None) -> int:
    """Check that an audit can run, and print what to repair.

    The command checks Java, credentials, every source and the results location. It writes a small table `_probe` and
    the object `_canary` to the results location, and removes both.
    """
    from lakeaudit.commands import doctor as command
    from lakeaudit.commands.status import open_status

    with open_status(status_file, "doctor") as status:
        loaded = load_with_status(lake, status)
        result = command.run(loaded, status.clients, os.environ, now(), sys.stdout)
        status.end("doctor", result.exit_code, result.verdict, retry=result.retry)
    typer.echo(result.verdict, err=True)
    return result.exit_code


@app.command()
def schema() -> int:
    """Print the JSON Schema of the lake file."""
    typer.echo(json.dumps(lake_schema(), indent=2))
    return 0
