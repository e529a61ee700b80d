"""Whole audits of plain tables by the event logs of the Spark jobs that wrote them.

Cases whose tables are audited once lie in one lake, each with tables and logs of its own.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.evidence.manifest.spark_event_log import reader
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Log, info
from tests.builders.event_logs import UUIDS, App, millis, part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = {n: (100 + n, 1000 + n) for n in range(6)}
BEGUN = datetime.now(UTC).replace(microsecond=0) - timedelta(days=9)


class Site:
    """A folder of tables, and one of logs; those of a case lie in folders of its own."""

    def __init__(self, folder: Path, case: str = "", number: int = 1) -> None:
        self.folder = folder
        self.data = folder / "data" / case
        self.logs = folder / "logs" / case
        self.app = App(f"app-20261120030000-{number:04}", at=BEGUN)

    def wrote(
        self, table: str, uuid: str, splits: dict[int, tuple[int, int]] = SPLITS, below: str = "", **how: Any
    ) -> None:
        """A job that wrote a file a split."""
        home = self.data / table
        end = self.app.write(f"file:{home}", splits, **how)
        for number, (_, size) in splits.items():
            path = home / below / part(number, uuid, joint=".c" if below else "-c")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, (end.timestamp(), end.timestamp()))

    def lose(self, table: str, uuid: str, *splits: int) -> None:
        for number in splits or SPLITS:
            self.file(table, uuid, number).unlink()

    def line(self, table: str, name: str = "", more: str = "", beside: str = "") -> str:
        """The table in a lake file, by the logs."""
        manifest = f"{{kind: spark_event_log, location: {self.logs}{more}}}"
        return f"{{name: {name or table}, location: {self.data / table}, manifests: [{beside}{manifest}]}}"

    def lake(self, *tables: str, more: str = "") -> Lake:
        return lake_of(self.folder, [self.line(table, more=more) for table in tables])

    def file(self, table: str, uuid: str, split: int) -> Path:
        return self.data / table / part(split, uuid)


def lake_of(folder: Path, tables: list[str]) -> Lake:
    path = folder / "lake.yaml"
    named = "\n".join(f"  - {table}" for table in tables)
    path.write_text(
        f"version: 1\nlake: plain\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: {folder / 'data'}}}]\ntables:\n{named}\n"
    )
    return load_lake(path, {})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


Found = list[tuple[str, str, str | None, int | None]]


def audit_findings(lake: Lake) -> Found:
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    return sorted(
        (r["kind"], r["table_name"], r["key"] and r["key"].rpartition("/")[2], r["rows_at_stake"])
        for r in rows
    )


Lay = Callable[[Site], list[str]]
CASES: dict[str, Lay] = {}


def register_case(lay: Lay) -> Lay:
    """Register a case: it writes its table, named after it, and returns the lines of the lake file."""
    CASES[lay.__name__] = lay
    return lay


@dataclass(frozen=True)
class Audited:
    """The results of one audit, and the ledger after it."""

    folder: Path
    lake: Lake
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    leftovers: list[dict[str, Any]]
    ledger: list[dict[str, Any]]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [row for row in self.findings if row["table_name"] == table]

    def findings_of(self, table: str) -> list[tuple[str, str | None, int | None]]:
        """(kind, file, rows) of each finding."""
        mine = [
            (r["kind"], r["key"] and r["key"].rpartition("/")[2], r["rows_at_stake"])
            for r in self.rows(table)
        ]
        return sorted(mine, key=str)

    def covered(self, table: str, axis: str) -> dict[str, Any]:
        (row,) = (r for r in self.coverage if (r["table_name"], r["axis"]) == (table, axis))
        return row

    def whole(self, table: str) -> bool:
        """Return whether everything about the table was judged."""
        judged = [row["status"] for row in self.coverage if row["table_name"] == table]
        return {*judged} <= {"complete", "off"} and self.covered(table, "content")["status"] == "complete"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("cases")
    lake = lake_of(
        folder, [line for n, (case, lay) in enumerate(CASES.items()) for line in lay(Site(folder, case, n))]
    )
    audited(lake, run_id="r")
    return audit_of(folder, lake, "r")


@pytest.fixture(scope="module")
def later(night: Audited) -> list[Audited]:
    """Two more audits of some tables: in the first every look at the logs differs, before the second a file is back."""
    tables, audits, looks = ("open_log", "incomplete"), [], count()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "digest", lambda _: f"look {next(looks)}")
        audited(night.lake, run_id="second", tables=tables)
    audits.append(audit_of(night.folder, night.lake, "second"))
    data = night.folder / "data/incomplete"
    (data / "kept").rename(data / "incomplete/d=1" / part(1, UUIDS[0], joint=".c"))
    audited(night.lake, run_id="third", tables=tables)
    return [*audits, audit_of(night.folder, night.lake, "third")]


def audit_of(folder: Path, lake: Lake, run_id: str) -> Audited:
    results = results_of(lake)
    findings, files = results.findings(run_id), results.leftover_files(run_id)
    ledger = list(rows_of(results.discrepancies()))
    return Audited(
        folder, lake, list(rows_of(findings)), results.coverage(run_id), list(rows_of(files)), ledger
    )


QUIET = ("appended", "whole", "days", "failed")


@register_case
def every_night(site: Site) -> list[str]:
    for uuid in UUIDS[:2]:
        site.wrote("appended", uuid)
    site.wrote("whole", UUIDS[0])
    site.lose("whole", UUIDS[0])
    site.wrote("whole", UUIDS[1], mode="Overwrite")
    site.wrote("days", UUIDS[0], {0: (10, 100)}, below="d=1", by="d", partitions=1)
    site.wrote("days", UUIDS[1], {0: (10, 110)}, below="d=2", by="d", partitions=1)
    (site.data / "days/d=1" / part(0, UUIDS[0], joint=".c")).unlink()
    site.wrote("days", UUIDS[2], {0: (9, 90)}, "d=1", mode="Overwrite", by="d", dynamic=True, partitions=1)
    site.wrote("failed", UUIDS[3], error="boom")
    site.app.end().save(site.logs)
    return [site.line(table) for table in QUIET]


@pytest.mark.variant
def test_tables_that_are_written_every_night_are_quiet(night: Audited) -> None:
    assert [night.whole(table) for table in QUIET] == [True] * 4
    assert [night.findings_of(table) for table in QUIET[:3]] == [[], [], []]


def lost_and_cut_off(site: Site, session: "SparkSession | None" = None) -> None:
    lake = lake_of(site.folder, losses(site))
    audited(lake, session, run_id="r")
    assert audit_findings(lake) == [(kind, "losses", *rest) for kind, *rest in LOST]


@register_case
def losses(site: Site) -> list[str]:
    for uuid in UUIDS[:2]:
        site.wrote("losses", uuid)
    site.app.end().save(site.logs, rolled=2)
    site.lose("losses", UUIDS[0], 1, 4)
    site.file("losses", UUIDS[1], 2).write_bytes(b"short")
    return [site.line("losses")]


LOST = [
    ("dropped", part(1, UUIDS[0]), 101),
    ("dropped", part(4, UUIDS[0]), 104),
    ("size_mismatch", part(2, UUIDS[1]), None),
]


def test_lost_and_cut_off_files_are_named_with_their_rows(night: Audited) -> None:
    assert night.findings_of("losses") == LOST


@register_case
def brought_back(site: Site) -> list[str]:
    """A restore gives them a new time; their sizes tell whose they are."""
    for number, uuid in enumerate(UUIDS[:2]):
        splits = {n: (records, size + number) for n, (records, size) in SPLITS.items()}
        site.wrote("brought_back", uuid, splits)
    site.app.end().save(site.logs)
    for number in SPLITS:
        os.utime(site.file("brought_back", UUIDS[0], number))
    site.lose("brought_back", UUIDS[0], 5)
    return [site.line("brought_back")]


def test_files_that_were_brought_back_are_theirs_again(night: Audited) -> None:
    assert ("dropped", part(5, UUIDS[0]), 105) in night.findings_of("brought_back")


@register_case
def open_log(site: Site) -> list[str]:
    """The log of a running application, whose write lost a file."""
    site.wrote("open_log", UUIDS[0])
    site.app.save(site.logs, open_=True)
    site.lose("open_log", UUIDS[0], 2)
    return [site.line("open_log")]


@pytest.mark.variant
def test_logs_that_go_on_while_they_are_read_take_no_finding_back(later: list[Audited]) -> None:
    """The log of a running application differs at every read; storage still names its files."""
    assert later[0].findings_of("open_log") == [("dropped", part(2, UUIDS[0]), 102)]


STRAYS = {"stray": "", "stray_complete": ", complete: true"}


@register_case
def strays(site: Site) -> list[str]:
    for table in STRAYS:
        site.wrote(table, UUIDS[0])
        stray = site.data / table / "by-hand.parquet"
        stray.write_bytes(b"y")
        os.utime(stray, (BEGUN.timestamp(), BEGUN.timestamp()))
    site.app.end().save(site.logs)
    return [site.line(table, more=more) for table, more in STRAYS.items()]


def test_files_that_no_job_wrote_are_reported_where_logs_are_complete(night: Audited) -> None:
    kinds = {table: [kind for kind, *_ in night.findings_of(table)] for table in STRAYS}
    assert kinds == {"stray": [], "stray_complete": ["stale_visible"]}


def in_log(site: Site, table: str, *commits: list[tuple[str, str, int]]) -> None:
    """A Delta log whose versions add and remove (action, name, size), a day each from before the jobs on."""
    log = Log(site.data / table)
    for version, files in enumerate(commits):
        at = BEGUN + timedelta(days=version - 1)
        actions = [info(timestamp=millis(at))]
        for action, name, size in files:
            made = {"modificationTime": millis(at)} if action == "add" else {"deletionTimestamp": millis(at)}
            actions.append(
                {action: {"path": name, "size": size, "dataChange": True, "partitionValues": {}} | made}
            )
        log.commit(version, *(BORN if version == 0 else ()), *actions, when=at)


KEPT = {
    "kept_always": ("", ["dropped", "incomplete_commit"]),
    "kept_8d": (", keep: 8d", []),
    "kept_10d": (", keep: 10d", ["dropped", "incomplete_commit"]),
}
"""By table: the retention in the lake file, and the expected findings."""


@register_case
def old_jobs(site: Site) -> list[str]:
    for table in KEPT:
        for uuid in UUIDS[:2]:
            site.wrote(table, uuid)
        site.lose(table, UUIDS[0])
        site.lose(table, UUIDS[1], 0)
    site.app.end().save(site.logs)
    return [site.line(table, more=f"{keep}, complete: true") for table, (keep, _) in KEPT.items()]


@pytest.mark.parametrize("table", KEPT)
def test_what_old_jobs_wrote_may_be_removed_where_the_lake_file_says_so(night: Audited, table: str) -> None:
    assert [kind for kind, *_ in night.findings_of(table)] == KEPT[table][1]


@register_case
def lost_commit(site: Site) -> list[str]:
    """Write files that a state lists, or listed until OPTIMIZE removed them: they are not lost."""
    site.wrote("lost_commit", UUIDS[0])
    site.wrote("lost_commit", UUIDS[1], error="boom")
    site.app.end().save(site.logs)
    names = {n: (part(n, UUIDS[0]), size) for n, (_, size) in SPLITS.items()}
    listed = [("add", *names[n]) for n in range(4)]
    compacted = [("remove", *names[n]) for n in range(2)] + [("add", "compact.parquet", 77)]
    in_log(site, "lost_commit", [], [], listed, compacted)
    (site.data / "lost_commit/compact.parquet").write_bytes(b"z" * 77)
    os.utime(site.data / "lost_commit/compact.parquet", (BEGUN.timestamp(), BEGUN.timestamp()))
    return [site.line("lost_commit", beside="{kind: delta}, ")]


def test_what_a_job_wrote_into_a_delta_table_and_no_state_lists_is_a_lost_commit(night: Audited) -> None:
    losses = [row for row in night.findings_of("lost_commit") if row[0] not in ("uncommitted", "unvacuumed")]
    assert losses == [("lost_commit", part(n, UUIDS[0]), 100 + n) for n in (4, 5)]
    left = [row for row in night.leftovers if row["table_name"] == "lost_commit"]
    names = sorted(row["key"].rpartition("/")[2] for row in left if row["kind"] == "uncommitted")
    failed = [part(n, UUIDS[1]) for n in SPLITS]
    assert names == sorted([*failed, part(4, UUIDS[0]), part(5, UUIDS[0])])


@register_case
def made_delta(site: Site) -> list[str]:
    site.wrote("made_delta", UUIDS[0])
    site.app.end().save(site.logs)
    site.lose("made_delta", UUIDS[0])
    in_log(site, "made_delta", [])
    return [site.line("made_delta", beside="{kind: delta}, ")]


def test_a_plain_table_that_was_made_a_delta_table_and_vacuumed_is_quiet(night: Audited) -> None:
    assert (night.whole("made_delta"), night.findings_of("made_delta")) == (True, [])


@register_case
def torn_log(site: Site) -> list[str]:
    site.wrote("torn_log", UUIDS[0])
    path = site.app.save(site.logs, "lz4")
    path.write_bytes(path.read_bytes()[:-70])
    return [site.line("torn_log")]


@register_case
def renamed(site: Site) -> list[str]:
    site.wrote("renamed", UUIDS[0])
    site.app.end().save(site.logs)
    for number in SPLITS:
        path = site.file("renamed", UUIDS[0], number)
        path.rename(path.with_name(f"{number}.parquet"))
    return [site.line("renamed")]


@pytest.mark.parametrize("table", ["torn_log", "renamed"], ids=["a torn log", "files may be others"])
def test_uncertain_logs_are_an_evidence_gap(night: Audited, table: str) -> None:
    assert [kind for kind, *_ in night.findings_of(table)] == ["unreadable_evidence"]
    assert night.covered(table, "content")["status"] == "partial"


@register_case
def no_logs(site: Site) -> list[str]:
    site.wrote("no_logs", UUIDS[0])
    site.logs.mkdir(parents=True)
    return [site.line("no_logs")]


def test_a_place_without_logs_is_refused(night: Audited) -> None:
    row = night.covered("no_logs", "content")
    assert (row["status"], "holds no event log of Spark" in row["reason"]) == ("partial", True)


@register_case
def none_left(site: Site) -> list[str]:
    site.wrote("none_left", UUIDS[0])
    site.wrote("none_left", UUIDS[1])
    site.wrote("none_left_of_others", UUIDS[2])
    site.app.end().save(site.logs)
    site.lose("none_left", UUIDS[0])
    return [site.line("none_left"), site.line("none_left_of_others")]


def test_a_write_of_which_no_file_is_left_is_incomplete(night: Audited) -> None:
    """Its files cannot be named: it is one finding, of all that it wrote."""
    (row,) = night.rows("none_left")
    write = row["subject"].partition("#")[2]
    assert (row["kind"], row["axis"], row["subject_type"]) == ("incomplete_commit", "commit", "commit")
    assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"]) == (6, 615, 6015)
    assert row["subject"] == f"{night.folder / 'data/none_left/none_left'}/#{write}"
    assert re.fullmatch("app-20261120030000-[0-9]{4}/0", write)
    assert row["explanation"].startswith(
        f"write {write} of {BEGUN + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ} committed 6 files, 615 rows, "
        "6,015 bytes, but storage lacks 6 files, 615 rows, 6,015 bytes of this write; no file of it is left; "
    )
    cover = night.covered("none_left", "commit")
    assert (cover["status"], cover["files"], cover["consistent"], cover["findings"]) == ("complete", 2, 1, 1)
    assert (night.whole("none_left_of_others"), night.findings_of("none_left_of_others")) == (True, [])


MARKED = {"marked": (0, True), "marked_before": (-1, False)}
"""By table: hours between the write and its marker, and whether the marker misleads."""


@register_case
def marked(site: Site) -> list[str]:
    for table, (hours, _) in MARKED.items():
        ended = site.app.at + timedelta(minutes=1)
        site.wrote(table, UUIDS[0])
        site.lose(table, UUIDS[0])
        marker = site.data / table / "_SUCCESS"
        marker.touch()
        at = (ended + timedelta(hours=hours)).timestamp()
        os.utime(marker, (at, at))
    site.app.end().save(site.logs)
    return [site.line(table) for table in MARKED]


@pytest.mark.parametrize("table", MARKED)
def test_a_marker_beside_an_incomplete_write_misleads(night: Audited, table: str) -> None:
    """One that was there before the write ended is another job's."""
    (row,) = night.rows(table)
    marker = night.folder / "data/marked" / table / "_SUCCESS"
    assert row["kind"] == "incomplete_commit"
    assert (f"the marker {marker} wrongly says that the write is complete" in row["explanation"]) == MARKED[
        table
    ][1]


