"""Commands about lake files and the places they name."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lakeaudit.cli.frame import app, ended_well, loaded_with, now
from lakeaudit.cli.options import (
    LakeFile,
    Status,
)
from lakeaudit.config import lake_schema


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
    found = command.look_around(location, clients, now())
    s3 = {"endpoint": json.dumps(endpoint), "path_style": "true"} if endpoint else {}
    command.write_lake_file(found, output, command.results_beside(location, Path.cwd()), s3)
    typer.echo(output)
    return ended_well(command.said(found, output))


@app.command()
def doctor(lake: LakeFile, status_file: Status = None) -> int:
    """Check Java, credentials, every source and the results place, and say what to do.

    A small table `_probe` and the object `_canary` are written to the results place and removed again.
    """
    from lakeaudit.commands import doctor as command
    from lakeaudit.commands.status import kept

    with kept(status_file, "doctor") as status:
        loaded = loaded_with(lake, status)
        done = command.run(loaded, status.clients, os.environ, now(), sys.stdout)
        status.end("doctor", done.exit_code, done.verdict, retry=done.retry)
    typer.echo(done.verdict, err=True)
    return done.exit_code


@app.command()
def schema() -> int:
    """Print the JSON Schema of the lake file."""
    typer.echo(json.dumps(lake_schema(), indent=2))
    return 0
