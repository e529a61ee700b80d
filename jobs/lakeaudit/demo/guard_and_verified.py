"""Shows `guard` on the healthy lake, and `verified` after the audits of the demo."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from lakeaudit.advice.command_lines import operand
from lakeaudit.commands import guard
from lakeaudit.commands.guard_output import Request
from lakeaudit.config import Lake
from lakeaudit.demo.server import LAKE, Server
from lakeaudit.formatting import count, number
from lakeaudit.keys import uri_of
from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.connections.resolve import delta_rs_options
from lakeaudit.runtime.progress import Progress, SilentProgress

LIST = "delete-list.txt"
TABLE, FOLDER = "finance.invoices", "lakehouse/invoices"
UNUSED = tuple(f"{FOLDER}/part-0000{number}-of-a-crashed-job.parquet" for number in (1, 2))
"""Files that no commit lists. They exist only while guard answers."""


@dataclass(frozen=True)
class Guarded:
    """The output of guard as lines; `well`: it refused the delete."""

    lines: tuple[str, ...]
    well: bool


def guarded_delete(server: Server, lake: Lake, folder: Path, progress: Progress) -> Guarded:
    """Let guard check a delete list that names two unused files and a file of a table; return its output."""
    delete_list, out = folder / LIST, io.StringIO()
    with progress.stage("guard a delete list") as log:
        needed = DeltaTable(f"s3://{LAKE}/{FOLDER}", storage_options=delta_rs_options(server.endpoint, LAKE))
        uris = [*(uri_of(LAKE, key) for key in UNUSED), min(needed.file_uris())]
        delete_list.write_text("".join(f"{uri}\n" for uri in uris), encoding="utf-8")
        s3 = server.clients.s3(LAKE)
        versions = {key: s3.put_object(Bucket=LAKE, Key=key, Body=b"")["VersionId"] for key in UNUSED}
        request = Request(str(delete_list))
        try:
            result = guard.run(
                request, lake, clock=lambda: datetime.now(UTC), progress=SilentProgress(), out=out
            )
        finally:
            for key, version in versions.items():
                s3.delete_object(Bucket=LAKE, Key=key, VersionId=version)
        log.note(files=len(uris))
    purpose = f"Before the damage, somebody wanted to delete {number(len(uris), 'file')} of {TABLE}"
    lines = (
        f"{purpose}: {operand(str(delete_list))} names them.",
        f"`lakeaudit guard` answered with exit code {result.exit_code}:",
        *(f"  {line}" for line in (*out.getvalue().splitlines(), result.verdict)),
    )
    return Guarded(lines, result.exit_code == 1)


def verified_lines(lake: Lake) -> Iterator[str]:
    """Yield for each audit of the demo how many tables are verified up to their newest commits."""
    results = Results(lake.results, clients_of(lake), lake.name)
    runs = [run for run in results.runs() if run["status"] in PUBLISHED]
    names = ("the damage", "the repairs", "the undo")
    for name, run in zip(names, runs, strict=False):
        rows = results.verified(run["run_id"])
        whole = [row for row in rows if row["verified_through"] and not row["blocked_by"]]
        back = any(row["movement"] == "back" for row in rows)
        when = f"After {name}{', which reopened discrepancies' if back else ''}"
        yield f"{when}, all commits of {count(len(whole))} of {number(len(rows), 'table')} were verified."
