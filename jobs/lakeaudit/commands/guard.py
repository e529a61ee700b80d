"""Run `lakeaudit guard`: answer for each file of a delete list whether a table needs it."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TextIO

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
from lakeaudit.errors import BadInput, CannotAudit, CannotPublish
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.answer import Question, answer
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.known_lake import KnownLake, known_lake, with_history
from lakeaudit.guard.lists.open_list import read_list
from lakeaudit.guard.long_lists import held_list
from lakeaudit.guard.storage_clock import clock_lead
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.progress import Progress


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
    with (
        spark_engine(lake, at_once=request.spark) as engine,
        task_connection("2GiB", threads=2) as con,
        ExitStack() as held,
    ):
        batches, lines, form = read_list(
            request.delete_list, clients, form=request.form, bucket=request.bucket
        )
        of_list = held_list(con, batches, clients.names, singly=request.prints_all)
        listed = held.enter_context(of_list)
        lead = clock_lead(clients, (*(table.location for table in lake.tables), lake.results), clock)

        def storage_clock() -> datetime:
            return clock() - lead

        now = storage_clock()
        known = _with_history(known_lake(lake, Context(engine, clients, now, now, live=True)), now)
        lake = known.lake
        relative_to = _locations(lake, request.tables)
        question = Question(listed, relative_to, request.max_requests, known.doubts, known.left_out)
        answered = answer(
            lake,
            question,
            engine=engine,
            context=known.context,
            con=con,
            clock=storage_clock,
            progress=progress,
            pause=time.sleep,
        )
        result = Result(lake, answered, form, lines.cut_off, lead)
        safe = write_safe_list(result, request.output) if request.output else None
        print_answers(result, request, safe, out)
        return CommandResult(verdict_of(result), result.exit_code, warnings=warnings_of(result))


def _with_history(known: KnownLake, now: datetime) -> KnownLake:
    """Add what audits have read, or a doubt if that cannot be read."""
    lake = known.lake
    try:
        return with_history(known, Results(lake.results, known.context.clients, lake.name), now)
    except CannotAudit as error:
        why = f"the results of audits cannot be read: {error}"
        return replace(known, doubts=(*known.doubts, Doubt(lake.name, why)))


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
