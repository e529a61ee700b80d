"""What a reader of the dashboard needs next: the step for blind tables, the plan's effect, whole names, the place."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from lakeaudit.advice.next_steps import to_do, with_names
from lakeaudit.dashboard.queries.watermarks import Moved
from lakeaudit.dashboard.watermark_plot import _chart
from lakeaudit.formatting import second
from lakeaudit.keys import Location
from tests.builders.results import covered, discrepancy, finding, publish, run
from tests.unit.dashboard.test_dashboard import links, page, page_text, publish_open

pytestmark = pytest.mark.usefixtures("nothing_remembered")
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TIMES: dict[str, Any] = {"as_of": NOW - HOUR, "started_at": NOW - HOUR, "finished_at": NOW - HOUR}
BLIND = covered(consistent=0, undecided=10, status="partial", decided_share=None, reason="no report")
LONG = f"day=1/region={'north' * 20}/part-00000-{'a1b2c3d4' * 8}.parquet"


def _coverage_lost(table: str = "orders") -> dict[str, Any]:
    return finding(
        "coverage_lost",
        table,
        subject_type="table",
        subject=table,
        cause="no report",
        explanation=f"an audit judged the table from storage as of {second(NOW - 2 * DAY)} (usable)",
    ) | {"key": None}


def test_the_next_step_of_a_blind_table_is_visible(lake: str, place: Location) -> None:
    lost = _coverage_lost()
    publish(place, runs=[run(**TIMES)], coverage=[BLIND], findings=[lost], discrepancies=[discrepancy(lost)])
    driver = page(lake, "table", table="orders")
    folded = [each.value for box in driver.expander for each in box.text]
    advice = f"What to do: {with_names(to_do('coverage_lost'), lake, ['orders'])}"
    assert [each.value for each in driver.text].count(advice) == folded.count(advice) + 1
    commands = f"lakeaudit doctor {lake}\nlakeaudit audit {lake} --live --table orders"
    assert [each.value for each in driver.code] == [commands]
    assert commands in [
        each.value.rpartition("\n")[0] for each in page(lake, "file", id=lost["discrepancy_id"]).code
    ]
    assert f"`lakeaudit doctor {lake}` names it: repair the source" in page_text(page(lake, "lake"))


def test_a_table_is_blind_since_the_end_of_its_evidence(lake: str, place: Location) -> None:
    lost = _coverage_lost() | {"files": 83}
    held = discrepancy(lost, first_seen_at=NOW - HOUR)
    publish(place, runs=[run(**TIMES)], coverage=[BLIND], findings=[lost], discrepancies=[held])
    text = page_text(page(lake, "table", table="orders"))
    assert f"Blind since {second(NOW - 2 * DAY)} (2 d ago, noticed {second(NOW - HOUR)})." in text
    assert "83 files not judged" in text
    assert "at stake" not in text
    assert "83 files not judged." in page_text(page(lake, "file", id=lost["discrepancy_id"]))


ETL = "arn:aws:sts::1:assumed-role/nightly-etl/spark"


def test_a_plan_says_how_many_files_it_repairs_and_whom_to_ask(lake: str, place: Location) -> None:
    known = {"cause": "deleted", "cause_at": NOW - HOUR, "cause_principal": ETL}
    rows = [
        finding("dropped", f"orders/part-{n}", recoverable="yes") | (known if n < 4 else {}) for n in range(7)
    ]
    publish(place, runs=[run(**TIMES)], coverage=[covered()], findings=rows,
            discrepancies=[discrepancy(row) for row in rows])  # fmt: skip
    question = "Answer this question first: Did nightly-etl or somebody else remove them on purpose?"
    for name, address, scope in (("lake", {}, " of all severities"), ("table", {"table": "orders"}, "")):
        of = f"of 7 lost or changed files{scope}."
        text = page_text(page(lake, name, **address))
        assert f"Without --allow restore, the plan below repairs 0 {of} {question} If nobody did," in text, (
            name
        )
        allowed = page_text(page(lake, name, **address, allow="restore"))
        assert f"With --allow restore, the plan below repairs 7 {of}" in allowed, name
    assert f"4 of 7: deleted, by {ETL}; 3 of 7: not known" in text.replace("`", "")


def test_a_table_that_no_discrepancy_names_has_a_next_step_too(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[BLIND])
    assert f"What to do: `lakeaudit doctor {lake}` checks every source" in page_text(
        page(lake, "table", table="orders")
    )


def test_healthy_tables_have_no_next_step(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()])
    for name, address in {"lake": {}, "table": {"table": "orders"}}.items():
        assert "lakeaudit doctor" not in page_text(page(lake, name, **address))


def test_the_list_has_the_whole_name_and_the_time_of_the_cause(lake: str, place: Location) -> None:
    deleted = NOW - 9 * HOUR
    row = finding("dropped", f"orders/{LONG}", recoverable="yes", cause="deleted", cause_at=deleted)
    row |= {"cause_principal": "arn:aws:iam::1:user/ann"}
    held = discrepancy(row, first_seen_at=NOW - 2 * HOUR)
    publish(place, runs=[run(**TIMES)], coverage=[covered()], findings=[row], discrepancies=[held])
    driver = page(lake, "table", table="orders")
    assert f"`s3://lake/orders/{LONG}`" in [name for name, _ in links(driver)]
    text = page_text(driver)
    assert f"since {second(deleted)}" in text
    assert "Cause: deleted, by arn:aws:iam::1:user/ann." in text
    assert "yes; only with --allow restore" in text.replace("`", "")


def test_discrepancies_of_sources_do_not_count_as_a_table(lake: str, place: Location) -> None:
    row = finding("unreadable_evidence", "x", subject_type="source", subject="s3://r")
    row |= {"table_name": None, "key": None}
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], findings=[row], discrepancies=[discrepancy(row)]
    )
    assert "1 table: 1 quiet" in page_text(page(lake, "lake"))
    text = page_text(page(lake, "table", table="(no table)"))
    assert "These discrepancies are about sources and belong to no table." in text
    assert "Nothing could be judged" not in text


def test_every_page_names_the_place_of_the_results(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()])
    for name in ("lake", "table", "file", "runs", "plans"):
        text = page_text(page(lake, name))
        assert f"`{place.uri}`" in text, name
        assert f"Run the commands of this page on the host {gethostname()}" in text, name
        assert str(Path(lake)) in text, name


@pytest.mark.parametrize(
    ("apart", "ticks"),
    [(timedelta(days=1), "%Y-%m-%d"), (HOUR, "%m-%d %H:%M"), (HOUR / 30, "%H:%M"), (HOUR / 900, "%H:%M:%S")],
)
def test_the_ticks_of_verified_times_are_as_exact_as_their_span(apart: timedelta, ticks: str) -> None:
    """The audits are a day apart, and the commits `apart`: each axis has the format of its own span."""
    moved = [Moved(NOW + n * timedelta(days=1), NOW + n * apart, "forward") for n in range(6)]
    encoding = _chart(moved).to_dict()["layer"][0]["encoding"]
    assert (encoding["x"]["axis"]["format"], encoding["y"]["axis"]["format"]) == ("%Y-%m-%d", ticks)


def test_a_commit_that_only_a_person_restores_is_not_promised_to_a_plan(lake: str, place: Location) -> None:
    log: dict[str, Any] = {"category": "log", "axis": "commit", "recoverable": "yes", "storage_size": 0}
    rows = [
        finding("missing_metadata", "orders/_delta_log/3.json", discrepancy_id="1", **log),
        finding("overwritten_commit", "orders/_delta_log/3.json", discrepancy_id="2", **log),
    ]
    publish_open(place, rows)
    text = page_text(page(lake, "lake"))
    hint = "expiry date not known: restore this file soon; 1 other finding has no automatic repair"
    assert f"recoverable: yes; only by hand (see the finding overwritten_commit); {hint}" in text


def test_every_page_of_a_table_says_that_the_last_audit_failed(lake: str, place: Location) -> None:
    lost = finding("dropped", "orders/a")
    failed = run("r2", "failed", as_of=NOW, started_at=NOW, finished_at=NOW, error="no credentials")
    publish(
        place,
        runs=[run(**TIMES), failed],
        coverage=[covered()],
        findings=[lost],
        discrepancies=[discrepancy(lost)],
    )
    for driver in (page(lake, "table", table="orders"), page(lake, "file", uri=lost["subject"])):
        assert "The last audit failed: run r2" in page_text(driver)
        assert "no credentials" in page_text(driver)
    (label,) = [name for name, _ in links(page(lake, "lake")) if name.startswith("the last one")]
    assert label.startswith("the last one: failed, "), "it judged nothing: no number of tables"
    assert "judged" not in label


def test_the_last_plan_says_what_became_of_its_steps(lake: str, place: Location) -> None:
    plan = {
        "plan_id": "p", "lake": "shop", "status": "undone", "created_at": NOW - HOUR, "steps": 23, "for_person": 20,
    }  # fmt: skip
    lost = finding("dropped", "orders/a")
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered()],
        findings=[lost],
        discrepancies=[discrepancy(lost)],
        plans=[plan],
    )
    (label,) = [name for name, _ in links(page(lake, "lake")) if name.startswith("the last plan")]
    words = "the last plan: 23 steps applied and undone again, and 20 more findings for a person"
    assert label.partition(";")[0] == words


def test_tables_without_a_manifest_are_named(lake: str, place: Location) -> None:
    bare = [covered(consistent=None, files=None, status="off", decided_share=None), covered(axis="metastore")]
    publish(place, runs=[run(**TIMES)], coverage=bare)
    words = (
        "Without a manifest, a lost file of 1 table (orders) is only noticed if a metadata store lists it."
    )
    assert words in page_text(page(lake, "lake"))
