"""Commands that mend what audits found."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit.cli.frame import app, load, now, results_of, say
from lakeaudit.cli.options import Kinds, LakeFile, Tables, wanted_of

if TYPE_CHECKING:
    from lakeaudit.commands.reconcile import Ended

reconcile = typer.Typer(
    rich_markup_mode=None,
    help="Plan what mends open discrepancies, apply it, and take it back. The next audit says what is resolved.",
)
app.add_typer(reconcile, name="reconcile")

PlanPath = Annotated[Path, typer.Argument(metavar="FILE", help="The plan's file.", show_default=False)]
OtherLake = Annotated[
    str | None,
    typer.Option("--lake", metavar="LAKE", help="Where the plan's lake file is now, if it was moved."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Begin N steps at most.")]
Failures = Annotated[
    int, typer.Option("--stop-after", metavar="N", min=1, help="Stop when the store refused N steps.")
]


@reconcile.command()
def plan(
    lake: LakeFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The plan's file.")],
    kind: Kinds = None,
    table: Tables = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="X",
            help="`restore`: also what somebody removed, perhaps on purpose; repeatable.",
        ),
    ] = None,
) -> int:
    """Write a plan of what may be done about open discrepancies. It changes nothing, and is good for 24 hours."""
    from lakeaudit.commands import reconcile as command
    from lakeaudit.runtime.progress import progress_on

    wanted = wanted_of(kind, table, None, None)
    loaded = load(lake)
    return _ended(
        command.plan(
            loaded,
            lake,
            results_of(loaded),
            sys.stdout,
            to=output,
            wanted=wanted,
            allow=allow or (),
            now=now(),
            progress=progress_on(sys.stderr),
        )
    )


@reconcile.command()
def apply(file: PlanPath, lake: OtherLake = None, limit: Limit = None, stop_after: Failures = 20) -> int:
    """Do what a plan says, or go on where a run of it stopped."""
    return _on_plan("apply", file, lake, limit, stop_after)


@reconcile.command()
def undo(file: PlanPath, lake: OtherLake = None, stop_after: Failures = 20) -> int:
    """Take back what was done of a plan, the last step first."""
    return _on_plan("undo", file, lake, None, stop_after)


def _on_plan(what: str, path: Path, other: str | None, limit: int | None, stop_after: int) -> int:
    from lakeaudit.commands import reconcile as command
    from lakeaudit.reconcile.plan_file import opened
    from lakeaudit.reconcile.run import Bounds
    from lakeaudit.runtime.progress import progress_on

    with opened(path) as file:
        lake = command.lake_file_of(file, other)
        loaded = load(lake)
        bounds = Bounds(limit, stop_after, loaded.settings.confirm.rate)
        run = {"apply": command.apply, "undo": command.undo}[what]
        progress = progress_on(sys.stderr)
        return _ended(
            run(file, loaded, lake, results_of(loaded), bounds=bounds, clock=now, progress=progress)
        )


def _ended(ended: "Ended") -> int:
    return say(ended.said, ended.exit_code)
