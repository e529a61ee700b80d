"""Print the result of `lakeaudit scan`, as text or JSON."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from lakeaudit.advice.command_lines import operand, option
from lakeaudit.commands.scan_scope import NAMED, Request, ScanScope
from lakeaudit.commands.scan_versions import NoncurrentVersions
from lakeaudit.formatting import number, visible
from lakeaudit.formatting import size as size_text
from lakeaudit.json_documents import ScannedFinding, ScanSummary
from lakeaudit.keys import Location
from lakeaudit.report import summary
from lakeaudit.runtime.connections.request_budget import RequestBudget

if TYPE_CHECKING:
    from lakeaudit.collect.match_result import SmallFiles
    from lakeaudit.report.page_data import PageData

UNLISTED = ("uncommitted", "unvacuumed", "unreferenced", "temporary", "unfinished_upload")
"""Kinds of files that no table lists."""
A_GIB_MONTH = 0.023
"""Dollars for a GiB and month: list price of S3 Standard in us-east-1, for the first 50 TB."""
LAKE_FILE = "lake.yaml"
"""Path of a lake file in printed commands, if the scan saved none."""


@dataclass(frozen=True)
class Scanned:
    """The result of a scan: its scope, the audit's page, the number of tables, and the requests sent to S3, if any."""

    request: Request
    scope: ScanScope
    page: "PageData"
    tables: int
    count_versions: Callable[[], NoncurrentVersions]
    budget: RequestBudget
    left_out: tuple[str, ...]
    small_files: "Mapping[str, SmallFiles]"

    @cached_property
    def noncurrent(self) -> NoncurrentVersions:
        """Count the noncurrent versions when they are printed: the findings come first."""
        return self.count_versions()


def print_result(scanned: Scanned, out: TextIO) -> str:
    """Print the result; return the verdict."""
    from lakeaudit.commands import scan_small_files
    from lakeaudit.explain import text_output
    from lakeaudit.runtime.console import console_on

    verdict = text_output.verdict_line(scanned.page)
    if not scanned.scope.is_searched:
        verdict += "; the location was not searched completely"
    elif scanned.left_out:
        verdict += "; not everything was judged"
    if scanned.request.format == "json":
        print(json.dumps(_as_json(scanned, verdict), default=str), file=out)
        return verdict
    text_output.scan(
        console_on(out),
        scanned.page,
        _unlisted_lines(scanned),
        scan_small_files.lines(scanned.small_files),
        _left_out(scanned),
        _next_commands(scanned),
    )
    return verdict


def _left_out(scanned: Scanned) -> Iterator[str]:
    yield from scanned.left_out
    yield from _not_counted(scanned)


def _not_counted(scanned: Scanned) -> Iterator[str]:
    for place, why in [*scanned.noncurrent.unread.items()][:NAMED]:
        yield f"noncurrent versions not counted: {visible(place)}: {why}"
    if (more := len(scanned.noncurrent.unread) - NAMED) > 0:
        yield f"noncurrent versions not counted: {number(more, 'more table')}"


@dataclass(frozen=True)
class Unlisted:
    """Files that no table lists: their number and bytes by kind; those of tables with losses may be needed."""

    kinds: Mapping[str, tuple[int, int]]
    doubtful: int
    unknown: int

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.kinds.values())


def losing_tables(totals: Sequence[Mapping[str, Any]]) -> set[str | None]:
    """Return the tables that lost files or states: files that they do not list may be needed for repairs."""
    return {row["table_name"] for row in totals if row["severity"] == "critical"}


def unlisted_of(totals: Sequence[Mapping[str, Any]]) -> Unlisted:
    """Sum up files that no table lists, without those of tables that lost files or states."""
    losing = losing_tables(totals)
    rows = [row for row in totals if row["kind"] in UNLISTED]
    kinds: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["table_name"] not in losing:
            files, size = kinds.get(row["kind"], (0, 0))
            kinds[row["kind"]] = (files + (row["files"] or 0), size + (row["bytes_at_stake"] or 0))
    doubtful = sum(row["files"] or 0 for row in rows if row["table_name"] in losing)
    unknown = sum(row["files"] or 0 for row in rows if row["bytes_at_stake"] is None)
    return Unlisted(kinds, doubtful, unknown)


