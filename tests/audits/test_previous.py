"""Whole audits of plain tables by the last storage snapshot.

Cases that need only a second audit lie in one lake, a table each.
"""

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.audit.plan import Options
from lakeaudit.audit.storage_snapshots import snapshot_comparison
from lakeaudit.collect.claim_lookups import query_claims
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.commands import doctor_probes
from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.point import LookupResult, lookup_claims
from lakeaudit.evidence.protocol import Context
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.results.acknowledgements import Ack, put_ack
from lakeaudit.results.write import open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime.now(UTC).replace(microsecond=0)


class Site:
    """A folder of tables, and audits of one of them, one after the other."""

    def __init__(self, folder: Path, results: Path | None = None) -> None:
        self.folder = folder
        self.results = results or folder / "results"
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
        path = self.results.with_name("lake.yaml")
        path.write_text(
            f"version: 1\nlake: plain\nresults: {self.results}\n"
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


def lost_and_rewritten(site: Site, session: "SparkSession | None" = None) -> None:
    """Missing, shrunk and rewritten files are reported until they are put back."""
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
    (explanation,) = (row["explanation"] for row in rows if row["kind"] == "dropped")
    assert "so in the picture of " in explanation
    assert "storage as of " in explanation
    assert site.audit(lake) == wrong, "open findings are found again"
    site.put("t/a", days=None)
    assert site.audit(lake) == wrong[1:], "it was put back"


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


def acid(partition: str, *folders: str, days: float | None = 30, size: int = 1000) -> Files:
    """A file in each of these folders of an ACID table of Hive."""
    names = ("/".join(filter(None, (partition, folder, "bucket_00000"))) for folder in folders)
    return files(*names, days=days, size=size)


def losing(*names: str) -> tuple[tuple[str, str], ...]:
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
        files("0", "1", "2"), files("new", days=None, size=9000), losing("0", "1", "2"), table=APPENDED
    ),
    "small-files-may-have-been-compacted": Change(
        files("0", "1", "2"), files("new", days=None, size=100), undecided=3
    ),
    "small-files-of-a-part-may-have-been-compacted": Change(
        files("0", "1", "2", "large", size=1000), files("large") | files("new", days=None, size=100), undecided=3
    ),
    "one-file-is-never-compacted": Change(files("0", "1"), files("1") | files("new", days=None, size=100), losing("0")),
    "as-many-new-files-are-no-compaction": Change(
        files("0", "1"), files("new-0", "new-1", days=None, size=100), losing("0", "1")
    ),
    "acid-base-explains-deltas": Change(
        acid("d=1", "base_0000005", "delta_0000006_0000006_0000", "delete_delta_0000007_0000007"),
        acid("d=1", "base_0000007_v0000123", days=None, size=100),
    ),
    "acid-minor-compaction": Change(
        acid("d=1", "delta_0000001_0000001", "delta_0000002_0000002_0001", "delete_delta_0000002_0000002"),
        acid("d=1", "delta_0000001_0000002_v0000009", "delete_delta_0000001_0000002", days=None, size=100),
    ),
    "acid-not-partitioned": Change(
        acid("", "delta_0000001_0000001", "delta_0000002_0000002"), acid("", "base_0000002", days=None, size=100)
    ),
    "acid-delta-beyond-the-base": Change(
        acid("d=1", "delta_0000006_0000006", "delta_0000008_0000008"),
        acid("d=1", "base_0000007", days=None, size=100),
        (("dropped", "bucket_00000"),),
    ),
    "acid-of-another-partition-or-sort": Change(
        acid("d=1", "delete_delta_0000001_0000001") | acid("d=2", "delta_0000001_0000001"),
        acid("d=1", "delta_0000001_0000002", days=None, size=100),
        (("dropped", "bucket_00000"),) * 2,
    ),
    "enough-to-stand-for-them": Change(files("0", "1", "2"), files("new", days=None, size=9000)),
    "appended-today": Change(files("young", days=0.2), {}, losing("young"), table=APPENDED),
    "outer": Change(files("a", "inner/b"), files("a")),
    "lost-and-rewritten": Change(
        files("a", "b", "c", "d"),
        files("b", days=None, size=10) | files("c", days=None) | files("d"),
        (*losing("a"), ("overwritten", "c"), ("size_mismatch", "b")),
    ),
}  # fmt: skip


ACCEPTED = Change(
    files("a", "b", "c"), files("b", size=10) | files("c"), (*losing("a"), ("size_mismatch", "b"))
)
"""A table whose findings a person accepts after the second audit; before the fourth one `b` vanishes, too."""


