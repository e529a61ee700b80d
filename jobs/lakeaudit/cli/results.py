"""Commands that read results, and say what is accepted."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.cli.frame import app, ended_well, load, now, results_of, say
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
    wanted_of,
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
        bool, typer.Option("--files", help="A row per file instead of a group; last run only.")
    ] = False,
    format: Annotated[Literal["table", "csv", "jsonl"], typer.Option()] = "table",  # noqa: A002
    form: Annotated[
        Literal["delta-inventory", "iceberg-file-list", "s3-batch", "rclone"] | None,
        typer.Option("--as", help="Write what is open as a list for another tool; see docs/other-tools.md."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where the list of --as is written.")
    ] = None,
    allow: Allow = None,
) -> int:
    """Print the findings of a run, by default the last published one, worst first.

    jsonl is exact. csv is for spreadsheets: control characters are spelled out, a formula gets a leading apostrophe.
    --as writes what is open now, of the files that `reconcile` might act on.
    """
    from lakeaudit.commands import findings as command

    wanted = wanted_of(kind, table, severity, partition)
    if form or output or allow:
        if form is None or output is None or run_id or files or format != "table":
            what = "a list has a form (--as) and a file (-o), and neither --run-id, --files nor --format"
            raise BadInput(
                "--as", what, "write `lakeaudit findings LAKE --as delta-inventory --table T -o FILE`"
            )
        return _hand_over(lake, form, output, wanted, allow or ())
    loaded = load(lake)
    verdict = command.write(
        loaded,
        lake,
        results_of(loaded),
        sys.stdout,
        run_id=run_id_of(run_id),
        wanted=wanted,
        files=files,
        format=format,
    )
    return ended_well(verdict)


def _hand_over(lake: str, form: str, output: Path, wanted: "RowFilter", allow: Sequence[str]) -> int:
    from lakeaudit.commands import hand_over as command

    loaded = load(lake)
    asked = command.Asked(form, output, wanted, now(), allow)
    return ended_well(command.write(loaded, results_of(loaded), sys.stdout, asked))


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

    wanted = wanted_of(kind, table, severity, partition)
    loaded = load(lake)
    verdict = command.write(loaded, results_of(loaded), sys.stdout, state=state, wanted=wanted, format=format)
    return ended_well(verdict)


@app.command()
def explain(
    lake: LakeFile,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A file or a folder (s3://bucket/key, bucket/key, a key as `findings` prints it, the end of one, or a "
            "local path; a folder ends in /), the id of a discrepancy or its first characters, or a group's subject.",
        ),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read the manifests: which commit added it, which removed it.")
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option()] = "text",  # noqa: A002
) -> int:
    """Print what each source states about a file or a folder, the findings with their reasons, and what to do."""
    from rich.console import Console

    from lakeaudit.explain.explanation import explain_named
    from lakeaudit.explain.printed import as_json, as_text, verdict_line
    from lakeaudit.runtime.endpoints import clients_of

    loaded = load(lake)
    clients = clients_of(loaded)
    told = explain_named(loaded, results_of(loaded), clients, what, deep=deep)
    if format == "json":
        typer.echo(as_json(told))
    else:
        at = clients.endpoint(told.bucket, told.key)
        as_text(Console(highlight=False), told, lake, at)
    return ended_well(verdict_line(told))


@app.command()
def hazards(lake: LakeFile) -> int:
    """Print what will cause losses: lifecycle rules that meet live files, and patterns of access that lose data."""
    from lakeaudit.commands import hazards as command
    from lakeaudit.runtime.endpoints import clients_of

    loaded = load(lake)
    found = command.find(loaded, clients_of(loaded), now())
    return say(command.write(found, sys.stdout), found.exit_code)


@app.command()
def ack(lake: LakeFile, ids: Ids, reason: Reason, until: Until, by: By = None) -> int:
    """Accept discrepancies until a day: they count for no exit code and page nobody, unless they get worse."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    said = command.acknowledge(loaded, results_of(loaded), ids, command.ack_of(by, reason, until), now())
    return ended_well(said)


@app.command()
def unack(lake: LakeFile, ids: Ids) -> int:
    """Accept discrepancies no longer."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return ended_well(command.withdraw(loaded, results_of(loaded), ids))


@app.command()
def baseline(lake: LakeFile, reason: Reason, until: Until, by: By = None) -> int:
    """Accept all that is open today as known debt, so that only what is new speaks."""
    from lakeaudit.commands import discrepancies as command

    loaded = load(lake)
    return ended_well(command.baseline(loaded, results_of(loaded), command.ack_of(by, reason, until), now()))
