"""The ceiling of what is changed at once: so much of a table that somebody should look before it is mended. Pure."""

from collections.abc import Mapping

from lakeaudit.errors import BadInput
from lakeaudit.formatting import count

LEAST = 100
"""Below so many files of a table there is no ceiling."""


def require_below(what: str, touched: Mapping[str, int], files: Mapping[str, int], share: float) -> None:
    """Refuse steps about more than a share of a table's files.

    Args:
        what: the plan, in words.
        touched: by table how many steps there would be.
        files: by table how many files the last audit counted; one that is not named was never counted.
        share: of a table's files, the most that may be touched.

    Raises:
        BadInput: a table has more steps; `--max-share` is the way out.
    """
    over = {table: n for table, n in touched.items() if n >= LEAST and n > share * files.get(table, 0)}
    if not over:
        return
    table = max(over, key=lambda name: (over[name], name))
    more = f" ({count(len(over) - 1)} more tables as well)" if len(over) > 1 else ""
    of = (
        f"of its {count(files[table])} files"
        if table in files
        else "files, and no audit counted how many it has"
    )
    told = f"would touch {count(over[table])} {of}, more than the ceiling of {share:.0%}{more}"
    hint = "look why first; --max-share 1 goes on, --table leaves the others out"
    raise BadInput(f"table {table}", f"{what} {told}", hint)
