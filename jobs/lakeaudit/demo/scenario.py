"""Runs the whole demo: serve, build, break, write the inventory, audit, compare, report."""

import random
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from lakeaudit.advice.command_lines import operand, option
from lakeaudit.advice.next_steps import THINK_FIRST, way_back
from lakeaudit.audit.plan import Options
from lakeaudit.audit.run import audit
from lakeaudit.config import Lake
from lakeaudit.config.load import load_lake
from lakeaudit.demo import MARK, MOST_FAULTS, USUAL_FAULTS
from lakeaudit.demo.breaker import Fault, Site, break_lake
from lakeaudit.demo.compare import Comparison, compare, read_run
from lakeaudit.demo.delta import write_delta_rs_tables, write_spark_tables
from lakeaudit.demo.guard_and_verified import Guarded, guarded_delete, verified_lines
from lakeaudit.demo.inventory import next_second, write_inventory
from lakeaudit.demo.plain_tables import build_plain, events
from lakeaudit.demo.repairs import PLAN, RepairOutcome, repair
from lakeaudit.demo.s3guard_tables import build_stores
from lakeaudit.demo.server import LAKE, Server, serving
from lakeaudit.demo.spark_job import visits
from lakeaudit.demo.state_tables import build_state_tables
from lakeaudit.demo.tables import TABLES, describe
from lakeaudit.engine.spark import SparkEngine
from lakeaudit.errors import BadInput
from lakeaudit.explain import text_output
from lakeaudit.formatting import number
from lakeaudit.keys import uri_of
from lakeaudit.report.gather import gather, source_limits
from lakeaudit.report.page import render
from lakeaudit.report.page_data import MAX_FINDINGS, PageData
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.console import console_on
from lakeaudit.runtime.progress import Progress

SETTLED_SECONDS = 3.0
"""Storage times are whole seconds, and a file counts as rewritten only more than 2 s after its commit."""
LAKE_FILE = "lake.yaml"


@dataclass(frozen=True)
class Draw:
    """The seed and number of the faults."""

    seed: int
    faults: int

    @classmethod
    def of(cls, seed: int | None, faults: int | None) -> "Draw":
        """Return a draw; missing values are drawn."""
        seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
        if faults is not None and not 0 <= faults <= MOST_FAULTS:
            raise BadInput("--faults", f"{faults} faults are not possible", f"use 0 to {MOST_FAULTS}")
        return cls(seed, random.Random(seed).randint(*USUAL_FAULTS) if faults is None else faults)  # noqa: S311


@dataclass(frozen=True)
class Verdict:
    """The comparison of findings and faults, and the data of the report page."""

    comparison: Comparison
    page: PageData
    guarded: Guarded
    """What guard answered before the damage."""


def run(folder: Path, *, seed: int | None, faults: int | None, progress: Progress, keep: bool = False) -> int:
    """Build a lake, break it, audit it, and leave lake.yaml, results and report.html in `folder`, which is replaced.

    Args:
        folder: missing, empty, or created by an earlier demo.
        seed: draws the faults; None draws a seed.
        faults: number of acts, 0 to MOST_FAULTS; None draws a number.
        progress: shows every stage.
        keep: keep the server running until Ctrl-C, for commands on the lake.

    Returns:
        0 if the audit found exactly the faults, else 1.

    Raises:
        BadInput: the folder has other content, or the number of faults is not possible.
    """
    draw = Draw.of(seed, faults)
    prepare(folder)
    with serving() as server:
        with healthy_lake(server, progress) as spark:
            verdict = play(spark, server, folder, draw, progress)
        code = leave(verdict, folder, progress)
        print_lines(console_on(), "Guard", verdict.guarded.lines)
        file = folder / LAKE_FILE
        rng = random.Random(draw.seed)  # noqa: S311 - formats of reports
        lake = load_lake(file, {})
        outcome = repair(lake, file, server.clients, rng, progress)
        print_repairs(console_on(), outcome, folder)
        print_lines(console_on(), "Verified", verified_lines(lake))
        if keep:
            stay(console_on(), page_of(lake, file))
    print_end(console_on(), folder, draw)
    return code or (0 if outcome.well else 1)


def print_lines(console: Console, title: str, lines: Iterable[str]) -> None:
    """Print lines below a title."""
    text_output.title(console, title)
    for line in lines:
        text = line.lstrip(" ")
        text_output.line(console, text_output.plain(text), indent=1 + len(line) - len(text))


def print_repairs(console: Console, outcome: RepairOutcome, folder: Path) -> None:
    """Print the outcome of the repairs in a few lines."""
    text_output.title(console, "Repair and undo")
    for sentence in outcome.lines:
        text_output.line(console, text_output.plain(sentence, "green" if outcome.well else "red"), indent=1)
    plan = operand(str(folder / PLAN))
    text_output.line(console, text_output.plain(f"The plan is {plan}."), indent=1)
    if outcome.new_markers:
        line = "The undo wrote new delete markers: the ids of delete markers in the report page are no longer valid."
        text_output.line(console, text_output.plain(line), indent=1)


