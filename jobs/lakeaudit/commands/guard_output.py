"""Print the answers of `guard`, and write the list of the free keys."""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from lakeaudit.config import Lake
from lakeaudit.errors import CannotPublish
from lakeaudit.formatting import (
    count,
    duration,
    iso,
    iso_or_null,
    number,
    second,
    visible,
    without_signatures,
)
from lakeaudit.guard.answer import SHOWN_OF_LONG, GuardAnswers
from lakeaudit.json_documents import GuardedFile, GuardSummary, SafeList
from lakeaudit.keys import uri_of
from lakeaudit.rules.guard_rules import FREE, NEEDED, STATUSES, UNKNOWN
from lakeaudit.runtime.connections.request_limit import MAX_GUARD_REQUESTS
from lakeaudit.runtime.duck import DuckError
from lakeaudit.runtime.whole_files import replace_file, replacing

FORMAT = 1
SHOWN = 10
"""Files of each status that the text names."""
MINUTE = timedelta(minutes=1)
IN_JSON = SHOWN_OF_LONG
"""Files that are not free that the JSON document names."""


@dataclass(frozen=True)
class Request:
    """The arguments of the command.

    Attributes:
        delete_list: path or URI of the list, `-`, or a location that ends in `/`.
        form: name of the form of the list; None: it is recognised.
        tables: tables to whose locations relative paths belong.
        bucket: bucket of a lifecycle configuration.
        output: file for the free keys; None: none is written.
        format: text, json, jsonl or csv.
        max_requests: the most objects that are requested from storage.
    """

    delete_list: str
    form: str | None = None
    tables: Sequence[str] = ()
    bucket: str | None = None
    output: Path | None = None
    format: str = "text"
    max_requests: int = MAX_GUARD_REQUESTS
    spark: bool = False

    @property
    def prints_all(self) -> bool:
        """Return whether the output names each file of the list."""
        return self.format in ("jsonl", "csv")


@dataclass(frozen=True)
class Result:
    """The answers with the lake, the form of the list, and why files may be missing in the list.

    `clock_lead` is the time by which the clock of this machine is ahead of storage's.
    """

    lake: Lake
    answered: GuardAnswers
    form: str
    cut_off: str
    clock_lead: timedelta = timedelta(0)

    @property
    def exit_code(self) -> int:
        """Return 1 if a table needs a file, 3 if that is unknown for a file or the list is not complete, else 0."""
        counts = self.answered.counts
        if any(counts[status] for status in NEEDED):
            return 1
        return 3 if counts[UNKNOWN] or self.cut_off or not any(counts.values()) else 0


def warnings_of(result: Result) -> tuple[str, ...]:
    """Return the warnings about the list as a whole."""
    cut = f"the list is not complete: {result.cut_off}; a delete may remove files that guard did not check"
    ahead = duration(result.clock_lead)
    lead = f"the clock of this machine is {ahead} ahead of storage's, whose time guard uses"
    reasons = ((cut, bool(result.cut_off)), (lead, result.clock_lead > MINUTE))
    return tuple(text for text, applies in reasons if applies)


def verdict_of(result: Result) -> str:
    """Return the last line of the command."""
    counts = result.answered.counts
    needed = sum(counts[status] for status in NEEDED)
    total = sum(counts.values())
    unknown = (
        f"for {number(counts[UNKNOWN], 'file')} it is unknown whether a table needs them"
        if counts[UNKNOWN]
        else ""
    )
    if needed:
        why = "a table needs it" if needed == 1 else "tables need them"
        words = f"CRITICAL: do not delete {needed:,} of {number(total, 'file')}: {why}"
        return "; ".join(filter(None, [words, unknown]))
    if unknown or result.cut_off:
        return f"UNDECIDED: {unknown or 'the list is not complete'}"
    if not total:
        return "UNDECIDED: the list names no file"
    return f"OK: no table needs a file of the list ({number(total, 'file')}); valid until {_clock(result)}"


def _clock(result: Result) -> str:
    return second(result.answered.holds_until)


