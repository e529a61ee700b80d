"""Read the metadata table, Hudi's own index of a table's files: which of its files readers need, by its own timeline.

It is a merge-on-read table in `.hoodie/metadata`. Only its active timeline is read, whose names are listed for the
lineage anyway. So only file groups count whose newest base file an instant of that timeline wrote: an archived clean
may have removed files of others.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from lakeaudit.evidence.lineage import BROKEN_METADATA_TABLE, CONTENT, Witness
from lakeaudit.evidence.manifest.hudi.state.groups import COMPLETED, states
from lakeaudit.evidence.manifest.hudi.state.notes import Problem, problems
from lakeaudit.evidence.manifest.hudi.state.parts import Item, OfTable, parts
from lakeaudit.evidence.manifest.hudi.state.rows import FILE, FILES
from lakeaudit.evidence.manifest.hudi.timeline.instants import METADATA_TABLE, LocatedTimeline
from lakeaudit.evidence.protocol import BufferedRows, Context
from lakeaudit.keys import HUDI_BASE, HUDI_LOG
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows


def index_files(
    found: Sequence[LocatedTimeline], number: int, ctx: Context, source: str
) -> tuple[tuple[BufferedRows, ...], list[Problem]]:
    """Return FILE rows of the files of metadata tables that readers need, and instants that cannot be read."""
    items = [item for each in found for item in _items(each, number)]
    if not items:
        return (), []
    steps = ctx.engine.keep(parts(items, source, ctx.clients, max(ctx.parallelism, 1) * 4))
    unread = problems(steps.notes)
    project = partial(_of_others, tuple(sorted({problem.table for problem in unread})))
    return (ctx.engine.meet([steps], project, _required_files),), unread


def _items(found: LocatedTimeline, number: int) -> list[Item]:
    index = found.index
    if index is None or index.config is None:
        return []
    place = found.table.location.join(*METADATA_TABLE)
    about = OfTable(found.table.name, place, number, index.config.layout, index.config.utc)
    return [Item(about, instant) for instant in index.instants]


def _of_others(unread: Sequence[str], con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Leave out tables with an unknown instant: it may have removed files."""
    if unread:
        sql = f"SELECT * FROM input WHERE table_name NOT IN ({duck.literals(unread)})"
        rows = duck.query(con, sql, input=rows)
    yield kind, rows


def _required_files(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield the live files of file groups whose live base file is known; the others may have been compacted since."""
    for kind, files in states("", COMPLETED.empty_table(), con, rows):
        if kind == FILES:
            yield kind, duck.conform(con, duck.query(con, _REQUIRED, files=files), FILE)


_TORN = ("it is empty", "it is incomplete", "it is not whole")
_PREFIX = "/".join(METADATA_TABLE)
_REQUIRED = f"""
    WITH live AS (
        SELECT *, regexp_matches(key, {duck.pattern(HUDI_BASE)}) AS is_base FROM files
        WHERE state = 'live' AND category = 'data'
            AND (regexp_matches(key, {duck.pattern(HUDI_BASE)}) OR regexp_matches(key, {duck.pattern(HUDI_LOG)})))
    SELECT * EXCLUDE (is_base) REPLACE ('index' AS category, '' AS folder,
        {duck.literal(_PREFIX)} || '/' || file_group AS file_group)
    FROM live QUALIFY bool_or(is_base) OVER (PARTITION BY table_name, reading, bucket, file_group)"""


def broken_indexes(unread: Sequence[Problem]) -> Iterator[Witness]:
    """Yield metadata tables with a torn instant; a missing one may have been archived meanwhile."""
    for problem in unread:
        if problem.reason.startswith(_TORN):
            words = f"{problem.subject}, an instant of the metadata table, cannot be read: {problem.reason}"
            yield Witness(problem.table, BROKEN_METADATA_TABLE, (CONTENT,), problem.subject, words)
