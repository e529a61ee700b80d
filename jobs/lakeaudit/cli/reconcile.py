"""Define the commands that repair open discrepancies."""

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeaudit.cli.frame import app, load_with_status, now, progress, results_of, say
from lakeaudit.cli.options import Kinds, LakeFile, Status, Tables, selection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeaudit.commands.status import CommandResult, StatusFile
    from lakeaudit.json_documents import CommandOutcome

reconcile = typer.Typer(
    rich_markup_mode=None,
    help="Repair open discrepancies: plan, apply, undo, purge.\n\nA repaired discrepancy stays open until the next "
    "audit: that audit checks the repair and resolves the discrepancy.",
)
app.add_typer(reconcile, name="reconcile")

PlanPath = Annotated[
    str, typer.Argument(metavar="FILE", help="Plan file: a path or s3:// URI.", show_default=False)
]
OtherLake = Annotated[
    str | None,
    typer.Option(
        "--lake", metavar="LAKE", help="Path of the lake file, if the file was moved since the plan was made."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, help="Begin at most N steps. A later apply of the same plan continues."
    ),
]
Failures = Annotated[
    int,
    typer.Option(
        "--stop-after",
        metavar="N",
        min=1,
        help="Stop the run when the store has refused N steps, for example because of missing rights.",
    ),
]
MaxShare = Annotated[
    float | None,
    typer.Option(
        "--max-share",
        metavar="S",
        min=0,
        max=1,
        help="Refuse a plan that changes more than this share (0 to 1) of the files of a table. Changes of fewer than "
        "100 files of a table are never refused. Default: `ceiling.share` of the lake file.",
    ),
]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="X",
        help="Plan more repairs; repeatable. `restore`: restore a file that somebody may have removed or replaced on "
        "purpose. `probable`: restore the version that is probably right. Its size, time and number of rows match "
        "the record of the lost file, but another version could be the right one. `older_than_onboarding`: include "
        "unused files that are older than the first complete audit of their table. The repair hides them behind a "
        "delete marker, or moves them to the quarantine. `remove_reference`: if a file cannot be restored, remove "
        "it from the list of its table and accept the loss of its rows. `abort_upload`: abort an old unfinished "
        "upload; this cannot be undone. `drop_partition`: if a partition has no files, remove it from the catalog. "
        "`repoint_table`: point the catalog at the newest metadata of an Iceberg table. docs/reconcile-actions.md "
        "has the conditions.",
    ),
]


@reconcile.command()
def plan(
    lake: LakeFile,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Path or s3:// URI of the plan to write.")
    ] = "plan.jsonl",
    in_results: Annotated[
        bool, typer.Option("--in-results", help="Write the plan to the results location instead of -o.")
    ] = False,
    kind: Kinds = None,
    table: Tables = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="URI", help="Select this file; repeatable. Default: all files."),
    ] = None,
    allow: Allow = None,
    max_share: MaxShare = None,
    status_file: Status = None,
) -> int:
    """Write a plan of repairs for open discrepancies.

    The command changes nothing in the lake, with one exception: if an earlier `apply`, `undo` or `purge` was killed,
    `plan` first finishes or reverses the steps of that command. Apply the plan with `reconcile apply` within 24 hours.
    """
    from lakeaudit.commands.repair import reconcile as command
    from lakeaudit.commands.status import open_status
    from lakeaudit.explain.subject import find_files

    row_filter = selection_of(kind, table, None, None)
    with open_status(status_file, "reconcile plan") as status:
        loaded = load_with_status(lake, status)
        results = results_of(loaded)
        done = command.plan(
            loaded,
            lake,
            results,
            sys.stdout,
            to=None if in_results else output,
            row_filter=replace(row_filter, files=find_files(loaded, results, file or ())),
            allow=allow or (),
            now=now(),
            progress=progress(),
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
        str | None,
        typer.Option(
            "--digest",
            metavar="D",
            help="Apply the plan only if it has this digest, which `plan --status-file` writes.",
        ),
    ] = None,
    approved_by: Annotated[
        str | None,
        typer.Option(
            "--approved-by",
            metavar="NAME",
            help="Name of the person who approved the plan; the table `plans` keeps it.",
        ),
    ] = None,
    status_file: Status = None,
) -> int:
    """Carry out a plan, or continue a stopped run.

    To continue, repeat the same command: it skips steps that are complete. The last line counts the steps by result;
    docs/reconcile.md explains each result.
    """
    from lakeaudit.commands.repair import reconcile as command

    approved = partial(command.apply, digest=digest, approved_by=approved_by, max_share=max_share)
    return _on_plan("reconcile apply", approved, file, lake, (limit, stop_after), status_file)


@reconcile.command()
def undo(
    file: PlanPath, lake: OtherLake = None, stop_after: Failures = 20, status_file: Status = None
) -> int:
    """Reverse the applied steps of a plan.

    The last step is reversed first. A step is reversed only if nobody has changed its file, entry or
    partition since.
    """
    from lakeaudit.commands.repair import reconcile as command

    return _on_plan(
        "reconcile undo", command.undo, file, lake, (None, stop_after), status_file, needs_lake=False
    )


@reconcile.command()
def purge(
    lake: LakeFile,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the files. Without this option they are only listed.")
    ] = False,
    status_file: Status = None,
) -> int:
    """Permanently remove old files from the quarantine.

    A file is old if it is in the quarantine for longer than `quarantine.keep` of the lake file. This cannot be undone.
    """
    from lakeaudit.commands.repair import purge as command
    from lakeaudit.commands.status import open_status

    with open_status(status_file, "reconcile purge") as status:
        loaded = load_with_status(lake, status)
        done = command.purge(loaded, results_of(loaded), sys.stdout, yes=yes, now=now(), progress=progress())
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
    from lakeaudit.reconcile.execution.run import Bounds
    from lakeaudit.reconcile.plans.plan_file import open_plan

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
            results = results_of(loaded) if loaded else None
            done = run(file, loaded, lake, results, bounds=bounds, clock=now, progress=progress())
        return _finish(name, done, status)


def _finish(name: str, result: "CommandResult", status: "StatusFile") -> int:
    summary: CommandOutcome = {
        **result.more,
        "command": name,
        "exit_code": result.exit_code,
        "verdict": result.verdict,
        "retry": False,
    }
    status.write(summary)
    return say(result.verdict, result.exit_code)
