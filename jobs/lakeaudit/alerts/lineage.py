"""Describes an audit for OpenLineage, as a run whose inputs are the tables, each with assertions.

Events: "RunEvent" of spec 2-0-2; facets: DataQualityAssertionsDatasetFacet 1-1-0, DataQualityMetricsInputDatasetFacet
1-0-3. Names of datasets: bucket and path, by the spec's naming of S3.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import NAMESPACE_URL, uuid5

from lakeaudit.dashboard.addresses import run_address
from lakeaudit.formatting import count
from lakeaudit.json_documents import Assertion, AuditFacet, Empty, LineageEvent, LineageTable, MetricsFacet
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
_AUDIT = "urn:lakeaudit:lineage:audit:1"
_METRICS = f"{_SPEC}/facets/1-0-3/DataQualityMetricsInputDatasetFacet.json#/$defs/DataQualityMetricsInputDatasetFacet"


LARGEST = 100_000
"""The most bytes of an event; collectors refuse large ones. Tables that do not fit are counted."""


def event(
    results: Results, places: Mapping[str, Location], dashboard: str | None = None
) -> LineageEvent | None:
    """Return the event of the last published run, whose inputs are its tables, the worst first; None before the first.

    Args:
        results: the results of the lake.
        places: the locations of tables; a table without one is left out.
        dashboard: the address of the dashboard; None: there is none.
    """
    run = results.last_published()
    if run is None:
        return None
    totals = results.totals(run["run_id"])
    wrong = _wrong_axes(totals)
    by_table: dict[str, list[Row]] = {}
    for row in results.coverage(run["run_id"]):
        by_table.setdefault(row["table_name"], []).append(row)
    tables = [name for name in by_table if name in places]
    worst_first = sorted(tables, key=lambda name: (-sum(wrong.get(name, {}).values()), name))
    inputs = [_dataset(places[name], by_table[name], wrong.get(name, {})) for name in worst_first]
    return _bounded(_event(run, inputs, totals, dashboard))


def _bounded(whole: LineageEvent) -> LineageEvent:
    """Return the event with as many of its inputs as fit."""
    facet, inputs = whole["run"]["facets"]["lakeaudit"], whole["inputs"]
    size = len(json.dumps({**whole, "inputs": []})) + 20
    fitting = 0
    for each in inputs:
        size += len(json.dumps(each)) + 2
        if size > LARGEST:
            break
        fitting += 1
    facet["tablesLeftOut"] = len(inputs) - fitting
    return {**whole, "inputs": inputs[:fitting]}


def _wrong_axes(totals: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return by table and axis the number of findings above info."""
    wrong: dict[str, dict[str, int]] = {}
    for row in totals:
        if row["severity"] != "info" and row["kind"] in KINDS and row["table_name"]:
            of_table, axis = wrong.setdefault(row["table_name"], {}), KINDS[row["kind"]].axis
            of_table[axis] = of_table.get(axis, 0) + row["findings"]
    return wrong


def _event(
    run: Row, inputs: list[LineageTable], totals: Sequence[Row], dashboard: str | None
) -> LineageEvent:
    findings: dict[str, int] = {}
    for row in totals:
        findings[row["severity"]] = findings.get(row["severity"], 0) + row["findings"]
    facet: AuditFacet = {
        "_producer": _PRODUCER,
        "_schemaURL": _AUDIT,
        "auditId": run["run_id"],
        "status": run["status"],
        "startedAt": run["started_at"].isoformat(),
        "tables": len(inputs),
        "tablesLeftOut": 0,
        "findings": findings,
        "page": run_address(dashboard, run["run_id"]) if dashboard else None,
    }
    return {
        "eventType": "COMPLETE",
        "eventTime": run["finished_at"].isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {
            "runId": str(uuid5(NAMESPACE_URL, f"lakeaudit:{run['lake']}:{run['run_id']}")),
            "facets": {"lakeaudit": facet},
        },
        "job": {"namespace": "lakeaudit", "name": run["lake"], "facets": _NONE},
        "inputs": inputs,
        "outputs": [],
    }


def _dataset(place: Location, rows: Sequence[Row], wrong: Mapping[str, int]) -> LineageTable:
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
