"""Answers of `lakeaudit guard` about the lines of a delete list, and the files that tests put into such lists."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from lakeaudit.commands.guard import run
from lakeaudit.commands.guard_output import Request
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.backdate import backdate
from tests.builders.delta_lake import add, metadata, protocol
from tests.builders.shop import Shop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MONTH = timedelta(days=30)
DATA = b"PAR1 a file PAR1"


def put(s3: "S3Client", bucket: str, key: str, age: timedelta = MONTH, body: bytes = DATA) -> str:
    """Put an object that was written so long ago; return its URI."""
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    backdate(bucket, key, datetime.now(UTC) - age)
    return f"s3://{bucket}/{key}"


def clone_of(shop: Shop, key: str, file: str) -> None:
    """A Delta table that lists one file of another table."""
    commit = [protocol(), metadata(), add(file)]
    body = "\n".join(map(json.dumps, commit)).encode()
    put(shop.s3, shop.bucket, f"{key}/_delta_log/{0:020}.json", body=body)


class Answers(dict[str, str]):
    """The status by text of the list; `result` is the result of the command."""

    result: CommandResult
    rows: dict[str, dict[str, object]]


def guard(
    lake: Lake,
    folder: Path,
    lines: Sequence[str] | str,
    *,
    ahead: timedelta = timedelta(0),
    **request: object,
) -> Answers:
    """Answer for these lines, or for the list of that name or location; the clock may be ahead."""
    out = StringIO()
    given = Request(_list_of(lines, folder), format="jsonl", **request)  # type: ignore[arg-type]
    result = run(given, lake, clock=lambda: datetime.now(UTC) + ahead, progress=SilentProgress(), out=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    answers = Answers({row["text"]: row["status"] for row in rows})
    answers.result, answers.rows = result, {row["text"]: row for row in rows}
    return answers


def printed(lake: Lake, folder: Path, lines: Sequence[str], form: str, output: Path | None = None) -> str:
    """Everything that the command prints in a format, with its last line."""
    out = StringIO()
    request = Request(_list_of(lines, folder), format=form, output=output)
    result = run(request, lake, clock=lambda: datetime.now(UTC), progress=SilentProgress(), out=out)
    return f"{out.getvalue()}{result.verdict}"


def _list_of(lines: Sequence[str] | str, folder: Path) -> str:
    if isinstance(lines, str):
        return lines
    file = folder / "delete.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)
