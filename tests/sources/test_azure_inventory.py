"""Blob inventory reports of Azure, by its documentation: the contract, the meaning of rows, and faults."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.config import load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import SnapshotWindow, Stored
from lakeaudit.evidence.storage.azure_inventory import AzureInventory
from lakeaudit.evidence.storage.azure_inventory import reader as azure_inventory
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import azure_reports as built
from tests.builders.audits import audited, results_of
from tests.builders.azure_reports import BEGUN, ENDED, Blob
from tests.builders.examples import examples
from tests.builders.inventory import into
from tests.sources.storage_contract import (
    OBJECTS,
    StorageContract,
    World,
    context,
    notes_of,
    stored_rows,
)

DAY_AFTER = BEGUN + timedelta(days=1)
HOUR = timedelta(hours=1)
LAKE = "lake@acme"
FLAT = tuple(name for name in built.COLUMNS if name != "hdi_isfolder")
"""Accounts without a hierarchical namespace have no such column."""


def read(where: Path, as_of: datetime = DAY_AFTER, **options: Any) -> Stored:
    source = AzureInventory(kind="azure_inventory", location=Location.parse(str(where)), **options)
    return azure_inventory.read(source, context(Clients(), as_of), "storage:0")


class TestContract(StorageContract):
    @pytest.fixture(scope="class", params=["csv", "parquet"])
    @classmethod
    def world(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
        folder = tmp_path_factory.mktemp("report")
        rows = [Blob(f"lake/{key}", len(content), md5=built.md5(content)) for key, content in OBJECTS.items()]
        built.lay(into(folder), [rows[::2], rows[1::2]], form=request.param)
        stored = read(folder)
        began = datetime(2026, 11, 19, 12, tzinfo=UTC)
        return World(stored, Location(LAKE, ""), OBJECTS, began, rows=stored_rows(stored))


PLAIN = Blob("lake/t/a")
NOON = datetime(2026, 11, 19, 12)  # noqa: DTZ001 - times inside an audit are UTC without a zone


def rows_of(tmp_path: Path, *blobs: Blob, **how: Any) -> dict[str, dict[str, Any]]:
    built.lay(into(tmp_path), [blobs], **how)
    return {row["key"]: row for row in stored_rows(read(tmp_path)) if "key" in row}


@pytest.mark.parametrize("how", [{}, {"form": "parquet"}, {"form": "parquet", "millis": True}], ids=str)
def test_what_a_row_means(tmp_path: Path, how: dict[str, Any]) -> None:
    assert rows_of(tmp_path, PLAIN, **how)["t/a"] == {
        "source": "storage:0", "bucket": LAKE, "key": "t/a", "presence": "present", "size": 5, "modified_at": NOON,
        "etag": "0x8DB1EF7D41A2E17", "storage_class": "Hot", "archived": False, "delete_marker": False,
        "checksum": "md5:5d41402abc4b2a76b9719d911017c592",
    }  # fmt: skip


NO_FILES = {
    "a directory": Blob("lake/t/x", 0, is_folder=True),
    "a folder of a flat account": Blob("lake/t/x", 0, metadata='{"hdi_isfolder":"true"}'),
    "a folder in other words": Blob("lake/t/x", 0, metadata="a=b; Hdi_IsFolder = True"),
    "soft-deleted": replace(PLAIN, name="lake/t/x", deleted=True),
    "a snapshot": replace(PLAIN, name="lake/t/x", snapshot="2026-11-19T12:00:00.0000000Z"),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("what", NO_FILES)
def test_other_blobs_are_left_out(tmp_path: Path, what: str, form: str) -> None:
    assert [*rows_of(tmp_path, PLAIN, NO_FILES[what], form=form)] == ["t/a"]


def test_a_snapshot_does_not_hide_the_blob_it_is_of(tmp_path: Path) -> None:
    old = replace(PLAIN, size=3, snapshot="2026-11-19T11:00:00.0000000Z")
    assert rows_of(tmp_path, old, PLAIN, replace(PLAIN, size=2, deleted=True))["t/a"]["size"] == 5


def test_an_empty_blob_is_undecided_where_nobody_tells_files_from_folders(tmp_path: Path) -> None:
    columns = tuple(name for name in FLAT if name != "Metadata")
    rows = rows_of(tmp_path, PLAIN, Blob("lake/t/x", 0), columns=columns)
    assert {key: row["presence"] for key, row in rows.items()} == {"t/a": "present", "t/x": "unclear"}
    assert any("empty files from folders" in each for each in read(tmp_path).warnings)
    assert rows_of(tmp_path, Blob("lake/t/x", 0), columns=FLAT)["t/x"]["presence"] == "present"


def test_versions(tmp_path: Path) -> None:
    now = replace(PLAIN, version="2026-11-19T12:00:00.0000001Z", is_current=True)
    old = replace(
        PLAIN, size=3, version="2026-11-18T12:00:00.0000000Z", is_current=False, modified=NOON - 2 * HOUR
    )
    gone = replace(old, name="lake/t/gone", is_current=None)
    rows = rows_of(tmp_path, old, now, gone, Blob("lake/t/before"), filters={"includeBlobVersions": True})
    assert (rows["t/a"]["presence"], rows["t/a"]["size"], rows["t/a"]["older_size"]) == ("present", 5, 3)
    assert rows["t/a"]["version_id"] == now.version
    assert (rows["t/gone"]["presence"], rows["t/gone"]["older_version_id"]) == ("absent", old.version)
    assert rows["t/before"]["presence"] == "present"
    # current ones alone: ids are there, and nobody says which is current
    columns = tuple(name for name in FLAT if name != "IsCurrentVersion")
    assert rows_of(tmp_path, now, columns=columns)["t/a"]["presence"] == "present"


def test_a_blob_that_is_listed_twice_is_one(tmp_path: Path) -> None:
    assert rows_of(tmp_path, PLAIN, PLAIN)["t/a"]["presence"] == "present"


@pytest.mark.parametrize(
    ("tier", "archived"), [("Archive", True), ("Hot", False), ("Cold", False), (None, False)]
)
def test_tiers(tmp_path: Path, tier: str | None, archived: bool) -> None:
    assert rows_of(tmp_path, replace(PLAIN, tier=tier))["t/a"]["archived"] is archived


def test_the_md5_of_an_append_blob_is_not_used(tmp_path: Path) -> None:
    assert "checksum" not in rows_of(tmp_path, replace(PLAIN, blob_type="AppendBlob"))["t/a"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_names_are_raw_and_of_many_containers(tmp_path: Path, form: str) -> None:
    names = ['lake/t/a+b%20,"c"\n', "lake2/t/a", "$web/x/", "lake//a"]
    built.lay(into(tmp_path), [[replace(PLAIN, name=name) for name in names]], form=form)
    found = {(row["bucket"], row["key"]) for row in stored_rows(read(tmp_path))}
    assert found == {(LAKE, 't/a+b%20,"c"\n'), ("lake2@acme", "t/a"), ("$web@acme", "x/"), (LAKE, "/a")}


# --- which report ----------------------------------------------------------------------------------------------------


def test_the_newest_report_up_to_as_of_is_as_long_as_its_run(tmp_path: Path) -> None:
    for days, key in ((40, "oldest"), (1, "older"), (0, "newer")):
        built.lay(into(tmp_path), [[Blob(f"lake/{key}")]], at=BEGUN - timedelta(days=days))
    newest = read(tmp_path)
    assert [row["key"] for row in stored_rows(newest)] == ["newer"]
    assert newest.info.cut == SnapshotWindow(BEGUN, ENDED, timedelta(0))
    assert (newest.covers, newest.holes, newest.assumed_covers) == ((Location(LAKE, ""),), (), True)
    for as_of, key in ((BEGUN - HOUR, "older"), (BEGUN - timedelta(days=9), "oldest")):
        assert [row["key"] for row in stored_rows(read(tmp_path, as_of))] == [key]


LATER = BEGUN + HOUR
NOT_YET: list[tuple[dict[str, Any], str]] = [
    ({"checksum": None, "status": "Pending"}, ""),
    ({"checksum": None}, ""),
    ({"status": "Failed"}, "the run of 2026/11/20/02-02-03 ended as Failed"),
    ({"status": "PartiallySucceeded"}, "ended as PartiallySucceeded"),
    ({"status": None}, "ended as None"),
]


@pytest.mark.parametrize(("how", "told"), NOT_YET, ids=str)
def test_a_run_that_did_not_succeed_does_not_count(tmp_path: Path, how: dict[str, Any], told: str) -> None:
    place = built.lay(into(tmp_path), [[Blob("lake/half")]], at=LATER, **how)
    with pytest.raises(SourceError, match="no blob inventory report that succeeded"):
        read(tmp_path / place)
    built.lay(into(tmp_path), [[PLAIN]])
    whole = read(tmp_path)
    assert [row["key"] for row in stored_rows(whole)] == ["t/a"]
    assert told in "".join(whole.warnings)


def test_a_manifest_that_is_not_what_its_checksum_says_ends_the_source(tmp_path: Path) -> None:
    built.lay(into(tmp_path), [[PLAIN]])
    place = tmp_path / built.lay(into(tmp_path), [[PLAIN]], at=LATER)
    place.write_bytes(place.read_bytes() + b" ")
    with pytest.raises(SourceError, match="not the one in its checksum"):
        read(tmp_path)
    in_base64 = base64.b64encode(hashlib.md5(place.read_bytes()).digest())
    place.with_name("nightly-manifest.checksum").write_bytes(in_base64 + b"\r\n")
    assert read(tmp_path).holes == ()
    place.unlink()
    with pytest.raises(SourceError, match="is missing"):
        read(tmp_path)


def test_one_rule_is_read(tmp_path: Path) -> None:
    for rule in ("nightly", "other"):
        built.lay(into(tmp_path), [[Blob(f"lake/{rule}")]], rule=rule)
    with pytest.raises(SourceError, match=r"several rules \(nightly, other\); write `rule`"):
        read(tmp_path)
    assert [row["key"] for row in stored_rows(read(tmp_path, rule="other"))] == ["other"]
    with pytest.raises(SourceError, match="no blob inventory report"):
        read(tmp_path, rule="none")


def test_an_old_report_is_an_evidence_gap_and_weekly_ones_may_be_older(tmp_path: Path) -> None:
    place = tmp_path / built.lay(into(tmp_path), [[PLAIN]])
    in_four = BEGUN + timedelta(days=4)
    assert "stale" in read(place, in_four).holes[0].reason
    assert read(place, in_four, max_age=timedelta(days=9)).holes == ()
    built.lay(into(tmp_path), [[PLAIN]], definition={"schedule": "Weekly"})
    assert read(place, in_four).holes == ()


COVERS: list[tuple[dict[str, Any], list[str] | None, list[str] | str]] = [
    ({"prefixMatch": ["lake", "raw/in/x"]}, None, ["lake@acme ", "raw@acme in/x"]),
    ({"prefixMatch": []}, None, "of the whole account"),
    ({"prefixMatch": []}, ["any", "lake/t"], ["any@acme ", "lake@acme t"]),
    ({"prefixMatch": ["la"]}, ["lake"], ["lake@acme "]),
    ({"prefixMatch": ["lake/wa"]}, ["lake/warehouse"], ["lake@acme warehouse"]),
    ({"prefixMatch": ["lake/wa"]}, ["lake"], "the rule lists lake/wa, and not all of"),
    ({"excludePrefix": ["lake/tmp"]}, None, "the rule leaves out lake/tmp"),
    ({"excludePrefix": ["lake/tmp"]}, ["lake/t"], ["lake@acme t"]),
    ({"excludePrefix": ["la"]}, ["lake/t"], "the rule leaves out la"),
]


@pytest.mark.parametrize(("filters", "covers", "expected"), COVERS, ids=str)
def test_what_a_report_covers(
    tmp_path: Path, filters: dict[str, Any], covers: list[str] | None, expected: list[str] | str
) -> None:
    built.lay(into(tmp_path), [[PLAIN]], filters=filters)
    given = covers and tuple(Location(f"{c.partition('/')[0]}@acme", c.partition("/")[2]) for c in covers)
    if isinstance(expected, str):
        with pytest.raises(SourceError, match=expected):
            read(tmp_path, covers=given)
    else:
        assert [" ".join(place) for place in read(tmp_path, covers=given).covers] == expected


def test_another_account_is_not_covered(tmp_path: Path) -> None:
    built.lay(into(tmp_path), [[PLAIN]])
    with pytest.raises(SourceError, match="the report is of account acme"):
        read(tmp_path, covers=(Location("lake@other", ""),))


# --- what is broken --------------------------------------------------------------------------------------------------


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"inventoryStartTime": "yesterday"}, "is not a manifest"),
    ({"inventoryStartTime": "2026-11-20T01:00:00"}, "is not a manifest"),
    ({"inventoryCompletionTime": "2026-11-19T01:00:00Z"}, "contradicts itself"),
    ({"files": []}, "contradicts itself"),
    ({"files": "x"}, "is not a manifest"),
    ({"files": [{"blob": "a/../nightly/../../x", "size": 1}]}, "is not a manifest"),
    ({"files": [{"blob": "a.csv", "size": -1}]}, "is not a manifest"),
    ({"files": [{"blob": "a.csv", "size": True}]}, "is not a manifest"),
    ({"ruleName": "a/b"}, "is not a manifest"),
    ({"endpoint": "https://acme.blob.core.chinacloudapi.cn"}, "not an account of Azure's public cloud"),
    ({"ruleDefinition": None}, "is not a manifest"),
    ({"definition": {"objectType": "container"}}, "lists containers"),
    ({"filters": {"creationTime": 3}}, "blobs of some days alone"),
    ({"filters": {"blobTypes": ["pageBlob"]}}, "leaves out block blobs"),
]


@pytest.mark.parametrize(("how", "reason"), UNUSABLE, ids=str)
def test_a_report_that_cannot_be_used_is_refused(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    built.lay(into(tmp_path), [[PLAIN]], **how)
    with pytest.raises(SourceError, match=reason):
        read(tmp_path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_data_file_that_is_missing_or_torn_is_an_evidence_gap(tmp_path: Path, form: str) -> None:
    built.lay(into(tmp_path), [[PLAIN], [replace(PLAIN, name="lake/b")]], form=form)
    first, second = sorted(tmp_path.rglob(f"*.{form}"))
    first.write_bytes(first.read_bytes()[:-3])
    second.unlink()
    told = [hole.reason for hole in read(tmp_path).holes]
    assert ["bytes, its manifest says" in told[0], told[1]] == [True, "data file is missing"]


def test_a_data_file_of_another_form_is_noted(tmp_path: Path) -> None:
    built.lay(into(tmp_path), [[PLAIN]], form="parquet")
    (file,) = tmp_path.rglob("*.parquet")
    file.write_bytes(b"x" * file.stat().st_size)
    assert "cannot be read as Parquet" in notes_of(read(tmp_path))[0]["reason"]


REJECTS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "row without name"),
    ({"name": "lake"}, "Name has no container"),
    ({"name": "lake/"}, "Name has no container"),
    ({"name": "LA@KE/x"}, "Name has no container"),
    ({"size": "many"}, "Content-Length is not a number: many"),
    ({"modified": "yesterday"}, "Last-Modified is not a time: yesterday"),
    ({"md5": "AAAA"}, "Content-MD5 is not an MD5"),
    ({"is_folder": "perhaps"}, "hdi_isfolder is not a flag: perhaps"),
    ({"deleted": "perhaps"}, "Deleted is not a flag: perhaps"),
]


def test_a_value_that_cannot_be_understood_rejects_its_row_alone(tmp_path: Path) -> None:
    """Every odd row of one report, each beside a sound one."""
    odd = [replace(PLAIN, **({"name": f"lake/odd {n}"} | given)) for n, (given, _) in enumerate(REJECTS)]
    sound = [replace(PLAIN, name=f"lake/sound {n}") for n in range(len(REJECTS))]
    built.lay(into(tmp_path), [[row for pair in zip(odd, sound, strict=True) for row in pair]])
    rows = stored_rows(read(tmp_path))
    assert sorted(row["key"] for row in rows if "key" in row) == [f"sound {n}" for n in range(len(REJECTS))]
    assert sorted(row["reject"].partition(": ")[2] for row in rows if "reject" in row) == sorted(
        reason for _, reason in REJECTS
    )


BENIGN = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.permutations(built.COLUMNS),
        "form": st.sampled_from(["csv", "parquet"]),
        "later": st.just({"a": [1]}),
        "summary": st.just(None),
        "rule": st.sampled_from(["r", "ünlich"]),
    },
)


def test_benign_changes_change_no_row(tmp_path_factory: pytest.TempPathFactory) -> None:
    blobs = [replace(PLAIN, name=f"lake/t/{n}", size=n) for n in range(9)]

    @examples(3, 80)
    @given(how=BENIGN, pieces=st.integers(1, 4))
    def check(how: dict[str, Any], pieces: int) -> None:
        folder = tmp_path_factory.mktemp("report")
        built.lay(into(folder), [blobs[n::pieces] for n in range(pieces)], **how)
        stored = read(folder)
        assert [(row["key"], row["size"]) for row in stored_rows(stored)] == [(f"t/{n}", n) for n in range(9)]
        assert (stored.holes, stored.warnings) == ((), ())

    check()


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=9)
FIELDS = sorted({*built.NAMES} - {"is_folder", "deleted", "snapshot", "metadata"})


def test_whatever_stands_in_a_row_it_is_one(tmp_path: Path) -> None:
    @examples(2, 50)
    @given(st.lists(st.dictionaries(st.sampled_from(FIELDS), TEXT, max_size=3), min_size=30, max_size=30))
    def check(drawn: Sequence[dict[str, Any]]) -> None:
        blobs = [replace(PLAIN, **{"name": f"lake/t/{n}", **given}) for n, given in enumerate(drawn)]
        stored = read(tmp_path / built.lay(into(tmp_path), [blobs]))
        assert (stored.holes, notes_of(stored)) == ((), [])
        told = stored_rows(stored)
        known = {f"{row['bucket'].partition('@')[0]}/{row['key']}" for row in told if "key" in row}
        assert known <= {blob.name for blob in blobs}
        assert len(known) + sum("reject" in row for row in told) >= len({blob.name for blob in blobs}) - 1

    check()


# --- a whole audit, without Azure: reports and lists in local folders, names of both drivers ------------------------


BOTH = {
    "healthy": "wasbs://lake@acme.blob.core.windows.net/wh/healthy",
    "faulty": "wasbs://lake@acme.blob.core.windows.net/wh/faulty",
}
"""The tables, by the name of the older driver."""


def here(table: str) -> str:
    return f"abfss://lake@acme.dfs.core.windows.net/wh/{table}"


def files_of(table: str) -> list[Blob]:
    return [Blob(f"lake/wh/{table}/{n}.parquet", 50, md5=None) for n in range(4)]


def listed_of(table: str) -> list[str]:
    there = f"wasb://lake@acme.blob.core.windows.net/wh/{table}"
    return [
        f"{here(table)}/0.parquet",
        f"{there}/1.parquet",
        f"wh/{table}/2.parquet",
        f"{here(table)}/3.parquet",
    ]


def healthy() -> list[Blob]:
    """All that is listed, a folder, an old snapshot and what was deleted softly."""
    files = files_of("healthy")
    old = replace(files[0], snapshot="2026-11-19T11:00:00Z", size=9)
    folder = Blob("lake/wh/healthy/day=1", 0, is_folder=True)
    return [*files, folder, old, replace(files[1], deleted=True)]


def faulty() -> list[Blob]:
    """One is lost, one short, one archived, and one is listed nowhere."""
    files = files_of("faulty")
    stray = Blob("lake/wh/faulty/9.parquet", md5=None)
    return [files[3], replace(files[1], size=4), replace(files[2], tier="Archive"), stray]


@dataclass(frozen=True)
class Night:
    """By table what an audit found, as (kind, subject), and what coverage says of each axis."""

    found: dict[str, list[tuple[str, str]]]
    covered: dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder, blobs = tmp_path_factory.mktemp("azure"), [*healthy(), *faulty()]
    begun = datetime.now(UTC).replace(microsecond=0)
    built.lay(into(folder / "reports"), [blobs[::2], blobs[1::2]], at=begun, took=timedelta(0))
    for table in BOTH:
        (folder / table).mkdir()
        lines = [
            {"path": path, "size": 50, "committed_at": "2026-11-19T12:30:00Z"} for path in listed_of(table)
        ]
        text = "".join(json.dumps(line) + "\n" for line in [*lines, {"end": True, "lines": len(lines)}])
        (folder / table / "1.jsonl").write_text(text)
    tables = "".join(
        f"- name: {table}\n  location: {place}\n"
        f"  manifests: [{{kind: file_list, location: {folder / table}, complete: true}}]\n"
        for table, place in BOTH.items()
    )
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: azure_inventory, location: {folder / 'reports'}}}]\ntables:\n{tables}"
        "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s, confirm: {mode: none}}\n"
    )
    lake = load_lake(folder / "lake.yaml", {})
    outcome = audited(lake)
    found: dict[str, list[tuple[str, str]]] = {table: [] for table in BOTH}
    for row in (row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()):
        found[row["table_name"]].append((row["kind"], row["subject"]))
    coverage = results_of(lake).coverage(outcome.run_id)
    covered = {table: {row["axis"]: row for row in coverage if row["table_name"] == table} for table in BOTH}
    return Night({table: sorted(rows) for table, rows in found.items()}, covered)


def test_a_healthy_lake_is_quiet(night: Night) -> None:
    covered = night.covered["healthy"]
    assert night.found["healthy"] == []
    assert covered["content"]["decided_share"] == 1.0
    assert {covered[axis]["status"] for axis in ("content", "leftover")} == {"complete"}


def test_faults_are_found_under_the_name_of_today(night: Night) -> None:
    assert night.found["faulty"] == [
        ("archived", f"{here('faulty')}/2.parquet"),
        ("dropped", f"{here('faulty')}/0.parquet"),
        ("size_mismatch", f"{here('faulty')}/1.parquet"),
        ("stale_visible", f"{here('faulty')}/#stale_visible"),
    ]
