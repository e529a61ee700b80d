"""Whole audits of plain tables by the last picture of storage.

Cases that need no more than a second look lie in one lake, a table each.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.commands import doctor_probes
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.point import told_of
from lakeaudit.evidence.protocol import Context
from lakeaudit.pipeline.ask_claims import ask_claims
from lakeaudit.pipeline.engine import InProcessEngine
from lakeaudit.pipeline.read_sources import read_manifests
from lakeaudit.results.acknowledgements import Ack, put_ack
from lakeaudit.row_formats import rows_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Endpoint
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.runtime.endpoints import clients_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime.now(UTC).replace(microsecond=0)


class Site:
    """A folder of tables, and audits of one of them, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = count(1)

    def put(self, name: str, size: int = 1000, days: float | None = 30) -> Path:
        """A file written so many days ago; None: now."""
        path = self.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        if days is not None:
            at = (NOW - timedelta(days=days)).timestamp()
            os.utime(path, (at, at))
        return path

    def lake(self, manifest: str = "", table: str = "", more: str = "") -> Lake:
        path = self.folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: plain\nresults: {self.folder / 'results'}\n"
            f"inventories: [{{kind: listing, location: {self.folder / 'data'}}}]\n"
            f"tables:\n  - {{name: t, location: {self.folder / 'data/t'},"
            f" manifests: [{{kind: previous{manifest}}}]{table}}}\n{more}"
        )
        return load_lake(path, {})

    def audit(self, lake: Lake, spark: "SparkSession | None" = None, **options: Any) -> list[tuple[str, str]]:
        """Kind and file of each finding."""
        run = f"r{next(self.numbers)}"
        audited(lake, spark, run_id=run, **options)
        rows = [row for batch in results_of(lake).findings(run) for row in batch.to_pylist()]
        return sorted(
            (r["kind"], (r["key"] or r["subject"]).rpartition("/")[2])
            for r in rows
            if r["axis"] != "duplicate"
        )

    def content(self, lake: Lake) -> dict[str, Any]:
        """Coverage of the content axis by the last run."""
        (last, *_) = sorted(results_of(lake).runs(), key=lambda run: run["started_at"], reverse=True)
        (row,) = (row for row in results_of(lake).coverage(last["run_id"]) if row["axis"] == "content")
        return row


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_first_audit_has_nothing_to_compare_with(site: Site) -> None:
    site.put("t/a")
    lake = site.lake()
    assert site.audit(lake) == []
    row = site.content(lake)
    assert (row["status"], "nothing to compare with yet" in row["reason"]) == ("off", True)
    assert results_of(lake).runs()[0]["status"] == "complete"
    assert site.audit(lake) == []
    assert (site.content(lake)["status"], site.content(lake)["consistent"]) == ("complete", 1)


def test_what_vanished_shrank_or_was_written_again_is_named(site: Site) -> None:
    lost_and_rewritten(site)


def lost_and_rewritten(site: Site, session: "SparkSession | None" = None) -> None:
    for name in ("a", "b", "c", "d"):
        site.put(f"t/{name}")
    lake = site.lake()
    site.audit(lake, session)
    (site.folder / "data/t/a").unlink()
    site.put("t/b", 10, days=None)
    site.put("t/c", days=None)
    wrong = [("dropped", "a"), ("overwritten", "c"), ("size_mismatch", "b")]
    assert site.audit(lake, session) == wrong
    rows = [row for batch in results_of(lake).findings("r2") for row in batch.to_pylist()]
    (told,) = (row["explanation"] for row in rows if row["kind"] == "dropped")
    assert "so in the picture of " in told
    assert "storage as of " in told
    assert site.audit(lake) == wrong, "what stays open goes on being found"
    site.put("t/a", days=None)
    assert site.audit(lake) == wrong[1:], "it was put back"


