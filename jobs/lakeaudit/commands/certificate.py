"""`lakeaudit report --certificate`: reads what the last published run decided and states it, or says why not."""

import json
from collections import Counter
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from lakeaudit import __version__
from lakeaudit.config import Lake
from lakeaudit.formatting import count, number, second
from lakeaudit.report.certificate import Held, certificate, refusals
from lakeaudit.results.read import UNRESOLVED, Results


def made(lake: Lake, results: Results, now: datetime) -> tuple[bytes | None, list[str]]:
    """(the certificate, what to say of it), or (None, why there is none).

    Raises:
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    held = _held(lake, results, now)
    if reasons := refusals(held):
        return None, reasons
    stated = certificate(held, now, __version__)
    content = json.dumps(stated, indent=2, ensure_ascii=False) + "\n"
    said = (
        f"{count(stated['files_agreed'])} of {number(stated['files'], 'file')} in"
        f" {number(stated['tables'], 'table')} agree{_through(stated['through'])}, {stated['digest']}"
    )
    return content.encode(errors="surrogateescape"), [said]


def _through(time: str | None) -> str:
    return "" if time is None else f" through {second(datetime.fromisoformat(time))}"


def _held(lake: Lake, results: Results, now: datetime) -> Held:
    run = results.published(None)
    wanted = pc.field("state").isin(UNRESOLVED) & (pc.field("axis") == "content")
    open_content = Counter(
        (row["table_name"] or "", row["kind"])
        for batch in results.batches("discrepancies", wanted, ["table_name", "kind"])
        for row in batch.to_pylist()
    )
    coverage = results.coverage(run["run_id"])
    names = [table.name for table in lake.tables]
    lost = {row["table_name"] for row in results.states() if row["standing"] == "lost"}
    return Held(run, coverage, open_content, names, _exclusions(lake, now), frozenset(lost & {*names}))


def _exclusions(lake: Lake, now: datetime) -> dict[str, Any]:
    """What the lake file leaves out on purpose."""
    off = {"": lake.severities, **{table.name: table.severities for table in lake.tables}}
    return {
        "ignore": [e.model_dump(mode="json") for e in lake.ignores if e.holds_on(now.date())],
        "severity_off": {
            name: kinds
            for name, severities in off.items()
            if (kinds := sorted(kind for kind, severity in severities.items() if severity == "off"))
        },
    }
