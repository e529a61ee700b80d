"""Define the commands that print results, and those that accept discrepancies."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.cli.frame import app, finish, load, now, results_of, say
from lakeaudit.cli.options import (
    Allow,
    By,
    Ids,
    Kinds,
    LakeFile,
    Partitions,
    Reason,
    RunId,
    Severities,
    Tables,
    Until,
    run_id_of,
    selection_of,
)
from lakeaudit.errors import BadInput

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
        bool, typer.Option("--files", help="Print each file of a group as a row; last run only.")
    ] = False,
    format: Annotated[Literal["table", "csv", "jsonl"], typer.Option()] = "table",  # noqa: A002
    form: Annotated[
        Literal["delta-inventory", "iceberg-file-list", "s3-batch", "rclone"] | None,
        typer.Option(
            "--as", help="Write the open findings as a list for another tool; see docs/other-tools.md."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File for the list of --as.")
    ] = None,
    allow: Allow = None,
) -> int:
    """Print the findings of a run, worst first; by default of the last published run.

    jsonl is exact. csv is for spreadsheets: control characters are escaped, and a formula gets a leading apostrophe.
    --as writes only files that are open now and that `reconcile` may act on.
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
    verdict = command.write(
        loaded,
        lake,
        results_of(loaded),
        sys.stdout,
        run_id=run_id_of(run_id),
        row_filter=row_filter,
        files=files,
        format=format,
    )
    return finish(verdict)


def _hand_over(lake: str, form: str, output: Path, row_filter: "RowFilter", allow: Sequence[str]) -> int:
    from lakeaudit.commands import hand_over as command

    loaded = load(lake)
    request = command.ListRequest(form, output, row_filter, now(), allow)
    return finish(command.write(loaded, results_of(loaded), sys.stdout, request))


@app.command()
def discrepancies(
    lake: LakeFile,
    state: Annotated[
        Literal["pending", "open", "resolved", "all"], typer.Option(help="Only this state.")
    ] = "open",
    kind: Kinds = None,
    table: Tables = None,
    severity: Severities = None,
    partition: Partitions = None,
    format: Annotated[Literal["table", "csv", "jsonl"], typer.Option()] = "table",  # noqa: A002
) -> int:
    """Print the ledger: discrepancies over all runs, since when each is open, and who accepts it."""
    from lakeaudit.commands import discrepancies as command

    row_filter = selection_of(kind, table, severity, partition)
    loaded = load(lake)
    verdict = command.write(
        loaded, results_of(loaded), sys.stdout, state=state, row_filter=row_filter, format=format
    )
    return finish(verdict)


@app.command()
def explain(
    lake: LakeFile,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A file or folder: s3://bucket/key, bucket/key, a key as `findings` prints it, the end of a key, or a "
            "local path; a folder ends in /. Or a discrepancy's id (its first characters suffice), or a group's "
            "subject.",
        ),
    ],
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also read the manifests for the commits that added and removed it."),
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option()] = "text",  # noqa: A002
) -> int:
    """Print the statements of each source about a file or folder, its findings with reasons, and what to do."""
    from rich.console import Console

    from lakeaudit.explain.explanation import explain_named
    from lakeaudit.explain.printed import as_json, as_text, verdict_line
    from lakeaudit.runtime.endpoints import clients_of

    loaded = load(lake)
    clients = clients_of(loaded)
    explanation = explain_named(loaded, results_of(loaded), clients, what, deep=deep)
    if format == "json":
        typer.echo(as_json(explanation))
    else:
        at = clients.endpoint(explanation.bucket, explanation.key)
        as_text(Console(highlight=False), explanation, lake, at)
    return finish(verdict_line(explanation))


@app.command()
def hazards(lake: LakeFile) -> int:
    """Print causes of future losses: lifecycle rules that will remove live files, and risky access patterns."""
    from lakeaudit.commands import hazards as command
    from lakeaudit.runtime.endpoints import clients_of

    loaded = load(lake)
    hazards = command.find_hazards(loaded, clients_of(loaded), now())
    return say(command.write(hazards, sys.stdout), hazards.exit_code)


@app.command()
def ack(lake: LakeFile, ids: Ids, reason: Reason, until: Until, by: By = None) -> int:
    """Accept discrepancies until a day: they affect no exit code and send no alert, unless they get worse."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    ack = command.ack_of(by, reason, until)
    return finish(command.acknowledge(loaded, results_of(loaded), ids, ack, now()))


@app.command()
def unack(lake: LakeFile, ids: Ids) -> int:
    """End the acceptance of discrepancies."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return finish(command.withdraw(loaded, results_of(loaded), ids))


@app.command()
def baseline(lake: LakeFile, reason: Reason, until: Until, by: By = None) -> int:
    """Accept all discrepancies that are open today, so that only new ones affect exit codes and alerts."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return finish(command.baseline(loaded, results_of(loaded), command.ack_of(by, reason, until), now()))
