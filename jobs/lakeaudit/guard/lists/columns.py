"""Find the columns of a list that name files."""

from collections.abc import Mapping, Sequence

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


def by_name(names: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the names of the columns for the bucket and the file; the bucket is None if the file is a URI or path.

    Both are None if no name is known.
    """
    lower: Mapping[str, str] = {name.strip().lower(): name for name in reversed(names)}
    if "bucket" in lower and "key" in lower:
        return lower["bucket"], lower["key"]
    known = next((lower[name] for name in PATHS if name in lower), None)
    return None, known or lower.get("key")


def by_content(values: Sequence[object]) -> int | None:
    """Return the position of the first value that is a URI or an absolute path; None: there is none."""
    return next(
        (at for at, each in enumerate(values) if isinstance(each, str) and looks_like_location(each)), None
    )
