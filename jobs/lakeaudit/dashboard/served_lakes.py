"""Finds the lakes that a dashboard serves: of one lake file, of several, or of the lake files in folders."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeaudit.config import Lake
from lakeaudit.errors import AuditError, one_line

SUFFIXES = (".yaml", ".yml")
EXPLANATION = "example.yaml"
"""The file beside lake files that explains the keys and describes no lake."""


@dataclass(frozen=True)
class ServedLake:
    """One lake of a dashboard; `problem` states why its lake file cannot be used, empty: it can."""

    name: str
    lake_file: str
    problem: str = ""


def is_several(places: Sequence[str]) -> bool:
    """Return whether these places stand for several lakes, so that addresses must name the lake."""
    return len(places) > 1 or any(map(_is_folder, places))


def lake_files(places: Sequence[str]) -> list[str]:
    """Return the lake files of places: those of a folder by name, files as they are, each once."""
    return list(dict.fromkeys(file for place in places for file in _files(place)))


def _files(place: str) -> Iterator[str]:
    if not _is_folder(place):
        yield place
        return
    for path in sorted(Path(place).iterdir()):
        if path.suffix in SUFFIXES and path.name != EXPLANATION:
            yield str(path)


def _is_folder(place: str) -> bool:
    return "://" not in place and Path(place).is_dir()


def served_lakes(places: Sequence[str], load: Callable[[str], Lake]) -> list[ServedLake]:
    """Return the lakes in the order of their files; of two with the same name the second one cannot be used.

    Args:
        places: lake files and folders of lake files.
        load: returns the lake of a file, or raises AuditError.
    """
    lakes: dict[str, ServedLake] = {}
    for file in lake_files(places):
        lake = _served(file, load)
        if lake.name in lakes:
            first = lakes[lake.name].lake_file
            same = f"the lake of {first} has the same name {lake.name}: rename one of them"
            lake = ServedLake(f"{lake.name} ({file})", file, lake.problem or same)
        lakes[lake.name] = lake
    return list(lakes.values())


def _served(file: str, load: Callable[[str], Lake]) -> ServedLake:
    try:
        return ServedLake(load(file).name, file)
    except AuditError as error:
        return ServedLake(Path(file).stem, file, one_line(str(error), 300))
