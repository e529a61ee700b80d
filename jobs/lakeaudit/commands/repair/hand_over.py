"""Write open findings as a list for another tool (`lakeaudit findings --as`), and print that tool's command."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

from lakeaudit.advice.command_lines import operand
from lakeaudit.commands.findings import require_tables
from lakeaudit.commands.repair.reconcile import planner_of
from lakeaudit.config import Lake, Table
from lakeaudit.errors import BadInput
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.discovery import with_tables
from lakeaudit.formatting import count, number, second, visible
from lakeaudit.keys import Location
from lakeaudit.reconcile.plans.hand_over import DIFFERENCES, FILES, LEFTOVERS, RESTORED, TEMPORARY, HandOver
from lakeaudit.reconcile.plans.list_forms import (
    Write,
    batch_manifest,
    combined,
    iceberg_file_list,
    vacuum_inventory,
    write_list,
)
from lakeaudit.reconcile.protocol import OLDER
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.runtime.connections.endpoints import clients_of

SHOWN = 5
"""Reasons for left out files that are printed."""


@dataclass(frozen=True)
class Form:
    """The form of a list for one table.

    Attributes:
        kinds: kinds of findings that the list may contain.
        write: returns the writer for a table's files.
        command: returns the tool's command for a table and a list.
        manifest: kind of manifest that the table must have; empty: any.
    """

    kinds: Collection[str]
    write: Callable[[Table], Write]
    command: Callable[[Table, Path], str]
    manifest: str = ""


def _vacuum(table: Table, to: Path) -> str:
    at, listed = _quote(_hadoop(table.location)), _quote(_hadoop(Location.parse(str(to.absolute()))))
    return f"VACUUM delta.{at} USING INVENTORY (SELECT * FROM parquet.{listed}) DRY RUN"  # noqa: S608 - for people


def _remove_orphans(table: Table, to: Path) -> str:
    listed = _quote(_hadoop(Location.parse(str(to.absolute()))))
    view = f"CREATE TEMPORARY VIEW listed AS SELECT * FROM parquet.{listed}"  # noqa: S608 - for people
    arguments = f"table => '{visible(table.name)}', file_list_view => 'listed', dry_run => true"
    return f"{view};\nCALL <catalog>.system.remove_orphan_files({arguments})"


def _rclone(table: Table, to: Path) -> str:
    lost = f"sed -n 's/^+ //p' {operand(str(to))} > lost.txt"
    remote = f"<remote of {visible(table.location.uri)}>"
    return f"{lost}\nrclone copy --files-from-raw lost.txt <backup> {remote} --ignore-existing --dry-run"


def _hadoop(place: Location) -> str:
    return f"file:{place.spark_path}" if place.is_local else place.spark_path


def _quote(text: str) -> str:
    """Quote any text as a name in Spark SQL."""
    return "`" + visible(text).replace("`", "``") + "`"


FORMS = {
    "delta-inventory": Form(LEFTOVERS, lambda _: vacuum_inventory, _vacuum, "delta"),
    "iceberg-file-list": Form(LEFTOVERS, lambda _: iceberg_file_list, _remove_orphans, "iceberg"),
    "rclone": Form(DIFFERENCES, lambda table: combined(table.location.prefix), _rclone),
}
S3_BATCH = "s3-batch"
_COPY_JOB = (
    "Upload the list to a bucket, and create a Copy job of S3 Batch Operations for it, with the fields Bucket, Key,"
    " VersionId and the same bucket as destination. Its copies are unconditional: they overwrite newer objects."
)


@dataclass(frozen=True)
class ListRequest:
    """The arguments of a list.

    Attributes:
        form: a key of FORMS, or S3_BATCH.
        to: path of the list.
        row_filter: filter for the findings.
        now: current time.
        allow: values of `--allow`.
    """

    form: str
    to: Path
    row_filter: RowFilter
    now: datetime
    allow: Collection[str] = ()


def write(lake: Lake, results: Results, out: TextIO, request: ListRequest) -> str:
    """Write the list and print the command that uses it; return the verdict.

    Raises:
        BadInput: there is no such table or kind, the table has another format, or the list cannot be written.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.published(None)
    if request.form != S3_BATCH:
        lake = _with_catalog_tables(lake)
    require_tables(lake, results, run, request.row_filter.tables)
    hand_over = HandOver(lake, results, request.row_filter, request.now, request.allow)
    if request.form == S3_BATCH:
        files, command = _list_restores(hand_over, request)
    else:
        files, command = _list_table(hand_over, request)
    if files:
        out.write(f"{command}\n")
    to = visible(str(request.to))
    return f"{number(files, 'file')} in {to}, as of {second(run['as_of'])}{_rest(hand_over)}"


def _with_catalog_tables(lake: Lake) -> Lake:
    """Add the tables that catalogs name, as an audit does; files of these tables are never copied back."""
    return with_tables(lake, find_tables(lake, clients_of(lake))) if lake.catalog_discoveries else lake


def _list_restores(hand_over: HandOver, request: ListRequest) -> tuple[int, str]:
    """List older versions to copy back; return their number and the instruction."""
    _require_kinds(request, RESTORED)
    planner = planner_of(hand_over.lake, "", request.allow, request.now, {})
    return write_list(batch_manifest, hand_over.restores(planner), request.to), _COPY_JOB


def _list_table(hand_over: HandOver, request: ListRequest) -> tuple[int, str]:
    """List files of a table; return their number and the tool's command."""
    form = FORMS[request.form]
    _require_kinds(request, form.kinds)
    if others := set(request.allow) - {OLDER}:
        what = f"a list for {request.form} does not support {', '.join(sorted(others))}"
        raise BadInput("--allow", what, f"only {OLDER}")
    table = _one_table(hand_over.lake, request, form)
    has_all_kinds = TEMPORARY in form.kinds
    files = hand_over.differences(table) if has_all_kinds else hand_over.leftovers(table, form.kinds, FILES)
    return write_list(form.write(table), files, request.to), form.command(table, request.to)


def _require_kinds(request: ListRequest, kinds: Collection[str]) -> None:
    if others := set(request.row_filter.kinds) - set(kinds):
        what = f"a list for {request.form} has no {', '.join(sorted(others))}"
        raise BadInput("--kind", what, f"one of {', '.join(kinds)}")


def _one_table(lake: Lake, request: ListRequest, form: Form) -> Table:
    """Return the table of the list, which the lake file or one of its catalogs names."""
    tables = [table for table in lake.tables if table.name in request.row_filter.tables]
    if len(tables) != 1 or len(set(request.row_filter.tables)) != 1:
        what = f"a list for {request.form} needs one table of the lake file or of one of its catalogs"
        raise BadInput("--table", what, "write --table NAME")
    if form.manifest and form.manifest not in {manifest.kind for manifest in tables[0].manifests}:
        what = f"{tables[0].name} has no manifest of the kind {form.manifest}"
        raise BadInput(f"--as {request.form}", what, "use --as rclone, or reconcile")
    return tables[0]


def _rest(hand_over: HandOver) -> str:
    if not hand_over.left_out:
        return ""
    reasons = hand_over.left_out.most_common(SHOWN)
    why = "; ".join(f"{count(n)} {visible(reason)}" for reason, n in reasons)
    return f"; {count(hand_over.left_out.total())} left out: {why}"
