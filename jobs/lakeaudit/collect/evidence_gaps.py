"""Collects evidence gaps of the whole run, and turns them into findings."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from lakeaudit.config import Ignore, Lake, Table, glob_to_regex
from lakeaudit.errors import one_line
from lakeaudit.evidence.protocol import EvidenceGap, SourceInfo
from lakeaudit.findings.unread_sources import UnreadSource
from lakeaudit.formatting import in_utc
from lakeaudit.keys import identify
from lakeaudit.kinds import KINDS, UNREADABLE, rank

SAMPLES = 3
LONGEST_CAUSE = 400
"""Number of characters of the cause of a source that could not be read in full."""
MOST_NOTES = 1000
"""Up to this number each note of a part becomes a gap; the rest of a source becomes one gap."""

Finding = dict[str, Any]


def all_evidence_gaps(
    holes: Sequence[EvidenceGap], counts: Mapping[str, Mapping[str, Any]], notes: Sequence[Mapping[str, Any]]
) -> tuple[EvidenceGap, ...]:
    """Return gaps of readers, gaps that the reading of parts has shown, and one per source with rejected rows.

    `counts` has rows, rejected and a sample by source; `notes` are NOTE rows with a reason.
    """
    rejected = [
        EvidenceGap(
            source,
            f"{count['rejected']} of {count['rows']} rows could not be understood, for example: {count['sample']}",
            count=count["rejected"],
        )
        for source, count in counts.items()
        if count.get("rejected")
    ]
    return (*holes, *_of_notes(notes), *rejected)


def sources_with_gaps(holes: Sequence[EvidenceGap]) -> frozenset[str]:
    """Return the ids of sources that could not be read in full; a gap of one table's log concerns that table alone."""
    return frozenset(hole.source for hole in holes if hole.table is None)


def gap_text(gap: EvidenceGap, place: str) -> str:
    """Return the subject of a gap, or the place of its source, and the reason."""
    at = gap.subject or place
    names_it = gap.reason.startswith(at.rstrip("/"))
    return gap.reason if names_it else f"{at}: {gap.reason}"


def unread_sources(infos: Sequence[SourceInfo], gaps: Sequence[EvidenceGap]) -> dict[str, list[UnreadSource]]:
    """Return by role the places of sources with gaps that do not concern a single table, and the gaps in words."""
    by_id = {info.id: info for info in infos}
    texts: dict[str, list[UnreadSource]] = {}
    for gap in gaps:
        if gap.table is None and (info := by_id.get(gap.source)) is not None:
            texts.setdefault(info.role, []).append((info.location, gap_text(gap, info.location)))
    return texts


def gap_findings(
    lake: Lake,
    scope: Sequence[Table],
    infos: Sequence[SourceInfo],
    holes: Sequence[EvidenceGap],
    vacuums: Sequence[Mapping[str, Any]],
    today: date,
    others: Sequence[Finding] = (),
) -> list[Finding]:
    """Return FINDINGS rows: missing files of a table's log, sources with gaps, assumed vacuums, and `others`.

    `vacuums` has vacuumed (a table), vacuumed_to (a time, UTC where it has no zone) and vacuumed_files. What the lake
    file turns off, or ignores on the day `today`, is left out.
    """
    tables = {table.name: table for table in scope}
    own = [_of_log(hole, tables[hole.table]) for hole in holes if hole.table in tables and hole.kind]
    assumed = [_of_vacuum(row, tables[row["vacuumed"]]) for row in vacuums if row["vacuumed"] in tables]
    rows = [*_unique([*own, *others]), *_of_sources(lake, infos, holes), *assumed]
    return not_ignored(lake, tables, rows, today)


def not_ignored(
    lake: Lake, tables: Mapping[str, Table], rows: Sequence[Finding], today: date
) -> list[Finding]:
    """Return the findings that the lake file neither turns off nor ignores on the day `today`."""
    ignores = [entry for entry in lake.ignores if entry.holds_on(today)]
    return [
        row
        for row in rows
        if row["severity"] != "off"
        and not any(_matches(entry, row, tables.get(row.get("table_name", ""))) for entry in ignores)
    ]


