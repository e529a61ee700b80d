"""Count small data files by table for `lakeaudit scan`: information, and no fault of a table."""

from collections.abc import Iterator, Mapping

from lakeaudit.collect.match_result import SMALL_FILE, SmallFiles
from lakeaudit.formatting import count, number, size, visible
from lakeaudit.json_documents import ScannedSmallFiles

FEWEST = 2
"""Number of small files from which a table may be compacted."""
NAMED, LISTED = 3, 50
"""Tables that the text names, and that the JSON lists."""
ADVICE = "compaction makes reading faster: OPTIMIZE of Delta, rewrite_data_files of Iceberg, run_clustering of Hudi"


def most_first(small: Mapping[str, SmallFiles]) -> list[tuple[str, SmallFiles]]:
    """Return the tables that may be compacted."""
    tables = [(name, each) for name, each in small.items() if each.files >= FEWEST]
    return sorted(tables, key=lambda table: (-table[1].files, table[0]))


def lines(small: Mapping[str, SmallFiles]) -> Iterator[str]:
    """Yield the sum, the tables with most small files, and advice; nothing if no table may be compacted."""
    tables = most_first(small)
    if not tables:
        return
    files, bytes_ = sum(each.files for _, each in tables), sum(each.bytes for _, each in tables)
    yield (
        f"{number(files, 'file')} below {size(SMALL_FILE)} ({size(bytes_)} together) "
        f"in {number(len(tables), 'table')}"
    )
    for name, each in tables[:NAMED]:
        yield f"{visible(name)}: {number(each.files, 'file')}, {size(each.bytes)}"
    if len(tables) > NAMED:
        yield f"and {count(len(tables) - NAMED)} more"
    yield ADVICE


def listed(small: Mapping[str, SmallFiles]) -> list[ScannedSmallFiles]:
    """Return the tables with most small files."""
    return [
        {"table_name": name, "files": each.files, "bytes": each.bytes}
        for name, each in most_first(small)[:LISTED]
    ]
