"""Run `lakeaudit scan`: find tables below a location or in a catalog and judge them once, without a lake file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TextIO

from lakeaudit.commands.audit import WORST_SHOWN, fails, highest, run_audit
from lakeaudit.commands.init import results_beside, write_new_lake_file
from lakeaudit.commands.scan_output import LAKE_FILE, Scanned, losing_tables, print_result
from lakeaudit.commands.scan_scope import Request, ScanScope, scope_of_catalog, scope_of_place
from lakeaudit.commands.scan_versions import NoncurrentVersions, noncurrent_versions
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import BadInput
from lakeaudit.formatting import visible
from lakeaudit.gates.expectation_suites import Broken
from lakeaudit.judged import CONTENT
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.connections.request_budget import RequestBudget
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.scratch import scratch_root
from lakeaudit.runtime.threads import beside

if TYPE_CHECKING:
    from lakeaudit.audit.outcome import Outcome


@dataclass(frozen=True)
class Judged:
    """The scope of a scan, the lake of all tables, the audit of them, its clients, and the limit of its requests."""

    scope: ScanScope
    lake: Lake
    outcome: "Outcome"
    clients: Clients
    budget: RequestBudget

    @cached_property
    def unjudged(self) -> tuple[str, ...]:
        """Return lines about tables that the audit did not judge."""
        return (*_not_judged(self.outcome),)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return lines about everything that was not judged."""
        return (*self.scope.left_out, *self.unjudged)

    def exit_code(self, fail_on: str) -> int:
        """Return the exit code of the command."""
        left_out = 3 if self.unjudged or not self.scope.is_whole else 0
        return highest(self.outcome.exit_code, left_out, 1 if fails(self.outcome.pressing, fail_on) else 0)


@contextmanager
def judge(request: Request, clock: Callable[[], datetime], progress: Progress) -> Iterator[Judged]:
    """Find the tables and judge them by a live audit, whose results are removed at the end of the block.

    Raises:
        CannotAudit: there is no table, or the location or catalog cannot be read.
        BadInput: the local folder does not exist, the catalog has no valid address, or the file to save exists.
    """
    budget = RequestBudget(request.max_requests)
    with progress.stage("find tables") as log, beside(1) as pool:
        pool.submit(
            import_module, "lakeaudit.audit.run"
        )  # takes a second, in which the search waits for storage
        scope = _scope(request, budget, clock())
        log.note(**scope.counts)
    from lakeaudit.audit.plan import Options
    from lakeaudit.commands.scan_preview import preview_of

    if request.save and Path(request.save).exists():
        raise BadInput(request.save, "exists already", "name another file with --save")
    with (
        TemporaryDirectory(prefix="lakeaudit-scan-", dir=scratch_root()) as folder,
        at_interrupt(partial(rmtree, folder)),
    ):
        lake = _lake_in(Path(folder), scope)
        clients = _limited(clients_of(lake), budget)
        preview = preview_of(budget)
        outcome = run_audit(lake, Options(live=True), clients, clock, progress, _no_gates, preview=preview)
        if request.save:
            results = results_beside(request.place, Path.cwd())
            write_new_lake_file(request.save, scope.saved_text(results), option="--save")
        yield Judged(scope, lake, outcome, clients, budget)


def run(request: Request, *, clock: Callable[[], datetime], progress: Progress, out: TextIO) -> CommandResult:
    """Find the tables, judge them, and print the result. Raises as `judge`."""
    from lakeaudit.report.gather import gather
    from lakeaudit.results.read import Results

    with judge(request, clock, progress) as judged:
        outcome, tables = judged.outcome, judged.outcome.tables
        results = Results(judged.lake.results, judged.clients, judged.lake.name)
        names, lake_file = [table.name for table in tables], request.save or LAKE_FILE
        page = gather(
            results, results.run(outcome.run_id), lake_file, clock(), WORST_SHOWN, names, drawn=False
        )
        losing = losing_tables(page.totals)
        places = [table.location for table in tables if table.name not in losing]

        def count_versions() -> NoncurrentVersions:
            with progress.stage("count noncurrent versions"):
                return noncurrent_versions(places, judged.clients)

        scanned = Scanned(
            request,
            judged.scope,
            page,
            len(tables),
            count_versions,
            judged.budget,
            judged.left_out,
            outcome.small_files,
        )
        verdict = print_result(scanned, out)
    return CommandResult(verdict, judged.exit_code(request.fail_on), warnings=outcome.warnings)


def _not_judged(outcome: "Outcome") -> Iterator[str]:
    """Yield a line for each table whose files were not compared with any list of files, and for tables in tables."""
    from lakeaudit.checks.leftover_checks import NOT_JUDGED

    for name, axes in outcome.summary["coverage"].items():
        if CONTENT in axes and axes[CONTENT]["status"] == "off":
            yield f"not judged: {visible(name)}: {axes[CONTENT]['reason'] or 'no list of its files is known'}"
    yield from (visible(line) for line in outcome.warnings if line.endswith(NOT_JUDGED))


def _scope(request: Request, budget: RequestBudget, now: datetime) -> ScanScope:
    endpoint = request.endpoint
    if (request.place is None) == (request.catalog is None):
        raise BadInput(
            "scan", "needs a location or --catalog, and not both", "write `lakeaudit scan s3://lake/`"
        )
    if request.place is None:
        return scope_of_catalog(str(request.catalog), endpoint, os.environ)
    clients = Clients(Endpoint(endpoint, path_style=endpoint is not None, budget=budget))
    return scope_of_place(request.place, clients, now, endpoint)


def _limited(clients: Clients, budget: RequestBudget) -> Clients:
    """Return clients whose requests to S3 count."""
    return replace(clients, default=replace(clients.default, budget=budget))


def _no_gates(_: object) -> list[Broken]:
    """Return no broken expectation: nothing is published."""
    return []


def _lake_in(folder: Path, scope: ScanScope) -> Lake:
    """Return a lake of all tables, whose results are in the folder; a live audit reads no inventory."""
    file = folder / LAKE_FILE
    text = scope.text(str(folder / "results"))
    write_new_lake_file(
        str(file),
        f"{text}defaults: {{grace: 0s}}   # the live check decides about new files\n",
        option="--save",
    )
    return load_lake(str(file), {})