COUNTED = ("new-files", "aged-files")
"""Tables with a file in a partition of its own: new at the second audit, or old enough at the second and then lost."""


def stage_counted(site: Site, run: str) -> None:
    """Change the tables of `COUNTED` before a run."""
    if run == "r1":
        for name in ("new-files/d=1/a", "new-files/d=1/b", "aged-files/d=1/a", "aged-files/d=1/b"):
            site.put(name)
        site.put("aged-files/d=2/new", 700, days=None)
        site.put("aged-files/_SUCCESS", 7, days=None)
    elif run == "r2":
        site.put("new-files/d=2/new", 700, days=None)
        site.put("new-files/_SUCCESS", 7, days=None)
        site.put("aged-files/d=2/new", 700)
    elif run == "r4":
        (site.folder / "data/aged-files/d=2/new").unlink()


@dataclass(frozen=True)
class ChangeAudits:
    """Results of four audits of these tables: kind and file by table, coverage of content by table."""

    lake: Lake
    found: dict[str, dict[str, list[tuple[str, str]]]]
    content: dict[str, dict[str, dict[str, Any]]]
    statuses: dict[str, str]
    explained: dict[str, str]
    """Explanations in the second audit, by kind, for `lost-and-rewritten`."""


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> ChangeAudits:
    site, tables = Site(tmp_path_factory.mktemp("changes")), CHANGES | {"accepted": ACCEPTED}
    lay(site, {name: change.before for name, change in tables.items()})
    more = [
        f"  - {{name: {name}, location: {site.folder / 'data' / name},"
        f" manifests: [{{kind: previous{KEEP if name in HEALTHY else ''}}}]{change.table}}}\n"
        for name, change in tables.items()
    ]
    more += [
        f"  - {{name: {name}, location: {site.folder / 'data' / name},"
        " manifests: [{kind: previous, keep: 10000d}]}\n"
        for name in COUNTED
    ]
    inner = f"  - {{name: inner, location: {site.folder / 'data/outer/inner'}}}\n"
    lake = site.lake(more="".join([*more, inner]))
    audits: ChangeAudits = ChangeAudits(lake, {}, {}, {}, {})
    look(site, audits, "r1")
    lay(site, {name: change.after for name, change in tables.items()})
    look(site, audits, "r2")
    accept(lake, "accepted")
    look(site, audits, "r3")
    (site.folder / "data/accepted/b").unlink()
    site.put("lost-and-rewritten/a", days=None)
    look(site, audits, "r4")
    return audits


def look(site: Site, audits: ChangeAudits, run: str) -> None:
    """Run one audit and record its results."""
    stage_counted(site, run)
    site.audit(audits.lake)
    results, found = results_of(audits.lake), dict[str, list[tuple[str, str]]]()
    for row in rows_of(results.findings(run)):
        if row["axis"] != "duplicate":
            file = (row["key"] or row["subject"]).rpartition("/")[2]
            found.setdefault(row["table_name"], []).append((row["kind"], file))
        if (run, row["table_name"]) == ("r2", "lost-and-rewritten"):
            audits.explained[row["kind"]] = row["explanation"]
    audits.found[run] = found
    covered = [row for row in results.coverage(run) if row["axis"] == "content"]
    audits.content[run] = {row["table_name"]: row for row in covered}
    audits.statuses[run] = next(row["status"] for row in results.runs() if row["run_id"] == run)


def accept(lake: Lake, table: str) -> None:
    """A person says of all that is found of the table that it is well."""
    rows = rows_of(results_of(lake).discrepancies())
    ids = [row["discrepancy_id"] for row in rows if row["table_name"] == table]
    put_ack(results_of(lake), ids, Ack("ops", "tidied up", NOW + timedelta(days=1)))


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
def test_what_changed_between_two_looks_is_judged(audits: ChangeAudits, name: str, run: str) -> None:
    change, row = CHANGES[name], audits.content[run][name]
    assert sorted(audits.found[run].get(name, [])) == sorted(change.found)
    if run == "r2" or name in HEALTHY:
        assert (row["status"], row["undecided"]) == ("complete", change.undecided)


@pytest.mark.parametrize("name", [*CHANGES, "accepted"])
def test_the_first_audit_has_nothing_to_compare_with(audits: ChangeAudits, name: str) -> None:
    row = audits.content["r1"][name]
    assert audits.found["r1"] == {}
    assert (row["status"], "nothing to compare with yet" in row["reason"]) == ("off", True)
    assert audits.statuses["r1"] == "complete"


