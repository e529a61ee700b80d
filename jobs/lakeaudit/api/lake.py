"""Open a lake by its lake file, or scan a location, and use the results from Python."""

import json
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakeaudit.api.explained import Explained
from lakeaudit.api.frame import Frame, frame_of_rows
from lakeaudit.api.plan import RepairPlan
from lakeaudit.api.run import FINDING_COLUMNS, AuditRun, Names, filter_of, findings_of, names_of
from lakeaudit.commands.lake_text import open_lake
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.connections.request_limit import MAX_REQUESTS
from lakeaudit.runtime.progress import Progress, SilentProgress, progress_on
from lakeaudit.schemas import DISCREPANCIES, FINDINGS, RUNS

if TYPE_CHECKING:
    from lakeaudit.api.checked import Checked
    from lakeaudit.api.guarded import Guarded
    from lakeaudit.api.verified import VerifiedTables

DISCREPANCY_COLUMNS = ("discrepancy_id", "severity", "kind", "table_name", "key", "state", "first_seen_at")
RUN_COLUMNS = ("run_id", "status", "as_of", "finished_at", "tables_audited", "error")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class LakeHandle:
    """A lake with its results. All answers but those of `audit`, `explain` and `plan` come from the results alone.

    Attributes:
        config: the content of the lake file.
        lake_file: its path, as printed commands name it.
    """

    config: Lake = field(repr=False)
    lake_file: str
    clock: Callable[[], datetime] = field(default=_now, repr=False)
    progress: Progress = field(default_factory=SilentProgress, repr=False)
    scanned: CommandResult | None = field(default=None, repr=False)
    """The result of the scan that found the tables; its results are temporary. None: the lake has a lake file."""

    @property
    def name(self) -> str:
        """Return the name of the lake."""
        return self.config.name

    @property
    def tables(self) -> list[str]:
        """Return the names of the tables that the lake file names."""
        return [table.name for table in self.config.tables]

    def audit(
        self,
        tables: Names = (),
        *,
        live: bool = False,
        partitions: Names = (),
        as_of: datetime | None = None,
        spark: bool = False,
    ) -> AuditRun:
        """Audit the lake once, publish the findings, and send the alerts of the lake file.

        Args:
            tables: tables to audit; none means all tables.
            live: list the files of the tables now, instead of reading an inventory.
            partitions: with `live`: only these partitions, such as `day=2026-11-01`.
            as_of: judge the lake as it was at this time.
            spark: use Spark even if the audit does not need it.

        Raises:
            BadInput: there is no such table or partition.
            CannotAudit: nothing could be audited.
            Busy: another command writes to the results.
            CannotPublish: the results cannot be written.
        """
        self._require_history("audit")
        from lakeaudit.audit.plan import Options
        from lakeaudit.commands import audit as command
        from lakeaudit.formatting import in_utc
        from lakeaudit.gates.second_process import checker

        at = None if as_of is None else in_utc(as_of)
        options = Options(names_of(tables), live, names_of(partitions), at)
        request = command.Request(self.lake_file, options, spark=spark)
        with checker() as check:
            done = command.run(
                request, self.config, clock=self.clock, progress=self.progress, out=StringIO(), check=check
            )
        return self._run(str(done.run_id), done.exit_code, done.warnings)

    def run(self, run_id: str | None = None) -> AuditRun:
        """Return a run that wrote findings; by default the last one.

        Raises:
            BadInput: there is no run of that id.
            CannotAudit: no audit has written findings, or the results cannot be read.
        """
        return self._run(self._results().with_findings(run_id)["run_id"], None)

    def runs(self) -> Frame:
        """Return all runs, oldest first."""
        return frame_of_rows(RUNS, self._results().runs, RUN_COLUMNS, self)

    def findings(
        self,
        run_id: str | None = None,
        *,
        kinds: Names = (),
        tables: Names = (),
        severity: Names = (),
        partitions: Names = (),
        files: bool = False,
    ) -> Frame:
        """Return the findings of a run, worst first; by default of the last run that wrote findings.

        Args:
            run_id: id of the run.
            kinds: only these kinds, such as `dropped`.
            tables: only these tables.
            severity: only these severities: `critical`, `error`, `warning`, `info`.
            partitions: only these partitions, and those below them.
            files: a row for each file of a finding about many files; only for the last run.

        Raises:
            BadInput: there is no such run, kind, severity or table.
            CannotAudit: no audit has written findings, or the results cannot be read.
        """
        from lakeaudit.commands.findings import require_last, require_tables
        from lakeaudit.results.leftover_groups import expand_groups

        results, chosen = self._results(), filter_of(kinds, tables, severity, partitions)
        run = results.with_findings(run_id)
        require_tables(self.config, results, run, chosen.tables)
        if files:
            require_last(results, run["run_id"])
            rows = partial(expand_groups, results, run["run_id"], chosen)
            return frame_of_rows(FINDINGS, rows, FINDING_COLUMNS, self)
        return findings_of(results, run["run_id"], chosen, self)

    def discrepancies(
        self,
        state: Literal["pending", "open", "resolved", "all"] = "open",
        *,
        kinds: Names = (),
        tables: Names = (),
        severity: Names = (),
        partitions: Names = (),
    ) -> Frame:
        """Return the discrepancies of all runs, worst first. A discrepancy is a fault with its history.

        Raises:
            BadInput: there is no such state, kind, severity or table.
            CannotAudit: nothing was published yet, or the results cannot be read.
        """
        from lakeaudit.commands.discrepancies import batches_in

        results, chosen = self._results(), filter_of(kinds, tables, severity, partitions)
        batches_in(self.config, results, state, chosen)
        rows = partial(batches_in, self.config, results, state, chosen)
        return Frame(DISCREPANCIES, rows, DISCREPANCY_COLUMNS, self)

    def coverage(self, run_id: str | None = None) -> Frame:
        """Return how many files of each table were judged; by default by the last run. See `AuditRun.coverage`."""
        return self.run(run_id).coverage()

    def explain(self, what: str, *, deep: bool = False) -> Explained:
        """Explain one file, folder or discrepancy. Storage and the live metadata stores are queried now.

        Args:
            what: a URI or the end of a key, a folder with `/` at its end, or the id of a discrepancy.
            deep: also read the manifests of the table.

        Raises:
            BadInput: nothing has that name, or several files have it.
            CannotAudit: the results cannot be read.
        """
        from lakeaudit.explain.explanation import explain_named

        clients = clients_of(self.config)
        found = explain_named(self.config, self._results(), clients, what, deep=deep)
        return Explained(found, self.lake_file, clients)

    def check(
        self,
        tables: Names,
        *,
        min_severity: str = "error",
        judged: str | None = None,
        max_age: str | None = None,
        after: str | None = None,
    ) -> "Checked":
        """Answer from the results whether tables may be used: ok, discrepancies or unknown.

        Args:
            tables: names or patterns of tables, such as `sales.*`.
            min_severity: lowest severity of discrepancies that count.
            judged: least share of the files that the last audit judged, such as `99%`; None: everything.
            max_age: highest age of the last audit, such as `36h`; None: `overdue` of the lake file.
            after: the last audit must have used a storage snapshot after this time, such as `2026-11-21T08:00:00Z`.

        Raises:
            BadInput: an argument is not valid.
        """
        self._require_history("check")
        from lakeaudit.api.checked import Checked
        from lakeaudit.commands import check as command

        demand, now = command.demand_of(self.config, min_severity, judged, max_age, after), self.clock()
        answers = command.check(self.config, self._results(), names_of(tables), demand, now)
        return Checked(self.config, (*answers,), demand, now)

    def verified(
        self, tables: Names = (), *, through: str | None = None, within: str | None = None
    ) -> "VerifiedTables":
        """Answer from the results up to which time the commits of tables are verified: yes, no or unknown.

        Args:
            tables: names or patterns of tables, such as `sales.*`; none means all tables.
            through: all commits up to this time must be verified, such as `2026-11-21T08:00:00Z`.
            within: all commits that are older than this must be verified, such as `24h`; None: `overdue` of the lake
                file, if `through` is None too.

        Raises:
            BadInput: an argument is not valid.
        """
        self._require_history("verified")
        from lakeaudit.api.verified import VerifiedTables
        from lakeaudit.commands import verified as command

        now = self.clock()
        demanded = command.demanded_time(self.config, through, within, now)
        answers = command.verified(self.config, self._results(), names_of(tables), demanded, now)
        return VerifiedTables(self.config, (*answers,), demanded)

    def follow(self, *, duration: str | None = None) -> CommandResult:
        """Report losses from the events of the lake's queue: publish them, and send the alerts of the lake file.

        `discrepancies` returns the losses. The exit code is 1 if losses were reported, 3 if there is an evidence gap,
        and else 0. Ctrl-C ends the call.

        Args:
            duration: such as `30m`; None: until the queue is empty and all events are decided.

        Raises:
            BadInput: the lake file names no queue, or the duration is not valid.
            CannotAudit: the queue does not exist or refuses access, or no table can be read.
            CannotPublish: the results or the index cannot be written.
        """
        self._require_history("follow")
        from lakeaudit.commands import follow as command
        from lakeaudit.commands.option_values import duration_option

        most = None if duration is None else duration_option("duration", duration, "30m")
        request = command.Request(self.lake_file, once=duration is None, most=most)
        return command.run(request, self.config, clock=self.clock, progress=self.progress)

    def guard(
        self,
        delete_list: str | os.PathLike[str],
        *,
        tables: Names = (),
        form: str | None = None,
        bucket: str | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> "Guarded":
        """Check a list of files before somebody deletes them. Nothing in the lake changes.

        Args:
            delete_list: path or s3:// URI of a list, or a location that ends in `/`: all objects below it.
            tables: tables to whose locations relative paths of the list belong.
            form: form of the list; docs/guard.md describes each. None: it is recognised.
            bucket: bucket of a lifecycle configuration.
            output: path to write the keys that no table needs, as CSV.

        Raises:
            BadInput: the list cannot be understood, or there is no such table.
            CannotPublish: the output cannot be written.
        """
        from lakeaudit.api.guarded import Guarded
        from lakeaudit.commands import guard as command
        from lakeaudit.commands.guard_output import Request

        path = None if output is None else Path(output)
        request = Request(os.fspath(delete_list), form, names_of(tables), bucket, path, format="json")
        out = StringIO()
        done = command.run(request, self.config, clock=self.clock, progress=self.progress, out=out)
        return Guarded(done.verdict, done.exit_code, done.warnings, json.loads(out.getvalue()))

    def plan(
        self,
        kinds: Names = (),
        tables: Names = (),
        *,
        allow: Names = (),
        to: str | None = None,
        max_share: float | None = None,
    ) -> RepairPlan:
        """Write a plan of repairs for open discrepancies. Nothing in the lake changes.

        Args:
            kinds: plan repairs only for these kinds.
            tables: plan repairs only for these tables.
            allow: further repairs, such as `restore`; docs/reconcile-actions.md explains each.
            to: path or s3:// URI of the plan's file; None: a file in the results location.
            max_share: largest share of a table's files to change; None: the lake file's ceiling.

        Raises:
            BadInput: there is no such kind, table or repair, or the plan changes too many files.
            CannotAudit: nothing was published yet, or the results cannot be read.
        """
        self._require_history("plan")
        from lakeaudit.commands.repair import reconcile as command

        out = StringIO()
        done = command.plan(
            self.config,
            self.lake_file,
            self._results(),
            out,
            to=to,
            row_filter=filter_of(kinds, tables),
            allow=names_of(allow),
            now=self.clock(),
            progress=self.progress,
            max_share=max_share,
        )
        return RepairPlan(
            done.more["plan"],
            done.verdict,
            done.more["digest"],
            done.more["actions"],
            out.getvalue(),
            self.config,
            self.lake_file,
            self.clock,
            self.progress,
        )

    def _run(self, run_id: str, exit_code: int | None, warnings: tuple[str, ...] = ()) -> AuditRun:
        results = self._results()
        row = results.run(run_id)
        if self.scanned is not None:
            exit_code, warnings = self.scanned.exit_code, self.scanned.warnings
        return AuditRun(
            run_id, row, results, self.lake_file, self.tables, self.clock(), exit_code, warnings, self
        )

    def _require_history(self, what: str) -> None:
        if self.scanned is not None:
            hint = "save a lake file (`save=`), open it with `lakeaudit.open`, and audit"
            raise BadInput(what, "needs the results of audits, and a scan keeps none", hint)

    def _results(self) -> Results:
        return Results(self.config.results, clients_of(self.config), self.config.name)


def open(lake_file: str | os.PathLike[str], *, progress: bool = False) -> LakeHandle:  # noqa: A001 - `lakeaudit.open`
    """Open the lake of a lake file. Nothing else is read yet.

    Args:
        lake_file: path or S3 address of the lake file; environment variables fill its `${NAME}`.
        progress: print the stages of long calls on stderr.

    Raises:
        LakeFileError: the lake file is not valid; `problems` has every problem with its line.
    """
    path = os.fspath(lake_file)
    return LakeHandle(open_lake(path), path, progress=_progress(progress))


def scan(
    place: str | os.PathLike[str] | None = None,
    *,
    catalog: str | None = None,
    endpoint: str | None = None,
    save: str | None = None,
    max_requests: int = MAX_REQUESTS,
    progress: bool = False,
) -> LakeHandle:
    """Find the tables below a location or in a catalog, and judge them once, without a lake file.

    The results are in a temporary folder, which is removed with the returned object and all that it returned. `run()`
    has the exit code of the command, and names in `warnings` everything that was not judged.

    Args:
        place: s3://bucket/prefix, or a local folder.
        catalog: judge the tables of a catalog instead: the address is that of `lakeaudit scan --catalog`.
        endpoint: S3 endpoint, for a store other than AWS.
        save: also write a lake file of the tables to this path; it must not exist.
        max_requests: send at most so many requests to S3; tables that are not read then count as not judged.
        progress: print the stages on stderr.

    Raises:
        BadInput: the location is not valid, the local folder does not exist, or the file to save exists already.
        CannotAudit: there is no table, or the location cannot be read.
    """
    from lakeaudit.commands import scan as command
    from lakeaudit.commands.init import place_of
    from lakeaudit.commands.scan_output import LAKE_FILE
    from lakeaudit.commands.scan_scope import Request

    location = None if place is None else place_of(os.fspath(place))
    request = Request(location, endpoint, save=save, catalog=catalog, max_requests=max_requests)
    with ExitStack() as stack:
        judged = stack.enter_context(command.judge(request, _now, _progress(progress)))
        warnings = dict.fromkeys([*judged.left_out, *judged.outcome.warnings])
        found = CommandResult("", judged.exit_code(request.fail_on), warnings=(*warnings,))
        handle = LakeHandle(judged.lake, save or LAKE_FILE, progress=_progress(progress), scanned=found)
        weakref.finalize(handle, _remove, os.getpid(), stack.pop_all())
    return handle


def _remove(process: int, results: ExitStack) -> None:
    """Remove temporary results in the process that made them; a forked process leaves them."""
    if os.getpid() == process:
        results.close()


def _progress(shown: bool) -> Progress:
    return progress_on(sys.stderr) if shown else SilentProgress()
