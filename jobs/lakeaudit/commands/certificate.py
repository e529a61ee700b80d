"""Build the certificate of the last published run for `lakeaudit certificate write` and `report --certificate`."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from lakeaudit import __version__
from lakeaudit.certificate.content import certificate, statement
from lakeaudit.certificate.envelope import Envelope, Signature
from lakeaudit.certificate.refusals import CertificateBasis, is_expected, refusals
from lakeaudit.certificate.rules_version import rules_version
from lakeaudit.certificate.signing_keys import KEY_VARIABLE, SigningKey
from lakeaudit.config import Lake
from lakeaudit.formatting import count, iso_or_null, number, second
from lakeaudit.json_documents import Certificate, CertificateState, CertificateTable
from lakeaudit.judged import CONTENT
from lakeaudit.kinds import KINDS, SERIOUS
from lakeaudit.ledger.last_states import READ
from lakeaudit.results.read import UNRESOLVED, Results, Row
from lakeaudit.results.summaries.verified_tables import current_watermarks

_COLUMNS = ["table_name", "axis", "kind", "severity", "ack_until"]


def build_certificate(
    lake: Lake, results: Results, now: datetime, key: SigningKey | None = None
) -> tuple[bytes | None, list[str]]:
    """Return the certificate with a line about it, or None with the reasons that prevent it.

    With a `key` it is a signed envelope, else plain JSON.

    Raises:
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    facts = _certificate_facts(lake, results, now)
    if reasons := refusals(facts):
        return None, reasons
    stated = certificate(facts, now, __version__)
    line = (
        f"{count(stated['files_agreed'])} of {number(stated['files'], 'file')} in"
        f" {number(stated['tables'], 'table')} agree{_through(stated['through'])}, {stated['digest']}"
    )
    if key is None:
        content = json.dumps(stated, indent=2, ensure_ascii=False) + "\n"
        return content.encode(errors="surrogateescape"), [f"{line}; {_UNSIGNED}"]
    public = key.public
    return signed(stated, key), [f"{line}; signed with the {public.algorithm} key {public.id}"]


_UNSIGNED = f"not signed: neither --key nor {KEY_VARIABLE} names a key"


def signed(stated: Certificate, key: SigningKey) -> bytes:
    """Return the DSSE envelope of a certificate with one signature."""
    payload = json.dumps(statement(stated), separators=(",", ":")).encode()
    unsigned = Envelope(payload, ())
    signature = Signature(key.public.id, key.sign(unsigned.signed_bytes))
    return Envelope(payload, (signature,)).text()


def _through(time: str | None) -> str:
    return "" if time is None else f" through {second(datetime.fromisoformat(time))}"


def _certificate_facts(lake: Lake, results: Results, now: datetime) -> CertificateBasis:
    run = results.published(None)
    names = [table.name for table in lake.tables]
    unresolved = _unresolved(results, {*names, ""}, now)
    coverage = results.coverage(run["run_id"])
    lost = {row["table_name"] for row in results.states() if row["standing"] == "lost"}
    states = _table_states(lake, results, run, coverage, now)
    exclusions = _exclusions(lake, now) | {"accepted": unresolved.accepted}
    return CertificateBasis(
        run=run,
        coverage=coverage,
        open_findings=unresolved.open,
        tables=names,
        exclusions=exclusions,
        lost_states=frozenset(lost & {*names}),
        table_states=states,
        replaced_states=_replaced_states(results, run, states),
        open_severities=unresolved.severities,
        rules=rules_version(),
        lake_file=f"sha256:{lake.digest}",
        has_live_checks=_has_live_checks(lake, run),
    )


def _has_live_checks(lake: Lake, run: Row) -> bool:
    """Return whether a run may have asked storage about single files: an audit with `--as-of` never does."""
    if run["as_of"] != run["started_at"]:
        return False
    return any(each.confirm.mode != "none" for each in (lake.settings, *(t.settings for t in lake.tables)))


def _table_states(
    lake: Lake, results: Results, run: Row, coverage: Sequence[Row], now: datetime
) -> list[CertificateTable]:
    """Return the state that a run read of each table whose files it compared."""
    names = sorted({row["table_name"] for row in coverage if row["axis"] == CONTENT and not is_expected(row)})
    states = {
        (row["table_name"], row["manifest_kind"]): row
        for row in results.states()
        if row["standing"] == READ and row["run_id"] == run["run_id"]
    }
    places = {row["table_name"]: row["location"] for row in results.tables()}
    places |= {table.name: table.location.uri for table in lake.tables}
    verified = _verified_through(lake, results, run, now)
    return [
        {
            "table": name,
            "location": places.get(name) or "",
            "states": [_state(row) for (table, _), row in sorted(states.items()) if table == name],
            "verified_through": iso_or_null(verified.get(name)),
        }
        for name in names
    ]


def _verified_through(lake: Lake, results: Results, run: Row, now: datetime) -> dict[str, datetime]:
    """Return by table the time up to which a run verified the commits; open discrepancies of today stop it."""
    today = {name: row["verified_through"] for name, row in current_watermarks(results, lake, now).items()}
    times = {row["table_name"]: row["verified_through"] for row in results.verified(run["run_id"])}
    return {name: min(at, today[name]) for name, at in times.items() if at and today.get(name)}


def _replaced_states(results: Results, run: Row, states: Sequence[CertificateTable]) -> frozenset[str]:
    """Return the tables of whose states only those are stored that other runs read."""
    others = {row["table_name"] for row in results.states() if row["run_id"] != run["run_id"]}
    return frozenset(each["table"] for each in states if not each["states"]) & others


def _state(row: Row) -> CertificateState:
    return {
        "kind": row["manifest_kind"],
        "number": row["number"],
        "state": row["state"],
        "table_id": row["table_id"],
        "etag": row["etag"],
        "written_at": iso_or_null(row["written_at"]),
    }


@dataclass(frozen=True)
class _Unresolved:
    """Unresolved discrepancies.

    `open` are those that prevent a certificate by table, axis and kind, `accepted` those that somebody accepted, and
    `severities` all of them by severity.
    """

    open: Mapping[tuple[str, str, str], int]
    accepted: Mapping[str, int]
    severities: Mapping[str, int]


def _unresolved(results: Results, tables: Collection[str], now: datetime) -> _Unresolved:
    """Count all unresolved rows of the axis content, and on other axes the critical ones and errors of the tables."""
    open_, accepted, severities = Counter[tuple[str, str, str]](), Counter[str](), Counter[str]()
    for batch in results.batches("discrepancies", pc.field("state").isin(UNRESOLVED), _COLUMNS):
        for row in batch.to_pylist():
            table, axis, kind = row["table_name"] or "", row["axis"], row["kind"]
            severities[row["severity"]] += 1
            if axis != CONTENT and row["severity"] not in SERIOUS:
                continue
            if axis != CONTENT and table not in tables:
                continue
            if axis != CONTENT and row["ack_until"] is not None and row["ack_until"] > now:
                accepted[f"{table}: {axis}: {kind}"] += 1
            else:
                open_[table, axis, kind] += 1
    return _Unresolved(open_, dict(sorted(accepted.items())), severities)


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
        if severity not in (*SERIOUS, "off") and KINDS[kind].severity in SERIOUS
    }
