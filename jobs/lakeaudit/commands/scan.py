"""Run `lakeaudit scan`: find the tables below a location and judge them once, without a lake file and results."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

from lakeaudit.advice.command_lines import operand
from lakeaudit.commands.audit import WORST_SHOWN, fails, highest
from lakeaudit.commands.init import (
    DEEPEST,
    MOST_LISTINGS,
    Surroundings,
    look_around,
    results_beside,
    write_lake_file,
)
from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import CannotAudit, SourceError
from lakeaudit.formatting import number, size
from lakeaudit.keys import Location
from lakeaudit.report import summary
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.scratch import scratch_root

if TYPE_CHECKING:
    from lakeaudit.report.page_data import PageData

UNNEEDED = ("uncommitted", "unvacuumed", "unreferenced", "temporary", "unfinished_upload")
"""Kinds of files that no table needs."""
A_GB_MONTH = 0.023
"""Dollars for a GB (10^9 bytes) and month: list price of S3 Standard in us-east-1, for the first 50 TB."""
LAKE_FILE = "lake.yaml"


@dataclass(frozen=True)
class Request:
    """The arguments of the command. `s3` has the settings of an endpoint other than AWS, as YAML."""

    place: Location
    s3: Mapping[str, str]
    fail_on: str = "critical"
    format: str = "text"
    save: str | None = None
    price: float = A_GB_MONTH


def run(
    request: Request, clients: Clients, *, clock: Callable[[], datetime], progress: Progress, out: TextIO
) -> CommandResult:
    """Find the tables, judge them by a live audit whose results are removed at the end, and print the result.

    Raises:
        CannotAudit: there is no table, or the location cannot be read.
        BadInput: the local folder does not exist, or the file to save exists already.
    """
    from lakeaudit.report.gather import gather
    from lakeaudit.results.read import Results

    with progress.stage("find tables") as log:
        found = _look_around(request.place, clients, clock())
        log.note(tables=len(found.roots), folders=found.searched)
    if not found.roots:
        raise _no_table(found)
    if request.save:
        write_lake_file(found, request.save, results_beside(request.place, Path.cwd()), {**request.s3})
    with TemporaryDirectory(prefix="lakeaudit-scan-", dir=scratch_root()) as folder:
        lake = _lake_in(Path(folder), found, request.s3)
        outcome = _audited(lake, clock, progress)
        results = Results(lake.results, clients_of(lake), lake.name)
        names = [table.name for table in lake.tables]
        named = request.save or LAKE_FILE
        page = gather(results, results.run(outcome.run_id), named, clock(), WORST_SHOWN, names, drawn=False)
        verdict = _print(request, found, page, out)
    code = highest(outcome.exit_code, 1 if fails(outcome.pressing, request.fail_on) else 0)
    return CommandResult(verdict, code, warnings=outcome.warnings)


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


def _lake_in(folder: Path, found: Surroundings, s3: Mapping[str, str]) -> Lake:
    """Return a lake of all tables, whose results are in the folder; a live audit reads no inventory."""
    file = folder / LAKE_FILE
    write_lake_file(replace(found, inventories=()), str(file), str(folder / "results"), {**s3})
    return load_lake(str(file), {})


def _audited(lake: Lake, clock: Callable[[], datetime], progress: Progress) -> Any:
    from lakeaudit.audit.plan import Options
    from lakeaudit.audit.run import audit
    from lakeaudit.runtime.duck import interrupts

    with interrupts(), spark_engine(lake) as engine:
        return audit(
            lake,
            Options(live=True),
            engine=engine,
            clients=clients_of(lake),
            clock=clock,
            progress=progress,
            check=lambda _: [],  # nothing is published
        )


def _print(request: Request, found: Surroundings, page: "PageData", out: TextIO) -> str:
    """Print the result; return the verdict."""
    from rich.console import Console

    from lakeaudit.explain import text_output

    unneeded = unneeded_of(page.totals)
    verdict = text_output.verdict_line(page)
    if request.format == "json":
        print(json.dumps(_as_json(found, page, unneeded, request.price, verdict)), file=out)
        return verdict
    lines = _unneeded_lines(unneeded, request.price)
    text_output.scan(Console(file=out, highlight=False), page, lines, _next_commands(request, page))
    if not found.is_complete:
        print(
            f"There may be more tables: at most {DEEPEST} levels and {MOST_LISTINGS} folders are searched.",
            file=out,
        )
    return verdict


def unneeded_of(totals: Sequence[Mapping[str, Any]]) -> dict[str, summary.Stake]:
    """Return by kind the files that no table needs, and their bytes."""
    lines = [line for line in summary.by_kind(totals) if line.name in UNNEEDED]
    return {line.name: line.stake for line in lines}


def _unneeded_lines(unneeded: Mapping[str, summary.Stake], price: float) -> list[str]:
    if not unneeded:
        return ["none found; files that are too young to judge do not count"]
    lines = [
        f"{kind}: {number(stake.files.known, 'file')}, {size(stake.bytes.known)}"
        for kind, stake in unneeded.items()
    ]
    at = "the list price of S3 Standard" if price == A_GB_MONTH else "the given price"
    cost = (
        f"{dollars(_bytes_of(unneeded), price)} dollars a month at {at} ({price} dollars for a GB and month)"
    )
    return [*lines, f"together {cost}"]


def _bytes_of(unneeded: Mapping[str, summary.Stake]) -> int:
    return sum(stake.bytes.known or 0 for stake in unneeded.values())


def dollars(size: int, price: float) -> str:
    """Return the price of so many bytes for a month."""
    return f"{size / 1e9 * price:,.2f}"


def _next_commands(request: Request, page: "PageData") -> list[str]:
    place = operand(request.place.path_or_uri)
    first = [] if request.save else [f"lakeaudit scan {place} --save {LAKE_FILE}"]
    worst = next((row for row in page.findings if row["bucket"] is not None and row["key"]), None)
    lake = operand(page.lake)
    if worst is not None:
        where = Location(worst["bucket"], worst["key"]).path_or_uri
        first.append(f"lakeaudit explain {lake} {operand(where)}")
    return [*first, f"lakeaudit audit {lake}"]


def _as_json(
    found: Surroundings, page: "PageData", unneeded: Mapping[str, summary.Stake], price: float, verdict: str
) -> dict[str, Any]:
    kinds = [
        {
            "kind": line.name,
            "severity": line.worst,
            "findings": line.stake.findings,
            "files": line.stake.files.known,
            "rows": line.stake.rows.known,
            "bytes": line.stake.bytes.known,
        }
        for line in summary.by_kind(page.totals)
    ]
    return {
        "place": found.place.uri,
        "tables": len(found.roots),
        "all_found": found.is_complete,
        "verdict": verdict,
        "kinds": kinds,
        "unneeded_bytes": _bytes_of(unneeded),
        "unneeded_dollars_a_month": round(_bytes_of(unneeded) / 1e9 * price, 2),
        "judged": {row["table_name"]: row["status"] for row in page.coverage if row["axis"] == "content"},
    }
