"""Run `lakeaudit guard`: answer for each file of a delete list whether a table needs it."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TextIO

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.commands.guard_output import (
    Request,
    Result,
    print_answers,
    verdict_of,
    warnings_of,
    write_safe_list,
)
from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import BadInput, CannotAudit, CannotPublish
from lakeaudit.evidence.discovery import described
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.answer import Question, answer
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.lists.open_list import read_list
from lakeaudit.guard.storage_clock import clock_lead
from lakeaudit.keys import Location
from lakeaudit.ledger.last_states import last_states
from lakeaudit.ledger.renamed_tables import under_current_names
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.lake_standing import lost_states
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.progress import Progress
from lakeaudit.schemas import LISTED


def run(
    request: Request, lake: Lake, *, clock: Callable[[], datetime], progress: Progress, out: TextIO
) -> CommandResult:
    """Answer for each file of a list, print the answers, and write the free keys.

    Raises:
        BadInput: the list cannot be understood, or no table has a given name.
        CannotAudit: no table was discovered.
        CannotPublish: the file of free keys cannot be written.
    """
    clients = clients_of(lake)
    if request.output is not None:
        _prepare_output(request.output, request.delete_list)
    with spark_engine(lake, at_once=request.spark) as engine, task_connection("2GiB", threads=2) as con:
        batches, lines, form = read_list(
            request.delete_list, clients, form=request.form, bucket=request.bucket
        )
        listed = duck.hold_batches(con, LISTED, batches)
        lead = clock_lead(clients, (*(table.location for table in lake.tables), lake.results), clock)

        def storage_clock() -> datetime:
            return clock() - lead

        now = storage_clock()
        lake, clients, doubts = _known_lake(lake, engine, clients, now)
        relative_to = _locations(lake, request.tables)
        context, more = _with_history(Context(engine, clients, now, now, live=True), lake, now)
        question = Question(listed, relative_to, request.max_requests, (*doubts, *more))
        answered = answer(
            lake,
            question,
            engine=engine,
            context=context,
            con=con,
            clock=storage_clock,
            progress=progress,
            pause=time.sleep,
        )
        result = Result(lake, answered, form, lines.cut_off, lead)
        safe = write_safe_list(result, request.output) if request.output else None
        print_answers(result, request, safe, out)
        return CommandResult(verdict_of(result), result.exit_code, warnings=warnings_of(result))


def _known_lake(
    lake: Lake, engine: AuditEngine, clients: Clients, now: datetime
) -> tuple[Lake, Clients, tuple[Doubt, ...]]:
    """Return the lake with its discovered tables at the locations of their keys, and doubts about the discovery."""
    doubts: tuple[Doubt, ...] = ()
    if lake.finds_tables:
        found = described(lake, Context(engine, clients, now, now, live=True))
        lake = found.lake
        doubts = tuple(Doubt(lake.name, f"tables may be missing: {gap}") for gap in found.gaps)
    return (*as_stored(lake, clients), doubts)


def _with_history(context: Context, lake: Lake, now: datetime) -> tuple[Context, tuple[Doubt, ...]]:
    """Return the context with the states that audits have read, and doubts about tables of which a state is lost."""
    results = Results(lake.results, context.clients, lake.name)
    try:
        audited = under_current_names(last_states(results, now, ""), lake.tables)
        return replace(context, last_states=audited), tuple(_lost_states(results, lake))
    except CannotAudit as error:
        return context, (Doubt(lake.name, f"the results of audits cannot be read: {error}"),)


def _lost_states(results: Results, lake: Lake) -> Iterator[Doubt]:
    """Yield the tables of which audits miss a state or metadata: files may belong to what is lost."""
    places = {table.name: table.location for table in lake.tables}
    for name, kind in lost_states(results).items():
        if name in places:
            why = f"an audit reported {kind}, and that is not resolved: files may belong to what is lost"
            yield Doubt(name, why, places[name])


def _prepare_output(path: Path, delete_list: str) -> None:
    """Remove the files of an earlier run, so that nobody takes them for those of this run if it fails.

    Raises:
        BadInput: another file would be overwritten.
        CannotPublish: they cannot be removed.
    """
    about = path.with_name(f"{path.name}.json")
    if path.exists() and (not about.exists() or path.resolve() == Path(delete_list).resolve()):
        raise BadInput(f"-o {path}", "exists, and guard did not write it", "name another file")
    try:
        for each in (path, about):
            each.unlink(missing_ok=True)
    except OSError as error:
        what = f"cannot be replaced ({error.strerror})"
        raise CannotPublish(f"-o {path}", what, "name a file in a writable folder") from error


def _locations(lake: Lake, names: Sequence[str]) -> list[Location]:
    tables = {name: table for table in lake.tables for name in (table.name, *table.also)}
    if unknown := [name for name in names if name not in tables]:
        what = f"no table {', '.join(unknown)}"
        raise BadInput("--table", what, f"the lake file names {', '.join(sorted(tables)[:20])}")
    return [tables[name].location for name in names]
