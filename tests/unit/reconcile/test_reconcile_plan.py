"""Which steps a discrepancy may have, and when a version is the file that a table lists. No request reaches storage."""

import json
import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from lakeaudit import cli
from lakeaudit.advice.next_steps import PLANNED
from lakeaudit.config import data_of_lake, lake_of_data, load_lake
from lakeaudit.errors import BadInput
from lakeaudit.evidence.storage.object_versions import Claimed, History, ObjectVersion
from lakeaudit.kinds import KINDS
from lakeaudit.reconcile.key_state import ENABLED, KeyReader, KeyState, Unclear
from lakeaudit.reconcile.plans.ceiling import require_below
from lakeaudit.reconcile.plans.matching import matching_version
from lakeaudit.reconcile.plans.plan_file import PlanFile, header_of, write_plan
from lakeaudit.reconcile.plans.plan_shares import Share
from lakeaudit.reconcile.plans.planning import Planner
from lakeaudit.reconcile.protocol import NEVER_GONE, RestoreTarget, StateReader
from lakeaudit.reconcile.registry import ACTIONS, FOLLOWED_BY, WAYS
from lakeaudit.reconcile.steps import COMPENSABLE, FINAL, NEEDS_PERSON, REVERSIBLE, Step
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import DISCREPANCIES

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).replace(tzinfo=None)
LAKE = """
version: 1
lake: shop
results: /tmp/results
inventories: [{kind: listing, location: s3://lake/warehouse}]
buckets: [{match: weak, consistency: weak}]
tables:
- {name: orders, location: s3://lake/warehouse/orders, manifests: [{kind: delta}]}
- {name: slow, location: s3://weak/slow, manifests: [{kind: delta}]}
"""


def version(
    name: str, minutes: float, size: int = 7, etag: str = "e", *, latest: bool = False
) -> ObjectVersion:
    """A version of so many minutes after noon."""
    return ObjectVersion(name, NOON + timedelta(minutes=minutes), latest, size=size, etag=etag)


def marker(name: str, minutes: float, *, latest: bool = True) -> ObjectVersion:
    return ObjectVersion(name, NOON + timedelta(minutes=minutes), latest, is_marker=True)


def state(
    *newest_first: ObjectVersion, versioning: str = ENABLED, whole: bool = True, **archived: Any
) -> KeyState:
    return KeyState(versioning, History(newest_first, whole), **archived)


COLD: dict[str, Any] = {"archived": {"v": "DEEP_ARCHIVE"}}
THAWED: dict[str, Any] = {**COLD, "restored": {"v"}}


LOST = state(marker("m", 60), version("v", 0))
CLAIM = NOON + timedelta(minutes=1)


def target(*, size: int | None = 7, etag: str | None = None, version_id: str | None = None) -> RestoreTarget:
    return RestoreTarget(Claimed(CLAIM, CLAIM + timedelta(minutes=5), size, etag), version_id)


@pytest.mark.parametrize(
    ("asked", "found", "answer"),
    [
        (target(), LOST, "v"),
        (target(etag="e"), LOST, "v"),
        (target(version_id="v"), LOST, "v"),
        (target(size=8), LOST, "no version of it matches the record"),
        (target(size=8, version_id="v"), LOST, "no version of it matches the record"),
        (target(etag="other"), LOST, "no version of it matches the record"),
        (target(size=None), LOST, "no version of it matches the record"),
        (target(), state(version("v", 0, latest=True)), "the file exists again"),
        (replace(target(), was_there=True), state(version("v", 0, latest=True)), NEVER_GONE),
        (target(), state(), "no version of it matches the record"),
        (target(), state(versioning=""), "its bucket keeps no versions"),
        (target(), state(marker("m", 60), version("v", 0), versioning="Suspended"), "versioning of its bucket is"),
        (target(), state(marker("m", 60), version("w", 3), version("v", 0)), "several versions may be the one"),
        (target(etag="e"), state(marker("m", 60), version("w", 3, etag="x"), version("v", 0)), "v"),
        (target(), state(marker("m", 60), version("v", 30)), "no version of it matches the record"),
        (target(), state(marker("m", 60), version("v", 0), whole=False), "several versions may be the one"),
        (target(), state(marker("m", 60), version("v", 0), **COLD), "its version v is in DEEP_ARCHIVE: first restore"),
        (target(), state(version("v", 0, latest=True), **COLD), "its version v is in DEEP_ARCHIVE: first restore"),
        (target(), state(marker("m", 60), version("v", 0), **THAWED), "v"),
        (target(etag="e"), state(marker("m", 60), version("w", 3, etag="x"), version("v", 0), archived={"w": "IA"}),
         "v"),
    ],
)  # fmt: skip
def test_which_version_is_the_file(asked: RestoreTarget, found: KeyState, answer: str) -> None:
    said = matching_version(asked, found)
    assert (said if isinstance(said, str) else said[0].version_id).startswith(answer)


