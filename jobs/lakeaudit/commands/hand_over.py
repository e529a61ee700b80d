"""`lakeaudit findings --as`: what is open as a list that another tool reads, and how that tool is asked."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

from lakeaudit.advice.command_lines import operand
from lakeaudit.commands.findings import require_tables
from lakeaudit.commands.reconcile import planner_of
from lakeaudit.config import Lake, Table
from lakeaudit.errors import BadInput
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.discovery import with_tables
from lakeaudit.formatting import count, number, second, visible
from lakeaudit.keys import Location
from lakeaudit.reconcile.hand_over import DIFFERENCES, FILES, LEFTOVERS, RESTORED, TEMPORARY, HandOver
from lakeaudit.reconcile.list_forms import (
    Write,
    batch_manifest,
    combined,
    iceberg_file_list,
    vacuum_inventory,
    written,
)
from lakeaudit.reconcile.protocol import OLDER
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.runtime.endpoints import clients_of

SHOWN = 5
"""Reasons that are named, of those why files are left out."""


@dataclass(frozen=True)
class Form:
    """A list of one table.

    Attributes:
        kinds: that may stand in it.
        write: writes the table's files.
        use: how its tool is asked, of the table and the list.
        manifest: the kind of manifest that its table must have; empty: any.
    """

    kinds: Collection[str]
    write: Callable[[Table], Write]
    use: Callable[[Table, Path], str]
    manifest: str = ""


def _vacuum(table: Table, to: Path) -> str:
    at, listed = _name(_hadoop(table.location)), _name(_hadoop(Location.parse(str(to.absolute()))))
    return f"VACUUM delta.{at} USING INVENTORY (SELECT * FROM parquet.{listed}) DRY RUN"  # noqa: S608 - for people


def _remove_orphans(table: Table, to: Path) -> str:
    listed = _name(_hadoop(Location.parse(str(to.absolute()))))
    view = f"CREATE TEMPORARY VIEW listed AS SELECT * FROM parquet.{listed}"  # noqa: S608 - for people
    given = f"table => '{visible(table.name)}', file_list_view => 'listed', dry_run => true"
    return f"{view};\nCALL <catalog>.system.remove_orphan_files({given})"


def _rclone(table: Table, to: Path) -> str:
    lost = f"sed -n 's/^+ //p' {operand(str(to))} > lost.txt"
    remote = f"<remote of {visible(table.location.uri)}>"
    return f"{lost}\nrclone copy --files-from-raw lost.txt <backup> {remote} --ignore-existing --dry-run"


def _hadoop(place: Location) -> str:
    return f"file:{place.spark_path}" if place.is_local else place.spark_path


def _name(text: str) -> str:
    """A name in Spark's SQL; it may hold anything."""
    return "`" + visible(text).replace("`", "``") + "`"


FORMS = {
    "delta-inventory": Form(LEFTOVERS, lambda _: vacuum_inventory, _vacuum, "delta"),
    "iceberg-file-list": Form(LEFTOVERS, lambda _: iceberg_file_list, _remove_orphans, "iceberg"),
    "rclone": Form(DIFFERENCES, lambda table: combined(table.location.prefix), _rclone),
}
S3_BATCH = "s3-batch"
_COPY_JOB = (
    "Put it into a bucket, and create a Copy job of S3 Batch Operations upon it, with the fields Bucket, Key, VersionId"
    " and the same bucket as destination. Its copies have no condition: what is written before is overwritten."
)


@dataclass(frozen=True)
class Asked:
    """A list that is asked for.

    Attributes:
        form: of FORMS, or S3_BATCH.
        to: where it is written.
        wanted: what it is narrowed down to.
        now: the clock reading.
        allow: what a plan is allowed beside the default.
    """

    form: str
    to: Path
    wanted: RowFilter
    now: datetime
    allow: Collection[str] = ()


def write(lake: Lake, results: Results, out: TextIO, asked: Asked) -> str:
    """Write the list and print how it is used; the verdict's line.

    Raises:
        BadInput: no such table or kind, one of another format, or the list cannot be written.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.published(None)
    if asked.form != S3_BATCH:
        lake = _with_found(lake)
    require_tables(lake, results, run, asked.wanted.tables)
    handed = HandOver(lake, results, asked.wanted, asked.now, asked.allow)
    if asked.form == S3_BATCH:
        listed, use = _restores(handed, asked)
    else:
        listed, use = _of_table(handed, asked)
    if listed:
        out.write(f"{use}\n")
    return (
        f"{number(listed, 'file')} in {visible(str(asked.to))}, as of {second(run['as_of'])}{_rest(handed)}"
    )


def _with_found(lake: Lake) -> Lake:
    """The lake as the audit knows it, with the tables that catalogs name; what is copied back is of its own alone."""
    return with_tables(lake, find_tables(lake, clients_of(lake))) if lake.catalog_discoveries else lake


def _restores(handed: HandOver, asked: Asked) -> tuple[int, str]:
    """How many older versions are listed, and what is to be done with the list."""
    _require_kinds(asked, RESTORED)
    planner = planner_of(handed.lake, "", asked.allow, asked.now, {})
    listed = written(batch_manifest, handed.restores(planner), asked.to)
    return listed, _COPY_JOB


def _of_table(handed: HandOver, asked: Asked) -> tuple[int, str]:
    """How many files of a table are listed, and how the tool is asked."""
    form = FORMS[asked.form]
    _require_kinds(asked, form.kinds)
    if others := set(asked.allow) - {OLDER}:
        what = f"a list for {asked.form} knows no {', '.join(sorted(others))}"
        raise BadInput("--allow", what, f"only {OLDER}")
    table = _one_table(handed.lake, asked, form)
    is_of_all = TEMPORARY in form.kinds
    files = handed.differences(table) if is_of_all else handed.leftovers(table, form.kinds, FILES)
    return written(form.write(table), files, asked.to), form.use(table, asked.to)


def _require_kinds(asked: Asked, kinds: Collection[str]) -> None:
    if others := set(asked.wanted.kinds) - set(kinds):
        what = f"a list for {asked.form} has no {', '.join(sorted(others))}"
        raise BadInput("--kind", what, f"one of {', '.join(kinds)}")


def _one_table(lake: Lake, asked: Asked, form: Form) -> Table:
    """The table that the list is of, as the lake file or a catalog names it."""
    named = [table for table in lake.tables if table.name in asked.wanted.tables]
    if len(named) != 1 or len(set(asked.wanted.tables)) != 1:
        what = f"a list for {asked.form} is of one table that the lake file or a catalog of it names"
        raise BadInput("--table", what, "name it by --table")
    if form.manifest and form.manifest not in {manifest.kind for manifest in named[0].manifests}:
        what = f"{named[0].name} has no manifest of the kind {form.manifest}"
        raise BadInput(f"--as {asked.form}", what, "use --as rclone, or reconcile")
    return named[0]


def _rest(handed: HandOver) -> str:
    if not handed.left_out:
        return ""
    why = "; ".join(f"{count(n)} {visible(reason)}" for reason, n in handed.left_out.most_common(SHOWN))
    return f"; {count(handed.left_out.total())} left out: {why}"
