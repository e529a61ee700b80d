"""Whole audits of lakes with watched prefixes: files without a table, by prefix, and unnamed tables."""

import io
import json
import os
from dataclasses import dataclass
from datetime import timedelta

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.reconcile.protocol import ALLOWED
from lakeaudit.results.leftover_groups import expand_groups
from tests.builders.audits import audited, results_of
from tests.builders.repair_plans import RepairPlans
from tests.builders.watched_place import JUST_NOW, WEEK, Place, covered, findings_by_prefix, kinds, ledger

OTHER = "other/wh"
"""A second watched folder; it is not watched in the last audit."""


@dataclass(frozen=True)
class Watched:
    """A lake after its audits `r1`, `live` and `r2`."""

    place: Place
    lake: Lake
    outcome: Outcome
    before: dict[str, tuple[str, str | None]]
    """The ledger before `r2`."""


def write_files(place: Place) -> None:
    """Write files without a table, tables that nobody names, and healthy ones."""
    # no table's
    place.put("sales/tmp/a/x.csv", "sales/tmp/b/y.csv", "sales/tmp/b/c/z.csv", body=b"12345")
    place.put("old/1.csv", at=WEEK - timedelta(days=300))
    place.put("old/2.csv", "loose.csv", "sales/beside.csv")
    place.put("logs/dt=2026-01-01/app.log", "logs/dt=2026-01-02/app.json")
    # tables that nobody names
    place.put("d/t/_delta_log/00000000000000000000.json", "d/t/day=1/part-0.parquet", "d/t/part-1.parquet")
    place.put("i/t/metadata/00000-x.metadata.json", "i/t/metadata/m.avro", "i/t/data/day=1/p.parquet")
    place.put("h/t/.hoodie/hoodie.properties", "h/t/.hoodie/metadata/.hoodie/x", "h/t/eu/1.parquet")
    place.put("p/t/day=1/000000_0", "p/t/day=2/part.orc", "p/t/_SUCCESS")
    # healthy
    place.put("sales/orders/_spark_metadata/0", "sales/orders/day=1/p.parquet")
    place.put("marker/b_$folder$", body=b"")
    place.put("new/x.csv", "young/_delta_log/0.json", "young/p.parquet", at=JUST_NOW)
    place.put("young/before.parquet")  # a folder that was made a table just now
    place.put("scratch/me/x.parquet", "gx/_delta_log/0.json", "gx/p.parquet")
    place.put(
        "lists/orders/l.jsonl", body=place.listed("sales/orders/part-0.parquet", "shared/part-9.parquet")
    )
    place.put("shared/part-9.parquet")  # the table lists it
    left = place.folder / OTHER / "left/2.csv"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows of a file")
    os.utime(left, (WEEK.timestamp(), WEEK.timestamp()))


def lake_of(place: Place, other: str = "") -> Lake:
    return place.lake(
        "ignore:\n"
        "- {paths: ['scratch/**'], reason: theirs}\n"
        "- {paths: ['gx/**'], kinds: [unregistered_table], reason: theirs}\n",
        manifests=f", manifests: [{{kind: file_list, location: '{place.folder}/wh/lists/orders'}}]",
        other=other,
    )


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Before the last audit the files of `old/` are deleted, and the other folder is watched no more."""
    place = Place(tmp_path_factory.mktemp("watched"))
    write_files(place)
    lake = lake_of(place, OTHER)
    outcome = audited(lake, run_id="r1")
    audited(lake, run_id="live", live=True)
    before = ledger(lake)
    for name in ("old/1.csv", "old/2.csv"):
        (place.folder / "wh" / name).unlink()
    audited(lake_of(place), run_id="r2")
    return Watched(place, lake, outcome, before)


def test_files_without_a_table_are_a_row_by_prefix_unless_they_are_known_young_or_ignored(
    watched: Watched,
) -> None:
    place, lake, outcome = watched.place, watched.lake, watched.outcome
    rows = findings_by_prefix(lake)
    assert {key: (row["kind"], row["severity"], row["files"]) for key, row in rows.items()} == {
        "": ("unowned", "info", 1),
        "old/": ("unowned", "info", 2),
        "sales/": ("unowned", "info", 1),
        "sales/tmp/": ("unowned", "info", 3),
        "logs/": ("unowned", "info", 2),
        "left/": ("unowned", "info", 1),
        **{f"{format_}/t/": ("unregistered_table", "warning", 3) for format_ in "dihp"},
    }
    formats = {"d": "delta", "i": "iceberg", "h": "hudi", "p": "hive"}
    assert all(f"a {name} table" in rows[f"{at}/t/"]["explanation"] for at, name in formats.items())
    tmp = rows["sales/tmp/"]
    assert (tmp["bytes_at_stake"], tmp["key"], tmp["axis"]) == (15, place.prefix("sales/tmp/"), "leftover")
    assert (tmp["table_name"], tmp["subject_type"]) == (lake.watched[0].name, "prefix")
    assert f"such as {place.prefix('sales/tmp/a/x.csv')}, " in tmp["explanation"]
    assert f"written from {WEEK - timedelta(days=300):%Y-%m-%dT}" in rows["old/"]["explanation"]
    row = covered(lake)
    assert (row["status"], row["axis"], row["decided_share"]) == ("complete", "leftover", 1.0)
    counted = ("findings", "out_of_window", "ignored", "consistent", "undecided")
    assert [row[name] for name in counted] == [21, 4, 3, 1, 0]
    assert (outcome.status, [*outcome.summary["tables"]]) == ("complete", ["orders"])
    assert all(
        each["kind"] in ("unowned", "unregistered_table") for each in expand_groups(results_of(lake), "r1")
    )


@pytest.mark.variant
def test_a_prefix_that_is_gone_is_resolved_and_one_that_is_watched_no_more_is_retired(
    watched: Watched,
) -> None:
    """A live audit does not judge watched prefixes."""
    lake, states = watched.lake, ledger(watched.lake)
    assert {row["table_name"] for row in results_of(lake).coverage("live")} == {"orders"}
    assert set(watched.before.values()) == {("open", None)}
    assert states == watched.before | {"old/": ("resolved", "restored"), "left/": ("resolved", "retired")}
    rest = {name: row for name, row in kinds(lake, "r1").items() if name not in ("old/", "left/")}
    assert kinds(lake, "r2") == rest


@pytest.mark.variant
def test_files_without_a_table_need_a_person(watched: Watched) -> None:
    mending = RepairPlans(lake_of(watched.place), watched.place.folder)
    mending.plan(io.StringIO(), allow=ALLOWED)
    rows = [json.loads(line) for line in mending.file.read_text().splitlines() if '"unowned"' in line]
    assert {row["action"] for row in rows} == {"needs_person"}
