"""Names the sources that could not be read, those of a table before those of other tables."""

from collections.abc import Sequence

from lakeaudit.keys import Location

CAUSES = 2
"""The number of causes that one line names; other causes are only counted."""

UnreadSource = tuple[str, str]
"""The place of a source that could not be read, and the reason with its place."""


def first_causes(causes: Sequence[str | None]) -> str:
    """Return the first distinct causes in one line; the others are counted."""
    distinct = list(dict.fromkeys(filter(None, causes)))
    more = f"; and {len(distinct) - CAUSES} more" if len(distinct) > CAUSES else ""
    return "; ".join(distinct[:CAUSES]) + more


def causes_of_table(sources: Sequence[UnreadSource], table: Location) -> str:
    """Return the first causes that concern a table, or of all sources if none seems to.

    A source concerns the table if its place contains the table, or names the bucket of the table: S3 writes the
    inventory of a bucket to a folder with the name of the bucket.
    """
    nearest = max((_nearness(place, table) for place, _ in sources), default=0)
    return first_causes([cause for place, cause in sources if _nearness(place, table) == nearest])


def _nearness(place: str, table: Location) -> int:
    folder = f"{place.rstrip('/')}/"
    if f"{table.uri.rstrip('/')}/".startswith(folder):
        return 2
    return int(bool(table.bucket) and f"/{table.bucket}/" in folder)
