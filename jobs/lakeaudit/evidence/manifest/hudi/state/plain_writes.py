"""Turn the files that archived writes list into STEP rows, in SQL.

Only writes whose paths, names and numbers are as Hudi writes them are *plain*; the rules for all others are those of
`timeline.payload`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from lakeaudit.evidence.manifest.hudi.state.rows import STEP
from lakeaudit.evidence.manifest.hudi.timeline.payload import LONGEST, MOST_ROWS
from lakeaudit.evidence.manifest.hudi.timeline.write_columns import WriteColumns
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, literal
from lakeaudit.schemas import plain_time

_INSTANT = "([0-9]{14}(?:[0-9]{3})?)"
_BASE = rf"^([0-9A-Za-z-]+)_[0-9-]*_{_INSTANT}\.[a-z]+$"
_LOG = rf"^\.([0-9A-Za-z-]+)_{_INSTANT}\.log\.[0-9]+(?:_[0-9-]+)?$"
"""Names with one way to match them, for which RE2 is fast."""
_PARTS = "['file_id', 'instant']"
_WRITE = pa.schema(
    [("write", pa.int64()), ("at", pa.timestamp("us")), ("begin", pa.string()), ("completed", pa.string())]
)


class Write(NamedTuple):
    """A write: its number, when it was completed, and its instants as they are written in names."""

    number: int
    at: datetime
    begin: str
    completed: str


class PlainWrites:
    """The plain ones of writes of one table."""

    def __init__(self, con: Connection, columns: WriteColumns) -> None:
        self._listed = duck.hold(con, duck.query(con, _NAMED, listed=columns.listed))
        self._replaced, self._con = columns.replaced, con
        rows = duck.query(con, _ODD, listed=self._listed, replaced=columns.replaced).to_plain()
        self.numbers = columns.numbers - columns.odd - {row["write"] for row in rows}

    def steps(self, name: str, place: Location, reading: int, writes: Sequence[Write]) -> Relation:
        """Return the STEP rows of these writes, which are plain."""
        known = duck.small(_WRITE, [(each.number, plain_time(each.at), *each[2:]) for each in writes])
        sql = _STEPS.format(
            table=f"{literal(name)} AS table_name, {reading}::BIGINT AS reading",
            bucket=literal(place.bucket),
            prefix=literal(place.prefix),
        )
        rows: Mapping[str, duck.Rows] = {"listed": self._listed, "replaced": self._replaced, "writes": known}
        return duck.conform(self._con, duck.query(self._con, sql, **rows), STEP)


def _is_odd(folder: str) -> str:
    """Return whether a folder has an empty or hidden part, or is not below the table's location, in SQL."""
    ends = f"starts_with({folder}, '/') OR ends_with({folder}, '/') OR starts_with({folder}, '.')"
    return f"{ends} OR contains({folder}, '//') OR contains({folder}, '/.') OR contains({folder}, ':/')"


_NAMED = f"""
    SELECT * EXCLUDE (base, name), base.file_id <> '' AS is_base, left(path, -length(name) - 1) AS folder,
        CASE WHEN is_base THEN base ELSE regexp_extract(name, '{_LOG}', {_PARTS}) END AS named
    FROM (SELECT *, regexp_extract(name, '{_BASE}', {_PARTS}) AS base
        FROM (SELECT *, parse_filename(path, false, 'forward_slash') AS name FROM listed WHERE path <> ''))"""
"""LISTED rows with the parts of their names, which are empty in names of other forms."""
_ODD = f"""
    SELECT DISTINCT write FROM listed
    WHERE named.file_id = '' OR starts_with(path, '/') OR strlen(path) > {LONGEST} OR strlen(before) > {LONGEST}
        OR {_is_odd("folder")}
    UNION SELECT DISTINCT write FROM replaced
    WHERE strlen(file_id) > {LONGEST} OR strlen(folder) > {LONGEST} OR {_is_odd("folder")}"""
"""The writes that are not plain."""


def _in_order(instant: str) -> str:
    """Return an instant in SQL as `names.in_order` does."""
    return f"CASE length({instant}) WHEN 14 THEN {instant} || '999' ELSE {instant} END"


_STEPS = f"""
    SELECT {{table}}, folder || '/' || named.file_id AS file_group, folder,
        {{bucket}} AS bucket, {{prefix}} || path AS key, 'wrote' AS act,
        CASE WHEN is_base THEN 'base' ELSE 'log' END AS kind,
        CASE WHEN is_base OR completed = '' THEN {_in_order("named.instant")} ELSE completed END AS slice, "at",
        CASE WHEN size > 0 AND (is_base OR completed <> '') THEN size END AS size,
        CASE WHEN size > 0 AND NOT is_base AND completed = '' THEN size END AS least_size,
        CASE WHEN coalesce(errors, 0) = 0 AND written >= 0 THEN written END AS records,
        CASE WHEN is_base AND before NOT IN ('', 'null') THEN {_in_order("before")} END AS before,
        CASE WHEN is_base AND inserted BETWEEN 0 AND {MOST_ROWS - 1} AND removed BETWEEN 0 AND {MOST_ROWS - 1}
            THEN inserted - removed END AS grown,
        begin AS commit_id, true AS archived
    FROM (SELECT *, coalesce(deleted, 0) AS removed FROM listed)
    JOIN writes USING (write)
    UNION ALL BY NAME
    SELECT {{table}}, folder || '/' || file_id AS file_group, folder, 'replaced' AS act, 'base' AS kind, '' AS slice,
        "at", begin AS commit_id, true AS archived
    FROM replaced JOIN writes USING (write)"""
