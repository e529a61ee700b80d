"""Commands that mend what audits found."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit.cli.frame import app, loaded_with, now, results_of, say
from lakeaudit.cli.options import Allow, Kinds, LakeFile, Status, Tables, wanted_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeaudit.commands.reconcile import Ended
    from lakeaudit.commands.status import StatusFile

reconcile = typer.Typer(
    rich_markup_mode=None,
    help="Plan what mends open discrepancies, apply it, and take it back. The next audit says what is resolved.",
)
app.add_typer(reconcile, name="reconcile")

PlanPath = Annotated[
    str, typer.Argument(metavar="FILE", help="The plan's file, a path or s3://.", show_default=False)
]
OtherLake = Annotated[
    str | None,
    typer.Option("--lake", metavar="LAKE", help="Where the plan's lake file is now, if it was moved."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Begin N steps at most.")]
Failures = Annotated[
    int, typer.Option("--stop-after", metavar="N", min=1, help="Stop when the store refused N steps.")
]
MaxShare = Annotated[
    float | None,
    typer.Option(
        "--max-share",
        metavar="S",
        min=0,
        max=1,
        help="Refuse what touches more than this share of a table's files and a hundred of them; "
        "by default the lake file's `ceiling.share`.",
    ),
]


@reconcile.command()
def plan(
    lake: LakeFile,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The plan's file, a path or s3://.")
    ] = "plan.jsonl",
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write the plan beside the result tables instead.")
    ] = False,
    kind: Kinds = None,
    table: Tables = None,
    allow: Allow = None,
    max_share: MaxShare = None,
    status_file: Status = None,
) -> int:
    """Write a plan of what may be done about open discrepancies. It changes nothing, and is good for 24 hours."""
    from lakeaudit.commands import reconcile as command
    from lakeaudit.commands.status import kept
    from lakeaudit.runtime.progress import progress_on

    wanted = wanted_of(kind, table, None, None)
    with kept(status_file, "reconcile plan") as status:
        loaded = loaded_with(lake, status)
        done = command.plan(
            loaded,
            lake,
            results_of(loaded),
            sys.stdout,
            to=None if in_results else output,
            wanted=wanted,
            allow=allow or (),
            now=now(),
            progress=progress_on(sys.stderr),
            max_share=max_share,
        )
        return _ended("reconcile plan", done, status)


@reconcile.command()
def apply(
    file: PlanPath,
    lake: OtherLake = None,
    limit: Limit = None,
    stop_after: Failures = 20,
    max_share: MaxShare = None,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="D", help="Refuse any plan but the one of this digest.")
    ] = None,
    approved_by: Annotated[
        str | None, typer.Option("--approved-by", metavar="NAME", help="Who approved it, for the record.")
    ] = None,
    status_file: Status = None,
) -> int:
    """Do what a plan says, or go on where a run of it stopped."""
    from lakeaudit.commands import reconcile as command

    approved = partial(command.apply, digest=digest, approved_by=approved_by, max_share=max_share)
    return _on_plan("reconcile apply", approved, file, lake, (limit, stop_after), status_file)


@reconcile.command()
def undo(
    file: PlanPath, lake: OtherLake = None, stop_after: Failures = 20, status_file: Status = None
) -> int:
    """Take back what was done of a plan, the last step first."""
    from lakeaudit.commands import reconcile as command

    return _on_plan(
        "reconcile undo", command.undo, file, lake, (None, stop_after), status_file, needs_lake=False
    )


@reconcile.command()
def purge(
    lake: LakeFile,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this it is only named.")] = False,
    status_file: Status = None,
) -> int:
    """Remove for good what lies in the quarantine for longer than the lake file keeps it. There is no undo."""
    from lakeaudit.commands import purge as command
    from lakeaudit.commands.status import kept
    from lakeaudit.runtime.progress import progress_on

    with kept(status_file, "reconcile purge") as status:
        loaded = loaded_with(lake, status)
        progress = progress_on(sys.stderr)
        done = command.purge(loaded, results_of(loaded), sys.stdout, yes=yes, now=now(), progress=progress)
        return _ended("reconcile purge", done, status)


def _on_plan(
    name: str,
    run: "Callable[..., Ended]",
    path: str,
    other: str | None,
    bounded: tuple[int | None, int],
    status_file: str | None,
    *,
    needs_lake: bool = True,
) -> int:
    """Run a command on a plan; where its lake file cannot be read, one that `needs_lake` fails."""
    from lakeaudit.commands.status import kept
    from lakeaudit.errors import LakeFileError
    from lakeaudit.reconcile.plan_file import opened
    from lakeaudit.reconcile.run import Bounds
    from lakeaudit.runtime.progress import progress_on

    with kept(status_file, name) as status:
        if other is not None:
            loaded_with(other, status)
        with opened(path, status.clients) as file:
            lake = other or file.header.lake_file
            try:
                loaded = loaded_with(lake, status)
            except LakeFileError:
                if needs_lake or other is not None:
                    raise
                loaded = None
            bounds = Bounds(*bounded, loaded.settings.confirm.rate) if loaded else Bounds(*bounded)
            results, progress = results_of(loaded) if loaded else None, progress_on(sys.stderr)
            done = run(file, loaded, lake, results, bounds=bounds, clock=now, progress=progress)
        return _ended(name, done, status)


def _ended(name: str, done: "Ended", status: "StatusFile") -> int:
    said = {"command": name, "exit_code": done.exit_code, "verdict": done.said, "retry": False}
    status.write({**done.more, **said})
    return say(done.said, done.exit_code)
