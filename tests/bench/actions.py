"""Actions of the lake's Delta logs, as SQL of DuckDB: rows of checkpoints, and the JSON lines of commits."""

from tests.bench.rows import GOES, NEW, SECOND_COMMIT, files, sql_time
from tests.bench.spec import CHECKPOINT, CHECKPOINT_AT

_SIZE = "CAST(size AS BIGINT)"
_VALUES = "MAP {'dt': substr(place, 4, 10), 'hour': right(place, 2)}"
_TIME = "strftime(modified, '%Y-%m-%dT%H:%M:%S')"
_STATS = f"""concat('{{"numRecords":', 1000 + i % 90000, ',"minValues":{{"id":', i * 1000, ',"ts":"', {_TIME},
    '.000Z"}},"maxValues":{{"id":', i * 1000 + 999, ',"ts":"', {_TIME}, '.999Z"}},"nullCount":{{"id":0,"ts":0}}}}')"""
_INFO = (
    '"operation":"WRITE","operationParameters":{"mode":"Append","partitionBy":"[\\"dt\\",\\"hour\\"]"},'
    '"isBlindAppend":true'
)


def checkpoint_actions(t: int) -> str:
    """add and remove of the files that a table's checkpoint knows; one of the two is null."""
    removed = f"epoch_ms({sql_time(CHECKPOINT_AT)} - to_minutes(i % 8640))"
    return f"""SELECT CASE WHEN class <> 'removed' THEN {_add("false")} END AS add,
            CASE WHEN class = 'removed' THEN {_remove(removed, "false")} END AS remove
        FROM ({files(f"t = {t}")}) WHERE c IS NULL AND class NOT IN ('unlisted', 'stray')"""


def commit_lines() -> str:
    """(t, name, version, time, lines) of every commit after the checkpoints: what Delta writes, an object a line."""
    committed = files("begins + files > first + committed")
    adds = f"""SELECT t, c, string_agg({_line("add", _add("true"))}, '' ORDER BY i) AS lines
        FROM ({committed}) WHERE c IS NOT NULL AND class <> 'stray' GROUP BY t, c"""
    return f"""SELECT commits.t, name, version, commits.time,
            {_info("epoch_ms(commits.time)")} || coalesce(lines, '') AS lines
        FROM commits JOIN tables USING (t) LEFT JOIN ({adds}) adds ON adds.t = commits.t AND adds.c = commits.c"""


def second_commit_lines() -> str:
    """The same of the one commit that a day brings to each table."""
    at = sql_time(SECOND_COMMIT)
    removed = _line("remove", _remove(f"epoch_ms({at})", "true"))
    lines = f"""SELECT t, {_line("add", _add("true"))} AS line FROM ({NEW})
        UNION ALL SELECT t, {removed} FROM ({files()}) WHERE {GOES}"""
    return f"""SELECT t, name, {CHECKPOINT} + m + 1 AS version, {at} AS time,
            {_info(f"epoch_ms({at})")} || lines AS lines
        FROM tables JOIN (SELECT t, string_agg(line, '') AS lines FROM ({lines}) GROUP BY t) USING (t)"""


def _add(changes_data: str) -> str:
    return f"""{{'path': path, 'partitionValues': {_VALUES}, 'size': {_SIZE}, 'modificationTime': epoch_ms(modified),
        'dataChange': {changes_data}, 'stats': {_STATS}}}"""


def _remove(removed: str, changes_data: str) -> str:
    return f"""{{'path': path, 'deletionTimestamp': {removed}, 'dataChange': {changes_data},
        'extendedFileMetadata': true, 'partitionValues': {_VALUES}, 'size': {_SIZE}}}"""


def _line(action: str, fields: str) -> str:
    return f"""concat('{{"{action}":', to_json({fields}), '}}', chr(10))"""


def _info(at: str) -> str:
    return f"""concat('{{"commitInfo":{{"timestamp":', {at}, ',{_INFO}}}}}', chr(10))"""
