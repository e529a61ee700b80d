"""List the formats of findings and discrepancies by the names that `--format` accepts."""

from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from lakeaudit.explain.formats import github, junit, lists, markdown, sarif
from lakeaudit.explain.formats.listing import Listing, Row

Writer = Callable[[Iterable[Row], TextIO, Listing], int]
"""Writes rows as they arrive, and returns their number."""

FORMATS: Mapping[str, Writer] = {
    "table": lists.write_table,
    "csv": lists.write_csv,
    "jsonl": lists.write_jsonl,
    "markdown": markdown.write,
    "junit": junit.write,
    "sarif": sarif.write,
    "github": github.write,
}
