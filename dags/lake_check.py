"""Answers from the check file of a lake whether a table may be used, as `lakeaudit check` does.

The check file, `RESULTS/check/LAKE.json`, is written by every audit. This module needs neither lakeaudit nor Spark, and
Airflow only for locations other than S3 and local paths, or for a connection.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

OK, DISCREPANCIES, UNKNOWN = "ok", "discrepancies", "unknown"
SEVERITIES = ("critical", "error", "warning", "info")
FORMAT = 1
"""Format of the check file."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Demand:
    """The demands on the last audit of a table; those of `lakeaudit check`."""

    min_severity: str = "error"
    judged: float = 1.0
    max_age: timedelta | None = None
    """None: the time after which the lake file calls an audit overdue."""
    after: datetime | None = None
    verified_through: datetime | None = None
    """All commits up to this time must be verified; None: no demand."""


def time_of(value: Any) -> datetime | None:
    """Return a time of the check file or of a template; without a zone it is UTC."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def answer_of(content: Row, table: str, demand: Demand, now: datetime) -> tuple[str, str]:
    """Return the answer for a table, and its line: the same answer as `lakeaudit check` gives.

    Args:
        content: the check file.
        table: name of the table.
        demand: the demands of the caller.
        now: the current time.
    """
    if content.get("format") != FORMAT:
        return UNKNOWN, f"the check file has format {content.get('format')!r}, and this sensor reads {FORMAT}"
    rows: Mapping[str, Row] = content["tables"]
    row = rows.get(table) or next((row for row in rows.values() if table in row["also"]), None)
    if row is None:
        return UNKNOWN, f"no table has this name in the last audit of {content['lake']}"
    early = list(_too_early(row, demand))
    doubts = list(_doubts(row, demand, demand.max_age or timedelta(seconds=content["overdue_seconds"]), now))
    if bad := _at_or_above(row["open"], demand.min_severity):
        noun = "discrepancy is" if sum(bad.values()) == 1 else "discrepancies are"
        return UNKNOWN if early else DISCREPANCIES, "; ".join(
            [*early, f"{_in_words(bad)} {noun} open", *doubts]
        )
    if early or doubts:
        return UNKNOWN, "; ".join([*early, *doubts])
    return OK, f"judged as of {row['through'] or row['as_of']} by run {row['run_id']}"


def _doubts(row: Row, demand: Demand, max_age: timedelta, now: datetime) -> Iterator[str]:
    yield from row["doubts"]
    if pending := _at_or_above(row["pending"], demand.min_severity):
        yield f"{_in_words(pending)} pending: nothing has confirmed or cleared this yet"
    share, as_of, until = row["judged_share"], time_of(row["as_of"]), time_of(row["accepted_until"])
    if share is not None and share < demand.judged:
        yield f"{share:.1%} of its files are judged, less than {demand.judged:.1%} ({row['remark']})"
    if as_of is not None and as_of < now - max_age:
        yield f"its last audit is {now - as_of} old, more than {max_age}"
    if until is not None and until <= now:
        yield f"the acceptance of a discrepancy ended at {until}"
    yield from _unverified(row, demand)
    if not row["doubts"] and (share is None or as_of is None):
        yield "the check file has no judged share of it"


def _unverified(row: Row, demand: Demand) -> Iterator[str]:
    """Yield why commits up to the demanded time are not verified; an older version of lakeaudit wrote no such time."""
    through = time_of(row.get("verified_through"))
    if demand.verified_through is not None and (through is None or through < demand.verified_through):
        known = (
            "no commit is verified" if through is None else f"its commits are verified only through {through}"
        )
        yield f"{known}, not through {demand.verified_through}"


def _too_early(row: Row, demand: Demand) -> Iterator[str]:
    through = time_of(row["through"])
    if demand.after is not None and (through is None or through < demand.after):
        yield f"its last audit used the storage snapshot of {through}, not one after {demand.after}"


def _at_or_above(numbers: Mapping[str, int], severity: str) -> dict[str, int]:
    below = SEVERITIES[SEVERITIES.index(severity) + 1 :]
    return {name: number for name, number in numbers.items() if name not in below and number}


def _in_words(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def read_check_file(lake: str, conn_id: str | None = None) -> dict[str, Any]:
    """Return the content of a check file, or of that of a lake file."""
    place, options = _place_of(lake) if lake.endswith((".yaml", ".yml")) else (lake, {})
    text = read_s3(place, options, conn_id) if place.startswith("s3") else _read_other(place, conn_id)
    content: dict[str, Any] = json.loads(text)
    return content


def _place_of(lake_file: str) -> tuple[str, Row]:
    """Return the location of the check file, and the key `s3` of the lake file."""
    import yaml

    content = yaml.safe_load(Path(lake_file).read_text(encoding="utf-8"))
    results = content["results"]
    results = results["location"] if isinstance(results, dict) else results
    if "${" in results:
        raise ValueError("its key `results` has a variable: name the check file instead")
    return f"{results.rstrip('/')}/check/{content['lake']}.json", content.get("s3") or {}


def read_s3(place: str, options: Row, conn_id: str | None = None) -> str:
    """Return the text of an object on S3; `options` is the key `s3` of a lake file.

    Raises:
        FileNotFoundError: there is no such object.
    """
    bucket, _, key = place.partition("://")[2].partition("/")
    client = _s3_client(options, conn_id)
    try:
        body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        raise FileNotFoundError(place) from None
    return body.decode()


def write_s3(place: str, content: bytes, options: Row) -> None:
    """Write an object on S3; `options` is the key `s3` of a lake file."""
    bucket, _, key = place.partition("://")[2].partition("/")
    _s3_client(options, None).put_object(Bucket=bucket, Key=key, Body=content)


def _s3_client(options: Row, conn_id: str | None) -> Any:
    if conn_id is not None:
        from airflow.providers.amazon.aws.hooks.s3 import S3Hook

        return S3Hook(conn_id).get_conn()
    import boto3
    from botocore.config import Config

    style: Any = {"addressing_style": "path"} if options.get("path_style") else {}
    config = Config(s3=style, retries={"mode": "adaptive", "max_attempts": 8})
    names = (("endpoint_url", "endpoint"), ("region_name", "region"))
    at = {name: _expanded(options.get(key)) for name, key in names}
    return boto3.client("s3", config=config, **at)


def _expanded(value: Any) -> Any:
    return os.path.expandvars(value) if isinstance(value, str) else value


def _read_other(place: str, conn_id: str | None) -> str:
    """Read a local file, or an object of another store, such as gs://, by the file systems of Airflow's providers."""
    if "://" not in place:
        return Path(place).read_text(encoding="utf-8")
    from airflow.sdk import ObjectStoragePath

    text: str = ObjectStoragePath(place, conn_id=conn_id).read_text()
    return text
