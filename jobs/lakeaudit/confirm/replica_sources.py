"""Clears losses of copies whose originals are gone too: such a copy has lost nothing.

The snapshot of the original place may be days old, and its owner may have vacuumed files since. So the originals of
files that the copy lacks are requested. A missing original proves nothing if the original place is empty now: a place
that was abandoned after a migration no longer shows what was copied.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.registry import original_kinds
from lakeaudit.keys import Aliases, Location, origins
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import ASKED

_LACKS = f"""outcome = 'finding' AND axis = 'content' AND kind IN ('dropped', 'missing_metadata')
    AND c_kind IN ({duck.literals(original_kinds())})"""
_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])


def without_vacuumed_originals(evidence: Evidence, suspects: Relation) -> Relation:
    """Mark lost files of copies as consistent if their originals are gone now, too."""
    maps, confirmed = evidence.context.clients.maps, [t for t in evidence.scope if evidence.confirms(t)]
    tables = [table for table in confirmed if _is_copy(table)]
    if not maps or not tables:
        return suspects
    con, most = evidence.con, evidence.lake.settings.confirm.limit
    sql = f"""
        SELECT DISTINCT judged_table, bucket, key FROM input
        WHERE {_LACKS} AND judged_table IN ({duck.literals([table.name for table in tables])})
        ORDER BY ALL LIMIT {int(most)}
    """
    lacking = duck.rows_of(duck.made_of(con, sql, suspects))
    living = {table.name for table in tables if lacking and _still_holds_files(evidence, table)}
    copies = {(row["bucket"], row["key"]): [*_originals(maps, row["bucket"], row["key"])]
              for row in lacking if row["judged_table"] in living}  # fmt: skip
    gone = _absent_originals(evidence, copies)
    if not gone:
        return suspects
    cleared = f"""
        SELECT input.* REPLACE (CASE WHEN {_LACKS} AND gone.bucket IS NOT NULL
            THEN 'consistent' ELSE outcome END AS outcome)
        FROM input LEFT JOIN gone USING (bucket, key)
    """
    return duck.hold(con, duck.query(con, cleared, input=suspects, gone=duck.small(_KEYS, gone)))


def _is_copy(table: Table) -> bool:
    return any(manifest.is_original for manifest in table.manifests)


def _still_holds_files(evidence: Evidence, table: Table) -> bool:
    """Whether the original place has any file of the table now; a refusal counts as no."""
    clients = evidence.context.clients
    try:
        return any(next(list_files(clients, place), None) for place in origins(clients.maps, table.location))
    except SourceError:
        return False


def _originals(maps: Aliases, bucket: str, key: str) -> Iterator[Location]:
    for old, new in maps:
        if new.holds(bucket, key):
            yield Location(old.bucket, f"{old.prefix}{key[len(new.prefix) :]}")


def _absent_originals(
    evidence: Evidence, copies: dict[tuple[str, str], list[Location]]
) -> Sequence[tuple[str, str]]:
    """Return copies for which storage has none of the originals now."""
    originals = sorted({place for places in copies.values() for place in places})
    if not originals:
        return []
    rows = [{"bucket": place.bucket, "key": place.key, "footer": False, "fresh": True} for place in originals]
    answers = evidence.look(pa.Table.from_pylist(rows, schema=ASKED)).to_pylist()
    absent = {
        Location(row["bucket"], row["key"])
        for row in answers
        if row["l_confirmation"] == "live" and row["l_presence"] == "absent"
    }
    return [copy for copy, places in copies.items() if places and absent.issuperset(places)]
