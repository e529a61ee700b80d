"""Describes an audit for OpenLineage, as a run whose inputs are the tables, each with assertions.

Events: "RunEvent" of spec 2-0-2; facets: DataQualityAssertionsDatasetFacet 1-1-0, DataQualityMetricsInputDatasetFacet
1-0-3. Names of datasets: bucket and path, by the spec's naming of S3.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lakeaudit.formatting import count
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from lakeaudit.results.read import Results, Row

Event = dict[str, Any]

_PRODUCER = "urn:lakeaudit:lineage"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ASSERTIONS = "facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet"
_METRICS = "facets/1-0-3/DataQualityMetricsInputDatasetFacet.json#/$defs/DataQualityMetricsInputDatasetFacet"


def events(results: Results, places: Mapping[str, Location]) -> list[Event]:
    """Return the start and end events of the last published run; empty before the first."""
    run = results.last_published()
    if run is None:
        return []
    coverage, totals = results.coverage(run["run_id"]), results.totals(run["run_id"])
    tables = [name for name in dict.fromkeys(row["table_name"] for row in coverage) if name in places]
    inputs = [_dataset(name, places[name], coverage, totals) for name in tables]
    return [_event("START", run["started_at"], run, []), _event("COMPLETE", run["finished_at"], run, inputs)]


def _event(kind: str, at: datetime, run: Row, inputs: list[Event]) -> Event:
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {"runId": str(uuid5(NAMESPACE_URL, f"lakeaudit:{run['lake']}:{run['run_id']}")), "facets": {}},
        "job": {"namespace": "lakeaudit", "name": run["lake"], "facets": {}},
        "inputs": inputs,
        "outputs": [],
    }


def _dataset(name: str, place: Location, coverage: Sequence[Row], totals: Sequence[Row]) -> Event:
    rows = [row for row in coverage if row["table_name"] == name]
    wrong: dict[str, int] = {}
    for row in totals:
        if row["table_name"] == name and row["severity"] != "info" and row["kind"] in KINDS:
            axis = KINDS[row["kind"]].axis
            wrong[axis] = wrong.get(axis, 0) + row["findings"]
    assertions = [each for row in rows for each in _assertions(row, wrong.get(row["axis"], 0))]
    return {
        "namespace": "file" if place.is_local else Location(place.bucket, "").uri.rstrip("/"),
        "name": place.key if place.bucket else f"/{place.key}",
        "facets": {},
        "inputFacets": {
            "dataQualityAssertions": _facet(_ASSERTIONS, assertions=assertions),
            "dataQualityMetrics": _facet(_METRICS, columnMetrics={}, **_size(rows)),
        },
    }


def _assertions(row: Row, wrong: int) -> Iterator[Event]:
    """Yield whether an axis was decided, and whether it has no findings, if that is known."""
    if row["status"] == "off":
        return
    whole = row["status"] == "complete" and not (row["undecided"] or row["uncovered"])
    decided = {"actual": row["status"] + (f": {row['reason']}" if row["reason"] else "")}
    yield {
        "assertion": f"lakeaudit.{row['axis']}.decided",
        "success": whole,
        "expected": "complete",
    } | decided
    if whole or wrong:
        compared = {
            "expected": "no finding of severity warning or higher",
            "actual": f"{count(wrong)} findings",
        }
        yield {"assertion": f"lakeaudit.{row['axis']}", "success": not wrong} | compared


def _size(rows: Sequence[Row]) -> Event:
    content = next((row for row in rows if row["axis"] == "content"), None)
    known = {"fileCount": content["files"], "bytes": content["bytes"]} if content else {}
    return {name: number for name, number in known.items() if number is not None}


def _facet(schema: str, **fields: Any) -> Event:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/{schema}", **fields}