@register_case
def incomplete(site: Site) -> list[str]:
    splits = {0: (10, 100), 1: (20, 200)}
    site.wrote("incomplete", UUIDS[0], splits, below="d=1", by="d", partitions=1)
    site.app.end().save(site.logs)
    (site.data / "incomplete/d=1" / part(1, UUIDS[0], joint=".c")).rename(site.data / "kept")
    return [site.line("incomplete")]


def test_an_incomplete_write_opens_with_the_second_cut_and_ends_when_it_is_whole(
    night: Audited, later: list[Audited]
) -> None:
    states = [
        [(r["kind"], r["state"], r["rows_at_stake"]) for r in each.ledger if r["table_name"] == "incomplete"]
        for each in (night, *later)
    ]
    assert states == [[("incomplete_commit", state, 20)] for state in ("pending", "open", "resolved")]


@register_case
def retried(site: Site) -> list[str]:
    broken = {n: (100 + n, 5000 + n) for n in range(2)}
    site.wrote("retried", UUIDS[0], broken, error="boom")
    site.wrote("retried", UUIDS[1], broken | {2: (102, 5002)})
    site.app.end().save(site.logs)
    return [site.line("retried")]


def test_a_failed_run_and_its_retry_are_reported_once(night: Audited) -> None:
    """The files have equal bytes too: the log's verdict on both is the only one of the axis."""
    expected = [("duplicate_attempt", part(n, UUIDS[0]), 100 + n) for n in range(2)]
    assert night.findings_of("retried") == expected
    row = night.covered("retried", "duplicate")
    assert (row["files"], row["consistent"], row["findings"]) == (5, 3, 2)


