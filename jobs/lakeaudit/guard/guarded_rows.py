"""Build a row with all references for each object that a delete list may name, and judge it by the rules of `guard`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.guard.doubts import Doubt
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
        found: REFERENCED_KEY rows.
        newer: rows of `Changes`, from the commits since the manifests were read.
        objects: FOUND_OBJECT rows of the keys that no table needs.
        reads: bucket, key and r_read, a sentence about the last read.
        doubts: tables that could not be read completely.
        longest: by table the longest of its last commits.
        read_at: when the newest commits were read.
    """

    found: Relation
    newer: Relation
    objects: Relation
    reads: pa.Table
    doubts: Sequence[Doubt]
    longest: Mapping[str, timedelta]
    read_at: datetime


def judged_keys(con: Connection, tables: Sequence[Table], evidence: KeyEvidence) -> Relation:
    """Return GUARDED rows with the status of each key and its reason."""
    fired = apply_rules(con, _guarded(con, tables, evidence), FACTS, {"guard": GUARD})
    meaning = duck.small(_MEANING, [(rule.id, rule.verdict, rule.because) for rule in GUARD])
    sql = "SELECT fired.* EXCLUDE rule_guard, status, because FROM fired JOIN meaning ON rule_guard = meaning.id"
    return duck.query(con, sql, fired=fired, meaning=meaning)


_MEANING = pa.schema([("id", pa.string()), ("status", pa.string()), ("because", pa.string())])


def _guarded(con: Connection, tables: Sequence[Table], evidence: KeyEvidence) -> Relation:
    """Return GUARDED rows of the keys."""
    owned = attach_label(con, _newest(con, evidence), roots(tables), "owner")
    read_by_folder = roots([table for table in tables if table.read_by_folder])
    around = attach_label(con, owned, read_by_folder, "around")
    doubted = attach_label(con, around, _reasons_by_place(evidence.doubts), "local_doubt")
    everywhere = duck.literal(
        _joined_reasons([each for each in evidence.doubts if each.place is None]) or None
    )
    relative = "substr(k.key, coalesce(root_length, 0) + 1)"
    sql = f"""
        SELECT k.* EXCLUDE (local_doubt, around), o.* EXCLUDE (bucket, key),
            r_read, nullif(concat_ws('; ', local_doubt, {everywhere}), '') AS r_unknown,
            CASE WHEN r_live_table IS NULL THEN {category_by_name(relative)} END AS name_category,
            {duck.literal(plain_time(evidence.read_at))} AS now, leftover_age AS o_leftover_age,
            max_upload AS o_max_upload, longest AS o_longest, by_folder AS o_by_folder,
            coalesce(around <> owner, false) AS o_by_outer_folder, complete AS o_complete
        FROM keys k LEFT JOIN objects o USING (bucket, key) LEFT JOIN reads USING (bucket, key)
        LEFT JOIN owners ON owner = name
    """
    joined = duck.query(
        con, sql, keys=doubted, objects=evidence.objects, reads=evidence.reads,
        owners=_owners(tables, evidence.longest),
    )  # fmt: skip
    return duck.conform(con, joined, GUARDED)


def _newest(con: Connection, evidence: KeyEvidence) -> Relation:
    """Return REFERENCED_KEY rows after the newest commits: some list a key, others no longer do."""
    sql = """
        WITH changed AS (
            SELECT bucket, key, min(table_name) FILTER (state = 'live') AS n_live,
                list(table_name) FILTER (state <> 'live') AS n_removed
            FROM newer GROUP BY bucket, key)
        SELECT found.* REPLACE (
            coalesce(n_live, CASE WHEN NOT coalesce(list_contains(n_removed, r_live_table), false)
                THEN r_live_table END) AS r_live_table,
            CASE WHEN n_live IS NOT NULL THEN true ELSE r_live_here END AS r_live_here,
            CASE WHEN n_live IS NOT NULL THEN coalesce(r_category, 'data') ELSE r_category END AS r_category,
            CASE WHEN list_contains(n_removed, r_live_table) THEN coalesce(r_history_table, r_live_table)
                ELSE r_history_table END AS r_history_table)
        FROM found LEFT JOIN changed USING (bucket, key)
    """
    if duck.count_of(evidence.newer) == 0:
        return evidence.found
    return duck.query(con, sql, found=evidence.found, newer=evidence.newer)


def _owners(tables: Sequence[Table], longest: Mapping[str, timedelta]) -> pa.Table:
    """Return the owners of keys; of tables that share a location, the longest times count."""
    sharing: dict[Location, list[Table]] = defaultdict(list)
    for table in tables:
        sharing[table.location].append(table)
    rows = [
        (
            table.name,
            len(place.prefix),
            max(each.settings.leftover_age for each in same),
            max(each.settings.max_upload for each in same),
            max((longest[each.name] for each in same if each.name in longest), default=None),
            table.read_by_folder,
            table.complete,
        )
        for place, same in sharing.items()
        for table in same
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
