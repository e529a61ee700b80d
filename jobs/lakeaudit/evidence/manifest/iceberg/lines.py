"""Lines of metadata: which of several metadata.json files of one folder is current, by what each names before itself.

Each file names those that it came after (`metadata-log`); the log is cut off at
`write.metadata.previous-versions-max`. Pure.
"""

from collections.abc import Iterator, Sequence

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.iceberg.found import Content, UnreadMetadata
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata, number_of

Sound = tuple[File, Metadata]
MOST_NAMED = 5
"""Metadata.json files of another table that a doubt names."""


def current(sound: Sequence[Sound]) -> Sound:
    """The file of the line that reaches back through the others, else of the one with the highest number.

    Of several tables (by their ids) it is the one that was changed last: a table that was created again in the place of
    another one begins with low numbers.
    """
    newest = max(sound, key=lambda each: (each[1].updated_at, _number(each[0])))[1].uuid
    line = [each for each in sound if each[1].uuid == newest]
    passed = {name for _, metadata in line for name in logged(metadata)}
    heads = [each for each in line if each[0].name not in passed] or line
    return max(heads, key=lambda each: (_number(each[0]), each[1].updated_at, each[0].name))


def logged(metadata: Metadata) -> frozenset[str]:
    """Names of the files that it names before itself; a table may have been moved since, so names alone count."""
    return frozenset(path.rpartition("/")[2] for path, _ in metadata.old_files)


def oldest_logged(metadata: Metadata) -> int | None:
    """The lowest number that it names before itself: it says nothing of lower ones. None: it names none."""
    numbers = [number for name in logged(metadata) if (number := number_of(name)) is not None]
    return min(numbers, default=None)


def descends(file: File, metadata: Metadata, name: str, number: int) -> bool:
    """Whether this state is that one, or came after it, or its log is cut off before it."""
    if file.name == name or name in logged(metadata):
        return True
    oldest = oldest_logged(metadata)
    return _number(file) > number and (oldest is None or number < oldest)


def strangers(file: File, metadata: Metadata, states: Sequence[File]) -> list[File]:
    """Files of a folder that are no part of this state's line, as far as its log tells; the newest first."""
    apart = [each for each in states if not descends(file, metadata, each.name, _number(each))]
    return sorted(apart, key=lambda each: (each.modified_at, _number(each)), reverse=True)


def doubts(
    file: File, metadata: Metadata, others: Sequence[tuple[File, Content]], states: Sequence[File]
) -> Iterator[str]:
    """Why another of these files may be the current one, or may list files that lie in the same place."""
    apart = {each.name for each in strangers(file, metadata, states)}
    for other, content in others:
        if isinstance(content, UnreadMetadata):
            if content.cause != "absent" and _number(other) >= _number(file):
                yield f"{content.reason}; {file.name} was taken for the newest"
        elif content.uuid and metadata.uuid and content.uuid != metadata.uuid:
            yield _another_table(other, content, states)
        elif other.name not in apart and other.name in logged(metadata):
            continue
        elif _number(other) == _number(file):
            yield f"{other.name} and {file.name} claim to be the same step; {file.name} was taken for committed"
        elif _number(other) < _number(file) and _is_rival(other, content, metadata, apart):
            yield f"{other.name} is of another line of metadata than {file.name}, which does not reach back through it"


def contested(file: File, metadata: Metadata, others: Sequence[tuple[File, Content]]) -> frozenset[str]:
    """Commit ids of snapshots that this file has and another one lacks which claims to be the same step.

    One of the two lost its race: nobody can tell by the folder which one.
    """
    own = {snapshot.id for snapshot in metadata.snapshots}
    rivals = [
        {snapshot.id for snapshot in content.snapshots}
        for other, content in others
        if isinstance(content, Metadata)
        and content.uuid == metadata.uuid
        and _number(other) == _number(file)
        and other.name not in logged(metadata)
    ]
    return frozenset(str(each) for rival in rivals for each in own - rival)


def _another_table(other: File, content: Metadata, states: Sequence[File]) -> str:
    """The doubt about a folder that another table's files may lie in, and how to end it once that table was dropped."""
    line = logged(content)
    names = sorted({other.name, *(each.name for each in states if each.name in line)}, reverse=True)
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"{other.name} is of another table ({content.uuid}), whose files may lie here too; if that table was dropped, "
        f"move its metadata.json files out of this folder ({', '.join(names[:MOST_NAMED])}{rest}) and audit again"
    )


def _is_rival(other: File, content: Metadata, metadata: Metadata, apart: set[str]) -> bool:
    """Whether a file with a lower number is no mere leftover of a commit that lost its race: something followed it."""
    if other.name not in apart:
        return False
    return content.updated_at > metadata.updated_at or not apart.isdisjoint(logged(content))


def _number(file: File) -> int:
    return number_of(file.name) or 0
