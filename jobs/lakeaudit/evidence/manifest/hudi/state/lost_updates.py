"""Find lost updates of Hudi tables: two completed writes that rewrote one file group from the same older base file.

A write that rewrites a file group names the instant of the base file that it read (`prevCommit`). Two writers without
a lock may read the same one: readers take the newest base file, which lacks the rows of the other write.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.evidence.lineage import CONTENT, DROPPED_BY_APPEND, Stake, Witness
from lakeaudit.evidence.manifest.hudi.state.rows import STEP
from lakeaudit.evidence.manifest.hudi.timeline.instants import Instant
from lakeaudit.formatting import number
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import NOTE

RIVALS = "rivals"
"""Key in the data of a NOTE row about a pair of writes."""
_GROUP = "table_name, reading, file_group"
_REWRITES = ("commit", "deltacommit")
_MOST = 100
"""Most pairs of one table and share that are reported."""


@dataclass(frozen=True)
class RivalWrites:
    """Names two instants that rewrote the same `groups` from the base files of a third one; readers get `kept`."""

    lost: str
    kept: str
    before: str
    groups: int
    sample: str


def rival_notes(source: str, con: Connection, steps: Relation) -> Relation:
    """Return NOTE rows of pairs of writes, from all STEP rows of some file groups.

    Two base files may have been made from one: readers have the rows of the newer one, unless only the older one was
    built on. Base files that a rollback removed are left out, and so are file groups that were replaced since.
    """
    sql = f"""
        WITH replaced AS (SELECT DISTINCT {_GROUP} FROM steps WHERE act = 'replaced'),
        undone AS (SELECT DISTINCT bucket, key FROM steps WHERE act = 'undone'),
        made AS (
            SELECT {_GROUP}, slice, before, bool_or(archived) AS archived
            FROM steps ANTI JOIN replaced USING ({_GROUP}) ANTI JOIN undone USING (bucket, key)
            WHERE kind = 'base' AND act = 'wrote' AND before IS NOT NULL AND before < slice
            GROUP BY {_GROUP}, slice, before),
        rivals AS (
            SELECT a.*, b.slice AS other FROM made a JOIN made b USING ({_GROUP}, before)
            WHERE a.slice < b.slice AND NOT a.archived AND NOT b.archived),
        built_on AS (SELECT DISTINCT {_GROUP}, before AS slice FROM made),
        judged AS (
            SELECT r.*, one.slice IS NOT NULL AND two.slice IS NULL AS older_is_kept
            FROM rivals r
            LEFT JOIN built_on one ON ({_same("r", "one")}) AND one.slice = r.slice
            LEFT JOIN built_on two ON ({_same("r", "two")}) AND two.slice = r.other),
        pairs AS (
            SELECT table_name, reading, CASE WHEN older_is_kept THEN other ELSE slice END AS lost,
                CASE WHEN older_is_kept THEN slice ELSE other END AS kept, max(before) AS before,
                count(DISTINCT file_group) AS groups, min(file_group) AS sample
            FROM judged GROUP BY ALL)
        SELECT {duck.literal(source)} AS source, table_name AS subject, NULL AS reason, groups AS count,
            json_object('{RIVALS}', true, 'reading', reading, 'lost', lost, 'kept', kept, 'before', before,
                'sample', sample) AS data
        FROM (SELECT *, row_number() OVER (PARTITION BY table_name, reading ORDER BY lost DESC, kept DESC) AS place
            FROM pairs) WHERE place <= {_MOST}"""
    return duck.conform(con, duck.query(con, sql, steps=duck.conform(con, steps, STEP)), NOTE)


def _same(one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in _GROUP.split(", "))


def rival_writes(notes: Sequence[Mapping[str, object]]) -> dict[str, list[RivalWrites]]:
    """Return by table the pairs that notes name; those of several shares are added up."""
    found: dict[tuple[str, str, str], RivalWrites] = {}
    for note in notes:
        data = json.loads(str(note["data"]))
        if RIVALS in data:
            at = (str(note["subject"]), data["lost"], data["kept"])
            groups = int(str(note["count"])) + (found[at].groups if at in found else 0)
            found[at] = RivalWrites(data["lost"], data["kept"], data["before"], groups, data["sample"])
    by_table: dict[str, list[RivalWrites]] = {}
    for (table, *_), pair in sorted(found.items()):
        by_table.setdefault(table, []).append(pair)
    return by_table


def lost_updates(
    table: str, pairs: Sequence[RivalWrites], writes: Sequence[Instant], taken_back: frozenset[str]
) -> Iterator[Witness]:
    """Yield witnesses of the pairs whose writes are both completed in the active timeline, and not taken back.

    In a merge-on-read table a `commit` is a compaction, which reads the files of an earlier plan, and not a write.
    """
    done = {each.begin: each for each in writes}
    merges = any(each.action == "deltacommit" for each in writes)
    actions = _REWRITES[1:] if merges else _REWRITES
    for pair in pairs:
        lost, kept = done.get(pair.lost), done.get(pair.kept)
        if lost is None or kept is None or not taken_back.isdisjoint((pair.lost, pair.kept)):
            continue
        if lost.action in actions and kept.action in actions:
            yield _witness(table, pair, lost)


def _witness(table: str, pair: RivalWrites, lost: Instant) -> Witness:
    words = (
        f"writes {pair.lost} and {pair.kept} each rewrote {number(pair.groups, 'file group')}, such as "
        f"{pair.sample.rpartition('/')[2]}, from the same base files (of {pair.before}): query engines read "
        f"the files of {pair.kept}, without the rows of {pair.lost}; the base files of {pair.lost} exist until a clean"
    )
    claim = (table, DROPPED_BY_APPEND, (CONTENT,), lost.file.place.uri, words, int(pair.lost))
    return Witness(*claim, Stake(pair.groups))
