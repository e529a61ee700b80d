"""Choose which of several metadata.json files of one folder is current, by the earlier files that each names. Pure.

Each file names those before it (`metadata-log`); the log is limited by `write.metadata.previous-versions-max`.
"""

from collections.abc import Iterator, Sequence

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import Content, UnreadMetadata
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, number_of

Sound = tuple[File, Metadata]
MOST_NAMED = 5
"""Most metadata.json files of another table that a doubt names."""


def current(sound: Sequence[Sound]) -> Sound:
    """Return the file of the line that reaches back through the others, else the one with the highest number.

    If the files belong to several tables (by their ids), the table that was changed last counts: a table that was
    created again in the place of another one begins with low numbers.
    """
    newest = max(sound, key=lambda each: (each[1].updated_at, _number(each[0])))[1].uuid
    line = [each for each in sound if each[1].uuid == newest]
    passed = {name for _, metadata in line for name in logged_names(metadata)}
    heads = [each for each in line if each[0].name not in passed] or line
    return max(heads, key=lambda each: (_number(each[0]), each[1].updated_at, each[0].name))


def logged_names(metadata: Metadata) -> frozenset[str]:
    """Return the names of the earlier files; a table may have been moved since, so names alone count."""
    return frozenset(path.rpartition("/")[2] for path, _ in metadata.old_files)


def oldest_logged(metadata: Metadata) -> int | None:
    """Return the lowest number that it names before itself: it does not cover lower ones. None if it names none."""
    numbers = [number for name in logged_names(metadata) if (number := number_of(name)) is not None]
    return min(numbers, default=None)


def descends(file: File, metadata: Metadata, name: str, number: int) -> bool:
    """Return whether this state is that one, or came after it, or has a log that ends before it."""
    if file.name == name or name in logged_names(metadata):
        return True
    oldest = oldest_logged(metadata)
    return _number(file) > number and (oldest is None or number < oldest)


def strangers(file: File, metadata: Metadata, states: Sequence[File]) -> list[File]:
    """Return the files of a folder that are not part of this state's line, as far as its log shows; newest first."""
    outside = [each for each in states if not descends(file, metadata, each.name, _number(each))]
    return sorted(outside, key=lambda each: (each.modified_at, _number(each)), reverse=True)


def doubts(
    file: File, metadata: Metadata, others: Sequence[tuple[File, Content]], states: Sequence[File]
) -> Iterator[str]:
    """Yield why another of these files may be the current one, or may list files in the same place."""
    outside = {each.name for each in strangers(file, metadata, states)}
    for other, content in others:
        if isinstance(content, UnreadMetadata):
            if content.cause != "absent" and _number(other) >= _number(file):
                yield f"{content.reason}; {file.name} was taken for the newest"
        elif content.uuid and metadata.uuid and content.uuid != metadata.uuid:
            yield _another_table(other, content, states)
        elif other.name not in outside and other.name in logged_names(metadata):
            continue
        elif _number(other) == _number(file):
            yield f"{other.name} and {file.name} claim to be the same step; {file.name} was taken for committed"
        elif _number(other) < _number(file) and _is_rival(other, content, metadata, outside):
            yield f"{other.name} is of another line of metadata than {file.name}, which does not reach back through it"


def contested_commits(
    file: File, metadata: Metadata, others: Sequence[tuple[File, Content]]
) -> frozenset[str]:
    """Return commit ids of snapshots that another file of the same step lacks.

    One of the two lost its race: the folder does not show which one.
    """
    own = {snapshot.id for snapshot in metadata.snapshots}
    rivals = [
        {snapshot.id for snapshot in content.snapshots}
        for other, content in others
        if isinstance(content, Metadata)
        and content.uuid == metadata.uuid
        and _number(other) == _number(file)
        and other.name not in logged_names(metadata)
    ]
    return frozenset(str(each) for rival in rivals for each in own - rival)


def _another_table(other: File, content: Metadata, states: Sequence[File]) -> str:
    """Describe the doubt about a folder that another table may use, and how to end it once that table was dropped."""
    line = logged_names(content)
    names = sorted({other.name, *(each.name for each in states if each.name in line)}, reverse=True)
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"{other.name} is of another table ({content.uuid}), whose files may be here too; if that table was dropped, "
        f"move its metadata.json files out of this folder ({', '.join(names[:MOST_NAMED])}{rest}) and audit again"
    )


def _is_rival(other: File, content: Metadata, metadata: Metadata, outside: set[str]) -> bool:
    """Return whether a file with a lower number is more than the trace of a lost race: something followed it."""
    if other.name not in outside:
        return False
    return content.updated_at > metadata.updated_at or not outside.isdisjoint(logged_names(content))


def _number(file: File) -> int:
    return number_of(file.name) or 0