def print_answers(result: Result, request: Request, safe: SafeList | None, out: TextIO) -> None:
    """Print the answers in the requested format."""
    if request.format == "json":
        print(json.dumps(summary(result, request, safe)), file=out)
    elif request.format == "jsonl":
        out.writelines(f"{json.dumps(_plain(row))}\n" for row in result.answered.rows(*STATUSES))
    elif request.format == "csv":
        _write_csv(out, map(_plain, result.answered.rows(*STATUSES)))
    else:
        out.writelines(f"{line}\n" for line in _text(result, safe))


def _text(result: Result, safe: SafeList | None) -> Iterator[str]:
    counts = result.answered.counts
    for status in (*NEEDED, UNKNOWN):
        if counts[status]:
            yield f"{status}: {number(counts[status], 'file')}"
            yield from (f"  {_line(row)}" for row in result.answered.rows(status, most=SHOWN))
            if counts[status] > SHOWN:
                yield f"  and {counts[status] - SHOWN:,} more (--format jsonl prints all)"
    yield f"free: {number(counts[FREE], 'file')}; absent: {count(counts['absent'])}"
    if safe is not None:
        yield f"written: {visible(safe['file'])}, sha256 {safe['sha256']}, valid until {_clock(result)}"


def _line(row: Mapping[str, Any]) -> str:
    """Return a file with its table and the reason."""
    file = row["text"] if row["bucket"] is None else uri_of(row["bucket"], row["key"])
    of_table = [row["table_name"]] if row["table_name"] else []
    of_table += [f"version {row['table_version']}"] if row["table_version"] is not None else []
    of_table += [number(row["rows"], "row")] if row["rows"] is not None else []
    until = f", until {second(row['until'])}" if row["until"] is not None else ""
    where = f" ({', '.join(of_table)})" if of_table else ""
    return visible(without_signatures(f"{file}{where}: {row['reason']}{until}"))


def summary(result: Result, request: Request, safe: SafeList | None) -> GuardSummary:
    """Return the JSON document of `--format json`; it names at most IN_JSON files."""
    others = [_plain(row) for row in result.answered.rows(*NEEDED, UNKNOWN, most=IN_JSON)]
    document: GuardSummary = {
        "format": FORMAT,
        "lake": result.lake.name,
        "delete_list": request.delete_list,
        "form": result.form,
        "answered_at": iso(result.answered.read_at),
        "valid_until": iso(result.answered.holds_until),
        "exit_code": result.exit_code,
        "complete": not result.cut_off,
        "reason": result.cut_off or None,
        "counts": dict(result.answered.counts),
        "doubts": [f"{each.table}: {each.why}" for each in result.answered.doubts],
        "files": others,
    }
    if safe is not None:
        document["safe_list"] = safe
    return document


def _plain(row: Mapping[str, Any]) -> GuardedFile:
    return {
        "line": row["line"],
        "lines": row["lines"],
        "text": None if row["text"] is None else without_signatures(row["text"]),
        "uri": None if row["bucket"] is None else without_signatures(uri_of(row["bucket"], row["key"])),
        "status": row["status"],
        "reason": without_signatures(row["reason"]),
        "table": row["table_name"],
        "table_version": row["table_version"],
        "rows": row["rows"],
        "until": iso_or_null(row["until"]),
        "size": row["size"],
    }


def _write_csv(out: TextIO, rows: Iterator[GuardedFile]) -> None:
    """Write rows as CSV; people open it in terminals and spreadsheets, so characters that move others are escaped."""
    writer = csv.DictWriter(out, [*GuardedFile.__annotations__], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: visible(value) if isinstance(value, str) else value for name, value in row.items()}
        )


def write_safe_list(result: Result, path: Path) -> SafeList:
    """Write the free keys, and a JSON document with the digest of that file and the time for which it is valid."""
    try:
        with replacing(path) as copy:
            keys = result.answered.write_free_keys(str(copy))
            with copy.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        safe: SafeList = {
            "file": str(path),
            "sha256": digest,
            "keys": keys,
            "lake": result.lake.name,
            "answered_at": iso(result.answered.read_at),
            "valid_until": iso(result.answered.holds_until),
        }
        replace_file(path.with_name(f"{path.name}.json"), f"{json.dumps(safe)}\n".encode())
    except (OSError, DuckError) as error:
        what = f"cannot be written ({getattr(error, 'strerror', None) or error})"
        raise CannotPublish(f"-o {path}", what, "name a file in a writable folder") from error
    return safe
