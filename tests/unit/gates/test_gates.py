"""The gates: profiles in, what does not hold out. The suites are those that are shipped."""

import json
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pytest

from lakeaudit.config import load_lake
from lakeaudit.errors import GateFailed
from lakeaudit.evidence.protocol import SnapshotWindow, SourceInfo
from lakeaudit.gates.expectation_suites import SUITES, Broken, check
from lakeaudit.gates.profiles import of_findings, of_ledger, of_sources, tally
from lakeaudit.gates.publish_gate import refusal
from lakeaudit.keys import Location
from lakeaudit.schemas import DISCREPANCIES, FINDINGS
from tests.builders.connections import connection
from tests.builders.results import covered, discrepancy, finding, lake_file, run

Row = dict[str, Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

SOURCE: Row = {"subject": "s3_inventory s3://inv", "readable": True, "age_of_max": 0.3, "unreadable_share": 0.0,
               "share_of_before": 1.0}  # fmt: skip
TABLE: Row = {"subject": "orders", "covered": True}
FOUND: Row = {"subject": "dropped, critical", "kind": "dropped", "severity": "critical", "known": True,
              "unclassified": False, "nameless": 0}  # fmt: skip
ALL: Row = {"subject": "all findings", "kind": "any", "repeated": 0}
OPEN: Row = {"subject": "state open", "state": "open", "ill_resolved": 0, "never_opened": 0, "backwards": 0,
             "ill_accepted": 0, "ill_reopened": 0}  # fmt: skip
CHANGED: Row = {"subject": "all that changed", "state": "open", "repeated": 0}

GATES = [
    # gate, profile, what does not hold: severity and where
    ("sources", [SOURCE, TABLE], []),
    ("sources", [], []),
    ("sources", [{"subject": "delta manifests", "readable": True}], []),
    ("sources", [SOURCE | {"readable": False}, TABLE], [("warning", SOURCE["subject"])]),
    ("sources", [SOURCE | {"age_of_max": 1.1}], [("warning", SOURCE["subject"])]),
    ("sources", [SOURCE | {"unreadable_share": 0.01}], []),
    ("sources", [SOURCE | {"unreadable_share": 0.02}], [("warning", SOURCE["subject"])]),
    ("sources", [SOURCE | {"unreadable_share": 0.6}],
     [("warning", SOURCE["subject"]), ("critical", SOURCE["subject"])]),
    ("sources", [SOURCE | {"share_of_before": 0.4}], [("warning", SOURCE["subject"])]),
    ("sources", [SOURCE, TABLE | {"covered": False}], [("warning", "orders")]),
    ("findings", [FOUND, ALL], []),
    ("findings", [ALL], []),
    ("findings", [FOUND | {"known": False}, ALL], [("critical", FOUND["subject"])]),
    ("findings", [FOUND | {"kind": None}, ALL], [("critical", FOUND["subject"])]),
    ("findings", [FOUND | {"severity": "bad"}, ALL], [("critical", FOUND["subject"])]),
    ("findings", [FOUND | {"nameless": 1}, ALL], [("critical", FOUND["subject"])]),
    ("findings", [FOUND | {"unclassified": True}, ALL], [("warning", FOUND["subject"])]),
    ("findings", [FOUND, ALL | {"repeated": 1}], [("critical", "all findings")]),
    ("ledger", [OPEN, CHANGED], []),
    ("ledger", [OPEN | {"state": "odd"}, CHANGED], [("critical", "state open")]),
    *[("ledger", [OPEN | {name: 1}, CHANGED], [("critical", "state open")])
      for name in ("ill_resolved", "never_opened", "backwards", "ill_accepted", "ill_reopened")],
    ("ledger", [OPEN, CHANGED | {"repeated": 2}], [("critical", "all that changed")]),
]  # fmt: skip


@pytest.fixture(scope="module")
def broken_by() -> list[list[Broken]]:
    """Return the failed expectations of each profile."""
    return [list(check(gate, profile)) for gate, profile, _ in GATES]


@pytest.mark.parametrize("at", range(len(GATES)))
def test_what_does_not_hold(broken_by: list[list[Broken]], at: int) -> None:
    _, _, expected = GATES[at]
    assert [(broken.severity, ", ".join(broken.where)) for broken in broken_by[at]] == expected


OTHER = "gcs_inventory gs://inv"


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ([SOURCE | {"unreadable_share": 0.04}],
         ["gate `sources`: s3_inventory s3://inv: 4.0 % of its rows could not be read; at most 1 % is allowed"]),
        ([SOURCE | {"unreadable_share": 0.04}, SOURCE | {"subject": OTHER, "unreadable_share": 0.02}],
         [(f"gate `sources`: s3_inventory s3://inv: 4.0 % of its rows could not be read; at most 1 % is allowed; "
          f"{OTHER}: 2.0 % of its rows could not be read; at most 1 % is allowed")]),
        ([SOURCE | {"unreadable_share": 1.0, "why": "for example, a.csv: row of another bucket: pond, not lake"}],
         [(f"gate `sources`: s3_inventory s3://inv: 100 % of its rows could not be read (for example, a.csv: row of "
           f"another bucket: pond, not lake); at most {allowed} % is allowed") for allowed in (1, 50)]),
        ([TABLE | {"covered": False, "why": "the table is in bucket lake, and the sources cover s3://pond/"}],
         [("gate `sources`: orders: no storage source covers this table (the table is in bucket lake, and the sources "
           "cover s3://pond/)")]),
        ([SOURCE | {"age_of_max": 7 / 3}],
         ["gate `sources`: s3_inventory s3://inv: it is 2.33 times as old as its max_age allows"]),
        ([TABLE | {"subject": f"t{at}", "covered": False} for at in range(23)],
         [(f"gate `sources`: {', '.join(f't{at}' for at in range(20))} and 3 more: "
           "no storage source covers this table")]),
    ],
)  # fmt: skip
def test_the_failure_of_each_subject_is_reported(profile: list[Row], words: list[str]) -> None:
    assert [broken.message for broken in check("sources", profile)] == words


