"""Describes an audit for OpenLineage, as a run whose inputs are the tables, each with assertions.

Events: "RunEvent" of spec 2-0-2; facets: DataQualityAssertionsDatasetFacet 1-1-0, DataQualityMetricsInputDatasetFacet
1-0-3. Names of datasets: bucket and path, by the spec's naming of S3.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from lakeaudit.formatting import count
from lakeaudit.json_documents import Assertion, Empty, LineageEvent, LineageTable, MetricsFacet
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from lakeaudit.results.read import Results, Row

_NONE: Empty = {}
_PRODUCER = "urn:lakeaudit:lineage"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ASSERTIONS = (
    f"{_SPEC}/facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet"
)
_METRICS = f"{_SPEC}/facets/1-0-3/DataQualityMetricsInputDatasetFacet.json#/$defs/DataQualityMetricsInputDatasetFacet"


def events(results: Results, places: Mapping[str, Location]) -> list[LineageEvent]:
    """Return the start and end events of the last published run; empty before the first."""
    run = results.last_published()
    if run is None:
        return []
    coverage, totals = results.coverage(run["run_id"]), results.totals(run["run_id"])
    tables = [name for name in dict.fromkeys(row["table_name"] for row in coverage) if name in places]
    inputs = [_dataset(name, places[name], coverage, totals) for name in tables]
    return [_event("START", run["started_at"], run, []), _event("COMPLETE", run["finished_at"], run, inputs)]


def _event(
    kind: Literal["START", "COMPLETE"], at: datetime, run: Row, inputs: list[LineageTable]
) -> LineageEvent:
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {
            "runId": str(uuid5(NAMESPACE_URL, f"lakeaudit:{run['lake']}:{run['run_id']}")),
            "facets": _NONE,
        },
        "job": {"namespace": "lakeaudit", "name": run["lake"], "facets": _NONE},
        "inputs": inputs,
        "outputs": [],
    }


def _dataset(name: str, place: Location, coverage: Sequence[Row], totals: Sequence[Row]) -> LineageTable:
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
        "facets": _NONE,
        "inputFacets": {
            "dataQualityAssertions": {
                "_producer": _PRODUCER,
                "_schemaURL": _ASSERTIONS,
                "assertions": assertions,
            },
            "dataQualityMetrics": _metrics(rows),
        },
    }


def _assertions(row: Row, wrong: int) -> Iterator[Assertion]:
    """Yield whether an axis was decided, and whether it has no findings, if that is known."""
    if row["status"] == "off":
        return
    whole = row["status"] == "complete" and not (row["undecided"] or row["uncovered"])
    yield {
        "assertion": f"lakeaudit.{row['axis']}.decided",
        "success": whole,
        "expected": "complete",
        "actual": row["status"] + (f": {row['reason']}" if row["reason"] else ""),
    }
    if whole or wrong:
        yield {
            "assertion": f"lakeaudit.{row['axis']}",
            "success": not wrong,
            "expected": "no finding of severity warning or higher",
            "actual": f"{count(wrong)} findings",
        }


def _metrics(rows: Sequence[Row]) -> MetricsFacet:
    facet: MetricsFacet = {"_producer": _PRODUCER, "_schemaURL": _METRICS, "columnMetrics": _NONE}
    content = next((row for row in rows if row["axis"] == "content"), None)
    if content is not None and content["files"] is not None:
        facet["fileCount"] = content["files"]
    if content is not None and content["bytes"] is not None:
        facet["bytes"] = content["bytes"]
    return facet
