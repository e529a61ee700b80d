"""Count the rows of file groups that instants of a timeline replaced, and find the unknown ones among them.

The rows of a base file are exact if its writer's counts add up: those of the base file that it was made from, plus
inserts, less deletes. Flink sums up the statistics of several flushes into one file, so that its count of rows may be
too high; such a sum does not add up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakeaudit.evidence.manifest.hudi.state.rows import STEP
from lakeaudit.evidence.manifest.hudi.timeline.payload import MOST_ROWS
from lakeaudit.evidence.protocol import notes_with
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import NOTE

REPLACED = "replaced_groups"
"""Key in the data of a NOTE row about the file groups that an instant replaced."""
MOST_NAMED = 100
"""Most names of unknown file groups that are kept for one instant and share."""
_GROUP = "table_name, reading, file_group"


@dataclass(frozen=True)
class ReplacedGroups:
    """Counts the file groups that one instant replaced.

    Attributes:
        groups: how many there are.
        exact: how many have an exact number of rows that readers got.
        rows: the rows of these.
        unknown: how many are unknown: no instant wrote, removed or saved a file of them.
        again: how many an older instant of the timeline had replaced, without a write since.
        names: some of the unknown ones, each with its folder before it.
        other: the newest one of these older instants.
    """

    groups: int = 0
    exact: int = 0
    rows: int = 0
    unknown: int = 0
    again: int = 0
    names: tuple[str, ...] = ()
    other: str = ""

    def __add__(self, other: "ReplacedGroups") -> "ReplacedGroups":
        return ReplacedGroups(
            self.groups + other.groups,
            self.exact + other.exact,
            self.rows + other.rows,
            self.unknown + other.unknown,
            self.again + other.again,
            (*self.names, *other.names)[:MOST_NAMED],
            max(self.other, other.other),
        )


def replaced_notes(source: str, con: Connection, steps: Relation) -> Iterator[Relation]:
    """Yield NOTE rows by instant of the timeline, from all STEP rows of some file groups; none without a replacement.

    Files with a dot in their id are not Hudi's own: tools that register other formats' files name them by their paths.
    """
    sql = f"SELECT DISTINCT {_GROUP}, commit_id AS instant FROM steps WHERE act = 'replaced' AND NOT archived"
    named = duck.hold(con, duck.query(con, sql, steps=steps))
    if duck.count_of(named) == 0:
        return
    rows = duck.query(
        con, _NOTES.format(source=duck.literal(source)), named=named, steps=duck.conform(con, steps, STEP)
    )
    yield duck.conform(con, rows, NOTE)


_NOTES = f"""
    WITH files AS (SELECT * FROM steps SEMI JOIN named USING ({_GROUP}) WHERE key IS NOT NULL),
    undone AS (SELECT DISTINCT bucket, key FROM files WHERE act = 'undone'),
    bases AS (
        SELECT DISTINCT {_GROUP}, key, slice, records, before, grown FROM files ANTI JOIN undone USING (bucket, key)
        WHERE kind = 'base' AND act = 'wrote'),
    checked AS (
        SELECT one.*, one.records IS NOT NULL AND coalesce(one.grown IS NULL OR one.records = one.grown::HUGEINT
            + CASE WHEN one.before IS NULL THEN 0 ELSE two.records END, false) AS exact
        FROM bases one LEFT JOIN bases two ON one.table_name = two.table_name AND one.reading = two.reading
            AND one.file_group = two.file_group AND one.before = two.slice),
    older AS (
        SELECT {_GROUP}, instant, max(slice) AS slice, bool_and(exact) AS exact
        FROM named JOIN checked USING ({_GROUP}) WHERE slice < instant GROUP BY ALL),
    newest AS (
        SELECT {_GROUP}, instant, slice, count(*) = 1 AND bool_and(older.exact) AS exact, max(records) AS records
        FROM older JOIN checked USING ({_GROUP}, slice) GROUP BY ALL),
    merged AS (
        SELECT DISTINCT {_GROUP}, instant FROM newest JOIN files USING ({_GROUP})
        WHERE files.kind = 'log' AND files.slice >= newest.slice),
    older_ones AS (
        SELECT {_GROUP}, instant, lag(instant) OVER (PARTITION BY {_GROUP} ORDER BY instant) AS other FROM named),
    again AS (
        SELECT older_ones.* FROM older_ones ANTI JOIN files ON older_ones.table_name = files.table_name
            AND older_ones.reading = files.reading AND older_ones.file_group = files.file_group
            AND files.act = 'wrote' AND files.kind <> 'changes' AND files.slice > other
        WHERE other IS NOT NULL),
    judged AS (
        SELECT table_name, instant, file_group, coalesce(exact, false) AND merged.file_group IS NULL AS exact, records,
            contains(parse_filename(file_group, false, 'forward_slash'), '.') AS is_path,
            known.file_group IS NULL AND NOT is_path AS unknown, CASE WHEN NOT is_path THEN other END AS other
        FROM named LEFT JOIN newest USING ({_GROUP}, instant) LEFT JOIN merged USING ({_GROUP}, instant)
        LEFT JOIN again USING ({_GROUP}, instant)
        LEFT JOIN (SELECT DISTINCT {_GROUP} FROM files) known USING ({_GROUP}))
    SELECT {{source}} AS source, table_name AS subject, NULL AS reason, NULL AS count,
        json_object('{REPLACED}', instant, 'groups', count(*), 'exact', count(*) FILTER (exact),
            'rows', CAST(least(coalesce(sum(records) FILTER (exact), 0), {MOST_ROWS}) AS BIGINT),
            'unknown', count(*) FILTER (unknown),
            'again', count(other), 'other', coalesce(max(other), ''),
            'names', coalesce(list(file_group ORDER BY file_group) FILTER (unknown), [])[1:{MOST_NAMED}]) AS data
    FROM judged GROUP BY table_name, instant"""


def replaced_groups(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, ReplacedGroups]]:
    """Return by table and instant the counts in the notes; those of several shares are added up."""
    found: dict[str, dict[str, ReplacedGroups]] = {}
    for table, data in notes_with(notes, REPLACED):
        of_table = found.setdefault(table, {})
        begin, sums = data[REPLACED], {name: value for name, value in data.items() if name != REPLACED}
        one = ReplacedGroups(**sums | {"names": tuple(data["names"])})
        of_table[begin] = of_table.get(begin, ReplacedGroups()) + one
    return found
