"""Reports of one bucket that do not say which part of it they name, read as one source.

An inventory report says neither its prefix nor its tags. Where two reports of a bucket both cover it by default, a key
that one does not name may stand in the other, so absence needs both: their rows are read together, and nothing is
judged that is younger than the oldest of them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lakeaudit.evidence.protocol import Batches, Part, SnapshotWindow, SourceInfo, Stored
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection


def united(storage: Sequence[Stored]) -> list[Stored]:
    """The same sources, with those of one bucket whose `covers` nobody stated as one, in the place of the first."""
    groups: dict[object, list[Stored]] = defaultdict(list)
    for source in storage:
        if source.assumed_covers:
            groups[source.covers].append(source)
    firsts = {id(group[0]): group for group in groups.values()}
    members = {id(source) for group in groups.values() for source in group}
    return [
        _one(firsts.get(id(source), [source]))
        for source in storage
        if id(source) in firsts or id(source) not in members
    ]


def _one(group: Sequence[Stored]) -> Stored:
    first = group[0]
    if len(group) == 1:
        return first
    bucket = first.covers[0].uri
    told = (
        f"{len(group)} reports of {bucket} are read as one, up to the older: let `covers` say what each names"
    )
    return replace(
        first,
        info=_info([source.info for source in group]),
        rows=tuple(_as_of(first.info.id, part) for source in group for part in _parts(source)),
        # a version may stand in two of them
        repeats=True,
        holes=tuple(replace(hole, source=first.info.id) for source in group for hole in source.holes),
        warnings=(*dict.fromkeys(w for source in group for w in source.warnings), told),
    )


def _info(infos: Sequence[SourceInfo]) -> SourceInfo:
    cuts = [info.cut for info in infos if info.cut]
    start = min(cut.start for cut in cuts)
    edge = min(cut.start - cut.margin for cut in cuts)
    ends = [cut.end for cut in cuts]
    end = max((end for end in ends if end), default=None) if all(ends) else None
    return replace(
        infos[0],
        location=", ".join(info.location for info in infos),
        identity=", ".join(info.identity for info in infos),
        cut=SnapshotWindow(start, end, start - edge),
    )


def _parts(source: Stored) -> tuple[Part, ...]:
    if not isinstance(source.rows, tuple):
        raise TypeError(f"{source.info.id} was read already and cannot be read as another")
    return source.rows


def _as_of(source: str, part: Part) -> Part:
    return part if part.source == source else replace(part, source=source, read=partial(_read, source, part))


def _read(source: str, part: Part, con: Connection) -> Batches:
    """The part's rows, as rows of another source."""
    for kind, rows in part.read(con):
        yield (
            kind,
            duck.query(con, f"SELECT * REPLACE ({duck.literal(source)} AS source) FROM input", input=rows),
        )
