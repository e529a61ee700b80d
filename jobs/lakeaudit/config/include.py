"""Read lists of tables from included files, as if they were in the lake file."""

from collections.abc import Mapping
from pathlib import Path as FilePath

from lakeaudit.config.problems import ConfigProblem, quoted
from lakeaudit.config.yaml_document import Document, Unreadable, read_document

MOST_FILES = 10_000


def include_tables(document: Document, lake_file: str, env: Mapping[str, str]) -> None:
    """Add the tables of every file that `include` names, in the order of the patterns, then of the files' names."""
    patterns = document.data.get("include")
    for at, pattern in enumerate(patterns if isinstance(patterns, list) else []):
        if not isinstance(pattern, str):
            continue
        files = _matching(FilePath(lake_file).parent, pattern)
        if not files:
            hint = "a path or pattern, from the lake file's folder on"
            document.found.append(
                ConfigProblem(("include", at), f"no file is called {quoted(pattern)}", hint)
            )
        for file in files[:MOST_FILES]:
            _add(document, str(file), at, env)


def _matching(folder: FilePath, pattern: str) -> list[FilePath]:
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    except (ValueError, OSError, NotImplementedError):
        return []


def _add(document: Document, file: str, at: int, env: Mapping[str, str]) -> None:
    """Add the entries of one file; problems of the whole file are reported at its `include`."""
    tables = document.data.setdefault("tables", [])
    if not isinstance(tables, list):
        return
    begin = len(tables)
    try:
        read = read_document(FilePath(file).read_bytes(), env, ("tables", begin))
    except Unreadable as error:
        where = f"{file}:{error.line}" if error.line else file
        document.found.append(ConfigProblem(("include", at), f"{where}: {error}", error.hint))
        return
    except OSError as error:
        document.found.append(ConfigProblem(("include", at), f"{file} cannot be read: {error.strerror}"))
        return
    tables += read.data.values()
    document.lines |= read.lines
    document.written |= read.written
    document.found += read.found
    document.files |= {("tables", index): file for index in range(begin, len(tables))}
