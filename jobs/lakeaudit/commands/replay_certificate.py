"""Audit the evidence of a certificate again, and compare the tallies: `lakeaudit certificate verify --replay`.

The audit reads what the certificate names, at its time, into results of its own that are deleted afterwards. It sends
no request about single files, and nothing of the lake or of its results changes.
"""

import tempfile
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from lakeaudit.certificate.comparison import compare_tallies, gone_evidence, other_evidence
from lakeaudit.certificate.rules_version import rules_version
from lakeaudit.certificate.verification import BAD, UNKNOWN, Check
from lakeaudit.commands.audit import run_audit
from lakeaudit.config import Lake
from lakeaudit.errors import AuditError
from lakeaudit.formatting import in_utc
from lakeaudit.json_documents import Certificate
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.scratch import scratch_root

if TYPE_CHECKING:
    from lakeaudit.audit.plan import Options

RUN_ID = "replay"


def replayed(lake: Lake, stated: Certificate, progress: Progress) -> list[Check]:
    """Return the checks of a replay; nothing is audited if it cannot give an answer."""
    if stated["lake"] != lake.name:
        return [Check(UNKNOWN, f"replay: the lake file is of the lake {lake.name}")]
    if stated["rules"] != rules_version():
        what = f"the rules are of another version; verify with lakeaudit {stated['version']}"
        return [Check(UNKNOWN, f"replay: {what}")]
    if gone := gone_evidence(stated):
        return gone
    with tempfile.TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as folder:
        try:
            options = _options(stated)
        except (ValueError, OverflowError):
            return [Check(BAD, "statement: a time in it is not a time")]
        try:
            return _audited_again(lake, stated, options, progress, Location.parse(folder))
        except AuditError as error:
            return [Check(UNKNOWN, f"replay: the evidence cannot be audited again: {error}")]


def _options(stated: Certificate) -> "Options":
    """Return the options of the audit that reads the evidence again.

    Raises:
        ValueError, OverflowError: the certificate has a text that is not a time of a calendar.
    """
    from lakeaudit.audit.plan import Options

    _time(stated["started_at"] or stated["as_of"])
    return Options(as_of=_time(stated["as_of"]), run_id=RUN_ID, snapshots=_snapshots(stated))


def _audited_again(
    lake: Lake, stated: Certificate, options: "Options", progress: Progress, place: Location
) -> list[Check]:
    started = _time(stated["started_at"] or stated["as_of"])
    elsewhere = lake.model_copy(
        update={"results": place, "other_results": (lake.results,), "gates_required": False}
    )
    clients = clients_of(elsewhere)
    run_audit(elsewhere, options, clients, lambda: started, progress, lambda _: [])
    results = Results(place, clients, lake.name)
    others = other_evidence(stated, results.run(RUN_ID)["sources"] or ())
    if others:
        return others
    changed = stated["lake_file"] != f"sha256:{lake.digest}"
    return compare_tallies(stated, results.coverage(RUN_ID), is_other_lake=changed)


def _snapshots(stated: Certificate) -> Mapping[tuple[str, str], datetime]:
    """Return by kind and location when the snapshots of storage and metadata stores began."""
    return {
        (each["kind"], each["location"]): _time(each["cut_from"])
        for each in stated["evidence"]
        if each["role"] in ("storage", "metastore") and each["cut_from"] is not None
    }


def _time(text: str) -> datetime:
    return in_utc(datetime.fromisoformat(text))
