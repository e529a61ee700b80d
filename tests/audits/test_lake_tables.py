"""The result table `tables`, owners in the results, and the questions in SQL, over audits of a changing lake."""

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.audit import lake_tables
from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.discrepancies import baseline
from lakeaudit.config import Lake, load_lake
from lakeaudit.results.acknowledgements import Ack
from lakeaudit.results.write import ResultsWriter
from lakeaudit.schemas import RESULTS, rows_of
from tests.builders.artefacts import put
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import Log, add, at, features
from tests.builders.questions import Answers, questions

pytestmark = pytest.mark.variant

Row = dict[str, Any]
DAY = timedelta(days=1)


@dataclass
class Nights:
    """A folder with Delta tables whose files are all there, and a clock."""

    folder: Path
    owners: dict[str, str | None] = field(default_factory=lambda: {"orders": "ann", "events": None})
    now: datetime = field(default_factory=lambda: datetime.now(UTC) + DAY)
    """Listings have the machine's time, which must not be later."""

    def commit(self, table: str, version: int, *names: str) -> None:
        """A commit that adds files of 100 bytes and 10 rows."""
        log = Log(self.folder / "wh" / table)
        if version == 0:
            log.commits([add(name) for name in names])
        else:
            log.commit(version, *(add(name) for name in names))
        for name in names:
            put(self.folder / "wh" / table / name, b"x" * 100, at(version))

    def lake(self) -> Lake:
        tables = ", ".join(
            f"{{name: {name}, location: {self.folder}/wh/{name}, manifests: [{{kind: delta}}]"
            + (f", owner: {owner}}}" if owner else "}")
            for name, owner in self.owners.items()
        )
        path = self.folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {self.folder}/results\n"
            "defaults: {grace: 0s, confirm: {mode: none}}\n"
            f"inventories: [{{kind: listing, location: '{self.folder}/wh/'}}]\ntables: [{tables}]\n"
        )
        return load_lake(path, {})

    def audit(self, run_id: str, **options: Any) -> Outcome:
        self.now += DAY
        return audited(self.lake(), clock=lambda: self.now, run_id=run_id, **options)

    def rows(self) -> dict[str, Row]:
        """The rows of `tables` by name."""
        return {row["table_name"]: row for row in results_of(self.lake()).tables()}

    def audits(self) -> dict[str, tuple[str, str]]:
        """By table the ids of the first and the last audit."""
        return {name: (row["first_run_id"], row["last_run_id"]) for name, row in self.rows().items()}

    def owners_in(self, table: str, *columns: str) -> set[tuple[Any, ...]]:
        """These columns and the owner of all rows of a result table."""
        rows = rows_of(results_of(self.lake()).batches(table, pc.scalar(True)))
        return {tuple(row[name] for name in (*columns, "owner")) for row in rows}


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    lake = Nights(tmp_path)
    lake.commit("orders", 0, "a.parquet", "b.parquet")
    lake.commit("events", 0, "c.parquet")
    return lake


def test_a_row_of_a_table(nights: Nights) -> None:
    nights.audit("r1")
    nights.commit("orders", 1, "d.parquet")
    nights.audit("r2")
    first, last = nights.now - DAY, nights.now
    assert nights.rows()["orders"] == {
        "lake": "shop", "table_name": "orders", "owner": "ann", "location": f"{nights.folder}/wh/orders",
        "format": "delta", "catalog": None, "first_run_id": "r1", "first_audited_at": first,
        "last_run_id": "r2", "last_audited_at": last, "version": 1, "files": 3, "bytes": 300, "rows": 30,
    }  # fmt: skip


def test_an_audit_of_some_tables_changes_only_their_rows(nights: Nights) -> None:
    nights.audit("r1")
    events = nights.rows()["events"]
    nights.audit("r2", tables=("orders",))
    assert (nights.audits()["orders"], nights.rows()["events"]) == (("r1", "r2"), events)


def test_a_table_that_left_the_lake_file_stays(nights: Nights) -> None:
    nights.audit("r1")
    del nights.owners["orders"]
    nights.audit("r2")
    assert nights.audits() == {"events": ("r1", "r2"), "orders": ("r1", "r1")}


