"""Check the ceiling: a plan that changes a large share of a table needs a person's approval. Pure."""

from collections.abc import Mapping

from lakeaudit.errors import BadInput
from lakeaudit.formatting import count

LEAST = 100
"""A plan that changes fewer files of a table is always below the ceiling."""


def require_below(what: str, touched: Mapping[str, int], files: Mapping[str, int], share: float) -> None:
    """Refuse a plan that changes more than a share of a table's files.

    Args:
        what: name of the plan, for the message.
        touched: number of steps by table.
        files: number of files by table in the last audit; a missing table was never counted.
        share: largest share of a table's files that may be changed.

    Raises:
        BadInput: a table has more steps; the message names `--max-share`.
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
    message = f"would change {count(over[table])} {of}, more than the ceiling of {share:.0%}{more}"
    hint = "find the cause first; --max-share 1 permits the plan, --table limits it to some tables"
    raise BadInput(f"table {table}", f"{what} {message}", hint)