def stay(console: Console, page: PageData) -> None:
    """Keep the server running until Ctrl-C, and print commands to try on the lake."""
    first = "The demo's S3 server runs until Ctrl-C. Try these commands in another terminal:"
    for line in ("", first, CREDENTIALS, *to_try(page)):
        text_output.line(console, text_output.plain(line))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the handler of the stopped Spark session fails
    with suppress(KeyboardInterrupt):
        Event().wait()


def print_end(console: Console, folder: Path, draw: Draw) -> None:
    """Print which commands work without the server, and the command that repeats the demo and keeps the server."""
    lake = operand(str(folder / LAKE_FILE))
    again = f"lakeaudit demo {operand(str(folder))} --keep --seed {draw.seed} --faults {draw.faults}"
    stopped = "The demo's S3 server has stopped, so commands that read the lake (explain, audit, aws) do not work now."
    console.print()
    text_output.line(console, text_output.plain(stopped))
    for sentence, command in (
        ("Commands that read the results still work, for example:", f"lakeaudit findings {lake}"),
        ("This command repeats the same demo and keeps its server running:", again),
    ):
        text_output.line(console, text_output.plain(sentence))
        text_output.line(console, text_output.plain(command), indent=2)


CREDENTIALS = "export AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo AWS_DEFAULT_REGION=us-east-1"
"""The server accepts any credentials, but clients send no request without some."""


def to_try(page: PageData) -> list[str]:
    """Return five commands: explain the worst file, restore it, audit again, list discrepancies, open the dashboard."""
    lake = operand(page.lake)
    rows = [row for row in page.findings if row["bucket"] and row["kind"] not in THINK_FIRST]
    ways = [(row, way_back(row, page.reach.get(row["bucket"]))) for row in rows]
    row, step = next(((row, step) for row, step in ways if step is not None), (None, None))
    if row is None or step is None:
        first = [f"lakeaudit findings {lake}", f"lakeaudit doctor {lake}", f"lakeaudit audit {lake}"]
    else:
        explain = f"lakeaudit explain {lake} {operand(uri_of(row['bucket'], row['key']))}"
        first = [
            explain,
            step.command,
            f"lakeaudit audit {lake} --live {option('--table', row['table_name'])}",
        ]
    return [*first, f"lakeaudit discrepancies {lake} --state all", f"lakeaudit dashboard {lake}"]


@contextmanager
def healthy_lake(server: Server, progress: Progress) -> Iterator[SparkSession]:
    """Write a healthy lake to the server, and yield the Spark session, which ends with the block."""
    from lakeaudit.runtime.session import build_session

    with ThreadPoolExecutor(1) as beside:
        others = beside.submit(build_without_spark, server)
        with progress.stage("start Spark"):
            spark = build_session("lakeaudit demo", s3=server.endpoint, small=True, brief=True)
        try:
            build(spark, server, others, progress)
            yield spark
        finally:
            spark.stop()


def prepare(folder: Path) -> None:
    """Create an empty folder with the demo's mark; only a folder with the mark is replaced."""
    if folder.exists() and not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(
            str(folder), "is not a folder of a demo", "name a folder that is empty or does not exist"
        )
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


def build_without_spark(server: Server) -> None:
    """Write the healthy tables of other writers."""
    write_delta_rs_tables(server.clients, server.endpoint)
    build_state_tables(server.clients, server.endpoint)
    build_plain(server.clients)


def build(spark: SparkSession, server: Server, others: Future[None], progress: Progress) -> None:
    """Write the rest of a healthy lake: the tables of Spark, and S3Guard rows for all files."""
    with progress.stage("write tables") as log:
        write_spark_tables(spark, server.clients)
        events(spark, server.clients)
        visits(spark, server.clients)
        others.result()
        describe(server.clients.s3(LAKE))
        log.note(tables=len(TABLES))
    written = time.monotonic()
    with progress.stage("fill S3Guard") as log:
        log.note(rows=build_stores(server.clients))
    time.sleep(max(0.0, written + SETTLED_SECONDS - time.monotonic()))


def play(spark: SparkSession, server: Server, folder: Path, draw: Draw, progress: Progress) -> Verdict:
    """Break the healthy lake and audit it, with lake file and results in `folder`."""
    file = write_lake_file(folder / LAKE_FILE, folder / "results", server)
    lake = load_lake(file, {})
    guarded = guarded_delete(server, lake, folder, progress)
    faults = damage(server.clients, draw, progress)
    comparison, page = judge(spark, lake, file, faults, draw, progress)
    return Verdict(comparison, page, guarded)


