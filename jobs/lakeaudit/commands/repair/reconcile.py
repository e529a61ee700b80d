"""Run `lakeaudit reconcile` plan, apply and undo: check their preconditions and report their results."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from getpass import getuser
from typing import TextIO

from lakeaudit import __version__
from lakeaudit.advice.command_lines import operand
from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.commands.findings import require_tables
from lakeaudit.commands.lake_text import lake_data, whole_path
from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.repair import plan_summary
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, lake_of_data
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import BadInput
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.protocol import Context, Engine
from lakeaudit.evidence.references import Key
from lakeaudit.formatting import count, number, size, steps_in_words, visible
from lakeaudit.guard.known_lake import KnownLake, known_lake, with_history
from lakeaudit.guard.newest_claims import NewestClaims
from lakeaudit.json_documents import RepairFields
from lakeaudit.keys import Location, digest
from lakeaudit.ledger.lease import Check, audit_lease
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.execution import journal as record
from lakeaudit.reconcile.execution.apply import apply_plan
from lakeaudit.reconcile.execution.journal import Journal
from lakeaudit.reconcile.execution.run import Bounds, Run, Tally
from lakeaudit.reconcile.execution.undo import undo_plan
from lakeaudit.reconcile.execution.unfinished import finish, has_unfinished
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.reconcile.plans import ceiling
from lakeaudit.reconcile.plans.early_ends import early_ends
from lakeaudit.reconcile.plans.lost_content import lost_content
from lakeaudit.reconcile.plans.plan_file import (
    Header,
    Lines,
    PlanFile,
    header_of,
    lake_digest,
    new_plan_file,
    write_plan,
)
from lakeaudit.reconcile.plans.plan_tasks import STEPS, plan_by_tasks
from lakeaudit.reconcile.plans.planning import Planner
from lakeaudit.reconcile.plans.totals import Totals
from lakeaudit.reconcile.protocol import ALLOWED, StateReader
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.results.summaries.lake_standing import files_of_lost_states, lost_states
from lakeaudit.results.summaries.past_audits import first_audits, table_files
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.threads import Pacer


def plan(
    lake: Lake,
    lake_file: str,
    results: Results,
    out: TextIO,
    *,
    to: str | None,
    row_filter: RowFilter,
    allow: Collection[str],
    now: datetime,
    progress: Progress,
    max_share: float | None = None,
) -> CommandResult:
    """Write a plan for open discrepancies, and print its summary. Nothing in the lake changes.

    Steps that a killed run left unfinished are finished first.

    `to` is the file or s3:// object of the plan; None: a file in the results location. `max_share` is the largest
    share of a table's files that the plan may change; None: the lake file's ceiling.

    Raises:
        BadInput: there is no such table or `--allow`, the file cannot be written, or the plan changes too many files.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    require_tables(lake, results, results.published(None), row_filter.tables)
    by = getuser()
    plan_id = f"{now:%Y%m%dT%H%M%SZ}-{digest(lake.name, now.isoformat(), by, str(to))[:8]}"
    planner = replace(
        planner_of(lake, plan_id, allow, now, first_audits(results)),
        losing=lost_states(results),
        lost_files=files_of_lost_states(results),
        lost_content=lost_content(results),
        lake_file=whole_path(lake_file),
    )
    place = to or _plan_in_results(lake.results, plan_id)
    clients = planner.reader.clients
    data = lake_data(lake_file)
    header = header_of(lake, whole_path(lake_file), plan_id, allow, by, now, __version__, data)
    _finish_killed(planner.lake, results, clients, plan_id, lambda: now, progress)
    with progress.stage("plan repairs") as log, new_plan_file(place, clients) as path:
        with engine_for(lake, results, row_filter) as engine:
            rows = _rows(planner, results, row_filter, engine)
            below = _below_ceiling(rows, lake, results, max_share)
            sealed, totals = write_plan(path, header, below)
        log.note(**{"steps": sealed.steps, "discrepancies for a person": sealed.for_person})
    early = [*early_ends(lake, clients, copied=totals.copied, hidden_in=totals.hidden_in)]
    with audit_lease(lake.results, clients, plan_id, progress) as still_ours:
        Journal(results.leased_by(still_ours), plan_id).put_plan(sealed, record.PLANNED)
    plan_summary.write(totals, out)
    out.writelines(f"warning: {visible(each)}\n" for each in early)
    more = RepairFields(plan=place, plan_id=plan_id, digest=sealed.digest, steps=sealed.steps,
                        for_person=sealed.for_person, actions=dict(totals.counts))  # fmt: skip
    return CommandResult(_plan_verdict(sealed, totals, place), 0, more)


