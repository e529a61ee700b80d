"""Read a lake file as a whole, or report all of its problems at once."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from lakeaudit.config.buckets import aliases_of, by_true_names
from lakeaudit.config.cross_checks import check
from lakeaudit.config.file import LakeFile
from lakeaudit.config.include import include_tables
from lakeaudit.config.lake import Lake, resolve
from lakeaudit.config.problems import ConfigProblem, Path, Problem
from lakeaudit.config.validation_errors import refusals
from lakeaudit.config.yaml_document import Document, Unreadable, read_document
from lakeaudit.errors import LakeFileError


def read_local(file: str) -> bytes:
    """Return the content of a lake file on this machine.

    Raises:
        Unreadable: there is no such file, or it cannot be read.
    """
    try:
        return FilePath(file).read_bytes()
    except FileNotFoundError:
        raise Unreadable(None, "no such lake file", "give the path of a file on this machine") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise Unreadable(None, f"cannot be read: {reason}", "give the path of a readable file") from None


def load_lake(
    path: str | FilePath, env: Mapping[str, str], read: Callable[[str], bytes] = read_local
) -> Lake:
    """Return the lake that a file describes, with `${NAME}` taken from `env`; `read` returns the file's content.

    Raises `LakeFileError`: its `problems` are `Problem`s, ordered by line.
    """
    file = str(path)
    try:
        document = read_document(read(file), env)
    except Unreadable as error:
        raise LakeFileError([Problem(file, error.line, error.what, error.hint)]) from None
    include_tables(document, file, env)
    aliases, unclear = aliases_of(document.data)
    data = by_true_names(document.data, aliases)
    found = [*document.found, *unclear, *check(data)]
    try:
        written = LakeFile.model_validate(data)
    except ValidationError as error:
        found += _new_problems(refusals(error, document), {each.path for each in found})
        raise LakeFileError(_problems(file, document, found)) from None
    if found:
        raise LakeFileError(_problems(file, document, found))
    return resolve(written, aliases)


WHERE_FILES_LIE = (
    *("version", "lake", "results", "quarantine", "s3", "buckets", "dynamodb", "inventories", "metastores"),
    *("tables", "defaults", "profiles", "maps", "replicas"),
)
"""Blocks with the places of a lake's files and stores, and their connections; none of them holds a secret."""


def data_of_lake(
    path: str | FilePath, env: Mapping[str, str], read: Callable[[str], bytes] = read_local
) -> dict[str, Any]:
    """Return the blocks `WHERE_FILES_LIE` of a valid lake file, with expanded includes and variables.

    The result is empty if the file cannot be read any more.
    """
    try:
        document = read_document(read(str(path)), env)
    except Unreadable:
        return {}
    include_tables(document, str(path), env)
    return {name: document.data[name] for name in WHERE_FILES_LIE if name in document.data}


def lake_of_data(data: Mapping[str, Any]) -> Lake | None:
    """Return the lake of `data_of_lake`; None if it is not valid for this version."""
    aliases, _ = aliases_of(data)
    try:
        return resolve(LakeFile.model_validate(by_true_names(data, aliases)), aliases)
    except ValidationError:
        return None


def _new_problems(refused: list[ConfigProblem], reported: set[Path]) -> Iterator[ConfigProblem]:
    """Yield the models' problems at places without another problem."""
    for each in refused:
        if not any(each.path[:end] in reported for end in range(1, len(each.path) + 1)):
            yield each


def _problems(file: str, document: Document, found: list[ConfigProblem]) -> list[Problem]:
    problems = dict.fromkeys(
        each.at(document.file(each.path, file), document.line(each.path)) for each in found
    )
    return sorted(problems, key=lambda problem: (problem.file != file, problem.file, problem.line or 0))