def leave(verdict: Verdict, folder: Path, progress: Progress) -> int:
    """Write the report page and print the result; return 0 if the audit found exactly the faults and guard refused."""
    with progress.stage("write the report"):
        (folder / "report.html").write_text(render(verdict.page), encoding="utf-8")
    print_verdict(console_on(), verdict, folder)
    return 0 if verdict.comparison.matched and verdict.guarded.well else 1


def damage(clients: Clients, draw: Draw, progress: Progress) -> list[Fault]:
    """Break the lake, and then write the inventory report of the next night."""
    rng = random.Random(draw.seed)  # noqa: S311 - a seed that draws the same acts again
    with progress.stage("break the lake") as log:
        faults = break_lake(Site(clients.s3(LAKE), clients.dynamodb(), LAKE, rng), draw.faults)
        log.note(faults=len(faults))
    with progress.stage("write the S3 Inventory report") as log:
        kind, rows = write_inventory(clients, rng, next_second())
        log.note(format=kind, rows=rows)
    return faults


def write_lake_file(file: Path, results: Path, server: Server) -> Path:
    """Write the lake file with its endpoint and paths, and return its path."""
    text = resources.files("lakeaudit.demo").joinpath(LAKE_FILE).read_text(encoding="utf-8")
    filled = {
        "@ENDPOINT@": server.endpoint.endpoint or "",
        "@RESULTS@": str(results.absolute()),
        "@FILE@": str(file),
    }
    for name, value in filled.items():
        text = text.replace(name, value)
    file.write_text(text, encoding="utf-8")
    return file


def judge(
    spark: SparkSession, lake: Lake, lake_file: Path, faults: list[Fault], draw: Draw, progress: Progress
) -> tuple[Comparison, PageData]:
    """Audit the lake like any other, and compare the published findings with the faults."""
    clients = clients_of(lake)
    with closing(SparkEngine(lambda: spark)) as engine:
        outcome = audit(
            lake,
            Options(),
            engine=engine,
            clients=clients,
            clock=lambda: datetime.now(UTC),
            progress=progress,
        )
    results = Results(lake.results, clients, lake.name)
    with progress.stage("compare findings with faults") as log:
        comparison = compare(faults, *read_run(results, outcome.run_id))
        log.note(differences=len(comparison.differences))
    page = page_of(lake, lake_file, outcome.run_id)
    demo = {
        "seed": draw.seed,
        "broken": _acts(comparison),
        "harmless": sum(fault.is_trap for fault in comparison.faults),
        "matched": comparison.matched,
    }
    return comparison, replace(page, demo=demo)


def page_of(lake: Lake, lake_file: Path, run_id: str | None = None) -> PageData:
    """Return the data of the report page of a run; by default of the last one."""
    results = Results(lake.results, clients_of(lake), lake.name)
    return gather(
        results,
        results.published(run_id),
        str(lake_file),
        datetime.now(UTC),
        MAX_FINDINGS,
        [table.name for table in lake.tables],
        limits=source_limits(lake),
    )


def _acts(comparison: Comparison) -> list[dict[str, str]]:
    """Return the faults for the page, with expected findings and whether they were found."""
    return [
        {
            "what the demo did": fault.what,
            "expected findings": _expectation(fault),
            "judged": "wrongly" if fault in comparison.missed else "correctly",
        }
        for fault in comparison.faults
    ]


def _expectation(fault: Fault) -> str:
    kinds = ", ".join(sorted({expected.kind for expected in fault.expected}))
    return kinds or (f"none; {fault.gap} can only partly be judged" if fault.gap else "none: harmless")


def print_verdict(console: Console, verdict: Verdict, folder: Path) -> None:
    """Print the findings, and whether they are exactly the faults."""
    text_output.audit(console, verdict.page)
    console.print()
    for difference in verdict.comparison.differences:
        words = text_output.plain(f"{difference.act or 'audit'}: {difference.words}")
        console.print(Text("  ").append_text(words), soft_wrap=True)
    style = "bold green" if verdict.comparison.matched else "bold red"
    for line in (verdict.comparison.summary, _findings_of(verdict)):
        console.print(text_output.plain(line, style), soft_wrap=True)
    console.print(text_output.plain(f"The report page is {folder / 'report.html'}."), soft_wrap=True)


def _findings_of(verdict: Verdict) -> str:
    """Return the number of findings, and how it compares with the number of faults."""
    faults, findings = len(verdict.comparison.faults), verdict.page.finding_count
    numbers = f"{number(findings, 'finding')} for {number(faults, 'change')}"
    if faults == findings:
        return f"{numbers}."
    why = "One change can cause several findings; a harmless change causes none." if faults else ""
    return f"{numbers}. {why}".strip()