@contextmanager
def engine_for(lake: Lake, results: Results, row_filter: RowFilter) -> Iterator[Engine | None]:
    """Yield Spark for a large plan, and None for a plan that this process makes, which needs no Java."""
    if results.open_files(row_filter) < STEPS:
        yield None
        return
    with spark_engine(lake) as engine:
        yield engine


def _rows(
    planner: Planner, results: Results, row_filter: RowFilter, engine: Engine | None
) -> Iterator[Lines]:
    if engine is not None:
        yield from plan_by_tasks(planner, results, row_filter, engine)
        return
    for share in planner.shares(results, row_filter):
        yield Lines.of(planner.steps_of([share]))


def _below_ceiling(
    rows: Iterable[Lines], lake: Lake, results: Results, max_share: float | None
) -> Iterator[Lines]:
    """Pass the rows on, and raise at their end if they change too many files of a table."""
    touched = Counter[str]()
    for lines in rows:
        touched += lines.totals.by_table
        yield lines
    _require_below_ceiling("the plan", touched, lake, results, max_share)


def _require_below_ceiling(
    what: str, touched: Counter[str], lake: Lake, results: Results, max_share: float | None
) -> None:
    share = lake.ceiling.share if max_share is None else max_share
    if share < 1 and any(n >= ceiling.LEAST for n in touched.values()):
        ceiling.require_below(what, touched, table_files(results), share)


def _plan_in_results(results: Location, plan_id: str) -> str:
    return results.join("_reconcile", "plans", f"{plan_id}.jsonl").path_or_uri


def _plan_verdict(header: Header, totals: Totals, to: str) -> str:
    stake = f" ({size(totals.bytes)}, {count(totals.rows)} rows)" if header.steps else ""
    need = "discrepancy needs" if header.for_person == 1 else "discrepancies need"
    by_hand = f"{count(header.for_person)} {need} a person"
    verdict = f"{number(header.steps, 'step')}{stake}; {by_hand}; nothing was changed"
    if not header.steps:
        return verdict
    return f"{verdict}; next: lakeaudit reconcile apply {operand(to)}"


def planner_of(
    lake: Lake,
    plan_id: str,
    allow: Collection[str],
    now: datetime,
    audited_since: Mapping[str, datetime],
) -> Planner:
    """Build a planner that sends requests to storage at the lake's rate; see `Planner`.

    Raises:
        BadInput: `allow` has a name that is not in ALLOWED.
    """
    if unknown := set(allow) - set(ALLOWED):
        raise BadInput("--allow", f"no {', '.join(sorted(unknown))}", f"one of {', '.join(ALLOWED)}")
    lake, clients = as_stored(lake, clients_of(lake))
    reader = StateReader(lake, clients, KeyReader(clients, Pacer(lake.settings.confirm.rate)), plan_id)
    discovered = find_tables(lake, clients).tables if lake.catalog_discoveries else ()
    return Planner(lake, plan_id, allow, now, reader, audited_since, discovered)


