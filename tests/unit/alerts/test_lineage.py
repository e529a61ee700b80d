"""The event for collectors of lineage: one per run, bounded, worst tables first."""

import json

from jsonschema import Draft202012Validator

from lakeaudit.alerts.lineage import LARGEST, events
from lakeaudit.documents import document_schema
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import LAKE, covered, finding, publish, run


def test_the_event_of_a_large_lake_is_bounded_and_names_the_worst_tables(place: Location) -> None:
    names = [f"db.table{n:04}" for n in range(1200)]
    publish(
        place, runs=[run()], coverage=[covered(table_name=name) for name in names],
        findings=[finding("dropped", "x/y", table_name=names[-1], rows_at_stake=1)],
    )  # fmt: skip
    places = {name: Location.parse(f"s3://lake/{name}") for name in names}
    (sent,) = events(Results(place, Clients(), LAKE), places, "https://lake.example")
    Draft202012Validator(document_schema("openlineage")).validate(sent)
    facet = sent["run"]["facets"]["lakeaudit"]
    assert len(json.dumps(sent)) <= LARGEST
    assert (facet["tables"], facet["tablesLeftOut"]) == (1200, 1200 - len(sent["inputs"]))
    assert facet["tablesLeftOut"] > 0
    assert facet["page"] == "https://lake.example/runs?lake=shop&run=r1"
    assert sent["inputs"][0]["name"] == names[-1]


def test_tables_have_runs_of_their_own_on_request(place: Location) -> None:
    long = "no inventory " * 20_000
    publish(
        place, runs=[run()],
        coverage=[covered("orders"), covered("events", status="partial", reason=long, decided_share=None)],
        findings=[finding("dropped", "x/y", table_name="orders")],
    )  # fmt: skip
    places = {name: Location.parse(f"s3://lake/{name}") for name in ("orders", "events")}
    results = Results(place, Clients(), LAKE)
    whole, *tables = events(results, places, "https://lake.example/x", of_tables=True)
    for sent in (whole, *tables):
        Draft202012Validator(document_schema("openlineage")).validate(sent)
        assert len(json.dumps(sent)) <= LARGEST
    assert "parent" not in whole["run"]["facets"]
    assert [each["job"]["name"] for each in tables] == ["shop/orders", "shop/events"], "the worst first"
    assert len({each["run"]["runId"] for each in (whole, *tables)}) == 3
    orders = tables[0]["run"]["facets"]
    assert orders["parent"]["run"]["runId"] == whole["run"]["runId"]
    assert orders["parent"]["job"]["name"] == whole["job"]["name"]
    assert orders["lakeaudit"]["findings"] == {"critical": 1}
    assert orders["lakeaudit"]["page"] == "https://lake.example/x/table?lake=shop&table=orders"
    assert [table["name"] for table in tables[0]["inputs"]] == ["orders"]


def test_there_is_no_event_before_the_first_audit(place: Location) -> None:
    assert events(Results(place, Clients(), LAKE), {}) == []
