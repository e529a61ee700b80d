"""Run `lakeaudit scan`: find the tables below a location and judge them once, without a lake file and results."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

from lakeaudit.advice.command_lines import operand
from lakeaudit.audit.preflight import first_of
from lakeaudit.commands.audit import WORST_SHOWN, fails, highest, run_audit
from lakeaudit.commands.init import (
    DEEPEST,
    MOST_LISTINGS,
    Surroundings,
    look_around,
    results_beside,
    write_lake_file,
)
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import CannotAudit, SourceError
from lakeaudit.formatting import number, visible
from lakeaudit.formatting import size as size_text
from lakeaudit.gates.expectation_suites import Broken
from lakeaudit.keys import Location
from lakeaudit.report import summary
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.scratch import scratch_root

if TYPE_CHECKING:
    from lakeaudit.audit.outcome import Outcome
    from lakeaudit.report.page_data import PageData

UNLISTED = ("uncommitted", "unvacuumed", "unreferenced", "temporary", "unfinished_upload")
"""Kinds of files that no table lists."""
A_GIB_MONTH = 0.023
"""Dollars for a GiB and month: list price of S3 Standard in us-east-1, for the first 50 TB."""
NAMED = 3
"""Places that a line names."""
LAKE_FILE = "lake.yaml"


@dataclass(frozen=True)
class Request:
    """The arguments of the command; an `endpoint` is that of a store other than AWS."""

    place: Location
    endpoint: str | None = None
    fail_on: str = "critical"
    format: str = "text"
    save: str | None = None
    price: float | None = None


@dataclass(frozen=True)
class Judged:
    """What a scan found, the lake of all tables, and the audit of them."""

    found: Surroundings
    lake: Lake
    outcome: "Outcome"


@contextmanager
def judge(
    request: Request, clients: Clients, clock: Callable[[], datetime], progress: Progress
) -> Iterator[Judged]:
    """Find the tables and judge them by a live audit, whose results are removed at the end of the block.

    Raises:
        CannotAudit: there is no table, or the location cannot be read.
        BadInput: the local folder does not exist, or the file to save exists already.
    """
    from lakeaudit.audit.plan import Options

    with progress.stage("find tables") as log:
        found = _look_around(request.place, clients, clock())
        log.note(tables=len(found.roots), folders=found.searched)
    if not found.roots:
        raise _no_table(found)
    if request.save:
        results_place = results_beside(request.place, Path.cwd())
        write_lake_file(found, request.save, results_place, request.endpoint, option="--save")
    with (
        TemporaryDirectory(prefix="lakeaudit-scan-", dir=scratch_root()) as folder,
        at_interrupt(partial(rmtree, folder)),
    ):
        lake = _lake_in(Path(folder), found, request.endpoint)
        outcome = run_audit(lake, Options(live=True), clients_of(lake), clock, progress, _no_gates)
        yield Judged(found, lake, outcome)


def run(
    request: Request, clients: Clients, *, clock: Callable[[], datetime], progress: Progress, out: TextIO
) -> CommandResult:
    """Find the tables, judge them, and print the result. Raises as `judge`."""
    from lakeaudit.report.gather import gather
    from lakeaudit.results.read import Results

    with judge(request, clients, clock, progress) as judged:
        found, lake, outcome = judged.found, judged.lake, judged.outcome
        results = Results(lake.results, clients_of(lake), lake.name)
        names = [table.name for table in lake.tables]
        named = request.save or LAKE_FILE
        page = gather(results, results.run(outcome.run_id), named, clock(), WORST_SHOWN, names, drawn=False)
        verdict = _print(request, found, page, out)
    left_out = 3 if found.several or found.unreadable or not found.is_complete else 0
    code = highest(outcome.exit_code, left_out, 1 if fails(outcome.pressing, request.fail_on) else 0)
    return CommandResult(verdict, code, warnings=outcome.warnings)


def _no_gates(_: object) -> list[Broken]:
    """Return no broken expectation: nothing is published."""
    return []


def _look_around(place: Location, clients: Clients, now: datetime) -> Surroundings:
    try:
        return look_around(place, clients, now)
    except SourceError as error:
        raise CannotAudit(error.where, error.what, error.hint, error.retryable) from error


def _no_table(found: Surroundings) -> CannotAudit:
    looked = f"{number(found.searched, 'folder')} of {DEEPEST} levels"
    what = f"no Delta log, no Iceberg metadata and no Hudi timeline was found in {looked}"
    hint = "name a folder nearer to the tables; for files without a table log, see `lakeaudit init`"
    return CannotAudit(found.place.uri, what, hint)


def _lake_in(folder: Path, found: Surroundings, endpoint: str | None) -> Lake:
    """Return a lake of all tables, whose results are in the folder; a live audit reads no inventory."""
    file = folder / LAKE_FILE
    write_lake_file(replace(found, inventories=()), str(file), str(folder / "results"), endpoint)
    with file.open("a", encoding="utf-8") as out:
        out.write("defaults: {grace: 0s}   # the live check decides about new files\n")
    return load_lake(str(file), {})


def _print(request: Request, found: Surroundings, page: "PageData", out: TextIO) -> str:
    """Print the result; return the verdict."""
    from rich.console import Console

    from lakeaudit.explain import text_output

    verdict = text_output.verdict_line(page)
    if found.unreadable or not found.is_complete:
        verdict += "; the location was not searched completely"
    if request.format == "json":
        print(json.dumps(_as_json(found, page, request, verdict), default=str), file=out)
        return verdict
    console = Console(file=out, highlight=False)
    text_output.scan(
        console, page, _unlisted_lines(request, page), [*_left_out(found)], _next_commands(request, page)
    )
    return verdict


def _left_out(found: Surroundings) -> Iterator[str]:
    """Yield lines about everything below the location that was not judged."""
    if found.plain:
        named = first_of([visible(place.uri) for place in found.plain], NAMED)
        yield f"not judged: {number(len(found.plain), 'folder')} ({named}) with files, but without a table log"
    for place, formats in found.several.items():
        yield f"judged only as {formats[0]}: {visible(place.uri)}, which is also a table of {', '.join(formats[1:])}"
    for place, why in [*found.unreadable.items()][:NAMED]:
        yield f"not searched: {visible(place.uri)}: {why}"
    if len(found.unreadable) > NAMED:
        yield f"not searched: {number(len(found.unreadable) - NAMED, 'more folder')} that cannot be listed"
    if found.skipped:
        yield f"not searched: {number(found.skipped, 'partition or hidden folder')} outside of tables"
    if not found.is_complete:
        yield f"not searched: folders below {DEEPEST} levels, or after {MOST_LISTINGS} folders"


@dataclass(frozen=True)
class Unlisted:
    """Files that no table lists: their number and bytes by kind; those of tables with losses may be needed."""

    kinds: Mapping[str, tuple[int, int]]
    doubtful: int
    unknown: int

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.kinds.values())


def unlisted_of(totals: Sequence[Mapping[str, Any]]) -> Unlisted:
    """Sum up files that no table lists, without those of tables that lost files or states."""
    losing = {row["table_name"] for row in totals if row["severity"] == "critical"}
    rows = [row for row in totals if row["kind"] in UNLISTED]
    kinds: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["table_name"] not in losing:
            files, size = kinds.get(row["kind"], (0, 0))
            kinds[row["kind"]] = (files + (row["files"] or 0), size + (row["bytes_at_stake"] or 0))
    doubtful = sum(row["files"] or 0 for row in rows if row["table_name"] in losing)
    unknown = sum(row["files"] or 0 for row in rows if row["bytes_at_stake"] is None)
    return Unlisted(kinds, doubtful, unknown)


def _unlisted_lines(request: Request, page: "PageData") -> Iterator[str]:
    unlisted = unlisted_of(page.totals)
    for kind, (files, size) in unlisted.kinds.items():
        yield f"{kind}: {number(files, 'file')}, {size_text(size)}"
    if (cost := dollars(request, unlisted.bytes)) is not None and unlisted.bytes:
        which = "the given price" if request.price is not None else "the list price of S3 Standard"
        yield f"together at most {cost:,.2f} dollars a month at {which}"
    if unlisted.unknown:
        yield f"{number(unlisted.unknown, 'file')} of unknown size not included"
    if unlisted.doubtful:
        yield f"{number(unlisted.doubtful, 'file')} of tables with losses not included: repair these tables first"
    if not unlisted.kinds and not unlisted.doubtful:
        yield "none found; files that are too young to judge do not count"


def dollars(request: Request, size: int) -> float | None:
    """Return the price of so many bytes for a month; None if no price is known."""
    on_aws = request.place.is_in_s3 and request.endpoint is None
    price = request.price if request.price is not None else A_GIB_MONTH if on_aws else None
    return None if price is None else size / 2**30 * price


def _next_commands(request: Request, page: "PageData") -> list[str]:
    place, lake = operand(request.place.path_or_uri), operand(page.lake)
    endpoint = f" --endpoint {operand(request.endpoint)}" if request.endpoint else ""
    commands = [] if request.save else [f"lakeaudit scan {place}{endpoint} --save {LAKE_FILE}"]
    commands.append(f"lakeaudit audit {lake}")
    worst = next((row for row in page.findings if row["bucket"] is not None and row["key"]), None)
    if worst is not None:
        where = Location(worst["bucket"], worst["key"]).path_or_uri
        commands.append(f"lakeaudit explain {lake} {operand(where)}")
    return commands


_FINDING = (
    "kind",
    "severity",
    "table_name",
    "bucket",
    "key",
    "rows_at_stake",
    "bytes_at_stake",
    "recoverable",
)


def _as_json(found: Surroundings, page: "PageData", request: Request, verdict: str) -> dict[str, Any]:
    unlisted = unlisted_of(page.totals)
    cost = dollars(request, unlisted.bytes)
    return {
        "place": found.place.uri,
        "tables": len(found.roots),
        "verdict": verdict,
        "kinds": [
            {"kind": line.name, "severity": line.worst, "findings": line.stake.findings,
             "files": line.stake.files.known, "rows": line.stake.rows.known, "bytes": line.stake.bytes.known}
            for line in summary.by_kind(page.totals)
        ],
        "findings": [{name: row[name] for name in _FINDING} for row in page.findings],
        "all_findings": page.finding_count,
        "unlisted_bytes": unlisted.bytes,
        "unlisted_dollars_a_month": None if cost is None else round(cost, 2),
        "judged": {row["table_name"]: row["status"] for row in page.coverage if row["axis"] == "content"},
        "left_out": [*_left_out(found)],
    }  # fmt: skip