def test_what_a_person_accepts_ends(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.put(f"t/{name}")
    lake = site.lake()
    site.audit(lake)
    (site.folder / "data/t/a").unlink()
    site.put("t/b", 10)
    assert site.audit(lake) == [("dropped", "a"), ("size_mismatch", "b")]
    ids = [row["discrepancy_id"] for row in results_of(lake).unresolved()]
    put_ack(results_of(lake), ids, Ack("ops", "tidied up", NOW + timedelta(days=1)))
    assert site.audit(lake) == []
    assert results_of(lake).unresolved() == []
    assert site.content(lake)["consistent"] == 1
    (site.folder / "data/t/b").unlink()
    assert site.audit(lake) == [("dropped", "b")], "the file that was accepted is claimed as it is"


Files = dict[str, tuple[float | None, int]]
"""By name (age in days, bytes); None: written now."""

HEALTHY: dict[str, tuple[dict[str, float | None], dict[str, float | None]]] = {
    "young-files-come-and-go": ({"x": 3, "old": 30}, {"y": 0, "old": 30}),
    "a-partition-is-written-anew": ({"d=1/a": 30, "d=1/b": 30, "d=2/c": 30}, {"d=1/n": None, "d=2/c": 30}),
    "a-partition-is-compacted": ({f"d=1/{n}": 30 for n in range(5)}, {"d=1/whole": None}),
    "marks-of-jobs": ({"a": 30, "_SUCCESS": 30, "_tmp/x": 30, ".a.crc": 30}, {"a": 30}),
    "late-data": ({"d=1/a": 30}, {"d=1/a": 30, "d=1/late": None}),
    "retention-by-day": ({f"{day}/f": 30 for day in ("dt=2020-01-01", "year=2019/month=2", "2018/03/04", "m=2019-07")},
                         {}),
    "retention-by-age": ({"flat": 500}, {}),
}  # fmt: skip
"""Files of a table by their age in days before the second audit, and at it; those of None were written between."""


@dataclass(frozen=True)
class Change:
    """A table before its second audit, and at it: files by (age in days, bytes), None: written between the two."""

    before: Files
    after: Files
    found: tuple[tuple[str, str], ...] = ()
    undecided: int = 0
    table: str = ""


def files(*names: str, days: float | None = 30, size: int = 1000) -> Files:
    return dict.fromkeys(names, (days, size))


def gone(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple(("dropped", name) for name in names)


KEEP = ", keep: 400d"
APPENDED = ", append_only: true"
CHANGES: dict[str, Change] = {
    name: Change(
        {key: (days, 1000) for key, days in before.items()},
        {key: (days, 3000 if days is None else 1000) for key, days in after.items()},
    )
    for name, (before, after) in HEALTHY.items()
} | {
    "a-part-may-have-been-compacted": Change(
        files("d=1/0", "d=1/1", "d=1/2", "d=1/3"),
        files("d=1/2", "d=1/3") | files("d=1/joined", days=None, size=2000),
        undecided=2,
    ),
    "no-job-ever-removes-a-file": Change(
        files("0", "1", "2"), files("new", days=None, size=9000), gone("0", "1", "2"), table=APPENDED
    ),
    "far-too-little-to-stand-for-them": Change(
        files("0", "1", "2"), files("new", days=None, size=100), gone("0", "1", "2")
    ),
    "enough-to-stand-for-them": Change(files("0", "1", "2"), files("new", days=None, size=9000)),
    "appended-today": Change(files("young", days=0.2), {}, gone("young"), table=APPENDED),
    "outer": Change(files("a", "inner/b"), files("a")),
}  # fmt: skip


@dataclass(frozen=True)
class Looked:
    """What the second and the third audit of these tables say: kind and file by table, coverage of content by table."""

    found: dict[str, dict[str, list[tuple[str, str]]]]
    content: dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Looked:
    site = Site(tmp_path_factory.mktemp("changes"))
    lay(site, {name: change.before for name, change in CHANGES.items()})
    more = [
        f"  - {{name: {name}, location: {site.folder / 'data' / name},"
        f" manifests: [{{kind: previous{KEEP if name in HEALTHY else ''}}}]{change.table}}}\n"
        for name, change in CHANGES.items()
    ]
    inner = f"  - {{name: inner, location: {site.folder / 'data/outer/inner'}}}\n"
    lake = site.lake(more="".join([*more, inner]))
    site.audit(lake)
    lay(site, {name: change.after for name, change in CHANGES.items()})
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    content: dict[str, dict[str, dict[str, Any]]] = {}
    for run in ("r2", "r3"):
        site.audit(lake)
        found[run] = {}
        for row in rows_of(results_of(lake).findings(run)):
            told = (row["kind"], (row["key"] or row["subject"]).rpartition("/")[2])
            if row["axis"] != "duplicate":
                found[run].setdefault(row["table_name"], []).append(told)
        covered = [row for row in results_of(lake).coverage(run) if row["axis"] == "content"]
        content[run] = {row["table_name"]: row for row in covered}
    return Looked(found, content)


def lay(site: Site, tables: dict[str, Files]) -> None:
    """Tables of these files, and of no others."""
    for name, wanted in tables.items():
        home = site.folder / "data" / name
        for path in [each for each in home.rglob("*") if each.is_file()]:
            if str(path.relative_to(home)) not in wanted:
                path.unlink()
        for key, (days, size) in wanted.items():
            site.put(f"{name}/{key}", size, days)


@pytest.mark.parametrize("run", ["r2", "r3"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_between_two_looks_is_judged(looked: Looked, name: str, run: str) -> None:
    change, row = CHANGES[name], looked.content[run][name]
    assert sorted(looked.found[run].get(name, [])) == sorted(change.found)
    if run == "r2" or name in HEALTHY:
        assert (row["status"], row["undecided"]) == ("complete", change.undecided)


def test_of_a_folder_that_may_have_been_compacted_the_rest_is_consistent(looked: Looked) -> None:
    row = looked.content["r2"]["a-part-may-have-been-compacted"]
    assert (row["undecided"], row["consistent"]) == (2, 2)


def test_a_table_inside_another_is_not_its_own(looked: Looked) -> None:
    assert "inner" not in looked.found["r2"]
    assert looked.content["r2"]["outer"]["files"] == 1


NARROW: list[dict[str, Any]] = [{"live": True}, {"tables": ("t",)}, {"as_of": NOW - timedelta(hours=1)}]


def test_narrow_audits_leave_the_picture_as_it_is(site: Site) -> None:
    def kept() -> list[Path]:
        return sorted((site.folder / "results/.previous").rglob("*"))

    site.put("t/a")
    lake = site.lake()
    site.audit(lake, live=True)
    assert kept() == []
    site.audit(lake)
    pictured = kept()
    (site.folder / "data/t/a").unlink()
    for narrow in NARROW:
        found = site.audit(lake, **narrow)
        assert ("dropped", "a") in found or "as_of" in narrow
        assert kept() == pictured


HARMS = [pytest.param(harm, marks=pytest.mark.soak) for harm in ("pointer foreign", "rows cut", "rows gone")]


@pytest.mark.parametrize("harm", ["pointer cut", *HARMS])
def test_a_torn_picture_is_none_and_said(site: Site, harm: str) -> None:
    site.put("t/a")
    lake = site.lake()
    site.audit(lake)
    (pointer,) = (site.folder / "results/.previous").rglob("picture.json")
    (rows,) = pointer.parent.glob("*.parquet")
    path = pointer if "pointer" in harm else rows
    if harm == "pointer foreign":
        path.write_text("{}\n0")
    elif harm == "rows gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    (site.folder / "data/t/a").unlink()
    assert site.audit(lake) == []
    row = site.content(lake)
    assert (row["status"], "cannot be read" in row["reason"]) == ("partial", True)
    if harm == "pointer cut":  # whatever the harm, the picture of that audit is the next one's
        site.put("t/b")
        assert (site.audit(lake), site.audit(lake)) == ([], [])
        assert (site.content(lake)["status"], site.content(lake)["consistent"]) == ("complete", 1)


def test_what_one_file_is_told_of(site: Site) -> None:
    path = site.put("t/a")
    lake = site.lake()
    (told,) = told_of(lake.tables[0], clients_of(lake), "", str(path)[1:])
    assert (told.answer, "nothing to compare with yet" in told.reason) == ("unknown", True)
    site.audit(lake)
    (told,) = told_of(lake.tables[0], clients_of(lake), "", str(path)[1:])
    assert (told.kind, told.answer, told.history[0]["size"]) == ("previous", "present", 1000)
    (told,) = told_of(lake.tables[0], clients_of(lake), "", str(path)[1:] + "x")
    assert told.answer == "absent"


def test_doctor_says_that_a_picture_is_torn(site: Site) -> None:
    site.put("t/a")
    lake = site.lake()
    (table,) = lake.tables
    assert doctor_probes.table(table, clients_of(lake)) == "can be read"
    site.audit(lake)
    assert doctor_probes.table(table, clients_of(lake)) == "can be read"
    (pointer,) = (site.folder / "results/.previous").rglob("picture.json")
    pointer.write_text("{}")
    with pytest.raises(SourceError, match="not whole"):
        doctor_probes.table(table, clients_of(lake))


def test_reports_with_holes_and_listings_one_after_the_other(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """A report that lacks a data file ends no claim; listings and reports after one another agree."""
    shop = Shop(aws.s3, s3, bucket)
    for n in range(6):
        shop.s3.put_object(Bucket=bucket, Key=f"warehouse/t/d={n}/f", Body=b"rows" * n)
    table = f"- {{name: t, location: 's3://{bucket}/warehouse/t', append_only: true, manifests: [{{kind: previous}}]}}"
    listed = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"

    def audit(run: str, inventories: str | None = None) -> tuple[str, dict[str, Any], list[str]]:
        lake = shop.lake(tmp_path, inventories=inventories, tables=[table])
        outcome = audited(lake, run_id=run)
        (row,) = (row for row in results_of(lake).coverage(run) if row["axis"] == "content")
        rows = [row for batch in results_of(lake).findings(run) for row in batch.to_pylist()]
        return outcome.status, row, [each["key"] for each in rows if each["kind"] == "dropped"]

    shop.take_inventory()
    assert audit("first")[1]["status"] == "off"
    holed = shop.take_inventory(files=3)
    shop.s3.delete_object(Bucket=bucket, Key=holed.data[0])
    status, row, found = audit("holed")
    assert (status, found, row["consistent"] + row["undecided"]) == ("partial", [], 6)
    assert row["undecided"] == 0, "storage itself was asked"
    status, row, found = audit("listed", listed)
    assert (status, found, row["consistent"]) == ("complete", [], 6)
    shop.s3.delete_object(Bucket=bucket, Key="warehouse/t/d=3/f")
    shop.take_inventory()
    assert audit("lost")[2] == ["warehouse/t/d=3/f"]
    assert audit("lost still", listed)[2] == ["warehouse/t/d=3/f"]


def test_claims_are_read_without_storage_where_only_they_are_asked_for(site: Site) -> None:
    """As the command `hazards` does, which looks for what lifecycle rules will do to live files."""
    site.put("t/a")
    site.put("t/b")
    lake = site.lake()
    site.audit(lake)
    with closing(InProcessEngine()) as engine:
        now = datetime.now(UTC)
        claims, holes = read_manifests(lake, Context(engine, clients_of(lake), now, now, live=True))
        (read,) = claims
        found = ask_claims(engine, claims, {"t"}, _keys)
    assert (holes, read.states["t"].refused, read.states["t"].not_yet) == ([], None, None)
    assert sorted(key for batch in found for key in batch.column("key").to_pylist()) == [
        str(site.folder / f"data/t/{name}")[1:] for name in ("a", "b")
    ]


def _keys(con: Connection, claims: Rows) -> Relation:
    return duck.query(con, "SELECT key FROM input WHERE state = 'live'", input=claims)
