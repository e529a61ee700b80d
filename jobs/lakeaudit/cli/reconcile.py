"""Define the commands that repair open discrepancies."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit.cli.frame import app, load_with_status, now, results_of, say
from lakeaudit.cli.options import Allow, Kinds, LakeFile, Status, Tables, selection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeaudit.commands.status import CommandResult, StatusFile

reconcile = typer.Typer(
    rich_markup_mode=None,
    help="Plan repairs of open discrepancies, apply them, and reverse them. The next audit resolves the repaired ones.",
)
app.add_typer(reconcile, name="reconcile")

PlanPath = Annotated[
    str, typer.Argument(metavar="FILE", help="Plan file: a path or s3:// URI.", show_default=False)
]
OtherLake = Annotated[
    str | None,
    typer.Option("--lake", metavar="LAKE", help="Path of the plan's lake file, if the file was moved."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Start at most N steps.")]
Failures = Annotated[
    int, typer.Option("--stop-after", metavar="N", min=1, help="Stop after the store has refused N steps.")
]
MaxShare = Annotated[
    float | None,
    typer.Option(
        "--max-share",
        metavar="S",
        min=0,
        max=1,
        help="Refuse a plan that changes at least 100 files of a table and more than this share of its files; "
        "default: the lake file's `ceiling.share`.",
    ),
]


@reconcile.command()
def plan(
    lake: LakeFile,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Path or s3:// URI of the plan to write.")
    ] = "plan.jsonl",
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write the plan to the results location instead.")
    ] = False,
    kind: Kinds = None,
    table: Tables = None,
    allow: Allow = None,
    max_share: MaxShare = None,
    status_file: Status = None,
) -> int:
    """Write a plan of repairs for open discrepancies. It changes nothing in the lake and expires after 24 hours."""
    from lakeaudit.commands import reconcile as command
    from lakeaudit.commands.status import open_status
    from lakeaudit.runtime.progress import progress_on

    row_filter = selection_of(kind, table, None, None)
    with open_status(status_file, "reconcile plan") as status:
        loaded = load_with_status(lake, status)
        done = command.plan(
            loaded,
            lake,
            results_of(loaded),
            sys.stdout,
            to=None if in_results else output,
            row_filter=row_filter,
            allow=allow or (),
            now=now(),
            progress=progress_on(sys.stderr),
            max_share=max_share,
        )
        return _finish("reconcile plan", done, status)


@reconcile.command()
def apply(
    file: PlanPath,
    lake: OtherLake = None,
    limit: Limit = None,
    stop_after: Failures = 20,
    max_share: MaxShare = None,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="D", help="Refuse the plan unless it has this digest.")
    ] = None,
    approved_by: Annotated[
        str | None,
        typer.Option("--approved-by", metavar="NAME", help="Name of the approver, for the record."),
    ] = None,
    status_file: Status = None,
) -> int:
    """Carry out a plan, or continue a run of it that was stopped."""
    from lakeaudit.commands import reconcile as command

    approved = partial(command.apply, digest=digest, approved_by=approved_by, max_share=max_share)
    return _on_plan("reconcile apply", approved, file, lake, (limit, stop_after), status_file)


@reconcile.command()
def undo(
    file: PlanPath, lake: OtherLake = None, stop_after: Failures = 20, status_file: Status = None
) -> int:
    """Reverse the steps of a plan that were applied, the last step first."""
    from lakeaudit.commands import reconcile as command

    return _on_plan(
        "reconcile undo", command.undo, file, lake, (None, stop_after), status_file, needs_lake=False
    )


@reconcile.command()
def purge(
    lake: LakeFile,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the files; without it they are only listed.")
    ] = False,
    status_file: Status = None,
) -> int:
    """Permanently remove files that are in the quarantine for longer than its `keep`. This cannot be undone."""
    from lakeaudit.commands import purge as command
    from lakeaudit.commands.status import open_status
    from lakeaudit.runtime.progress import progress_on

    with open_status(status_file, "reconcile purge") as status:
        loaded = load_with_status(lake, status)
        progress = progress_on(sys.stderr)
        done = command.purge(loaded, results_of(loaded), sys.stdout, yes=yes, now=now(), progress=progress)
        return _finish("reconcile purge", done, status)


def _on_plan(
    name: str,
    run: "Callable[..., CommandResult]",
    path: str,
    other: str | None,
    bound: tuple[int | None, int],
    status_file: str | None,
    *,
    needs_lake: bool = True,
) -> int:
    """Run a command on a plan; if its lake file cannot be read, a command that `needs_lake` fails."""
    from lakeaudit.commands.status import open_status
    from lakeaudit.errors import LakeFileError
    from lakeaudit.reconcile.plan_file import open_plan
    from lakeaudit.reconcile.run import Bounds
    from lakeaudit.runtime.progress import progress_on

    with open_status(status_file, name) as status:
        if other is not None:
            load_with_status(other, status)
        with open_plan(path, status.clients) as file:
            lake = other or file.header.lake_file
            try:
                loaded = load_with_status(lake, status)
            except LakeFileError:
                if needs_lake or other is not None:
                    raise
                loaded = None
            bounds = Bounds(*bound, loaded.settings.confirm.rate) if loaded else Bounds(*bound)
            results, progress = results_of(loaded) if loaded else None, progress_on(sys.stderr)
            done = run(file, loaded, lake, results, bounds=bounds, clock=now, progress=progress)
        return _finish(name, done, status)


def _finish(name: str, result: "CommandResult", status: "StatusFile") -> int:
    summary = {"command": name, "exit_code": result.exit_code, "verdict": result.verdict, "retry": False}
    status.write({**result.more, **summary})
    return say(result.verdict, result.exit_code)