def test_what_vanished_shrank_or_was_written_again_is_named_until_it_is_put_back(
    audits: ChangeAudits,
) -> None:
    by_run = [sorted(audits.found[run]["lost-and-rewritten"]) for run in ("r2", "r3", "r4")]
    wrong = [("dropped", "a"), ("overwritten", "c"), ("size_mismatch", "b")]
    assert by_run == [wrong, wrong, wrong[1:]]
    assert "so in the picture of " in audits.explained["dropped"]
    assert "storage as of " in audits.explained["dropped"]


def test_what_a_person_accepts_ends(audits: ChangeAudits) -> None:
    by_run = [sorted(audits.found[run].get("accepted", [])) for run in ("r2", "r3", "r4")]
    again = [("dropped", "b")]  # the file that was accepted is claimed as it is
    assert by_run == [[("dropped", "a"), ("size_mismatch", "b")], [], again]
    unresolved = rows_of(results_of(audits.lake).discrepancies(("pending", "open")))
    assert [row["key"].rpartition("/")[2] for row in unresolved if row["table_name"] == "accepted"] == ["b"]
    assert audits.content["r3"]["accepted"]["consistent"] == 1


def test_of_a_folder_that_may_have_been_compacted_the_rest_is_consistent(audits: ChangeAudits) -> None:
    row = audits.content["r2"]["a-part-may-have-been-compacted"]
    assert (row["undecided"], row["consistent"]) == (2, 2)


def test_a_table_inside_another_is_not_its_own(audits: ChangeAudits) -> None:
    assert "inner" not in audits.found["r2"]
    assert audits.content["r2"]["outer"]["files"] == 1


# --- one picture, of `a` and `b`, after which `a` vanished: by tests that have the results to themselves --------------


@pytest.fixture(scope="module")
def audited_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("pictured"))
    for name in ("a", "b"):
        site.put(f"t/{name}")
    site.audit(site.lake())
    (site.folder / "data/t/a").unlink()
    return site


@pytest.fixture
def again(audited_site: Site, tmp_path: Path) -> Site:
    """The same tables, and a copy of those results."""
    return Site(audited_site.folder, shutil.copytree(audited_site.results, tmp_path / "results"))


