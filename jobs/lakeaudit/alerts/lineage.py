"""Describes an audit for OpenLineage, as a run whose inputs are the tables, each with assertions.

Events: "RunEvent" of spec 2-0-2; facets: DataQualityAssertionsDatasetFacet 1-1-0, DataQualityMetricsInputDatasetFacet
1-0-3, ParentRunFacet 1-0-1. Names of datasets: bucket and path, by the spec's naming of S3.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import NAMESPACE_URL, uuid5

from lakeaudit.dashboard.addresses import run_address, table_address
from lakeaudit.errors import one_line
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
_PARENT = f"{_SPEC}/facets/1-0-1/ParentRunFacet.json#/$defs/ParentRunFacet"
_NAMESPACE = "lakeaudit"
_AUDIT = "urn:lakeaudit:lineage:audit:1"
_METRICS = f"{_SPEC}/facets/1-0-3/DataQualityMetricsInputDatasetFacet.json#/$defs/DataQualityMetricsInputDatasetFacet"


LONGEST_REASON = 500
"""Number of characters of a reason, so that the event of a table is small."""
LARGEST = 100_000
"""The most bytes of an event; collectors refuse large ones. Tables that do not fit are counted."""


def events(
    results: Results,
    places: Mapping[str, Location],
    dashboard: str | None = None,
    *,
    of_tables: bool = False,
) -> list[LineageEvent]:
    """Return the event of the last published run, whose inputs are its tables, the worst first; none before the first.

    Args:
        results: the results of the lake.
        places: the locations of tables; a table without one is left out.
        dashboard: the address of the dashboard; None: there is none.
        of_tables: whether events of the tables follow, each a run of its own whose parent is the audit.
    """
    run = results.last_published()
    if run is None:
        return []
    totals = results.totals(run["run_id"])
    wrong = _wrong_axes(totals)
    by_table: dict[str, list[Row]] = {}
    for row in results.coverage(run["run_id"]):
        by_table.setdefault(row["table_name"], []).append(row)
    tables = [name for name in by_table if name in places]
    worst_first = sorted(tables, key=lambda name: (-sum(wrong.get(name, {}).values()), name))
    inputs = {name: _dataset(places[name], by_table[name], wrong.get(name, {})) for name in worst_first}
    page = run_address(dashboard, run["run_id"], lake=run["lake"]) if dashboard else None
    whole = _bounded(_event(run, [*inputs.values()], totals, page))
    if not of_tables:
        return [whole]
    return [whole, *(_table_event(run, name, each, totals, dashboard) for name, each in inputs.items())]


def _table_event(
    run: Row, name: str, table: LineageTable, totals: Sequence[Row], dashboard: str | None
) -> LineageEvent:
    """Return the event of one table of an audit."""
    mine = [row for row in totals if row["table_name"] == name]
    page = table_address(dashboard, name, lake=run["lake"]) if dashboard else None
    event = _event(run, [table], mine, page, name)
    event["run"]["facets"]["parent"] = {
        "_producer": _PRODUCER,
        "_schemaURL": _PARENT,
        "run": {"runId": _run_uuid(run)},
        "job": {"namespace": _NAMESPACE, "name": run["lake"]},
    }
    return event


def _run_uuid(run: Row, *table: str) -> str:
    return str(uuid5(NAMESPACE_URL, ":".join(("lakeaudit", run["lake"], run["run_id"], *table))))


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
    run: Row, inputs: list[LineageTable], totals: Sequence[Row], page: str | None, *table: str
) -> LineageEvent:
    """Return the event of a run, or of its part about one table."""
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
        "page": page,
    }
    return {
        "eventType": "COMPLETE",
        "eventTime": run["finished_at"].isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {
            "runId": _run_uuid(run, *table),
            "facets": {"lakeaudit": facet},
        },
        "job": {"namespace": _NAMESPACE, "name": "/".join((run["lake"], *table)), "facets": _NONE},
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
        "actual": row["status"] + (f": {one_line(row['reason'], LONGEST_REASON)}" if row["reason"] else ""),
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