@pytest.mark.parametrize(
    ("found", "action"),
    [
        (LOST, "remove_delete_marker"),
        (state(marker("m2", 61), marker("m", 60, latest=False), version("v", 0)), "restore_version"),
        (state(marker("null", 60), version("v", 0)), "restore_version"),
        (state(marker("m", 60), version("w", 30, size=9), version("v", 0)), "restore_version"),
        (state(marker("m", 60), version("v", 0, size=(5 << 30) + 1)), NEEDS_PERSON),
        (state(marker("m", 60), version("v", 0), **COLD), NEEDS_PERSON),
        (state(marker("m", 60), version("v", 0), **THAWED), "restore_version"),
    ],
    ids=[
        "one marker", "two markers", "a marker without id", "another version between", "too large to match",
        "archived", "archived, of which a copy can be read",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["dropped", "missing_metadata"])
def test_the_way_that_loses_nothing_comes_first(
    found: KeyState, action: str, kind: str, tmp_path: Path
) -> None:
    step = planner(tmp_path, found).step(row(kind=kind))
    assert step.action == action
    assert ("12 hours, or 48 at the bulk rate" in step.evidence.get("why", "")) == (
        found.archived == COLD["archived"] and not found.restored
    )


@pytest.mark.parametrize("name", ["remove_delete_marker", "restore_version"])
def test_a_version_that_was_archived_since_the_plan_is_left(name: str, tmp_path: Path) -> None:
    markers = (
        [marker("m", 60)]
        if name == "remove_delete_marker"
        else [marker("m2", 61), marker("m", 60, latest=False)]
    )
    step = planner(tmp_path, state(*markers, version("v", 0))).step(row())
    assert step.action == name
    assert ACTIONS[name].still_holds(step, state(*markers, version("v", 0)))
    assert not ACTIONS[name].still_holds(step, state(*markers, version("v", 0), **COLD))
    assert ACTIONS[name].still_holds(step, state(*markers, version("v", 0), **THAWED)) == (
        name == "restore_version"
    )


@dataclass
class Answers:
    """Stands for storage."""

    answer: KeyState | None

    def read(self, bucket: str, _key: str) -> KeyState:
        if self.answer is None:
            raise Unclear(f"versions of s3://{bucket} cannot be listed: access denied")
        return self.answer


def planner(folder: Path, answer: KeyState | None = LOST, allow: tuple[str, ...] = ("restore",)) -> Planner:
    file = folder / "lake.yaml"
    file.write_text(LAKE)
    lake, keys = load_lake(file, {}), cast("KeyReader", Answers(answer))
    return Planner(
        lake, "plan-1", allow, NOON.replace(tzinfo=UTC), StateReader(lake, Clients(), keys, "plan-1")
    )


def row(**given: Any) -> dict[str, Any]:
    """A discrepancy: a lost file of `orders`."""
    usual = {
        "discrepancy_id": "d1", "state": "open", "kind": "dropped", "table_name": "orders", "bucket": "lake",
        "key": "warehouse/orders/a.parquet", "manifest_size": 7, "manifest_time": CLAIM.replace(tzinfo=UTC),
        "rows_at_stake": 3, "bytes_at_stake": 7,
    }  # fmt: skip
    return dict.fromkeys(DISCREPANCIES.names) | usual | given


BY_RULE = "expired by a lifecycle rule (S3.EXPIRE.OBJECT)"
BY_SOMEBODY = "deleted (REST.DELETE.OBJECT)"
LATER = (NOON + timedelta(days=1)).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "table", "waits"),
    [
        ("uncommitted", "orders", True),
        ("unreferenced", "orders", True),
        ("unvacuumed", "orders", True),
        ("temporary", "orders", True),
        ("duplicate_content", "orders", True),
        ("uncommitted", "others", False),
        ("dropped", "orders", False),
    ],
)
@pytest.mark.parametrize("lost", ["overwritten_commit", "missing_metadata", "table_missing"])
def test_what_may_be_all_that_is_left_of_a_commit_stays(
    kind: str, table: str, lost: str, tmp_path: Path, *, waits: bool
) -> None:
    """Whatever the kind of the loss; restores are planned anyway."""
    step = replace(planner(tmp_path), losing={table: lost}).step(row(kind=kind))
    assert (f"lost or contradicts itself ({lost})" in step.evidence.get("why", "")) is waits