def test_the_claims_of_one_file(site: Site) -> None:
    for uuid in UUIDS[:2]:
        site.wrote("events", uuid)
    site.app.end().save(site.logs)
    lost = site.file("events", UUIDS[0], 3)
    lost.unlink()
    lake = site.lake("events")
    for path in (lost, site.file("events", UUIDS[1], 3)):
        (answer,) = lookup_claims(lake.tables[0], clients_of(lake), "", str(path)[1:])
        assert (answer.kind, answer.answer) == ("spark_event_log", "present")
        assert answer.history[0]["size"] == 1003


@register_case
def beside_a_list(site: Site) -> list[str]:
    site.wrote("listed", UUIDS[0])
    site.app.end().save(site.logs)
    lists = site.folder / "lists"
    lists.mkdir()
    old = {"path": str(site.data / "listed/old.parquet"), "committed_at": (BEGUN - timedelta(1)).isoformat()}
    same = {
        "path": str(site.file("listed", UUIDS[0], 1)),
        "committed_at": (BEGUN + timedelta(0, 60)).isoformat(),
    }
    (lists / "a.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(same)}\n")
    site.lose("listed", UUIDS[0], 1)
    return [site.line("listed", more=f"}}, {{kind: file_list, location: {lists}")]


def test_lists_and_logs_of_one_table_claim_a_file_once(night: Audited) -> None:
    """A writer's list knows the ETag, the log the rows; an overwrite of either retires what the other claimed."""
    assert night.findings_of("listed") == [
        ("dropped", "old.parquet", None),
        ("dropped", part(1, UUIDS[0]), 101),
    ]
    assert night.covered("listed", "content")["files"] == 7
