"""Many tables in one run: one message with totals, one incident, and its end."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from email import message_from_string
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.alerts.dispatch import round_of
from lakeaudit.alerts.message_text import plan_label
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.catcher import Catcher, catching, receiving_mail
from tests.builders.results import LAKE, NOON, discrepancy, finding, lake_file, publish, run, transition

HOUR = timedelta(hours=1)
TABLES = [f"t{n}" for n in range(7)]
OWNERS = [{"match": "t[012]", "owner": "sales"}, {"match": "t[34]", "owner": "finance"}]


@pytest.fixture
def caught() -> Iterator[Catcher]:
    with catching() as catcher:
        yield catcher


def loss(table: str, kind: str = "dropped", **columns: Any) -> Row:
    return finding(
        kind, f"{table}/part-0", table_name=table, rows_at_stake=50, bytes_at_stake=4096, recoverable="yes",
        recoverable_until=NOON + timedelta(days=5), recovery="delete_marker", recovery_version_id="v1",
        storage_version_id="m1", cause="expired by a lifecycle rule", **columns,
    )  # fmt: skip


def blind(table: str, cause: str) -> Row:
    return finding(
        "coverage_lost", table, table_name=table, axis="coverage", subject_type="table", severity="error",
        cause=cause, cause_at=NOON - 9 * HOUR, files=9,
    )  # fmt: skip


class Nights:
    """A lake whose nights are published one after the other, each followed by a round."""

    def __init__(
        self,
        folder: Path,
        route: dict[str, Any],
        address: str,
        names: Sequence[str] = TABLES,
        owners: Sequence[dict[str, str]] = OWNERS,
    ) -> None:
        self.place = Location.parse(str(folder / "results"))
        tables = [{"name": t, "location": f"s3://lake/{t}", "manifests": [{"kind": "delta"}]} for t in names]
        self.file = lake_file(
            folder,
            self.place,
            tables=tables,
            alerts=[route],
            owners=owners,
            dashboard_url="https://lake.example/x/",
        )
        self.env = {"TO": address}
        self.night = 0
        self.publish()

    def publish(self, *rows: tuple[Row, str]) -> None:
        """Publish a run with these discrepancies: (finding, transition); `still` has no transition."""
        self.night += 1
        at, id_ = NOON + self.night * HOUR, f"r{self.night}"
        shutil.rmtree(Path(self.place.join("discrepancies").spark_path), ignore_errors=True)
        changed = [(row, how) for row, how in rows if how != "still"]
        publish(
            self.place, runs=[run(id_, finished_at=at)],
            discrepancies=[
                discrepancy(row, "resolved" if how == "resolved" else "open",
                            last_run_id="r0" if how == "still" else id_,
                            resolution="restored" if how == "resolved" else None)
                for row, how in rows
            ],
            transitions=[transition(row, how, run_id=id_, transition_id=f"{id_}{row['table_name']}{row['kind']}")
                         for row, how in changed],
        )  # fmt: skip
        lake = load_lake(self.file, {})
        context = AlertContext(lake, "lake.yaml", Results(self.place, Clients(), LAKE), Clients(), self.env,
                               at + timedelta(minutes=1), "footer")  # fmt: skip
        self.done = round_of(context)


PLAN = "lakeaudit reconcile plan lake.yaml --kind dropped -o plan.jsonl"


def test_a_storm_is_one_message_with_totals_owners_and_one_plan(tmp_path: Path, caught: Catcher) -> None:
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, f"json://127.0.0.1:{caught.port}/")
    stray = finding("uncommitted", "t6/x", table_name="t6")
    nights.publish(*((loss(table), "opened") for table in TABLES), (stray, "opened"))
    (post,) = caught.posts
    assert post["title"] == (
        "lakeaudit shop: CRITICAL: 7 files dropped in 7 tables of 2 owners, 350 rows, "
        "recoverable: 7 of 7, until 2026-11-26 12:00:00Z (and 1 other finding)"
    )
    sections = post["message"].split("\n\n")
    assert sections[0].splitlines() == [
        "CRITICAL: 7 files dropped in 7 tables of 2 owners",
        "  the table lists the file, but storage has no current object for it",
        "  at stake: 7 files, 350 rows, 28.0 KiB",
        "  since 2026-11-21 12:00:00Z; cause: expired by a lifecycle rule",
        "  recoverable: 7 of 7, until 2026-11-26 12:00:00Z",
        "  owner sales: t0, t1, t2",
        "  owner finance: t3, t4",
        "  without owner: t5, t6",
        "  more: lakeaudit discrepancies lake.yaml --kind dropped",
        "  first: if a job or a rule still removes files, stop it",
        f"  {plan_label(PLAN)}: {PLAN}",
        "  This plan covers everything that is open of this kind, also what earlier messages reported",
    ]
    assert sections[1].splitlines()[0] == "WARNING: 1 uncommitted file in t6"
    assert sections[2] == "page: https://lake.example/x/?lake=shop"
    assert sections[3].splitlines()[-1] == "footer"
    assert len(sections) == 4


@pytest.mark.variant
def test_a_storm_is_one_incident_until_its_last_table_is_well(
    tmp_path: Path, caught: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    url = f"{caught.url}/v2/enqueue"
    monkeypatch.setitem(pagerduty.PAGERDUTY_API_LOOKUP, pagerduty.PagerDutyRegion.US, url)
    route = {"kind": "apprise", "url_env": "TO"}
    nights = Nights(tmp_path, route, "pagerduty://integrationkey@apikey")
    nights.publish(*((loss(table), "opened") for table in TABLES))
    first, *rest = TABLES
    nights.publish((loss(first), "resolved"), *((loss(table), "still") for table in rest))
    nights.publish(*((loss(table), "resolved") for table in rest))
    nights.publish((loss(first), "reopened"))
    events = [(post["dedup_key"], post["event_action"]) for post in caught.posts]
    storm, own = events[0][0], events[-1][0]
    assert events == [(storm, "trigger"), (storm, "trigger"), (storm, "resolve"), (own, "trigger")]
    assert own != storm
    assert "7 files dropped in 7 tables of 2 owners" in json.dumps(caught.posts[0])


@pytest.mark.variant
def test_few_tables_have_an_incident_and_a_section_each(
    tmp_path: Path, caught: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    url = f"{caught.url}/v2/enqueue"
    monkeypatch.setitem(pagerduty.PAGERDUTY_API_LOOKUP, pagerduty.PagerDutyRegion.US, url)
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, "pagerduty://integrationkey@apikey")
    nights.publish(*((loss(table), "opened") for table in TABLES[:5]))
    assert len({post["dedup_key"] for post in caught.posts}) == 5


@pytest.mark.variant
def test_lost_coverage_of_many_tables_names_the_cause_and_the_owners(tmp_path: Path, caught: Catcher) -> None:
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, f"json://127.0.0.1:{caught.port}/")
    cause = "no storage source could be read (s3://inventories: no complete report)"
    nights.publish(*((blind(table, cause), "opened") for table in TABLES))
    (post,) = caught.posts
    assert post["title"].startswith(
        "lakeaudit shop: COVERAGE LOST (error) in 7 tables of 2 owners: no storage source could be read"
    )
    assert f"since 2026-11-21 12:00:00Z; cause: {cause}" in post["message"]
    assert "owner sales: t0, t1, t2" in post["message"]
    assert "repair:" not in post["message"]
    assert post["message"].count("  do") == post["message"].count("--live --table") == 1
    assert "  do (example for t0): Repair the source" in post["message"]


@pytest.mark.variant
@pytest.mark.parametrize(
    ("tables", "more"), [(10, ""), (11, " and 1 more table"), (14, " and 4 more tables")]
)
def test_lost_coverage_names_the_first_ten_tables_of_an_owner_and_counts_the_others(
    tmp_path: Path, caught: Catcher, tables: int, more: str
) -> None:
    of_sales = [f"sales.t{n:02}" for n in range(tables)]
    names = [*of_sales, "finance.t"]
    owners = [{"match": "sales.*", "owner": "sales"}, {"match": "finance.*", "owner": "finance"}]
    address = f"json://127.0.0.1:{caught.port}/"
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, address, names, owners)
    nights.publish(*((blind(table, "no complete report"), "opened") for table in names))
    (post,) = caught.posts
    headline = f"COVERAGE LOST (error) in {tables + 1} tables of 2 owners"
    assert post["title"] == f"lakeaudit shop: {headline}: no complete report"
    lines = post["message"].splitlines()
    at = lines.index(f"  owner sales: {', '.join(of_sales[:10])}{more}")
    assert lines[at + 1] == "  owner finance: finance.t"


CAUSES = [
    pytest.param(
        lambda table, cause: loss(table) | {"cause": cause},
        ("expired by a lifecycle rule", "deleted, by a job"),
        "CRITICAL: {} files dropped in {} tables",
        "7 files dropped in 7 tables of 2 owners",
        id="dropped",
    ),
    pytest.param(
        blind,
        ("no complete report", "the log cannot be read"),
        "COVERAGE LOST (error) in {1} tables",
        "COVERAGE LOST (error) in 7 tables of 2 owners",
        id="lost coverage",
    ),
]


@pytest.mark.variant
@pytest.mark.parametrize(("row", "causes", "beginning", "title"), CAUSES)
def test_a_storm_with_two_causes_has_a_section_for_each_cause(
    tmp_path: Path,
    caught: Catcher,
    row: Callable[[str, str], Row],
    causes: tuple[str, str],
    beginning: str,
    title: str,
) -> None:
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, f"json://127.0.0.1:{caught.port}/")
    first, second = causes
    nights.publish(
        *((row(table, first), "opened") for table in TABLES[:4]),
        *((row(table, second), "opened") for table in TABLES[4:]),
    )
    (post,) = caught.posts
    assert title in post["title"]
    assert not any(cause in post["title"] for cause in causes), "no cause is that of all tables"
    sections = [section.splitlines() for section in post["message"].split("\n\n")[:2]]
    assert [lines[0] for lines in sections] == [
        beginning.format(4, 4) + " of 2 owners",
        beginning.format(3, 3) + " of 1 owner",
    ]
    reasons = [[line for line in lines if "; cause: " in line] for lines in sections]
    assert [line.partition("; cause: ")[2] for (line,) in reasons] == [first, second]
    owners = [[line for line in lines if "owner" in line and line is not lines[0]] for lines in sections]
    assert owners == [
        ["  owner sales: t0, t1, t2", "  owner finance: t3"],
        ["  without owner: t5, t6", "  owner finance: t4"],
    ]


@pytest.mark.variant
def test_a_message_links_to_the_pages_of_its_tables(tmp_path: Path, caught: Catcher) -> None:
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, f"json://127.0.0.1:{caught.port}/")
    nights.publish((loss("t0"), "opened"))
    (post,) = caught.posts
    assert "  owner: sales\n" in post["message"]
    assert "  page: https://lake.example/x/table?lake=shop&table=t0\n" in post["message"]


@pytest.mark.variant
def test_alertmanager_gets_an_alert_for_each_table_kind_and_severity(tmp_path: Path, caught: Catcher) -> None:
    nights = Nights(tmp_path, {"kind": "alertmanager", "url_env": "TO"}, caught.url)
    stray = finding("uncommitted", "t0/x", table_name="t0")
    source = finding(
        "unreadable_evidence", "inventory", table_name=None, axis="source", subject_type="source"
    )
    nights.publish((loss("t0"), "opened"), (stray, "opened"), (source, "opened"))
    nights.publish((loss("t0"), "resolved"), (stray, "still"), (source, "still"))
    opened, closed = caught.posts
    labels = [alert["labels"] for alert in opened]
    common = {"alertname": "lakeaudit", "lake": "shop"}
    table = {**common, "table": "t0", "owner": "sales", "about": "table"}
    assert sorted(labels, key=lambda each: str(each["kind"])) == [
        {**table, "kind": "dropped", "severity": "critical"},
        {**table, "kind": "uncommitted", "severity": "warning"},
        {**common, "about": "source", "kind": "unreadable_evidence", "severity": "warning"},
    ]
    assert {alert.get("generatorURL") for alert in opened} >= {
        "https://lake.example/x/table?lake=shop&table=t0"
    }
    ends = {alert["labels"]["kind"]: alert["endsAt"] > alert["startsAt"] for alert in closed}
    assert ends == {"dropped": False, "uncommitted": True}


@pytest.mark.variant
@pytest.mark.parametrize(("tables", "requests"), [(100, [100]), (101, [100, 1]), (230, [100, 100, 30])])
def test_alertmanager_gets_at_most_a_hundred_alerts_in_a_request(
    tmp_path: Path, caught: Catcher, tables: int, requests: list[int]
) -> None:
    names = [f"t{n:03}" for n in range(tables)]
    nights = Nights(tmp_path, {"kind": "alertmanager", "url_env": "TO"}, caught.url, names)
    nights.publish(*((loss(table), "opened") for table in names))
    assert [len(post) for post in caught.posts] == requests
    assert set(caught.paths) == {"/api/v2/alerts"}
    alerts = [alert["labels"]["table"] for post in caught.posts for alert in post]
    assert sorted(alerts) == names
    assert (nights.done.sent, nights.done.failures) == (1, ())


@pytest.mark.variant
def test_an_alert_has_the_text_of_its_own_kind(tmp_path: Path, caught: Catcher) -> None:
    """The newest message reports that another discrepancy of the table is over."""
    nights = Nights(tmp_path, {"kind": "alertmanager", "url_env": "TO"}, caught.url)
    stray = finding("uncommitted", "t0/x", table_name="t0")
    nights.publish((loss("t0"), "opened"), (stray, "opened"))
    nights.publish((loss("t0"), "still"), (stray, "resolved"))
    texts = [
        {alert["labels"]["kind"]: alert["annotations"]["description"] for alert in post}
        for post in caught.posts
    ]
    assert texts[1]["dropped"] == texts[0]["dropped"]
    assert texts[0]["dropped"].splitlines()[:3] == [
        "CRITICAL: 1 file dropped in t0",
        "  the table lists the file, but storage has no current object for it",
        "  at stake: 1 file, 50 rows, 4.0 KiB",
    ]
    assert "uncommitted" not in texts[0]["dropped"]
    assert texts[1]["uncommitted"].startswith("RESOLVED: 1 uncommitted file in t0\n")


@pytest.mark.variant
def test_a_new_owner_ends_the_alert_of_the_old_one_in_the_next_round(tmp_path: Path, caught: Catcher) -> None:
    nights = Nights(tmp_path, {"kind": "alertmanager", "url_env": "TO"}, caught.url)
    nights.publish((loss("t0"), "opened"))
    tables = [{"name": t, "location": f"s3://lake/{t}", "manifests": [{"kind": "delta"}]} for t in TABLES]
    route = {"kind": "alertmanager", "url_env": "TO"}
    owners = [{"match": "t0", "owner": "finance"}]
    nights.file = lake_file(tmp_path, nights.place, tables=tables, alerts=[route], owners=owners)
    nights.publish((loss("t0"), "still"))
    first, second = caught.posts
    ends = [
        {alert["labels"]["owner"]: alert["endsAt"] > alert["startsAt"] for alert in post}
        for post in (first, second)
    ]
    assert ends == [{"sales": True}, {"sales": False, "finance": True}]
    nights.publish((loss("t0"), "still"))
    assert len(caught.posts) == 2


@pytest.mark.variant
def test_an_alert_keeps_the_owner_of_a_table_that_only_audits_discover(
    tmp_path: Path, caught: Catcher
) -> None:
    """`lakeaudit alert` reads no catalog, so it does not discover the table."""
    nights = Nights(tmp_path, {"kind": "alertmanager", "url_env": "TO"}, caught.url)
    reports = [{"kind": "s3_inventory", "location": "s3://inv/"}]
    discover = [{"discover": {"from": "inventory", "under": ["s3://lake/"], "owner": "sales"}}]
    nights.file = lake_file(tmp_path, nights.place, tables=discover, inventories=reports,
                            alerts=[{"kind": "alertmanager", "url_env": "TO"}])  # fmt: skip
    publish(nights.place, tables=[{"lake": LAKE, "table_name": "t0", "owner": "sales"}])
    nights.publish((loss("t0"), "opened"))
    nights.publish((loss("t0"), "still"))
    (post,) = caught.posts
    assert [alert["labels"]["owner"] for alert in post] == ["sales"]


@pytest.mark.variant
def test_a_new_route_gets_no_backlog(tmp_path: Path, caught: Catcher) -> None:
    quiet = Nights(tmp_path, {"kind": "apprise", "url_env": "NOBODY"}, "")
    quiet.publish((loss("t0"), "opened"))
    quiet.publish((loss("t0"), "still"), (loss("t1"), "opened"))
    route = {"kind": "apprise", "url_env": "TO", "repeat": "1h"}
    quiet.file = lake_file(tmp_path, quiet.place, alerts=[route])
    quiet.env = {"TO": f"json://127.0.0.1:{caught.port}/"}
    quiet.publish((loss("t0"), "still"), (loss("t1"), "still"), (loss("t2"), "opened"))
    (post,) = caught.posts
    assert (
        post["title"] == "lakeaudit shop: CRITICAL: 1 file dropped in t2; open in all: 3 critical in 3 tables"
    )
    quiet.publish((loss("t0"), "still"), (loss("t1"), "still"), (loss("t2"), "still"))
    assert "STILL OPEN" in caught.posts[-1]["title"]


@pytest.mark.variant
def test_opsgenie_opens_and_closes_an_alert_by_its_alias(
    tmp_path: Path, caught: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import opsgenie

    monkeypatch.setitem(opsgenie.OPSGENIE_API_LOOKUP, opsgenie.OpsgenieRegion.US, f"{caught.url}/v2/alerts")
    caught.body = b'{"requestId": "1"}'
    key = "12345678-1234-1234-1234-123456789012"
    nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, f"opsgenie://{key}")
    nights.publish((loss("t0"), "opened"))
    nights.publish((loss("t0"), "resolved"))
    opened, closed = caught.posts
    assert nights.done.failures == ()
    assert opened["message"].startswith("lakeaudit shop: CRITICAL: 1 file dropped in t0")
    assert caught.paths == ["/v2/alerts", f"/v2/alerts/{opened['alias']}/close?identifierType=alias"]
    assert (closed["source"], "RESOLVED" in closed["note"]) == ("lakeaudit", True)
    ((_, _), (_, headers)) = caught.raw
    assert headers["authorization"] == f"GenieKey {key}"


@pytest.mark.variant
def test_a_mail_server_gets_a_mail_with_the_totals_as_its_subject(tmp_path: Path) -> None:
    with receiving_mail() as box:
        address = f"mailto://localhost:{box.port}/?from=audit@example.com&to=data@example.com"
        nights = Nights(tmp_path, {"kind": "apprise", "url_env": "TO"}, address)
        nights.publish(*((loss(table), "opened") for table in TABLES))
    assert nights.done.failures == ()
    (text,) = box.mails
    mail = message_from_string(text)
    assert (mail["To"], mail.get_content_type()) == ("data@example.com", "text/plain")
    subject = str(make_header(decode_header(mail["Subject"])))
    assert subject.startswith("lakeaudit shop: CRITICAL: 7 files dropped in 7 tables of 2 owners, 350 rows")
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert b"owner sales: t0, t1, t2" in body
