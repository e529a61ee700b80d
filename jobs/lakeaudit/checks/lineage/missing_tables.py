"""Yield witnesses of tables of which no state can be read any more, if storage itself proves it.

A denied or throttled answer proves nothing and stays an evidence gap; so does a format that is not supported.
"""

from collections.abc import Iterator
from dataclasses import replace

from lakeaudit.collect.evidence import Evidence
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import ensure_bucket, older_files
from lakeaudit.evidence.lineage import (
    ABSENT,
    CATALOG,
    CONTENT,
    MISSING_TABLE,
    NOT_KNOWN,
    LastState,
    MissingState,
    Stake,
    Witness,
)
from lakeaudit.evidence.protocol import Claims, TableState
from lakeaudit.evidence.registry import formats, roots
from lakeaudit.keys import Location

SAMPLES = 3


def missing_table_witnesses(evidence: Evidence) -> Iterator[Witness]:
    """Yield a witness for each table of which no reader can read a state."""
    places = {table.name: table.location for table in evidence.scope}
    buckets: dict[str, str] = {}
    for read in evidence.observed.sources.claims:
        for name, state in read.states.items():
            last = evidence.context.last_states.get((read.info.kind, name))
            if name not in places:
                continue
            gone = (
                "" if state.missing else _lost_its_bucket(evidence, read, state, places[name], last, buckets)
            )
            if state.missing or gone:
                yield _missing_table(
                    evidence, replace(state, refused=state.refused or gone), places[name], read, last
                )


def _lost_its_bucket(
    evidence: Evidence,
    read: Claims,
    state: TableState,
    location: Location,
    last: LastState | None,
    buckets: dict[str, str],
) -> str:
    """Return why a bucket in which an audit has read the table cannot be read; empty if it can.

    If no audit has read the table there, the name or the endpoint may be wrong. A table without a log can be read
    without its bucket, so every run checks that bucket with one request; `buckets` has the answers.
    """
    if last is None or last.location != location.uri:
        return ""
    if state.refused is None and read.info.kind in formats():
        return ""
    if location.bucket not in buckets:
        try:
            ensure_bucket(evidence.context.clients, location)
            buckets[location.bucket] = ""
        except SourceError as error:
            buckets[location.bucket] = str(error)
    return buckets[location.bucket]


def _missing_table(
    evidence: Evidence, state: TableState, location: Location, read: Claims, last: LastState | None
) -> Witness:
    detail = state.missing_state
    gaps = [gap for gap in read.holes if gap.table == state.table and gap.kind == "missing_metadata"]
    whys = [f"{gap.subject}: {gap.reason}" for gap in gaps[:SAMPLES]] or [state.refused or ""]
    older = _older_log(evidence, location, read.info.kind) if state.missing == ABSENT else ""
    restore = detail.restore if detail else ""
    words = "; ".join(filter(None, [*whys, _last_read(last), restore, older]))
    subject = gaps[0].subject if gaps else _subject(detail, last) or location.uri
    proof = (CATALOG if detail and detail.named_by else CONTENT,)
    stake = NOT_KNOWN if last is None else Stake(last.files, None, last.bytes)
    number = None if last is None else last.state.number
    return Witness(state.table, MISSING_TABLE, proof, subject, words, number, stake)


def _subject(detail: MissingState | None, last: LastState | None) -> str:
    """Return the missing file: in an empty folder the file that was read last; empty if none is known."""
    if detail is None:
        return ""
    return detail.subject + last.state.name if detail.subject.endswith("/") and last else detail.subject


def _last_read(last: LastState | None) -> str:
    if last is None:
        return ""
    files = "" if last.files is None else f" with {last.files:,} files"
    subject = "it" if last.state.number is None else f"version {last.state.number}"
    return f"the audit of {last.as_of:%Y-%m-%dT%H:%M:%SZ} read {subject}{files}"


def _older_log(evidence: Evidence, location: Location, kind: str) -> str:
    """Describe how a missing log can be restored if the store keeps its versions; empty if that is not known."""
    if kind not in roots() or not evidence.context.live or location.is_local or location.is_azure:
        return ""
    folder = location.join(roots()[kind].folder)
    try:
        files = older_files(evidence.context.clients, folder, SAMPLES)
    except SourceError:
        return ""
    if not files:
        return "the store keeps no older version of its log"
    return f"older versions of its log's files can be restored, such as {', '.join(files)} below {folder.uri}"