@pytest.mark.parametrize(
    ("losing", "why"), [({}, "run an audit"), ({"orders": "missing_metadata"}, "restore that state")]
)
def test_files_that_are_not_named_while_a_state_is_lost(
    losing: dict[str, str], why: str, tmp_path: Path
) -> None:
    """Another audit would not name them either."""
    share = Share(pa.Table.from_pylist([row(kind="uncommitted")], DISCREPANCIES), lost=True)
    (step,) = replace(planner(tmp_path), losing=losing).steps_of([share])
    assert why in step.evidence["why"]
    assert ("run an audit" in step.evidence["why"]) == (not losing)


@pytest.mark.parametrize(
    ("given", "allow", "why"),
    [
        ({}, (), "it is not known who removed it, perhaps on purpose: `--allow restore`"),
        ({}, ("restore",), None),
        ({"cause": BY_RULE}, (), None),
        ({"cause": BY_SOMEBODY}, (), "perhaps on purpose: `--allow restore`"),
        ({"cause": BY_SOMEBODY}, ("restore",), None),
        ({"cause": "a cause of next year"}, (), "perhaps on purpose"),
        (
            {"ack_by": "ann", "ack_reason": "erased", "ack_until": LATER},
            ("restore",),
            "accepted by ann: erased",
        ),
        (
            {"ack_by": "ann", "ack_reason": "erased", "ack_until": NOON.replace(tzinfo=UTC)},
            ("restore",),
            None,
        ),
        ({"table_name": "others"}, (), "the lake file does not name its table"),
        ({"key": "warehouse/orders_2/a.parquet"}, (), "outside every table"),
        ({"bucket": ""}, (), "no object of a bucket"),
        ({"bucket": "weak", "table_name": "slow", "key": "slow/a"}, (), "may lag behind writes"),
        ({"kind": "archived"}, (), "there is no automatic repair for this kind"),
        ({"kind": "a_kind_of_next_year"}, (), "there is no automatic repair for this kind"),
    ],
)
def test_what_a_program_leaves_to_a_person(
    given: dict[str, Any], allow: tuple[str, ...], why: str | None, tmp_path: Path
) -> None:
    step = planner(tmp_path, LOST, allow).step(row(**given))
    assert step.needs_person is (why is not None)
    assert (why or "") in step.evidence.get("why", "").replace("it is not an object", "no object")


@pytest.mark.parametrize("kind", KINDS)
def test_advice_for_a_person_names_the_lake_file_and_the_table(kind: str, tmp_path: Path) -> None:
    made = replace(planner(tmp_path), lake_file="/etc/my lake.yaml")
    advice = made.step(row(kind=kind, table_name="others")).evidence["do"]
    assert "LAKE_FILE" not in advice
    assert "--table TABLE" not in advice
    assert ("lakeaudit doctor '/etc/my lake.yaml'" in advice) is ("lakeaudit doctor" in advice)


COMMITS = tuple(f"{version:020}.json" for version in (2, 3, 4))
INSTANTS = tuple(f"2026110{day}000000000.commit" for day in (1, 2))
STATES = (*INSTANTS, *COMMITS, "00007-x.metadata.json")


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (f"_delta_log/{COMMITS[-1]}", COMMITS),
        (f".hoodie/{INSTANTS[-1]}", INSTANTS),
        ("metadata/00007-x.metadata.json", ("00007-x.metadata.json",)),
        ("_delta_log/_last_checkpoint", ("_last_checkpoint",)),
    ],
    ids=["commits", "instants", "metadata that needs no older one", "no state"],
)
def test_every_state_that_one_finding_speaks_for_is_restored(
    key: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    given = {"kind": "missing_metadata", "key": f"warehouse/orders/{key}", "bytes_at_stake": 9}
    steps = replace(planner(tmp_path), lost_files={"orders": STATES}).steps_for(row(**given))
    assert [str(step.key).rpartition("/")[2] for step in steps] == list(names)
    assert [step.bytes_at_stake for step in steps] == [None] * (len(names) - 1) + [9]
    assert len({step.action_id for step in steps}) == len(names)


def test_a_refusal_does_not_prove_absence(tmp_path: Path) -> None:
    step = planner(tmp_path, None).step(row())
    assert step.action == NEEDS_PERSON
    assert step.evidence["why"].startswith("versions of s3://lake cannot be listed: access denied")


def test_a_step_says_all_that_it_was_decided_on(tmp_path: Path) -> None:
    step = planner(tmp_path).step(row(cause=BY_RULE, cause_principal="AmazonS3"))
    assert step.precondition == {
        "state": "absent", "delete_marker": "m", "version_id": "v", "size": 7, "etag": "e", "listed_by": "orders",
    }  # fmt: skip
    assert (step.evidence["cause"], step.evidence["cause_principal"]) == (BY_RULE, "AmazonS3")
    assert (step.reversibility, step.rows_at_stake, step.bytes_at_stake) == (COMPENSABLE, 3, 7)
    again = Step.of_line(step.as_line())
    assert json.loads(again.as_line()) == json.loads(step.as_line())


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"plan_id": 1}', "null"])
def test_a_line_that_is_not_a_step_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match="a row of it is not a step"):
        Step.of_line(line)


