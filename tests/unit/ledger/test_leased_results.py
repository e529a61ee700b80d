"""A run whose lease another run may have taken over while it stood still writes nothing any more."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from lakeaudit.alerts.dispatch import round_of
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.config import load_lake
from lakeaudit.errors import Busy
from lakeaudit.keys import Location
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.execution.journal import APPLIED, PLANNED, STARTED, Journal, StepResult
from lakeaudit.reconcile.plans.plan_file import Header
from lakeaudit.reconcile.steps import Step
from lakeaudit.results import delta_writer
from lakeaudit.results.acknowledgements import Ack, append_transitions, put_ack, put_ack_on_all
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import FINDINGS
from tests.builders.results import discrepancy, finding, publish, run
from tests.conftest import Aws

NOW = datetime.now(UTC)
HEADER = Header(
    1, "0", "plan-1", "shop", "lake.yaml", "d", "me", NOW.isoformat(), (NOW + timedelta(days=1)).isoformat(), (), 200
)  # fmt: skip
STEP = Step(
    "plan-1", "action-1", "d1", "orders", "dropped", "restore_version", "lake", "a.parquet", {}, {}, "", "reversible",
    "", 1, 1,
)  # fmt: skip
ACK = Ack("me", "known", NOW + timedelta(days=9))
ROW = {"discrepancy_id": "d1", "kind": "dropped", "severity": "critical", "owner": None}


def raise_busy() -> None:
    raise Busy("results/_lease", "another run may have taken over", "run it again")


def result_files(folder: Path) -> dict[str, int]:
    """Every file of the results but those that delta-rs only prepared."""
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if file.suffix != ".parquet"}


def journal_with(done: StepResult) -> Callable[[Results], Any]:
    def put(results: Results) -> None:
        journal = Journal(results, "plan-1")
        journal.put_batch(0, [STEP], {"action-1": done})
        journal.fold()

    return put


def alerts(results: Results) -> None:
    path = Path(results.place.spark_path).with_name("lake.yaml")
    path.write_text(
        f"version: 1\nlake: shop\nresults: {results.place.spark_path}\n"
        f"tables: [{{name: orders, location: '{path.parent}/orders', manifests: [{{kind: delta}}]}}]\n"
        "alerts: [{kind: apprise, url_env: NOBODY, min_severity: info}]\n"
    )
    env = {"NOBODY": "json://127.0.0.1:9/"}
    lake = load_lake(path, env)
    round_of(AlertContext(lake, "lake.yaml", results, Clients(), env, datetime.now(UTC)))


WRITES: dict[str, Callable[[Results], Any]] = {
    "the record of a plan": lambda results: Journal(results, "plan-1").put_plan(HEADER, PLANNED),
    "the record of a started step": journal_with(StepResult(STARTED, undo={"kind": "dropped"}, at=NOW)),
    "the record of an applied step": journal_with(StepResult(APPLIED, undo={}, at=NOW)),
    "an acceptance": lambda results: put_ack(results, ["d1"], ACK),
    "an acceptance of all": lambda results: put_ack_on_all(results, ACK),
    "the transition of an acceptance": lambda results: append_transitions(results, [ROW], ACK, NOW),
    "a message": alerts,
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_after_another_took_over(tmp_path: Path, name: str) -> None:
    place = Location.parse(str(tmp_path / "results"))
    row = finding("dropped", "warehouse/orders/a.parquet", discrepancy_id="d1")
    publish(place, runs=[run()], findings=[row], discrepancies=[discrepancy(row)])
    results, before = Results(place, Clients(), "shop"), result_files(tmp_path / "results")
    with pytest.raises(Busy):
        WRITES[name](results.leased_by(raise_busy))
    assert result_files(tmp_path / "results") == before
    WRITES[name](results.leased_by(lambda: None))
    assert result_files(tmp_path / "results") != before


def test_what_was_read_again_is_still_under_the_lease(tmp_path: Path) -> None:
    results = Results(Location.parse(str(tmp_path)), Clients(), "shop").leased_by(raise_busy)
    with pytest.raises(Busy):
        results.again().require_lease()


def test_a_record_is_not_folded_by_a_run_that_was_overtaken(tmp_path: Path) -> None:
    """Its record is older than that of the run which took over; as it ends, it must not write that back."""
    place, lease = Location.parse(str(tmp_path)), [False]

    def require_lease() -> None:
        if lease[0]:
            raise_busy()

    ours = Results(place, Clients(), "shop").leased_by(require_lease)
    with pytest.raises(Busy), Journal(ours, "plan-1").recording() as journal:  # noqa: PT012 - all of it is the run
        journal.put_batch(0, [STEP], {"action-1": StepResult(STARTED, undo={"kind": "dropped"}, at=NOW)})
        others = Journal(Results(place, Clients(), "shop"), "plan-1")
        with others.recording():
            others.put_batch(0, [STEP], {"action-1": StepResult(APPLIED, undo={}, at=NOW)})
        lease[0] = True
        journal.put_batch(0, [STEP], {"action-1": StepResult(STARTED, "not seen", at=NOW)})
    assert Journal(Results(place, Clients(), "shop"), "plan-1").batch(0)["action-1"].status == APPLIED


def test_a_stream_whose_lease_ends_while_it_is_written_is_not_committed(tmp_path: Path) -> None:
    place, asked = Location.parse(str(tmp_path)), list[int]()

    def for_a_while() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise_busy()

    writer = ResultsWriter(Results(place, Clients(), "shop"), for_a_while)
    rows = pa.Table.from_pylist(
        [{"run_id": "r", "lake": "shop", "as_of_date": NOW.date(), "key": "k"}], FINDINGS
    )
    with pytest.raises(Busy):
        writer.write("findings", rows, "r")
    assert Results(place, Clients(), "shop").delta("findings") is None


def test_a_conflict_with_the_other_run_does_not_count_as_a_fault_of_the_store(tmp_path: Path) -> None:
    place, lost = Location.parse(str(tmp_path)), [False]

    def require_lease() -> None:
        if lost[0]:
            raise_busy()

    with (  # noqa: PT012 - both are the write
        pytest.raises(Busy),
        delta_writer.writing(Results(place, Clients(), "shop").leased_by(require_lease), "plans"),
    ):
        lost[0] = True
        raise CommitFailedError("a concurrent transaction deleted data that this operation read")


def test_the_lease_is_checked_before_each_canary_and_after_them(
    aws: Aws, clients: Clients, bucket: str, tmp_path: Path
) -> None:
    """They take many requests, and what follows them may act. Those that are there are the other run's then."""
    asked, most = list[int](), 0

    def for_a_while() -> None:
        asked.append(len(aws.s3.list_objects_v2(Bucket=bucket).get("Contents", ())))
        if len(asked) > most:
            raise_busy()

    for most in range(11):  # noqa: B007 - `for_a_while` reads it
        asked.clear()
        with pytest.raises(Busy):
            Forms(clients, Location.parse(str(tmp_path)), for_a_while).honoured(bucket)
    assert asked[0] > 0 == asked[-1]


def test_what_a_killed_run_left_of_its_canaries_is_removed_by_the_next(
    aws: Aws, clients: Clients, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeaudit.reconcile import canary

    results = Location.parse(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(canary._Canary, "remove", lambda _: None)
        Forms(clients, results, lambda: None).honoured(bucket)
    assert aws.s3.list_objects_v2(Bucket=bucket)["KeyCount"] > 0
    Forms(clients, results, lambda: None).honoured(bucket)
    assert aws.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
