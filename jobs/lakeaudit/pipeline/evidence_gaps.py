"""What could not be read: holes of the whole run, and the findings they become."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation

from lakeaudit.config import Lake, Table
from lakeaudit.evidence.protocol import Hole
from lakeaudit.keys import identify
from lakeaudit.kinds import KINDS
from lakeaudit.pipeline.read_sources import Observed

SAMPLES = 3


def counted(observed: Observed) -> dict[str, Mapping[str, Any]]:
    """rows, rejected and a sample per storage and metastore source, after its frame has run."""
    return {source: _answer(watch) for source, watch in observed.rejects.items()}


def all_holes(observed: Observed, counts: Mapping[str, Mapping[str, Any]]) -> tuple[Hole, ...]:
    """Holes known from reading, and one for each source with rows that could not be understood."""
    rejected = [
        Hole(source, f"{count['rejected']} of {count['rows']} rows could not be understood, such as: {count['sample']}",
             count=count["rejected"])
        for source, count in counts.items() if count.get("rejected")
    ]  # fmt: skip
    return (*observed.holes, *rejected)


def blind_findings(
    lake: Lake, scope: Sequence[Table], observed: Observed, holes: Sequence[Hole], vacuums: DataFrame
) -> list[dict[str, Any]]:
    """Rows for FINDINGS: files of a table's own log that are gone, sources with gaps, vacuums that were assumed."""
    tables = {table.name: table for table in scope}
    own = [_of_log(hole, tables[hole.table]) for hole in holes if hole.table in tables]
    locations = {info.id: info.location for info in observed.infos}
    at_large = [hole for hole in holes if hole.table is None]
    sources = [_of_source(s, locations.get(s, s), [h for h in at_large if h.source == s], lake)
               for s in sorted({hole.source for hole in at_large})]  # fmt: skip
    assumed = [
        _of_vacuum(row.asDict(), tables[row["vacuumed"]])
        for row in vacuums.collect()
        if row["vacuumed"] in tables
    ]
    return [row for row in [*_unique(own), *sources, *assumed] if row["severity"] != "off"]


def _answer(watch: Observation) -> Mapping[str, Any]:
    """A frame that Spark found no need to run, such as an empty one, gives no counts, or never answers."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: watch.get)
        try:
            return asked.result(timeout=20)
        except NoAnswer:
            return _NOTHING
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _NO_ROW:
                raise
            return _NOTHING


_NOTHING = {"rows": 0, "rejected": 0, "sample": None}
_NO_ROW = "java.lang.AssertionError"
"""What becomes of the row of an observation that was optimized away (Spark 4.1, PythonSQLUtils.toPyRow)."""


def _of_log(hole: Hole, table: Table) -> dict[str, Any]:
    kind = hole.kind if hole.kind in KINDS else "unreadable_evidence"
    place = identify(hole.subject) if hole.subject else None
    bucket, key = place or (table.location.bucket, table.location.prefix)
    return {
        "table_name": table.name,
        "axis": KINDS[kind].axis,
        "kind": kind,
        "severity": table.severity_of(kind, KINDS[kind].severity),  # type: ignore[arg-type]
        "subject_type": "file" if hole.subject else "table",
        "subject": hole.subject or table.name,
        "bucket": bucket,
        "key": key,
        "category": "log",
        "files": hole.count,
        "confirmation": "not_needed",
        "explanation": f"{hole.reason}" + (f"; hides {hole.hides}" if hole.hides else ""),
    }


def _of_source(source: str, location: str, holes: Sequence[Hole], lake: Lake) -> dict[str, Any]:
    samples = "; ".join(f"{hole.subject} {hole.reason}".strip() for hole in holes[:SAMPLES])
    more = f" and {len(holes) - SAMPLES} more" if len(holes) > SAMPLES else ""
    return {
        "axis": "source",
        "kind": "unreadable_evidence",
        "severity": lake.severities.get("unreadable_evidence", KINDS["unreadable_evidence"].severity),
        "subject_type": "source",
        "subject": f"{source} {location}",
        "files": sum(hole.count for hole in holes),
        "confirmation": "not_needed",
        "explanation": f"{samples}{more}",
    }


def _of_vacuum(row: Mapping[str, Any], table: Table) -> dict[str, Any]:
    until = row["vacuumed_to"].strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "table_name": table.name,
        "axis": "content",
        "kind": "dropped_history",
        "severity": "off" if table.severities.get("dropped_history") == "off" else "info",
        "subject_type": "table",
        "subject": table.name,
        "files": row["vacuumed_files"],
        "confirmation": "not_needed",
        "recoverable": "unknown",
        "explanation": f"every file removed up to {until} is absent, as after a VACUUM that the log does not record: "
        "states before then cannot be read any more",
    }


def _unique(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per subject: two causes at one file are one finding."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        at = (row["table_name"], row["axis"], row["subject_type"], row["subject"])
        known = merged.get(at)
        merged[at] = (
            row if known is None else known | {"explanation": f"{known['explanation']}; {row['explanation']}"}
        )
    return list(merged.values())