def apply(
    file: PlanFile,
    lake: Lake,
    lake_file: str,
    results: Results,
    *,
    bounds: Bounds,
    clock: Callable[[], datetime],
    progress: Progress,
    digest: str | None = None,
    approved_by: str | None = None,
    max_share: float | None = None,
) -> CommandResult:
    """Carry out the steps of a plan that are left.

    `digest` is that of the approved plan; None: any plan. `approved_by` is a name for the record. `max_share` is as in
    `plan`, compared with the files that the last audit counted.

    Raises:
        BadInput: the plan is for another lake, is not the approved one, is complete or expired, or changes too many
            files.
        Busy: an audit is running on these results.
        CannotPublish: the record cannot be written.
    """
    if digest is not None and digest != file.header.digest:
        raise BadInput(file.header.plan_id, "is not the plan that was approved", "approve a new plan")
    _require_same_lake(file.header, lake)
    with _leased_run(file, lake, results, bounds, clock, progress) as run:
        _require_open(file.header, run.journal, clock())
        touched = Counter({table: min(n, bounds.limit or n) for table, n in file.by_table().items()})
        _require_below_ceiling("the plan", touched, lake, results, max_share)
        run.journal.approved_by = approved_by
        run.journal.put_plan(file.header, record.APPLYING)
        tally = apply_plan(file, run, progress)
        settled = sum(tally.counts[status] for status in record.SETTLED)
        if settled == file.header.steps:
            run.journal.put_plan(file.header, record.APPLIED)
    return _result_of(tally, file.header, lake_file, (record.APPLIED, record.MOVED_ON))


def undo(
    file: PlanFile,
    lake: Lake | None,
    lake_file: str,
    results: Results | None,
    *,
    bounds: Bounds,
    clock: Callable[[], datetime],
    progress: Progress,
) -> CommandResult:
    """Reverse the applied steps of a plan, the last step first, even if the lake file has changed since.

    `lake` and `results` are those of the current lake file; None: it cannot be read. Raises as `apply`.
    """
    lake, results = _planned_lake(file.header, lake, results)
    with _leased_run(file, lake, results, bounds, clock, progress) as run:
        if _status(file.header, run.journal) == record.PLANNED:
            raise BadInput(file.header.plan_id, "was not applied", "there is nothing to undo")
        run.journal.put_plan(file.header, record.UNDOING)
        tally = undo_plan(file, run, progress)
        if not any(tally.counts[status] for status in (*record.TO_UNDO, record.FAILED)):
            run.journal.put_plan(file.header, record.UNDONE)
    expected = (
        record.UNDONE,
        record.MOVED_ON,
        record.CHANGED,
        record.NOT_SAFE,
        record.WAITING,
        record.UNKNOWN,
    )
    return _result_of(tally, file.header, lake_file, expected, undone=True)


def _planned_lake(header: Header, lake: Lake | None, results: Results | None) -> tuple[Lake, Results]:
    """Return the lake of the plan, and its results: at the current location if the plan is recorded there.

    Raises:
        BadInput: the plan does not contain its lake file, and the lake file was changed or cannot be read.
    """
    planned = lake_of_data(header.lake_data) if header.lake_data else None
    if planned is None:
        if lake is None or results is None:
            raise BadInput(
                header.lake_file, "cannot be read, and the plan does not contain it", "restore the file"
            )
        _require_same_lake(header, lake)
        return lake, results
    if lake is not None and lake.results != planned.results:
        moved = planned.model_copy(update={"results": lake.results})
        current = Results(lake.results, clients_of(moved), planned.name)
        if Journal(current, header.plan_id).plan() is not None:
            return moved, current
    return planned, Results(planned.results, clients_of(planned), planned.name)


def _require_same_lake(header: Header, lake: Lake) -> None:
    if header.lake != lake.name or header.lake_digest != lake_digest(lake):
        what = "is for another lake, or the lake file has changed since"
        raise BadInput(header.plan_id, what, "make a new plan")


@contextmanager
def _leased_run(
    file: PlanFile,
    lake: Lake,
    results: Results,
    bounds: Bounds,
    clock: Callable[[], datetime],
    progress: Progress,
) -> Iterator[Run]:
    """Yield a run over a plan of this lake, under the audit lease of the results."""
    header = file.header
    lake, clients = as_stored(lake, clients_of(lake))
    with (
        audit_lease(lake.results, clients, header.plan_id, progress) as still_ours,
        closing(InProcessEngine()) as engine,
    ):
        results = results.leased_by(still_ours)
        finish(results, run_of(lake, results, engine, clients, still_ours, clock))
        with Journal(results, header.plan_id).recording() as journal:
            run = run_of(lake, results, engine, clients, still_ours, clock)(journal)
            yield replace(run, bounds=bounds, losing=lost_states(results), lost_content=lost_content(results))


