"""The values of columns and properties that have a fixed set of values."""

from collections.abc import Mapping, Sequence
from typing import get_args

from lakeaudit.alerts import decide
from lakeaudit.commands.audit import EXIT_ORDER
from lakeaudit.errors import INTERRUPTED
from lakeaudit.formatting import CONFIRMED
from lakeaudit.json_documents import AxisStatus, RunStatus
from lakeaudit.kinds import AXES, KINDS, SEVERITIES
from lakeaudit.ledger import last_states, resolution, settle
from lakeaudit.reconcile import steps
from lakeaudit.reconcile.execution import journal
from lakeaudit.reconcile.plans.plan_file import FORMAT
from lakeaudit.reconcile.protocol import ALLOWED
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.results import watermark
from lakeaudit.results.acknowledgements import ACKNOWLEDGED
from lakeaudit.rules.guard_rules import STATUSES

Values = Mapping[str, Sequence[str | int]]

ROLES = ("manifest", "metastore", "storage", "events")
STATES = ("pending", "open", "resolved")
SUBJECT_TYPES = ("file", "partition", "prefix", "commit", "table", "source")
CATEGORIES = ("data", "deletes", "changes", "log", "statistics", "marker", "temporary", "other")
RECOVERABLE = ("yes", "no", "unknown")
RECOVERIES = ("delete_marker", "older_version")
ANSWERS = ("present", "absent", "deleted", "unknown", "not_asked")
EXIT_CODES = (*sorted(EXIT_ORDER), INTERRUPTED)

_TRANSITIONS = (*settle.TRANSITIONS.values(), ACKNOWLEDGED)
_PLAN_STATUSES = (journal.PLANNED, journal.APPLYING, journal.APPLIED, journal.UNDOING, journal.UNDONE)
_REVERSIBILITIES = (steps.REVERSIBLE, steps.COMPENSABLE, steps.FINAL)
_ACTIONS = (*ACTIONS, steps.NEEDS_PERSON)

OF_COLUMNS: Values = {
    "axis": AXES,
    "kind": tuple(KINDS),
    "severity": SEVERITIES,
    "category": CATEGORIES,
    "subject_type": SUBJECT_TYPES,
    "confirmation": tuple(CONFIRMED),
    "recoverable": RECOVERABLE,
    "recovery": RECOVERIES,
    "runs.status": get_args(RunStatus),
    "runs.sources.kind": (),
    "runs.sources.role": ROLES,
    "coverage.status": get_args(AxisStatus),
    "states.standing": (last_states.READ, last_states.LOST, last_states.ELSEWHERE, last_states.CATALOGUED),
    "verified.movement": watermark.MOVEMENTS,
    "transitions.transition": _TRANSITIONS,
    "transitions.from_kind": tuple(KINDS),
    "transitions.to_kind": tuple(KINDS),
    "transitions.from_severity": SEVERITIES,
    "transitions.to_severity": SEVERITIES,
    "discrepancies.state": STATES,
    "discrepancies.resolution": resolution.RESOLUTIONS,
    "notices.kind": decide.NOTICE_KINDS,
    "notices.status": (decide.DUE, decide.SENT, decide.FAILED_TO_SEND),
    "plans.status": _PLAN_STATUSES,
    "actions.reversibility": _REVERSIBILITIES,
}
"""By column, or by table and column if the meaning differs; an empty list: any text."""

OF_PROPERTIES: Values = {
    "kind": tuple(KINDS),
    "severity": SEVERITIES,
    "exit_code": EXIT_CODES,
    "recoverable": RECOVERABLE,
    "SourceSummary.kind": (),
    "CertificateEvidence.kind": (),
    "CertificateEvidence.role": ROLES,
    "CertificateState.kind": (),
    "SourceSummary.role": ROLES,
    "SourceAnswer.answer": ANSWERS,
    "WebhookChange.recoverable": (),
    "WebhookNotice.kind": decide.NOTICE_KINDS,
    "Header.allow": ALLOWED,
    "Header.lakeaudit_plan": (FORMAT,),
    "Step.action": _ACTIONS,
    "Step.reversibility": (*_REVERSIBILITIES, ""),
}
"""By property, or by type and property if the meaning differs; of lists the values of their elements."""

OF_KEYS: Values = {
    "AuditSummary.findings": tuple(KINDS),
    "AuditSummary.severities": SEVERITIES,
    "AuditSummary.states": STATES,
    "CommandOutcome.actions": _ACTIONS,
    "GuardSummary.counts": STATUSES,
    "WebhookChange.recoverable": RECOVERABLE,
    "WebhookMessage.open": SEVERITIES,
}
"""The keys of properties that are mappings."""


def values_of(values: Values, owner: str, name: str) -> Sequence[str | int]:
    """Return the values of a property of `owner`; empty: any value."""
    return values.get(f"{owner}.{name}", values.get(name, ()))