def test_an_audit_is_one_commit_and_a_repeated_one_changes_nothing(nights: Nights) -> None:
    def version() -> int:
        return DeltaTable(nights.folder / "results" / "tables").version()

    nights.audit("r1")
    rows, first = nights.rows(), version()
    nights.now -= DAY
    nights.audit("r1")
    assert (nights.rows(), version()) == (rows, first)
    nights.audit("r2")
    assert version() == first + 1


def test_a_table_that_was_never_judged_has_a_row_without_audits(nights: Nights) -> None:
    """Its log is unreadable, although its commits and the names of its files are judged."""
    Log(nights.folder / "wh" / "events").put(f"{0:020}.json", "{")
    assert nights.audit("r1").status == "partial"
    assert nights.audits() == {"events": (None, None), "orders": ("r1", "r1")}
    assert nights.rows()["events"]["files"] is None


def test_a_run_that_is_not_published_does_not_count_as_an_audit(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.audit("r1")
    nights.owners = {"orders": "bob", "zones": None}
    nights.commit("zones", 0, "z.parquet")
    monkeypatch.setattr(lake_tables, "PUBLISHED", ())
    nights.audit("r2")
    assert nights.audits() == {"events": ("r1", "r1"), "orders": ("r1", "r1"), "zones": (None, None)}
    assert nights.rows()["orders"]["owner"] == "bob"


def test_a_failure_is_a_warning(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("the place is full")

    monkeypatch.setattr(ResultsWriter, "put_all", full_disk)
    outcome = nights.audit("r1")
    assert (outcome.status, len(outcome.warnings)) == ("complete", 1)
    assert "`tables` was not updated (the place is full)" in outcome.warnings[0]


# --- owners ------------------------------------------------------------------------------------------------


def lose(nights: Nights, *paths: str) -> None:
    for path in paths:
        (nights.folder / "wh" / path).unlink()


@pytest.fixture
def damaged(nights: Nights) -> Nights:
    lose(nights, "orders/a.parquet", "events/c.parquet")
    return nights


LOST = {("orders", "ann"), ("events", None)}


def test_findings_discrepancies_and_transitions_have_the_owner_of_their_table(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    assert damaged.owners_in("findings", "table_name") == LOST
    assert damaged.owners_in("discrepancies", "table_name", "state") == {
        ("orders", "open", "ann"), ("events", "open", None),
    }  # fmt: skip
    assert damaged.owners_in("transitions", "transition") == {("opened", "ann"), ("opened", None)}


def test_an_owner_is_that_of_the_lake_file_at_the_time_of_the_run(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    damaged.owners |= {"orders": "bob", "events": "eve"}
    damaged.audit("r3")
    assert damaged.owners_in("findings", "run_id", "table_name") == {
        *((run, *row) for run in ("r1", "r2") for row in LOST), ("r3", "orders", "bob"), ("r3", "events", "eve"),
    }  # fmt: skip
    assert damaged.owners_in("discrepancies", "table_name") == {("orders", "bob"), ("events", "eve")}
    assert damaged.owners_in("transitions", "run_id") == {("r2", "ann"), ("r2", None)}, (
        "nothing else happened"
    )


def test_a_resolved_discrepancy_has_the_owner_of_the_run_that_resolved_it(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    for path in ("orders/a.parquet", "events/c.parquet"):
        put(damaged.folder / "wh" / path, b"x" * 100, at(0))
    damaged.owners = {"orders": "bob"}
    damaged.audit("r3")
    assert damaged.owners_in("discrepancies", "state", "resolution", "table_name") == {
        ("resolved", "restored", "orders", "bob"), ("resolved", "retired", "events", None),
    }  # fmt: skip
    assert ("r3", "resolved", "bob") in damaged.owners_in("transitions", "run_id", "transition")


def test_a_table_that_left_the_lake_file_keeps_its_owner_in_the_ledger(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    del damaged.owners["orders"]
    damaged.audit("r3")
    assert ("orders", "retired", "ann") in damaged.owners_in("discrepancies", "table_name", "resolution")
    assert ("r3", "resolved", "ann") in damaged.owners_in("transitions", "run_id", "transition")


def test_lost_coverage_has_the_owner_of_its_table(nights: Nights) -> None:
    nights.audit("r1")
    Log(nights.folder / "wh" / "orders").commit(1, features("unknownFeature"))
    nights.audit("r2")
    assert ("coverage_lost", "ann") in nights.owners_in("findings", "kind")


def test_an_acceptance_has_the_owner(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    lake = damaged.lake()
    ack = Ack("joe", "rebuilt on Monday", damaged.now + DAY)
    baseline(lake, results_of(lake), ack, damaged.now)
    assert {row for row in damaged.owners_in("transitions", "transition") if row[0] == "acknowledged"} == {
        ("acknowledged", "ann"), ("acknowledged", None),
    }  # fmt: skip


def as_an_older_version_wrote(results: Path) -> None:
    """Take away what this version adds: the table `tables`, the column `owner`, and all comments."""
    shutil.rmtree(results / "tables")
    for name in RESULTS.keys() - {"tables"}:
        if (results / name).exists():
            rows = DeltaTable(results / name).to_pyarrow_table()
            schema = pa.schema([field for field in RESULTS[name] if field.name != "owner"])
            shutil.rmtree(results / name)
            partitions = ["as_of_date"] if name == "findings" else None
            write_deltalake(results / name, rows.select(schema.names).cast(schema), partition_by=partitions)


def test_audits_go_on_with_the_results_of_an_older_version(damaged: Nights) -> None:
    damaged.audit("r1")
    damaged.audit("r2")
    lake = damaged.lake()
    baseline(lake, results_of(lake), Ack("joe", "rebuilt", damaged.now + 9 * DAY), damaged.now)
    as_an_older_version_wrote(damaged.folder / "results")
    del damaged.owners["events"]
    damaged.audit("r3")
    assert damaged.owners_in("findings", "run_id") == {("r1", None), ("r2", None), ("r3", "ann")}
    assert damaged.owners_in("discrepancies", "table_name", "state", "first_run_id", "ack_by") == {
        ("orders", "open", "r1", "joe", "ann"), ("events", "resolved", "r1", "joe", None),
    }  # fmt: skip
    assert damaged.owners_in("transitions", "run_id", "transition") == {
        ("r2", "opened", None), (None, "acknowledged", None), ("r3", "resolved", None),
    }  # fmt: skip


def test_the_first_audit_may_be_of_an_older_version(nights: Nights) -> None:
    nights.audit("r1")
    nights.audit("r2")
    as_an_older_version_wrote(nights.folder / "results")
    nights.owners = {"orders": "ann", "zones": None}
    nights.commit("zones", 0, "z.parquet")
    nights.audit("r3", tables=("orders", "zones"))
    assert nights.audits() == {"events": ("r1", "r2"), "orders": ("r1", "r3"), "zones": ("r3", "r3")}
    first, row = nights.now - 2 * DAY, nights.rows()["events"]
    assert (row["first_audited_at"], row["last_audited_at"], row["version"]) == (first, first + DAY, 0)
    assert (row["location"], row["files"]) == (None, None)


# --- docs/questions.md -------------------------------------------------------------------------------------


def test_the_questions_on_real_results(nights: Nights) -> None:
    """Files are lost after the first night, and one is put back after the third; another table is unreadable."""
    Log(nights.folder / "wh" / "events").put(f"{0:020}.json", "{")
    nights.audit("r1")
    lose(nights, "orders/a.parquet", "orders/b.parquet")
    nights.audit("r2")
    nights.audit("r3")
    put(nights.folder / "wh" / "orders" / "a.parquet", b"x" * 100, at(0))
    nights.audit("r4")
    answers = Answers(nights.folder / "results")
    results = {question: answers.to(question) for question in questions()}
    assert [row[:3] for row in results["1"] if row[0] is not None] == [("ann", 1, 1)]
    (dropped,) = [row for row in results["2"] if row[0] == "dropped"]
    assert dropped[:4] == ("dropped", 2, 2, 2), "both were whole in the first night"
    assert dropped[5:] == (1, pytest.approx(24, abs=0.1))
    assert [row[2:] for row in results["5"] if row[2] == "resolved"] == [
        ("resolved", "critical", "dropped", "orders", "ann", 1, 1)
    ]
    assert [row[0] for row in results["9"]] == ["events"]
    assert [(row[0], row[2] is None) for row in results["10"]] == [("events", True), ("orders", False)]
