"""Build a row with all references for each object that a delete list may name, and judge it by the rules of `guard`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.guard.references import Doubt
from lakeaudit.keys import Location
from lakeaudit.matching.pairs import category_by_name
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.guard_rules import FACTS, GUARD
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import GUARDED, plain_time

FEW_DOUBTS = 3


@dataclass(frozen=True)
class KeyEvidence:
    """What is known about the keys of a list.

    Attributes:
        keys: LISTED_KEY rows.
        claims: CLAIM rows of these keys, after the newest commits.
        objects: LIVE rows of the keys that were requested from storage.
        reads: bucket, key and r_read, a sentence about the last read.
        doubts: tables that could not be read completely.
        longest: by table the longest of its last commits.
        retention: by table how long a removed file is promised to readers.
        read_at: when the newest commits were read.
    """

    keys: Relation
    claims: Relation
    objects: Relation
    reads: pa.Table
    doubts: Sequence[Doubt]
    longest: Mapping[str, timedelta]
    retention: Mapping[str, timedelta]
    read_at: datetime


def judged_keys(con: Connection, tables: Sequence[Table], evidence: KeyEvidence) -> Relation:
    """Return GUARDED rows with the status of each key and its reason."""
    fired = apply_rules(con, _guarded(con, tables, evidence), FACTS, {"guard": GUARD})
    meaning = duck.small(_MEANING, [(rule.id, rule.verdict, rule.because) for rule in GUARD])
    sql = "SELECT fired.* EXCLUDE rule_guard, status, because FROM fired JOIN meaning ON rule_guard = id"
    return duck.query(con, sql, fired=fired, meaning=meaning)


_MEANING = pa.schema([("id", pa.string()), ("status", pa.string()), ("because", pa.string())])


def _guarded(con: Connection, tables: Sequence[Table], evidence: KeyEvidence) -> Relation:
    """Return GUARDED rows of the keys."""
    doubts = evidence.doubts
    owned = attach_label(con, evidence.keys, roots(tables), "owner")
    doubted = attach_label(con, owned, _reasons_by_place(doubts), "local_doubt")
    everywhere = duck.literal(_joined_reasons([each for each in doubts if each.place is None]) or None)
    sql = f"""
        SELECT k.bucket, k.key, owner, substr(k.key, root_length + 1) AS relative, r.* EXCLUDE (bucket, key), r_read,
            nullif(concat_ws('; ', local_doubt, {everywhere}), '') AS r_unknown,
            l_presence AS presence, l_size AS size, l_etag AS etag, l_version_id AS version_id,
            l_modified_at AS modified_at, coalesce(l_multipart, contains(l_etag, '-')) AS by_parts,
            {duck.literal(plain_time(evidence.read_at))} AS now, leftover_age AS o_leftover_age,
            max_upload AS o_max_upload, longest AS o_longest, by_folder AS o_by_folder, complete AS o_complete
        FROM keys k LEFT JOIN refs r USING (bucket, key) LEFT JOIN objects o USING (bucket, key)
        LEFT JOIN reads USING (bucket, key) LEFT JOIN owners ON owner = name
    """
    joined = duck.query(
        con, sql, keys=doubted, refs=_references(con, evidence.claims, evidence.retention), objects=evidence.objects,
        reads=evidence.reads, owners=_owners(tables, evidence.longest),
    )  # fmt: skip
    return duck.conform(con, joined, GUARDED, {"name_category": category_by_name("coalesce(relative, key)")})


def _references(con: Connection, claims: Relation, retention: Mapping[str, timedelta]) -> Relation:
    """Return one row for each claimed key."""
    live, history = "FILTER (state = 'live')", "FILTER (state = 'history')"
    sql = f"""
        SELECT bucket, key, arg_max(table_name, own_root) {live} AS r_live_table,
            max(own_root) {live} AS r_live_here,
            coalesce(arg_max(category, own_root) {live}, min(category) {history}) AS r_category,
            arg_max(records, own_root) {live} AS r_records, arg_max(table_version, own_root) {live} AS r_version,
            min(table_name) {history} AS r_history_table, max(removed_at + retention) {history} AS r_until,
            coalesce(bool_or(state = 'gone'), false) AS r_gone
        FROM claims LEFT JOIN retention ON table_name = name GROUP BY bucket, key
    """
    return duck.query(con, sql, claims=claims, retention=duck.small(_RETENTION, [*retention.items()]))


_RETENTION = pa.schema([("name", pa.string()), ("retention", pa.duration("us"))])


def _owners(tables: Sequence[Table], longest: Mapping[str, timedelta]) -> pa.Table:
    rows = [
        (
            table.name,
            len(table.location.prefix),
            table.settings.leftover_age,
            table.settings.max_upload,
            longest.get(table.name),
            table.read_by_folder,
            table.complete,
        )
        for table in tables
    ]
    return duck.small(_OWNER, rows)


_OWNER = pa.schema(
    [
        ("name", pa.string()),
        ("root_length", pa.int64()),
        ("leftover_age", pa.duration("us")),
        ("max_upload", pa.duration("us")),
        ("longest", pa.duration("us")),
        ("by_folder", pa.bool_()),
        ("complete", pa.bool_()),
    ]
)


def _reasons_by_place(doubts: Sequence[Doubt]) -> dict[Location, str]:
    """Return for each place with doubts the reasons of all places that contain it."""
    local = [each for each in doubts if each.place is not None]
    places = {each.place for each in local if each.place is not None}
    return {
        place: _joined_reasons(
            [each for each in local if each.place is not None and each.place.contains(place)]
        )
        for place in places
    }


def _joined_reasons(doubts: Sequence[Doubt]) -> str:
    """Return the first doubts as one text; empty if there are none."""
    words = list(dict.fromkeys(f"{each.table}: {each.why}" for each in doubts))
    more = [f"and {len(words) - FEW_DOUBTS} more"] if len(words) > FEW_DOUBTS else []
    return "; ".join([*words[:FEW_DOUBTS], *more])