def test_every_shipped_expectation_says_what_failed(broken_by: list[list[Broken]]) -> None:
    for broken in (each for of_profile in broken_by for each in of_profile):
        assert len(broken.failed) == len(broken.where)
        assert "{" not in broken.message
        assert "not so" not in broken.message


def test_each_expectation_is_broken_by_some_profile(broken_by: list[list[Broken]]) -> None:
    """Deleting one from a suite must fail a test."""
    asked = zip(GATES, broken_by, strict=True)
    broken = {(gate, each.expected) for (gate, _, wrong), found in asked if wrong for each in found}
    written = {
        (file.stem, expected["description"])
        for file in map(Path, map(str, SUITES.iterdir()))
        for expected in json.loads(file.read_text())["expectations"]
    }
    assert broken == written


def test_users_may_edit_a_suite(tmp_path: Path) -> None:
    suite = json.loads(SUITES.joinpath("sources.json").read_text())
    for expected in suite["expectations"]:
        expected["severity"] = "critical"
    (tmp_path / "sources.json").write_text(json.dumps(suite))
    (broken,) = check("sources", [SOURCE | {"readable": False}], tmp_path)
    assert broken.refuses


def test_suites_are_read_from_a_zipped_wheel(tmp_path: Path) -> None:
    """`spark-submit --py-files` adds the wheel to the path as it is."""
    wheel = tmp_path / "lakeaudit.zip"
    with ZipFile(wheel, "w") as packed:
        for file in SUITES.iterdir():
            packed.writestr(f"expectations/{file.name}", file.read_text())
    inside = zipfile.Path(wheel, "expectations/")
    assert [b.severity for b in check("sources", [SOURCE | {"readable": False}], inside)] == ["warning"]


def rows_of(schema: pa.Schema, *rows: Row) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def test_findings_are_counted_by_kind_and_severity() -> None:
    again = finding("dropped", "a", severity="info")
    nameless = finding("phantom", "c") | {"subject": None}
    odd = [finding("dropped", "b"), finding("unclassified", "u") | {"kind": "odd", "severity": None}]
    counted = tally(connection(), rows_of(FINDINGS, finding("dropped", "a"), again, nameless, *odd))
    assert {(row["kind"], row["severity"]): (row["count"], row["nameless"]) for row in counted.kinds} == {
        ("dropped", "critical"): (2, 0), ("dropped", "info"): (1, 0), ("phantom", "error"): (1, 1),
        ("odd", None): (1, 0),
    }  # fmt: skip
    assert counted.repeated == 1
    assert of_findings(counted)[-1] == {"subject": "all findings", "kind": "any", "repeated": 1}
    assert {row["kind"]: row["known"] for row in of_findings(counted)[:-1]} == {
        "dropped": True, "phantom": True, "odd": False,
    }  # fmt: skip
    nothing = tally(connection(), FINDINGS.empty_table())
    assert (nothing.kinds, nothing.repeated) == ([], 0)


SOUND = discrepancy(finding("dropped", "a"))


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        (SOUND, set()),
        (SOUND | {"state": "pending", "opened_at": None}, set()),
        (SOUND | {"state": "resolved", "resolved_at": NOON, "resolution": "restored"}, set()),
        (SOUND | {"state": "resolved"}, {"ill_resolved"}),
        (SOUND | {"state": "resolved", "resolved_at": NOON}, {"ill_resolved"}),
        (SOUND | {"resolution": "restored"}, {"ill_resolved"}),
        (SOUND | {"opened_at": None}, {"never_opened"}),
        (SOUND | {"last_evidence_at": NOON - timedelta(days=1)}, {"backwards"}),
        (SOUND | {"ack_by": "ann", "ack_reason": "known", "ack_until": NOON}, set()),
        (SOUND | {"ack_by": "ann", "ack_reason": "known"}, {"ill_accepted"}),
        (SOUND | {"ack_until": NOON}, {"ill_accepted"}),
        (SOUND | {"state": "pending", "reopened": 1, "opened_at": None}, {"ill_reopened"}),
    ],
)
def test_which_rules_a_row_of_the_ledger_breaks(row: Row, broken: set[str]) -> None:
    state, every = of_ledger(connection(), rows_of(DISCREPANCIES, row))
    assert {name for name in (*_WRONG, "repeated") if state[name]} == broken
    assert state["subject"] == f"state {row['state']}"
    assert every == {"subject": "all that changed", "state": "open", "repeated": 0}


