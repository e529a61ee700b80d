"""Whether a table lists a file now: its manifests are read anew for that one file."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import AuditError
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain

LISTED, NOT_LISTED, UNKNOWN = "listed", "not_listed", "unknown"


def listing_of(lake: Lake, clients: Clients, step: Step) -> tuple[str, str]:
    """(LISTED, NOT_LISTED or UNKNOWN, why it is unknown) of a step's file and the table that the step is for.

    A state manifest answers alone where the table has one, as in an audit; else any record that names the file will do.
    """
    table = next((each for each in lake.tables if each.name == step.table_name), None)
    if table is None or step.bucket is None or step.key is None:
        return UNKNOWN, "its table is not named in the lake file"
    asked = table.state_manifests or table.event_manifests
    told = [
        _asked(kind, table, clients, step.bucket, step.key)
        for kind in dict.fromkeys(manifest.kind for manifest in asked)
    ]
    if any(answer == "present" for answer, _, _ in told):
        return LISTED, ""
    unknown = [reason for answer, _, reason in told if answer == "unknown"]
    if unknown or not told:
        return UNKNOWN, "; ".join(unknown) or "the table has no manifest"
    return NOT_LISTED, ""


def _asked(kind: str, table: Table, clients: Clients, bucket: str, key: str) -> tuple[str, Any, str]:
    """A manifest that cannot be read says nothing."""
    try:
        return MANIFESTS[kind].look_up(table, clients, bucket, key)
    except AuditError as error:
        return "unknown", [], str(error)
    except (ClientError, BotoCoreError) as error:
        return "unknown", [], explain(error).what
