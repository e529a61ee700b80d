"""The conditions of a certificate, and its content."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.certificate.content import certificate
from lakeaudit.certificate.refusals import CertificateBasis, refusals
from lakeaudit.commands.certificate import build_certificate
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import results as built

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
SOURCE = {
    "role": "storage", "kind": "s3_inventory", "location": "s3://inv/", "identity": "2026 md5:ab", "cut_from": AT,
    "cut_to": None, "rows": 9, "rejected": 0, "seconds": 1.5,
}  # fmt: skip
RUN = {
    "run_id": "r1", "lake": "shop", "status": "complete", "as_of": AT, "tables_expected": 1, "tables_audited": 1,
    "sources": [SOURCE], "gates": None, "started_at": AT, "finished_at": AT,
}  # fmt: skip


def covered(axis: str = "content", **given: Any) -> dict[str, Any]:
    counts = {"files": 5, "bytes": 500, "consistent": 5, "findings": 0, "ignored": 0, "out_of_window": 0}
    rest = {"undecided": 0, "uncovered": 0, "moved_on": 0, "table_version": 7, "storage_cut_from": AT}
    named = {"table_name": "orders", "axis": axis, "status": "complete", "reason": "", "storage_cut_to": None}
    return named | counts | rest | given


def basis(*rows: dict[str, Any], run: dict[str, Any] | None = None, **given: Any) -> CertificateBasis:
    told: dict[str, Any] = {"open_findings": {}, "tables": ["orders"]} | given
    return CertificateBasis(RUN | (run or {}), rows or (covered(),), **told)


HEALTHY = {
    "all agrees": basis(),
    "no metadata store": basis(
        covered(), covered("metastore", status="off", reason="no metadata store covers the table")
    ),
    "some files are too young, and the certificate has their number": basis(
        covered(consistent=4, out_of_window=1)
    ),
    "findings of other axes": basis(covered(), covered("leftover", findings=5, consistent=0)),
    "an empty table": basis(covered(files=0, consistent=0)),
    "what is known to be unreadable": basis(
        covered(), covered("leftover", status="partial", reason="expected (uc): catalogManaged", undecided=3)
    ),
}


@pytest.mark.parametrize("healthy", HEALTHY.values(), ids=HEALTHY)
def test_there_is_one(healthy: CertificateBasis) -> None:
    assert refusals(healthy) == []


REFUSED = {
    "the audit r1 is partial, not complete": basis(run={"status": "partial"}),
    "the audit covers 1 of 2 tables": basis(run={"tables_expected": 2}),
    "s3://inv/: 3 rows could not be read": basis(run={"sources": [SOURCE | {"rejected": 3}]}),
    "an expectation is not met: too few": basis(run={"gates": ["too few"]}),
    "clicks: the audit did not check this table": basis(tables=["orders", "clicks"]),
    "orders: files of the table: no file is compared: no manifest is configured": basis(
        covered(status="off", reason="no manifest is configured", files=None, consistent=None)
    ),
    "orders: unused files: the log has a gap": basis(
        covered(), covered("leftover", status="partial", reason="the log has a gap")
    ),
    "orders: duplicates: 2 files undecided": basis(covered(), covered("duplicate", undecided=2)),
    "orders: files of the table: 1 file not covered by the inventory": basis(covered(uncovered=1)),
    "orders: files of the table: 1 file with a finding": basis(covered(findings=1)),
    "orders: files of the table: no file could be judged yet": basis(covered(consistent=0, out_of_window=5)),
    "orders: a version of the table is lost, so the audit may have read an older version": basis(
        lost_states=["orders"]
    ),
    "orders: the results have no longer the state that the audit read: another audit has replaced it": basis(
        replaced_states=["orders"]
    ),
    "orders: files of the table: no file is listed, but the table has files": basis(
        covered(files=0, consistent=0), covered("leftover")
    ),
    "orders: files of the table: 2 pending or open discrepancies of kind dropped": basis(
        open_findings={("orders", "content", "dropped"): 2}
    ),
    "orders: commits: 1 pending or open discrepancy of kind rows_changed_by_rewrite": basis(
        open_findings={("orders", "commit", "rows_changed_by_rewrite"): 1}
    ),
    "source: 1 pending or open discrepancy of kind unclassified": basis(
        open_findings={("", "source", "unclassified"): 1}
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_there_is_none_and_one_line_says_why(reason: str) -> None:
    assert refusals(REFUSED[reason]) == [reason]


ONE = "1 pending or open discrepancy of kind"
LEDGER: dict[str, tuple[tuple[str, str, dict[str, Any]], str]] = {
    "rows lost by a rewrite": (("rows_changed_by_rewrite", "open", {}), f"orders: commits: {ONE}"),
    "rows twice": (("duplicate_entry", "pending", {}), f"orders: duplicates: {ONE}"),
    "readers of the folder read it": (("stale_visible", "open", {}), f"orders: unused files: {ONE}"),
    "a rule will delete live files": (("will_expire", "open", {}), f"orders: upcoming losses: {ONE}"),
    "a catalog points at an old state": (("stale_pointer", "open", {}), f"orders: catalog pointers: {ONE}"),
    "an entry that lies": (("phantom", "open", {}), f"orders: metadata store: {ONE}"),
    "accepted until yesterday": (
        ("duplicate_entry", "open", {"ack_until": AT - timedelta(days=1)}), f"orders: duplicates: {ONE}",
    ),
    "lost content, accepted": (
        ("dropped", "open", {"ack_until": AT + timedelta(days=9)}), f"orders: files of the table: {ONE}",
    ),
    "a warning made an error": (("uncommitted", "open", {"severity": "error"}), f"orders: unused files: {ONE}"),
    "resolved": (("duplicate_entry", "resolved", {}), ""),
    "a warning": (("duplicate_content", "open", {}), ""),
    "debris": (("unreferenced", "open", {}), ""),
    "of a table that is not in the lake file": (("duplicate_entry", "open", {"table_name": "other"}), ""),
    "accepted": (("duplicate_entry", "open", {"ack_until": AT + timedelta(days=9)}), ""),
}  # fmt: skip
"""By case a kind, its state in the ledger, columns, and what speaks against a certificate."""


@pytest.mark.parametrize("case", LEDGER)
def test_nothing_grave_is_open_on_any_axis(case: str, tmp_path: Path) -> None:
    (kind, state, columns), why = LEDGER[case]
    place = Location.parse(str(tmp_path / "results"))
    row = built.discrepancy(built.finding(kind, "k", **columns), state)
    built.publish(place, runs=[built.run()], coverage=[built.covered()], discrepancies=[row])
    lowered = {"phantom": "info", "uncommitted": "info"}
    lake = load_lake(Path(built.lake_file(tmp_path, place, severity=lowered)), {})
    stated, said = build_certificate(lake, Results(place, Clients(), lake.name), AT)
    assert (stated is None) == bool(why)
    assert why in said[0]
    if stated is not None:
        exclusions = json.loads(stated)["exclusions"]
        accepted = {"orders: duplicate: duplicate_entry": 1} if case == "accepted" else {}
        assert exclusions["accepted"] == accepted
        assert exclusions["severity_lowered"][""] == {"phantom": "info"}


def state(run_id: str, number: int, at: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id, "lake": built.LAKE, "table_name": "orders", "manifest_kind": "delta", "as_of": at,
        "location": "s3://lake/orders", "number": number, "standing": "read",
    }  # fmt: skip


def verified(run_id: str, at: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id, "lake": built.LAKE, "table_name": "orders", "location": "s3://lake/orders", "as_of": at,
        "verified_through": at, "movement": "forward", "open_discrepancies": 0, "blocked_by": [],
    }  # fmt: skip


def test_its_states_and_verified_times_are_those_of_its_audit(tmp_path: Path) -> None:
    """A later audit runs meanwhile, and an earlier one was published with a later time of its evidence."""
    place = Location.parse(str(tmp_path / "results"))
    night, later = built.NOON - timedelta(hours=1), built.NOON + timedelta(hours=1)
    earlier = built.run("r0", as_of=later, finished_at=night)
    running = built.run("r2", "running", as_of=later)
    built.publish(
        place, runs=[earlier, built.run(), running], coverage=[built.covered()],
        states=[state("r0", 8, later), state("r1", 7, built.NOON), state("r2", 9, later)],
        verified=[verified("r0", later), verified("r1", night)],
        tables=[{"lake": built.LAKE, "table_name": "orders", "last_run_id": "r0", "last_audited_at": later}],
    )  # fmt: skip
    lake = load_lake(Path(built.lake_file(tmp_path, place)), {})
    stated, said = build_certificate(lake, Results(place, Clients(), lake.name), AT)
    assert stated is not None, said
    (table,) = json.loads(stated)["table_states"]
    assert ([each["number"] for each in table["states"]], table["verified_through"]) == (
        [7],
        "2026-11-21T11:00:00Z",
    )


def test_there_is_none_if_another_audit_has_replaced_the_states(tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path / "results"))
    built.publish(place, runs=[built.run()], coverage=[built.covered()], states=[state("r2", 9, built.NOON)])
    lake = load_lake(Path(built.lake_file(tmp_path, place)), {})
    stated, said = build_certificate(lake, Results(place, Clients(), lake.name), AT)
    assert stated is None
    assert "another audit has replaced it" in said[0]


def test_it_states_its_evidence_and_its_own_digest() -> None:
    rows = covered(consistent=3, out_of_window=1, ignored=1), covered("leftover", ignored=2)
    stated = certificate(basis(*rows, exclusions={"ignore": [{"reason": "GX"}]}), AT, "1.0")
    assert (stated["files_agreed"], stated["files"], stated["bytes"]) == (3, 5, 500)
    assert (stated["through"], stated["files_too_young"]) == ("2026-11-23T12:00:00Z", 1)
    assert stated["evidence"][0]["identity"] == "2026 md5:ab"
    assert stated["exclusions"] == {
        "ignore": [{"reason": "GX"}],
        "out_of_window": {"orders: content": 1},
        "ignored": {"orders: content": 1, "orders: leftover": 2},
        "expected": {},
    }
    rest = {name: value for name, value in json.loads(json.dumps(stated)).items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert stated["digest"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
