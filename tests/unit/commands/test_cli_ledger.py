"""`discrepancies`, `ack`, `unack` and `baseline`: what is shown of the ledger, and what people accept. No JVM."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import leased
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import DISCREPANCIES, rows_of
from tests.builders.results import LAKE, NOON, discrepancy, finding, lake_file, publish, run, transition

Captured = pytest.CaptureFixture[str]
ROWS = [
    discrepancy(finding("overwritten", "orders/o", discrepancy_id="aaaaaa11"), "open"),
    discrepancy(finding("dropped", "orders/d", discrepancy_id="aaaaaa22"), "open", reopened=2),
    discrepancy(finding("size_mismatch", "orders/p", discrepancy_id="bbbbbb33"), "pending", opened_at=None),
    discrepancy(
        finding("dropped", "orders/r", discrepancy_id="cccccc44"), "resolved",
        resolution="reference_removed", resolved_at=NOON,
    ),
]  # fmt: skip
WHY = ("--reason", "known, ticket 12", "--until", "2999-01-31", "--by", "ann")


@pytest.fixture
def lake(tmp_path: Path, place: Location) -> str:
    publish(place, runs=[run()], discrepancies=ROWS, transitions=[transition(ROWS[0], "opened")])
    other = discrepancy(finding("dropped", "orders/x", discrepancy_id="aaaaaa22"), lake="other")
    publish(place, discrepancies=[other])
    return lake_file(tmp_path, place)


def ledger(place: Location, lake: str = LAKE) -> dict[str, dict[str, Any]]:
    return {row["discrepancy_id"]: row for row in rows_of(Results(place, Clients(), lake).discrepancies())}


def accepted(place: Location) -> dict[str, str]:
    return {name: row["ack_by"] for name, row in ledger(place).items() if row["ack_until"]}


def list_rows(capsys: Captured, lake: str, *options: str) -> tuple[list[dict[str, Any]], str]:
    assert cli.main(["discrepancies", lake, "--format", "jsonl", *options]) == 0
    printed = capsys.readouterr()
    return [json.loads(line) for line in printed.out.splitlines()], printed.err.strip()


@pytest.mark.parametrize(
    ("options", "keys", "verdict"),
    [
        ((), ["orders/d", "orders/o"], "2 open discrepancies"),
        (("--state", "pending"), ["orders/p"], "1 pending discrepancy"),
        (("--state", "resolved"), ["orders/r"], "1 resolved discrepancy"),
        (("--state", "all"), ["orders/d", "orders/o", "orders/p", "orders/r"], "4 discrepancies"),
    ],
)
def test_the_ledger_worst_first(
    capsys: Captured, lake: str, options: tuple[str, ...], keys: list[str], verdict: str
) -> None:
    rows, said = list_rows(capsys, lake, *options)
    assert (sorted(row["key"] for row in rows), said) == (keys, verdict)
    assert rows[0]["severity"] == min((row["severity"] for row in rows), key=["critical", "warning"].index)
    assert list(rows[0]) == DISCREPANCIES.names


def test_the_ledger_for_people_and_for_spreadsheets(capsys: Captured, lake: str) -> None:
    assert cli.main(["ack", lake, "aaaaaa22", *WHY]) == 0
    capsys.readouterr()
    assert cli.main(["discrepancies", lake, "--state", "all"]) == 0
    text = capsys.readouterr().out
    for words in (
        "open · first seen at 2026-11-21 12:00:00Z · reopened 2 times · accepted by ann until",
        "the end of 2999-01-31 (UTC): known, ticket 12",
        "resolved · first seen at 2026-11-21 12:00:00Z · closed, not restored at 2026-11-21 12:00:00Z",
        "id aaaaaa11",
    ):
        assert words in text
    assert cli.main(["discrepancies", lake, "--format", "csv"]) == 0
    head, *records = csv.reader(io.StringIO(capsys.readouterr().out))
    assert (head, len(records)) == (DISCREPANCIES.names, 2)


def test_what_is_accepted_and_what_is_not_any_more(capsys: Captured, lake: str, place: Location) -> None:
    before = ledger(place)
    assert cli.main(["ack", lake, "aaaaaa22", "bbbbbb33", *WHY]) == 0
    assert capsys.readouterr().err.strip() == "2 discrepancies accepted until the end of 2999-01-31 (UTC)"
    assert accepted(place) == {"aaaaaa22": "ann", "bbbbbb33": "ann"}
    row = ledger(place)["aaaaaa22"]
    acked = {"ack_by": "ann", "ack_reason": "known, ticket 12", "ack_until": row["ack_until"]}
    assert row == before["aaaaaa22"] | acked, "nothing else may change"
    assert row["ack_until"] == datetime.fromisoformat("2999-02-01T00:00:00Z")
    assert ledger(place, "other")["aaaaaa22"]["ack_by"] is None
    told = Results(place, Clients(), LAKE).history(["aaaaaa22"])
    assert [(each["transition"], each["reason"]) for each in told] == [
        ("acknowledged", "ann accepts it: known, ticket 12")
    ]
    assert cli.main(["unack", lake, "aaaaaa22"]) == 0
    assert accepted(place) == {"bbbbbb33": "ann"}


def test_all_of_today_is_accepted_and_nothing_that_is_resolved(lake: str, place: Location) -> None:
    assert cli.main(["baseline", lake, *WHY]) == 0
    assert accepted(place) == dict.fromkeys(("aaaaaa11", "aaaaaa22", "bbbbbb33"), "ann")
    told = Results(place, Clients(), LAKE).history([row["discrepancy_id"] for row in ROWS])
    assert sorted(each["discrepancy_id"] for each in told if each["transition"] == "acknowledged") == sorted(
        accepted(place)
    )


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["ack", "aaaaaa", *WHY], "matches several discrepancies"),
        (["ack", "aaaa", *WHY], "matches no discrepancy that is pending or open"),
        (["ack", "cccccc44", *WHY], "matches no discrepancy that is pending or open"),
        (["ack", "aaaaaa11", "--reason", "x", "--until", "2020-01-01"], "is not in the future"),
        (["ack", "aaaaaa11", "--reason", "x", "--until", "soon"], "is not a date"),
        (["ack", "aaaaaa11", "--until", "2999-01-01"], "Missing option '--reason'"),
        (["baseline", "--reason", "x"], "Missing option '--until'"),
        (["unack", "dddddd"], "matches no discrepancy that is pending or open"),
    ],
)
def test_an_invalid_acceptance_is_refused(
    capsys: Captured, lake: str, place: Location, typed: list[str], told: str
) -> None:
    command, *rest = typed
    assert cli.main([command, lake, *rest]) == 2
    assert told in capsys.readouterr().err
    assert accepted(place) == {}


@pytest.mark.parametrize("command", [["discrepancies"], ["baseline", *WHY]])
def test_an_empty_ledger_is_not_a_healthy_lake(capsys: Captured, tmp_path: Path, command: list[str]) -> None:
    name, *rest = command
    lake = lake_file(tmp_path, Location.parse(str(tmp_path / "results")))
    assert cli.main([name, lake, *rest]) == 10
    assert "holds no finished audit" in capsys.readouterr().err


def test_nothing_is_accepted_while_an_audit_writes(capsys: Captured, lake: str, place: Location) -> None:
    with leased(place, Clients(), "nightly", SilentProgress()):
        assert cli.main(["ack", lake, "aaaaaa22", *WHY]) == 13
    assert "another audit writes here (nightly)" in capsys.readouterr().err
    assert accepted(place) == {}