def _of_notes(notes: Sequence[Mapping[str, Any]]) -> Iterator[EvidenceGap]:
    for note in notes[:MOST_NOTES]:
        yield EvidenceGap(note["source"], note["reason"], note["subject"] or "", count=note["count"] or 1)
    rest: dict[str, list[int]] = defaultdict(list)
    for note in notes[MOST_NOTES:]:
        rest[note["source"]].append(note["count"] or 1)
    for source, more in rest.items():
        yield EvidenceGap(source, f"{len(more)} more parts were not read completely", count=sum(more))


def _matches(entry: Ignore, row: Finding, table: Table | None) -> bool:
    """Whether every list of the entry matches; no entry with `tables` or `paths` matches a source at large."""
    if entry.kinds is not None and row["kind"] not in entry.kinds:
        return False
    if entry.tables is not None and not _any_glob(entry.tables, table.name if table else None):
        return False
    return entry.paths is None or _any_glob(entry.paths, _relative(row, table))


def _relative(row: Finding, table: Table | None) -> str | None:
    """Return the key below the table's location; None if the row is not about a file there."""
    if (
        table is None
        or row["subject_type"] not in ("file", "commit")
        or not table.location.holds(row["bucket"], row["key"])
    ):
        return None
    return str(row["key"]).removeprefix(table.location.prefix)


def _any_glob(globs: Sequence[str], text: str | None) -> bool:
    return text is not None and any(re.search(glob_to_regex(glob), text) for glob in globs)


def _of_log(hole: EvidenceGap, table: Table) -> Finding:
    kind = hole.kind if hole.kind in KINDS else UNREADABLE
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
        "recoverable": "unknown" if kind == "missing_metadata" else None,
        "explanation": _gap_words(hole),
    }


def _gap_words(gap: EvidenceGap) -> str:
    """Return the fault of a table's own file as a sentence, and the content that is unknown because of it."""
    fault = f"this file{gap.reason[2:]}" if gap.reason.startswith("it ") else gap.reason
    return f"{fault}; this hides {gap.hides}" if gap.hides else fault


def _of_sources(lake: Lake, infos: Sequence[SourceInfo], holes: Sequence[EvidenceGap]) -> Iterator[Finding]:
    """Yield one row for each source with gaps that do not concern a single table."""
    locations = {info.id: info.location for info in infos}
    by_source: dict[str, list[EvidenceGap]] = defaultdict(list)
    for hole in holes:
        if hole.table is None:
            by_source[hole.source].append(hole)
    for source in sorted(by_source):
        yield _of_source(source, locations.get(source, source), by_source[source], lake)


def _of_source(source: str, location: str, holes: Sequence[EvidenceGap], lake: Lake) -> Finding:
    samples = "; ".join(f"{hole.subject} {hole.reason}".strip() for hole in holes[:SAMPLES])
    more = f" and {len(holes) - SAMPLES} more" if len(holes) > SAMPLES else ""
    return {
        "axis": "source",
        "kind": UNREADABLE,
        "severity": lake.severities.get(UNREADABLE, KINDS[UNREADABLE].severity),
        "subject_type": "source",
        "subject": f"{source} {location}",
        "files": sum(hole.count for hole in holes),
        "confirmation": "not_needed",
        "cause": one_line(f"{location}: {samples}{more}", LONGEST_CAUSE),
        "explanation": f"{samples}{more}",
    }


def _of_vacuum(row: Mapping[str, Any], table: Table) -> Finding:
    until = in_utc(row["vacuumed_to"]).strftime("%Y-%m-%dT%H:%M:%SZ")
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
        "explanation": f"storage has none of the files that the table removed before {until}; perhaps a VACUUM "
        "deleted these files, but the log does not record a VACUUM; versions of the table from before that "
        "time cannot be read",
    }


def _unique(rows: Sequence[Finding]) -> list[Finding]:
    """Merge rows of one subject and kind, the worst first: two causes at one file are one finding."""
    merged: dict[tuple[Any, ...], Finding] = {}
    for row in sorted(rows, key=lambda row: rank(row["severity"])):
        at = (row["table_name"], row["axis"], row["subject_type"], row["subject"], row["kind"])
        known = merged.get(at)
        merged[at] = (
            row if known is None else known | {"explanation": f"{known['explanation']}; {row['explanation']}"}
        )
    return list(merged.values())