def _unlisted_lines(scanned: Scanned) -> Iterator[str]:
    request, noncurrent = scanned.request, scanned.noncurrent
    unlisted = unlisted_of(scanned.page.totals)
    for kind, (files, size) in unlisted.kinds.items():
        yield f"{kind}: {number(files, 'file')}, {size_text(size)}"
    if noncurrent.files:
        yield f"noncurrent versions: {number(noncurrent.files, 'version')}, {size_text(noncurrent.bytes)}"
    size = unlisted.bytes + noncurrent.bytes
    if (cost := dollars(request, size)) is not None and size:
        which = "the given price" if request.price is not None else "the list price of S3 Standard"
        yield f"together at most {cost:,.2f} dollars a month at {which}"
    if unlisted.unknown:
        yield f"{number(unlisted.unknown, 'file')} of unknown size not included"
    if losing_tables(scanned.page.totals):
        what = (
            f"{number(unlisted.doubtful, 'file')} and the noncurrent versions"
            if unlisted.doubtful
            else "versions"
        )
        yield f"not included: {what} of tables with losses; they may be needed for repairs"
    if not unlisted.kinds and not unlisted.doubtful and not noncurrent.files:
        yield "none found; files that are too young to judge do not count"


def dollars(request: Request, size: int) -> float | None:
    """Return the price of so many bytes for a month; None if no price is known."""
    on_aws = request.endpoint is None and (request.place is None or request.place.is_in_s3)
    price = request.price if request.price is not None else A_GIB_MONTH if on_aws else None
    return None if price is None else size / 2**30 * price


def _next_commands(scanned: Scanned) -> list[str]:
    request, page = scanned.request, scanned.page
    place = operand(request.place.path_or_uri) if request.place else option("--catalog", scanned.scope.name)
    endpoint = f" {option('--endpoint', request.endpoint)}" if request.endpoint else ""
    commands = [] if request.save else [f"lakeaudit scan {place}{endpoint} --save {LAKE_FILE}"]
    lake, live = operand(page.lake), "" if request.place else " --live"
    commands.append(f"lakeaudit audit {lake}{live}")
    worst = next((row for row in page.findings if row["bucket"] is not None and row["key"]), None)
    if worst is not None:
        where = Location(worst["bucket"], worst["key"]).path_or_uri
        commands.append(f"lakeaudit explain {lake} {operand(where)}")
    return commands


def _as_json(scanned: Scanned, verdict: str) -> ScanSummary:
    from lakeaudit.commands import scan_small_files

    page, noncurrent = scanned.page, scanned.noncurrent
    unlisted = unlisted_of(page.totals)
    cost = dollars(scanned.request, unlisted.bytes + noncurrent.bytes)
    return {
        "place": scanned.scope.name,
        "tables": scanned.tables,
        "verdict": verdict,
        "kinds": [
            {"kind": line.name, "severity": line.worst, "findings": line.stake.findings,
             "files": line.stake.files.known, "rows": line.stake.rows.known, "bytes": line.stake.bytes.known}
            for line in summary.by_kind(page.totals)
        ],
        "findings": [_finding(row) for row in page.findings],
        "all_findings": page.finding_count,
        "unlisted_bytes": unlisted.bytes,
        "noncurrent_versions": noncurrent.files,
        "noncurrent_bytes": noncurrent.bytes,
        "unlisted_dollars_a_month": None if cost is None else round(cost, 2),
        "small_files": scan_small_files.listed(scanned.small_files),
        "judged": {row["table_name"]: row["status"] for row in page.coverage if row["axis"] == "content"},
        "left_out": [*_left_out(scanned)],
        "requests": scanned.budget.sent or None,
    }  # fmt: skip


def _finding(row: Mapping[str, Any]) -> ScannedFinding:
    return {
        "kind": row["kind"],
        "severity": row["severity"],
        "table_name": row["table_name"],
        "bucket": row["bucket"],
        "key": row["key"],
        "rows_at_stake": row["rows_at_stake"],
        "bytes_at_stake": row["bytes_at_stake"],
        "recoverable": row["recoverable"],
    }
