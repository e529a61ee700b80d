"""Find the columns of a list that name files."""

from collections.abc import Mapping, Sequence

from lakeaudit.errors import BadInput
from lakeaudit.formatting import visible, without_signatures
from lakeaudit.keys import elsewhere, identify

PATHS = (
    *(
        "path",
        "uri",
        "url",
        "location",
        "file",
        "file_path",
        "filepath",
        "file_location",
        "orphan_file_location",
    ),
    *("object", "object_path", "fullpath", "full_path", "name", "_file", "data_file", "data_file_path"),
)
"""Names of columns with URIs or paths, in lower case: of Delta, Iceberg, DuckLake, Paimon and of plain lists."""


def looks_like_location(text: str) -> bool:
    """Return whether a text is a URI or an absolute path."""
    return identify(text) is not None or (elsewhere(text) is not None and "://" in text)


def knows(names: Sequence[str]) -> bool:
    """Return whether a name is one of a column for files."""
    lower = {name.strip().lower() for name in names}
    return bool(lower & {*PATHS, "key"})


def file_columns(names: Sequence[str], values: Sequence[object]) -> tuple[int | None, int | None]:
    """Return the positions of the columns for the bucket and for the file; the bucket is None if the file is a URI.

    Both are None if no column names files, or if several may: then it is not clear which of them will be deleted.

    Args:
        names: names of the columns.
        values: the values of a row; empty if there is none.
    """
    lower: Mapping[str, int] = {name.strip().lower(): at for at, name in reversed([*enumerate(names)])}
    located = locations_in(values[: len(names)])
    if located == [lower.get("uri")] and "bucket" in lower and values[lower["bucket"]] == "":
        return None, located[0]  # the list of free files of a local lake: only the URI names its store
    if "bucket" in lower and "key" in lower:
        return (None, None) if lower["key"] in located else (lower["bucket"], lower["key"])
    known = [lower[name] for name in (*PATHS, "key") if name in lower]
    if located:
        others = [at for at in known if at not in located and at < len(values) and values[at]]
        return None, located[0] if len(located) == 1 and not (others and known[0] in others) else None
    return None, known[0] if len(known) == 1 else None


def unclear_columns(names: Sequence[str]) -> BadInput:
    """Return the error for a list of which no column names files, or several may."""
    shown = visible(without_signatures(", ".join(names))[:200])
    what = f"no column of the list names files, or several may: {shown}"
    return BadInput("LIST", what, "write one column `path`, or the columns `bucket` and `key`")


def locations_in(values: Sequence[object]) -> list[int]:
    """Return the positions of the values that are URIs or absolute paths."""
    return [at for at, each in enumerate(values) if isinstance(each, str) and looks_like_location(each)]
