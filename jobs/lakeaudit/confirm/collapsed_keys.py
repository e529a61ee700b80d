"""Clears losses of keys with empty parts: Hadoop's file systems write `wh//t/f` to the key `wh/t/f`.

A file counts as present under the recorded key, or under the one with single slashes. A table whose reader knows the
form of all keys, such as an Iceberg table with a metadata.json, has no such losses.
"""

from dataclasses import dataclass

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.keys import collapsed
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import ASKED, POINTED_OBJECT

_LACKS = """outcome = 'finding' AND axis = 'content' AND contains(key, '//')
    AND kind IN ('dropped', 'dropped_history', 'missing_metadata')"""
_FORMS = pa.schema([("bucket", pa.string()), ("key", pa.string()), ("by_hadoop", pa.string())])


@dataclass(frozen=True)
class Renamed:
    """Verdict rows, and the objects (bucket, key) that are files under another name and so not unused."""

    rows: Relation
    objects: pa.Table


def under_single_slashes(evidence: Evidence, suspects: Relation) -> Renamed:
    """Clear losses of files that lie under the key with single slashes, at the recorded size."""
    con = evidence.con
    tables = [table.name for table in evidence.scope if evidence.confirms(table)]
    sql = f"""
        SELECT DISTINCT bucket, key, c_size FROM input
        WHERE {_LACKS} AND judged_table IN ({duck.literals(tables)})
        ORDER BY ALL LIMIT {int(evidence.lake.settings.confirm.limit)}
    """
    lacking = duck.rows_of(duck.made_of(con, sql, suspects)) if tables else []
    if not lacking:
        return Renamed(suspects, POINTED_OBJECT.empty_table())
    requests = [
        {"bucket": r["bucket"], "key": collapsed(r["key"]), "footer": False, "fresh": True} for r in lacking
    ]
    answers = evidence.look(pa.Table.from_pylist(requests, schema=ASKED)).to_pylist()
    there = [
        (row["bucket"], row["key"], answer["key"])
        for row, answer in zip(lacking, answers, strict=True)
        if answer["l_presence"] == "present" and row["c_size"] in (None, answer["l_size"])
    ]
    cleared = f"""
        SELECT input.* REPLACE (CASE WHEN {_LACKS} AND by_hadoop IS NOT NULL
            THEN 'consistent' ELSE outcome END AS outcome)
        FROM input LEFT JOIN forms USING (bucket, key)
    """
    rows = duck.query(con, cleared, input=suspects, forms=duck.small(_FORMS, there))
    objects = duck.small(POINTED_OBJECT, [(bucket, key) for bucket, _, key in there])
    return Renamed(duck.hold(con, rows), objects)