def run_of(
    lake: Lake,
    results: Results,
    engine: InProcessEngine,
    clients: Clients,
    still_ours: Check,
    clock: Callable[[], datetime],
) -> Callable[[Journal], Run]:
    """Return a function that builds the run over the plan of a journal, without bounds."""
    references = references_of(lake, results, engine, clients, clock)

    def run(journal: Journal) -> Run:
        forms = Forms(clients, lake.results, still_ours)
        return Run(journal.plan_id, lake, clients, journal, forms, references, Bounds(), still_ours, clock)

    return run


def _finish_killed(
    lake: Lake,
    results: Results,
    clients: Clients,
    run_id: str,
    clock: Callable[[], datetime],
    progress: Progress,
) -> None:
    """Finish the steps that a killed run left unfinished, under the audit lease; without such steps take no lease."""
    if has_unfinished(results):
        with (
            audit_lease(lake.results, clients, run_id, progress) as still_ours,
            closing(InProcessEngine()) as engine,
        ):
            results = results.leased_by(still_ours)
            finish(results, run_of(lake, results, engine, clients, still_ours, clock))


def references_of(
    lake: Lake, results: Results, engine: InProcessEngine, clients: Clients, clock: Callable[[], datetime]
) -> Callable[[Collection[Key], Collection[str] | None], NewestClaims]:
    """Return the function `Run.references`."""

    def references(keys: Collection[Key], tables: Collection[str] | None) -> NewestClaims:
        now = clock()
        context = Context(engine, clients, now, now, live=True)
        if tables is None:
            return NewestClaims(
                with_history(known_lake(lake, context), results, now), engine, keys, everybody=True
            )
        named = tuple(table for table in lake.tables if table.name in tables)
        own = KnownLake(lake.model_copy(update={"tables": named}), context)
        return NewestClaims(with_history(own, results, now), engine, keys)

    return references


def _status(header: Header, journal: Journal) -> str:
    """Return the status of the plan in the results; the recorded digest must match the file's."""
    row = journal.plan()
    if row is None or row["digest"] != header.digest:
        what = (
            "is not recorded in the results of its lake"
            if row is None
            else "was changed since it was written"
        )
        raise BadInput(header.plan_id, what, "make a new plan")
    return str(row["status"])


def _require_open(header: Header, journal: Journal, now: datetime) -> None:
    status = _status(header, journal)
    if status not in (record.PLANNED, record.APPLYING):
        raise BadInput(header.plan_id, f"is {status} already", "make a new plan for what is still open")
    if header.version != __version__:
        what = f"was made by version {header.version}, and this is version {__version__}"
        raise BadInput(header.plan_id, what, "make a new plan")
    if now >= datetime.fromisoformat(header.expires_at):
        raise BadInput(header.plan_id, f"expired at {header.expires_at}", "make a new plan")


def _result_of(
    tally: Tally, header: Header, lake_file: str, expected: Sequence[str], undone: bool = False
) -> CommandResult:
    """Exit code 3 if a step is left or ended with another status than the `expected` ones."""
    waiting = header.steps - sum(n for status, n in tally.counts.items() if status != record.WAITING)
    counts = steps_in_words({**tally.counts, record.WAITING: 0 if undone else waiting})
    others = sum(n for status, n in tally.counts.items() if status not in expected)
    is_partial = bool(others or tally.is_over or (waiting and not undone))
    verdict = f"{counts or 'nothing to do'}; to verify: lakeaudit audit {operand(lake_file)}"
    more = RepairFields(plan_id=header.plan_id, counts=dict(tally.counts))
    return CommandResult(verdict, 3 if is_partial else 0, more)
