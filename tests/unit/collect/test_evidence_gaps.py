"""Evidence gaps of a run, their findings, and those that the lake file ignores. Plain data, no JVM."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from lakeaudit.collect.evidence_gaps import MOST_NOTES, all_evidence_gaps, gap_findings
from lakeaudit.config import Lake, Settings, Table
from lakeaudit.config.file import Ignore
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.protocol import EvidenceGap, SourceInfo
from lakeaudit.keys import Location

TODAY = date(2026, 11, 21)
LOG = "s3://lake/orders/_delta_log"
INVENTORY = SourceInfo("storage:0", "storage", "s3_inventory", "s3://reports/lake", "md5", None)
VACUUM = {"vacuumed": "orders", "vacuumed_to": datetime(2026, 11, 1, 4, 5, 6), "vacuumed_files": 12}  # noqa: DTZ001


def table(name: str = "orders", **severities: Any) -> Table:
    return Table(
        name=name,
        location=Location("lake", name),
        manifests=(DeltaManifest(kind="delta"),),
        settings=Settings(),
        severities=severities,
    )


def lake(*tables: Table, ignores: tuple[Ignore, ...] = (), **severities: Any) -> Lake:
    place = Location("lake", "results")
    return Lake(name="shop", results=place, tables=tables, severities=severities, ignores=ignores)


def in_log(file: str = "7.json", of: str = "orders", reason: str = "is missing", **given: Any) -> EvidenceGap:
    return EvidenceGap(
        "manifest:delta", reason, f"{LOG}/{file}" if file else "", of, kind="missing_metadata", **given
    )


def note(source: str = "storage:0", **given: Any) -> dict[str, Any]:
    return {
        "source": source,
        "subject": "s3://reports/a.csv",
        "reason": "is gone",
        "count": 3,
        "data": None,
    } | given


def findings(
    holes: tuple[EvidenceGap, ...] = (), vacuums: tuple[dict[str, Any], ...] = (), of: Lake | None = None
) -> list[dict[str, Any]]:
    described = of or lake(table(), table("sales"))
    return gap_findings(described, described.tables, (INVENTORY,), holes, vacuums, TODAY)


# --- holes ---------------------------------------------------------------------------------------------------


def test_gaps_come_from_readers_from_parts_and_from_rejected_rows() -> None:
    counts: dict[str, dict[str, Any]] = {
        "storage:0": {"rows": 10, "rejected": 2, "sample": "a.csv: size x is not a number"},
        "metastore:guard": {"rows": 5, "rejected": 0, "sample": None},
        "storage:1": {"rows": 0},
    }
    known = EvidenceGap("storage:0", "the report is old")
    assert all_evidence_gaps([known], counts, [note()]) == (
        known,
        EvidenceGap("storage:0", "is gone", "s3://reports/a.csv", count=3),
        EvidenceGap(
            "storage:0",
            "2 of 10 rows could not be understood, for example: a.csv: size x is not a number",
            count=2,
        ),
    )


def test_a_note_without_subject_or_count_is_one_gap_of_the_whole_source() -> None:
    assert all_evidence_gaps((), {}, [note(subject=None, count=None)]) == (
        EvidenceGap("storage:0", "is gone"),
    )


def test_beyond_a_thousand_notes_each_source_has_one_gap_for_the_rest() -> None:
    notes = [note(subject=f"s3://reports/{n}.csv") for n in range(MOST_NOTES + 40)]
    notes += [note("storage:1", count=None), note("storage:1", count=5)]
    holes = all_evidence_gaps((), {}, notes)
    assert len(holes) == MOST_NOTES + 2
    assert holes[-2:] == (
        EvidenceGap("storage:0", "40 more parts were not read completely", count=120),
        EvidenceGap("storage:1", "2 more parts were not read completely", count=6),
    )
    assert sum(hole.count for hole in holes) == 3 * (MOST_NOTES + 40) + 6


# --- findings ------------------------------------------------------------------------------------------------


def test_a_file_of_a_log_that_is_gone() -> None:
    (row,) = findings((in_log(hides="the commits 5 to 7", count=3),))
    assert row == {
        "table_name": "orders",
        "axis": "content",
        "kind": "missing_metadata",
        "severity": "critical",
        "subject_type": "file",
        "subject": f"{LOG}/7.json",
        "bucket": "lake",
        "key": "orders/_delta_log/7.json",
        "category": "log",
        "files": 3,
        "confirmation": "not_needed",
        "recoverable": "unknown",
        "explanation": "is missing; this hides the commits 5 to 7",
    }


def test_a_gap_without_a_file_is_about_its_table() -> None:
    (row,) = findings((in_log(""),))
    assert (row["subject_type"], row["subject"], row["key"]) == ("table", "orders", "orders/")


def test_two_causes_at_one_file_are_one_finding() -> None:
    rows = findings((in_log(), in_log(reason="has two versions"), in_log("8.json")))
    assert [row["explanation"] for row in rows] == ["is missing; has two versions", "is missing"]


def test_gaps_of_tables_out_of_scope_are_left_out() -> None:
    assert findings((in_log(of="elsewhere"),), ({**VACUUM, "vacuumed": "elsewhere"},)) == []


def test_one_finding_per_source_with_gaps() -> None:
    holes = [EvidenceGap("storage:0", f"{n} is gone", "f", count=2) for n in range(5)] + [
        EvidenceGap("events:x", "refused")
    ]
    first, second = findings(tuple(holes))
    assert (first["subject"], second["subject"]) == ("events:x events:x", "storage:0 s3://reports/lake")
    assert second == {
        "axis": "source",
        "kind": "unreadable_evidence",
        "severity": "warning",
        "subject_type": "source",
        "subject": "storage:0 s3://reports/lake",
        "files": 10,
        "confirmation": "not_needed",
        "cause": "s3://reports/lake: f 0 is gone; f 1 is gone; f 2 is gone and 2 more",
        "explanation": "f 0 is gone; f 1 is gone; f 2 is gone and 2 more",
    }


@pytest.mark.parametrize(
    "until",
    [
        datetime(2026, 11, 1, 4, 5, 6),  # noqa: DTZ001
        datetime(2026, 11, 1, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 11, 1, 6, 5, 6, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_an_assumed_vacuum(until: datetime) -> None:
    (row,) = findings(vacuums=({**VACUUM, "vacuumed_to": until},))
    assert (row["table_name"], row["kind"], row["severity"], row["files"]) == (
        "orders",
        "dropped_history",
        "info",
        12,
    )
    assert row["explanation"].startswith(
        "storage has none of the files that the table removed before 2026-11-01T04:05:06Z"
    )


def test_what_is_turned_off_is_left_out() -> None:
    quiet = table(missing_metadata="off", dropped_history="off")
    holes = (in_log(), EvidenceGap("storage:0", "is gone"))
    assert [row["kind"] for row in findings(holes, (VACUUM,), lake(quiet))] == ["unreadable_evidence"]
    assert findings(holes, (VACUUM,), lake(quiet, unreadable_evidence="off")) == []


# --- ignored -------------------------------------------------------------------------------------------------

EVERYTHING = {"missing 7", "missing sales", "no file", "vacuum", "source"}
IGNORED: list[tuple[dict[str, Any], set[str]]] = [
    ({"kinds": ("missing_metadata",)}, {"missing 7", "missing sales", "no file"}),
    ({"kinds": ("dropped_history",)}, {"vacuum"}),
    ({"kinds": ("unreadable_evidence",)}, {"source"}),
    ({"kinds": ("dropped",)}, set()),
    ({"tables": ("orders",)}, {"missing 7", "no file", "vacuum"}),
    ({"tables": ("*",)}, EVERYTHING - {"source"}),
    ({"tables": ("order",)}, set()),
    ({"tables": ("s*",), "kinds": ("missing_metadata",)}, {"missing sales"}),
    ({"tables": ("s*",), "kinds": ("unreadable_evidence",)}, set()),
    ({"paths": ("_delta_log/*.json",)}, {"missing 7", "missing sales"}),
    ({"paths": ("**",)}, {"missing 7", "missing sales"}),
    ({"paths": ("orders/_delta_log/*",)}, set()),
    ({"paths": ("_delta_log/7.*", "x"), "tables": ("orders",)}, {"missing 7"}),
    (
        {"kinds": ("missing_metadata",), "until": date(2026, 11, 22)},
        {"missing 7", "missing sales", "no file"},
    ),
    ({"kinds": ("missing_metadata",), "until": TODAY}, set()),
]


@pytest.mark.parametrize(("entry", "ignored"), IGNORED)
def test_what_the_lake_file_ignores_is_left_out(entry: dict[str, Any], ignored: set[str]) -> None:
    of_sales = EvidenceGap("manifest:delta", "missing sales", "s3://lake/sales/_delta_log/7.json", "sales",
                    kind="missing_metadata")  # fmt: skip
    holes = (
        in_log(reason="missing 7"),
        of_sales,
        in_log("", reason="no file"),
        EvidenceGap("storage:0", "source"),
    )
    described = lake(table(), table("sales"), ignores=(Ignore(reason="known", **entry),))
    said = {row["explanation"] for row in findings(holes, (VACUUM,), described)}
    left = {"vacuum" if each.startswith("storage has none of the files") else each for each in said}
    assert left == EVERYTHING - ignored


def test_a_log_file_outside_of_its_table_matches_no_path() -> None:
    stray = EvidenceGap(
        "manifest:delta", "is gone", "s3://other/orders/_delta_log/7.json", "orders", kind="missing_metadata"
    )
    described = lake(table(), ignores=(Ignore(reason="known", paths=("**",)),))
    assert len(findings((stray,), of=described)) == 1