def test_a_discrepancy_that_stands_there_twice() -> None:
    _, every = of_ledger(connection(), rows_of(DISCREPANCIES, SOUND, SOUND))
    assert every["repeated"] == 1


_WRONG = ("ill_resolved", "never_opened", "backwards", "ill_accepted", "ill_reopened")


def test_a_refusal_says_what_must_hold() -> None:
    warns = Broken("sources", "no source is older than its max_age", "warning", ("s3_inventory s3://inv",))
    refuses = Broken("findings", "no discrepancy is found twice in one run", "critical", ("all findings",))
    assert refusal([warns], "s3://results") is None
    refused = refusal([warns, refuses], "s3://results")
    assert isinstance(refused, GateFailed)
    assert refused.exit_code == 11
    assert str(refused) == (
        "s3://results: gate `findings`: no discrepancy is found twice in one run (not so: all findings); "
        "repair the evidence, or edit the suite in expectations/; nothing was published"
    )


APART = "no storage source covers the table: the table is in bucket lake, and the sources cover s3://pond/"


def test_a_source_is_compared_with_its_max_age_and_earlier_runs(tmp_path: Path) -> None:
    inventory = {"kind": "s3_inventory", "location": "s3://inv/daily", "max_age": "2d"}
    tables = [
        {"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]}
        for name in ("orders", "bare", "off")
    ]
    lake = load_lake(
        lake_file(tmp_path, Location.parse(str(tmp_path)), inventories=[inventory], tables=tables), {}
    )
    cut = SnapshotWindow(NOON - timedelta(days=1), NOON, timedelta(0))
    infos = [
        SourceInfo("storage:0", "storage", "s3_inventory", "s3://inv/daily", "md5", cut),
        SourceInfo("manifest:delta", "manifest", "delta", "", "log", None, rows=7),
        SourceInfo("metastore:0", "metastore", "s3guard", "table", "unreadable", None),
    ]
    rows = [
        covered(storage_cut_from=NOON),
        covered("bare", storage_cut_from=None, reason=APART),
        covered("off", status="off"),
        covered(axis="leftover"),
    ]
    before = [
        *[read(number, rows=rows) for number, rows in enumerate((1, 100, 200, 300, 400, 500))],
        read(6, rows=1, status="failed"), read(7, rows=1, tables=1), read(8, rows=1, kind="listing"),
    ]  # fmt: skip
    counts = {
        "storage:0": {"rows": 175, "rejected": 35, "sample": "a.csv: row of another bucket: pond, not lake"}
    }
    profile = of_sources(lake, infos, counts, rows, before, NOON)
    assert profile == [
        {"subject": "s3_inventory s3://inv/daily", "readable": True, "age_of_max": 0.5, "unreadable_share": 0.2,
         "share_of_before": 0.5, "why": "for example, a.csv: row of another bucket: pond, not lake"},
        {"subject": "delta ", "readable": True, "age_of_max": None, "unreadable_share": None, "share_of_before": None,
         "why": None},
        {"subject": "s3guard table", "readable": False, "age_of_max": None, "unreadable_share": None,
         "share_of_before": None, "why": None},
        {"subject": "orders", "covered": True, "why": None},
        {"subject": "bare", "covered": False, "why": "the table is in bucket lake, and the sources cover s3://pond/"},
    ]  # fmt: skip
    assert of_sources(lake, infos, counts, rows[:1], before, NOON)[0]["share_of_before"] is None


def read(
    number: int, *, rows: int, status: str = "complete", tables: int = 3, kind: str = "s3_inventory"
) -> Row:
    """A run that read so many rows of the inventory, or of something else at its place."""
    source = {"role": "storage", "kind": kind, "location": "s3://inv/daily", "rows": rows}
    return run(f"r{number}", status, sources=[source], tables_expected=tables)


@pytest.mark.soak
def test_modules_that_no_gate_uses_are_not_loaded() -> None:
    """They are half of the imports of Great Expectations; test_wheel.py sees it, too.

    Here a program loads them afterwards.
    """
    code = """
import sys
from lakeaudit.gates.expectation_suites import check
assert not check("sources", [])
unused = {"altair.vegalite", "scipy.stats._stats_py", "sqlalchemy", "pyspark"}
print(sorted(unused & sys.modules.keys()))
import pyspark, sqlalchemy
from scipy import stats
print(stats.kstest([0.5], "uniform").pvalue)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "1.0"]
