"""Build the certificate of the last published run for `lakeaudit report --certificate`."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from lakeaudit import __version__
from lakeaudit.config import Lake
from lakeaudit.formatting import count, number, second
from lakeaudit.judged import CONTENT
from lakeaudit.kinds import KINDS, SEVERITIES
from lakeaudit.report.certificate import CertificateBasis, certificate, refusals
from lakeaudit.results.read import UNRESOLVED, Results

GRAVE = SEVERITIES[: SEVERITIES.index("error") + 1]
"""Severities of findings that prevent a certificate."""
_COLUMNS = ["table_name", "axis", "kind", "severity", "ack_until"]


def build_certificate(lake: Lake, results: Results, now: datetime) -> tuple[bytes | None, list[str]]:
    """Return the certificate with a line about it, or None with the reasons that prevent it.

    Raises:
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    facts = _certificate_facts(lake, results, now)
    if reasons := refusals(facts):
        return None, reasons
    stated = certificate(facts, now, __version__)
    content = json.dumps(stated, indent=2, ensure_ascii=False) + "\n"
    line = (
        f"{count(stated['files_agreed'])} of {number(stated['files'], 'file')} in"
        f" {number(stated['tables'], 'table')} agree{_through(stated['through'])}, {stated['digest']}"
    )
    return content.encode(errors="surrogateescape"), [line]


def _through(time: str | None) -> str:
    return "" if time is None else f" through {second(datetime.fromisoformat(time))}"


def _certificate_facts(lake: Lake, results: Results, now: datetime) -> CertificateBasis:
    run = results.published(None)
    names = [table.name for table in lake.tables]
    unresolved = _unresolved(results, {*names, ""}, now)
    coverage = results.coverage(run["run_id"])
    lost = {row["table_name"] for row in results.states() if row["standing"] == "lost"}
    exclusions = _exclusions(lake, now) | {"accepted": unresolved.accepted}
    return CertificateBasis(run, coverage, unresolved.open, names, exclusions, frozenset(lost & {*names}))


@dataclass(frozen=True)
class _Unresolved:
    """Unresolved discrepancies: those that prevent a certificate by table, axis and kind, and those accepted."""

    open: Mapping[tuple[str, str, str], int]
    accepted: Mapping[str, int]


def _unresolved(results: Results, tables: Collection[str], now: datetime) -> _Unresolved:
    """Count all unresolved rows of the axis content, and on other axes the critical ones and errors of the tables."""
    content = pc.field("axis") == CONTENT
    condition = pc.field("state").isin(UNRESOLVED) & (content | pc.field("severity").isin(GRAVE))
    open_, accepted = Counter[tuple[str, str, str]](), Counter[str]()
    for batch in results.batches("discrepancies", condition, _COLUMNS):
        for row in batch.to_pylist():
            table, axis, kind = row["table_name"] or "", row["axis"], row["kind"]
            if axis != CONTENT and table not in tables:
                continue
            if axis != CONTENT and row["ack_until"] is not None and row["ack_until"] > now:
                accepted[f"{table}: {axis}: {kind}"] += 1
            else:
                open_[table, axis, kind] += 1
    return _Unresolved(open_, dict(sorted(accepted.items())))


def _exclusions(lake: Lake, now: datetime) -> dict[str, Any]:
    """Return the exclusions that the lake file configures."""
    off = {"": lake.severities, **{table.name: table.severities for table in lake.tables}}
    return {
        "ignore": [e.model_dump(mode="json") for e in lake.ignores if e.holds_on(now.date())],
        "severity_off": {
            name: kinds
            for name, severities in off.items()
            if (kinds := sorted(kind for kind, severity in severities.items() if severity == "off"))
        },
        "severity_lowered": {
            name: lowered for name, severities in off.items() if (lowered := _lowered(severities))
        },
    }


def _lowered(severities: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds whose severity the lake file lowers below `error`, although the default is higher."""
    return {
        kind: severity
        for kind, severity in sorted(severities.items())
        if severity not in (*GRAVE, "off") and KINDS[kind].severity in GRAVE
    }