def test_the_registry_names_actions_and_kinds_that_there_are() -> None:
    assert set(WAYS) <= set(KINDS)
    assert {name for ways in WAYS.values() for name in ways} | {*FOLLOWED_BY.values()} == set(ACTIONS)
    assert set(WAYS) == PLANNED, "pages say what to type by the second"
    assert {action.reversibility for action in ACTIONS.values()} <= {REVERSIBLE, COMPENSABLE, FINAL}
    final = [name for name, action in ACTIONS.items() if action.reversibility == FINAL]
    assert final == ["abort_upload"], "each such asks for a word of its own: no default plan has one"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan"], "Missing argument 'LAKE'. See lakeaudit reconcile plan --help."),
        (["plan", "lake.yaml", "-o", "x", "--kind", "nonsense"], "--kind: no kind nonsense"),
        (["plan", "lake.yaml", "-o", "x"], "lake.yaml: no such lake file"),
        (["apply", "no-such-plan"], "no-such-plan: cannot be read"),
        (["undo", "no-such-plan"], "no-such-plan: cannot be read"),
        (["apply", "x", "--limit", "0"], "--limit"),
        (["purge", "lake.yaml", "--yes"], "lake.yaml: no such lake file"),
        ([], "Missing command. See lakeaudit reconcile --help."),
    ],
)
def test_a_mistyped_option_is_reported_in_one_line(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reconcile", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_a_plan_holds_where_files_lie_and_no_alert(tmp_path: Path) -> None:
    """A plan of an earlier version holds no location, and its digest is unchanged."""
    file = tmp_path / "lake.yaml"
    file.write_text(
        "version: 1\nlake: shop\nresults: ${PLACE}\nalerts: [{url_env: SECRET}]\n"
        "tables: [{name: orders, location: 's3://b/orders', manifests: [{kind: delta}]}]\n"
    )
    data = data_of_lake(file, {"PLACE": "s3://b/results"})
    lake = lake_of_data(json.loads(json.dumps(data)))
    assert lake is not None
    assert (lake.results.uri, [table.name for table in lake.tables]) == ("s3://b/results", ["orders"])
    assert "SECRET" not in json.dumps(data)
    plan = tmp_path / "plan"
    write_plan(plan, header_of(lake, str(file), "p", (), "ann", NOON.replace(tzinfo=UTC), "1"), [])
    header, *rows = plan.read_text().splitlines(keepends=True)
    known = json.loads(header)
    assert known.pop("lake_data") == {}
    plan.write_text("".join([json.dumps(known) + "\n", *rows]))
    PlanFile.open(plan).close()


def test_the_documents_name_tests_that_exist() -> None:
    root = Path(__file__).parents[3]
    pages = [page.read_text("utf-8") for page in (root / "docs").glob("reconcile*.md")]
    named = set(re.findall(r"`(test_[a-z_]+)`", "".join(pages)))
    audits = root / "tests" / "audits"
    long_ones = root / "tests" / "soak" / "test_iceberg_files_given_up.py"
    files = [*audits.glob("test_reconcile*.py"), audits / "test_quarantine.py", long_ones, Path(__file__)]
    there = re.findall(r"^def (test_\w+)", "\n".join(file.read_text() for file in files), re.MULTILINE)
    assert len(named) > 10
    assert named <= set(there)


@pytest.mark.parametrize(
    ("touched", "files", "share", "refused"),
    [
        ({"orders": 99}, {"orders": 99}, 0.2, None),
        ({"orders": 100}, {"orders": 500}, 0.2, None),
        (
            {"orders": 101},
            {"orders": 500},
            0.2,
            "would change 101 of its 500 files, more than the ceiling of 20%",
        ),
        ({"orders": 101}, {"orders": 500}, 0.3, None),
        ({"orders": 100}, {}, 0.9, "would change 100 files, and no audit counted how many it has"),
        (
            {"a": 100, "b": 200},
            {"a": 100, "b": 100},
            0.2,
            "table b: the plan would change 200 of its 100 files",
        ),
    ],
)
def test_too_much_at_once_is_refused(
    touched: dict[str, int], files: dict[str, int], share: float, refused: str | None
) -> None:
    with pytest.raises(BadInput, match=refused) if refused else nullcontext():
        require_below("the plan", touched, files, share)
