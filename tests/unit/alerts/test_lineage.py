"""The event for collectors of lineage: one per run, bounded, worst tables first."""

import json

from jsonschema import Draft202012Validator

from lakeaudit.alerts.lineage import LARGEST, event
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
    sent = event(Results(place, Clients(), LAKE), places, "https://lake.example")
    assert sent is not None
    Draft202012Validator(document_schema("openlineage")).validate(sent)
    facet = sent["run"]["facets"]["lakeaudit"]
    assert len(json.dumps(sent)) <= LARGEST
    assert (facet["tables"], facet["tablesLeftOut"]) == (1200, 1200 - len(sent["inputs"]))
    assert facet["tablesLeftOut"] > 0
    assert facet["page"] == "https://lake.example/runs?run=r1"
    assert sent["inputs"][0]["name"] == names[-1]


def test_there_is_no_event_before_the_first_audit(place: Location) -> None:
    assert event(Results(place, Clients(), LAKE), {}) is None