def snapshot_files(site: Site) -> dict[Path, bytes]:
    files = (path for path in (site.results / ".previous").rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


NARROW = {
    "live": {"live": True},
    "a table": {"tables": ("t",)},
    "a partition": {"partitions": ("d=1",), "live": True},
    "the past": {"as_of": NOW - timedelta(hours=1)},
}


@pytest.mark.parametrize("narrow", NARROW.values(), ids=NARROW.keys())
def test_only_an_audit_of_everything_replaces_the_picture(site: Site, narrow: dict[str, Any]) -> None:
    site.put("t/a")
    lake = site.lake()
    assert _writes(lake)
    assert not _writes(lake, **narrow)


def _writes(lake: Lake, **options: Any) -> bool:
    """Whether an audit with these options would replace the last snapshot."""
    now = datetime.now(UTC)
    with closing(InProcessEngine()) as engine:
        context = Context(engine, clients_of(lake), now, now, live=True)
        ledger = LedgerTables(open_results(results_of(lake), lambda: None))
        compared = snapshot_comparison(lake, Options(**options), ledger, context)
    assert compared is not None
    return compared.writes


LONG = [{"tables": ("t",)}, {"as_of": NOW - timedelta(hours=1)}]


@pytest.mark.parametrize(
    "narrow", [{"live": True}, *(pytest.param(each, marks=pytest.mark.soak) for each in LONG)]
)
def test_narrow_audits_leave_the_picture_as_it_is(again: Site, narrow: dict[str, Any]) -> None:
    lake, before = again.lake(), snapshot_files(again)
    assert before
    found = again.audit(lake, **narrow)
    assert ("dropped", "a") in found or "as_of" in narrow
    assert snapshot_files(again) == before


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Never audited."""
    return Site(tmp_path / "site")


HARMS = [pytest.param(harm, marks=pytest.mark.soak) for harm in ("pointer foreign", "rows cut", "rows gone")]


@pytest.mark.parametrize("harm", ["pointer cut", *HARMS])
def test_a_torn_snapshot_is_ignored_and_reported(again: Site, harm: str) -> None:
    """The next audit compares with the storage snapshot of the audit that reports it."""
    lake = again.lake()
    (pointer,) = (again.results / ".previous").rglob("picture.json")
    (rows,) = pointer.parent.glob("*.parquet")
    path = pointer if "pointer" in harm else rows
    if harm == "pointer foreign":
        path.write_text("{}\n0")
    elif harm == "rows gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    assert again.audit(lake) == []
    row = again.content(lake)
    assert (row["status"], "cannot be read" in row["reason"]) == ("partial", True)
    assert again.audit(lake) == []
    assert (again.content(lake)["status"], again.content(lake)["consistent"]) == ("complete", 1)


def test_the_claims_of_one_file(again: Site, site: Site) -> None:
    def lookup(of: Site, name: str) -> LookupResult:
        lake = of.lake()
        (one,) = lookup_claims(lake.tables[0], clients_of(lake), "", str(of.folder / f"data/t/{name}")[1:])
        return one

    site.put("t/a")
    never = lookup(site, "a")
    assert (never.answer, "nothing to compare with yet" in never.reason) == ("unknown", True)
    there = lookup(again, "a")
    assert (there.kind, there.answer, there.history[0]["size"]) == ("previous", "present", 1000)
    assert lookup(again, "ax").answer == "absent"


def test_doctor_reports_a_torn_snapshot(again: Site, site: Site) -> None:
    def probe(of: Site) -> str:
        lake = of.lake()
        return doctor_probes.table(lake.tables[0], clients_of(lake))

    site.put("t/a")
    assert (probe(site), probe(again)) == ("can be read", "can be read")
    (pointer,) = (again.results / ".previous").rglob("picture.json")
    pointer.write_text("{}")
    with pytest.raises(SourceError, match="not whole"):
        probe(again)


def test_claims_can_be_read_without_storage(again: Site) -> None:
    """The command `hazards` does this to find live files that lifecycle rules will delete."""
    lake = again.lake()
    with closing(InProcessEngine()) as engine:
        now = datetime.now(UTC)
        claims, holes = read_manifests(lake, Context(engine, clients_of(lake), now, now, live=True))
        (read,) = claims
        found = query_claims(engine, claims, {"t"}, _keys)
    assert (holes, read.states["t"].refused, read.states["t"].not_yet) == ([], None, None)
    assert sorted(key for batch in found for key in batch.column("key").to_pylist()) == [
        str(again.folder / f"data/t/{name}")[1:] for name in ("a", "b")
    ]


def _keys(con: Connection, claims: Rows) -> Relation:
    return duck.query(con, "SELECT key FROM input WHERE state = 'live'", input=claims)


@pytest.mark.parametrize("once_more", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_incomplete_reports_and_listings_one_after_the_other(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, *, once_more: bool
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

    assert audit("first", listed)[1]["status"] == "off"
    holed = shop.take_inventory(files=3)
    shop.s3.delete_object(Bucket=bucket, Key=holed.data[0])
    status, row, found = audit("holed")
    assert (status, found, row["consistent"] + row["undecided"]) == ("partial", [], 6)
    assert row["undecided"] == 0, "storage itself was queried"
    lost = "warehouse/t/d=3/f"
    shop.s3.delete_object(Bucket=bucket, Key=lost)
    status, row, found = audit("listed", listed)
    assert (status, found, row["consistent"]) == ("complete", [lost], 5)
    if once_more:
        shop.take_inventory()
        assert audit("lost still")[2] == [lost]


def test_new_files_are_counted(audits: ChangeAudits) -> None:
    """A file that the last snapshot did not claim is too new to judge, until a later snapshot claims it."""
    numbers = ("files", "consistent", "out_of_window", "bytes")
    for run in ("r2", "r3"):  # not settled yet at the second of them either
        assert "new-files" not in audits.found[run]
        row = audits.content[run]["new-files"]
        assert [row[name] for name in numbers] == [3, 2, 1, 2700]
        assert row["decided_share"] == 1


def test_a_file_that_became_old_enough_is_counted_and_reported_when_it_is_lost(audits: ChangeAudits) -> None:
    row = audits.content["r3"]["aged-files"]
    assert (row["files"], row["consistent"], row["out_of_window"]) == (3, 3, 0)
    by_run = [audits.found[run].get("aged-files", []) for run in ("r1", "r2", "r3", "r4")]
    assert by_run == [[], [], [], [("dropped", "new")]]
    (lost,) = (
        row for row in rows_of(results_of(audits.lake).findings("r4")) if row["table_name"] == "aged-files"
    )
    assert lost["explanation"].startswith("the whole partition is missing: d=2, files: 1; ")
