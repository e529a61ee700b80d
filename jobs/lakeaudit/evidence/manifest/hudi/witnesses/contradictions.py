"""Find witnesses in a timeline's content: writes that contradict their names, each other, or the groups they replaced.

Hudi's readers keep one completed file for an instant and an action, the first one that a listing gives
(`TimelineLayout.filterHoodieInstantsByLatestState`). They keep two actions of one instant as two writes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeaudit.evidence.lineage import (
    CHANGED_ROWS,
    CONTENT,
    IDLE_REMOVAL,
    REPLACED_STATE,
    RIVAL_OVERWRITES,
    Stake,
    Witness,
)
from lakeaudit.evidence.manifest.hudi.state.readings import Reading, TableReading
from lakeaudit.evidence.manifest.hudi.state.replaced_groups import ReplacedGroups
from lakeaudit.evidence.manifest.hudi.timeline.instants import Instant
from lakeaudit.evidence.manifest.hudi.timeline.names import instant_of
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import CLUSTER, REPLACES, WriteFacts
from lakeaudit.evidence.manifest.hudi.witnesses.repeated_appends import live_files
from lakeaudit.evidence.protocol import Context
from lakeaudit.formatting import number
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

_GROUP = pa.schema([("of_table", pa.string()), ("file_group", pa.string())])


def double_completions(read: TableReading) -> Iterator[Witness]:
    """Yield writes that several files complete, unless all of them list the same files."""
    for begin, files in read.found.double_completions.items():
        facts = [read.facts.get(each.file.name) for each in files]
        known = [each for each in facts if each is not None]
        differ = len(known) == len(files) and len({each.digest for each in known}) > 1
        if not differ or begin in read.fate.taken_back:
            continue
        names = " and ".join(each.file.name for each in files)
        words = f"write {begin} has {len(files)} completed files, which list different files: {names}; {_effect(files)}"
        claim = (read.name, REPLACED_STATE, (CONTENT,), files[-1].file.place.uri, words, int(begin))
        yield Witness(*claim, Stake(known[-1].files))


def _effect(files: Sequence[Instant]) -> str:
    """Describe the effect of several writes with one instant."""
    if len({each.action for each in files}) == 1:
        return f"Hudi reads the first of these files in a listing and ignores {files[-1].file.name}"
    return (
        "two writers used one instant: the metadata table keeps only one write, and a rollback of one write removes "
        "the files of both"
    )


def other_content(read: TableReading) -> Iterator[Witness]:
    """Yield writes whose files list only base files of other instants: another write's content replaced their own.

    Either a requested or inflight file shows that the write had its own content, or the other writes exist.
    """
    done = {each.begin for each in read.found.writes}
    for each in read.found.writes:
        facts = read.facts.get(each.file.name)
        if facts is None or not facts.foreign or each.begin in read.fate.taken_back:
            continue
        if each.begin not in read.found.begun and not done.issuperset(facts.instants):
            continue
        words = (
            f"{each.file.place.uri} lists {number(facts.foreign, 'base file')}, and none has this instant in "
            "its name (for "
            f"example {facts.sample}): a write lists only its own files, so the content of another write replaced it"
        )
        yield Witness(read.name, REPLACED_STATE, (CONTENT,), each.file.place.uri, words, int(each.begin))


def replacements(read: TableReading) -> Iterator[Witness]:
    """Yield writes that replaced unknown file groups, and clusterings that changed the number of rows.

    No table is judged with an instant that cannot be read, or a file group from an unknown instant.
    """
    if read.problems or read.unknown:
        return
    writes = _single_writes(read)
    for begin in sorted(writes.keys() & read.replaced.keys()):
        groups = read.replaced[begin]
        each, facts = writes[begin]
        if groups.unknown:
            yield _idle_removal(read, each, facts, groups)
        elif (
            facts.operation == CLUSTER
            and groups.exact == groups.groups
            and facts.rows not in (None, groups.rows)
        ):
            yield _row_change(read, each, facts.rows or 0, groups.rows)


def _single_writes(read: TableReading) -> dict[str, tuple[Instant, WriteFacts]]:
    """Return by instant the completed writes that may replace file groups, not taken back and completed only once."""
    uncertain = read.fate.taken_back.union(read.found.double_completions)
    return {
        each.begin: (each, facts)
        for each in read.found.writes
        if each.action == REPLACES
        and each.begin not in uncertain
        and (facts := read.facts.get(each.file.name)) is not None
    }


def _idle_removal(read: TableReading, each: Instant, facts: WriteFacts, groups: ReplacedGroups) -> Witness:
    words = (
        f"write {each.begin} ({facts.operation or each.action}) replaces "
        f"{number(groups.unknown, 'file group')} that no "
        f"instant of the timeline or its archive wrote, such as {groups.names[0].lstrip('/')}"
    )
    again = None
    if facts.rows is not None and groups.exact + groups.unknown == groups.groups:
        again = max(facts.rows - groups.rows, 0) or None
    claim = (read.name, IDLE_REMOVAL, (CONTENT,), each.file.place.uri, words, int(each.begin))
    return Witness(*claim, Stake(groups.unknown, again), until=each.file.modified_at)


def _row_change(read: TableReading, each: Instant, after: int, before: int) -> Witness:
    words = (
        f"write {each.begin} ({CLUSTER}) replaces file groups with {before:,} rows by base files with "
        f"{after:,} rows, as the "
        "counts of the writes show"
    )
    claim = (read.name, CHANGED_ROWS, (CONTENT,), each.file.place.uri, words, int(each.begin))
    return Witness(*claim, Stake(None, abs(after - before)))


def storage_explanations(
    tables: Sequence[TableReading], lacking: Collection[str], con: Connection, leftovers: Rows
) -> Iterator[Witness]:
    """Yield claims of `replacements` that storage explains, as explained.

    `lacking` are tables whose files show an unknown instant. A file of a replaced group that no instant wrote shows
    that this group existed: a task's second attempt may leave one, or an unknown instant.
    """
    claims = {read.name: [*replacements(read)] for read in tables}
    groups = _in_storage(tables, con, leftovers) if any(claims.values()) else set()
    for read in tables:
        for one in claims[read.name]:
            named = read.replaced[instant_of(one.number or 0)].names
            if read.name in lacking or any((read.name, group) in groups for group in named):
                yield replace(one, explained=True)


def _in_storage(tables: Sequence[TableReading], con: Connection, leftovers: Rows) -> set[tuple[str, str]]:
    """Return by table the file groups that no instant wrote, and that have a file."""
    named = [(read.name, name) for read in tables for each in read.replaced.values() for name in each.names]
    if not named:
        return set()
    name = "regexp_extract(relative, '([^/]*)$', 1)"
    sql = f"""
        WITH there AS (
            SELECT judged_table AS of_table, rtrim(left(relative, length(relative) - length({name})), '/') || '/'
                || split_part(ltrim({name}, '.'), '_', 1) AS file_group
            FROM input)
        SELECT DISTINCT of_table, file_group FROM there SEMI JOIN named USING (of_table, file_group)"""
    rows = duck.rows_of(duck.query(con, sql, input=leftovers, named=duck.small(_GROUP, named)))
    return {(row["of_table"], row["file_group"]) for row in rows}


def rival_overwrites(reading: Reading, ctx: Context) -> tuple[Witness, ...]:
    """Return pairs of writes that replaced the same file groups, while the files of both are live."""
    pairs = [(read, *pair) for read in reading.tables for pair in _rivals(read)] if ctx.live else []
    if not pairs:
        return ()
    commits = {(read.name, read.number, begin) for read, *pair in pairs for begin in pair}
    live = live_files(reading, ctx, commits)
    return tuple(
        _rival(read, older, younger, live)
        for read, older, younger in pairs
        if all(live.get((read.name, each)) or not _files(read, each) for each in (older, younger))
    )


def _rivals(read: TableReading) -> Iterator[tuple[str, str]]:
    """Yield the older and the younger instant of each pair; two empty writes agree."""
    writes = _single_writes(read) if read.is_known_whole and not read.problems else {}
    for begin, groups in sorted(read.replaced.items()):
        older = groups.other
        if older in writes and begin in writes and _files(read, older) + _files(read, begin):
            yield older, begin


def _files(read: TableReading, begin: str) -> int:
    """Return how many files a write lists."""
    return read.did.get(begin, (0, 0))[0]


def _rival(read: TableReading, older: str, younger: str, live: Mapping[tuple[str, str], int]) -> Witness:
    writes, groups = _single_writes(read), read.replaced[younger]
    (_, one), (file, other) = writes[older], writes[younger]
    words = (
        f"writes {older} ({one.operation}) and {younger} ({other.operation}) both replaced "
        f"{number(groups.again, 'file group')}: "
        "neither write read the result of the other"
    )
    claim = (read.name, RIVAL_OVERWRITES, (CONTENT,), file.file.place.uri, words, int(younger))
    return Witness(*claim, Stake(live.get((read.name, older)) or live.get((read.name, younger))))
