"""Print the least AWS permissions for a lake file, as an IAM policy or a CloudFormation template."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lakeaudit.commands.init import place_of
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import BadInput, one_line
from lakeaudit.formatting import count, number
from lakeaudit.grants import Grant
from lakeaudit.keys import GOOGLE
from lakeaudit.permissions import cloudformation, event_setup
from lakeaudit.permissions.event_places import unnamed_places
from lakeaudit.permissions.event_setup import EventSetup
from lakeaudit.permissions.lakes import (
    audit_grants,
    follow_grants,
    guard_grants,
    reconcile_grants,
    scan_grants,
    scan_grants_at,
)
from lakeaudit.permissions.policies import INLINE, MANAGED, Permissions, permissions_of, size_of
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of

LIMITS = (
    "S3 has no right to read only the attributes of an object: HEAD requests need s3:GetObject, which also reads data",
    "the lake file names no KMS keys: their objects also need kms:Decrypt, and results kms:GenerateDataKey",
    "files outside of their table's location (shallow clones, absolute paths, moved partitions) are not covered",
)
"""The limits of IAM, and the facts that a lake file lacks."""
_GRANTS = {
    "audit": audit_grants,
    "follow": follow_grants,
    "guard": guard_grants,
    "reconcile": reconcile_grants,
    "scan": scan_grants,
}


@dataclass(frozen=True)
class Request:
    """The arguments of the command: the path of a lake file or a location, the task, and the form of the output."""

    target: str
    task: str = "audit"
    format: str = "iam"
    role: str | None = None


def run(request: Request, env: Mapping[str, str], out: TextIO, err: TextIO) -> CommandResult:
    """Print the policy or the template to `out`, and notes to `err`.

    The exit code is 3 if the policy does not cover the whole lake file.

    Raises:
        BadInput: the target is not in AWS, or no request is sent with the role.
        LakeFileError: the lake file is not valid.
    """
    lake = None if _is_place(request) else load_lake(request.target, env)
    clients = Clients() if lake is None else clients_of(lake)
    setup = event_setup.event_setup(lake, clients) if lake is not None and request.task == "follow" else None
    if request.format == "commands":
        return _commands(setup, lake, out)
    found = permissions_of(_grants(request, lake), clients)
    policy = _policy(request, found)
    gaps = [*found.missing, *_too_large(request, policy), *_event_gaps(setup, lake, clients)]
    document = policy if request.format == "iam" else _template(request, lake, clients, policy, gaps, setup)
    print(json.dumps(document, indent=2), file=out)
    verdict = f"{number(len(policy['Statement']), 'statement')}, {count(size_of(policy))} characters"
    for note in (*_other_roles(request, found), *_setup_notes(setup), *LIMITS):
        print(f"note: {one_line(note)}", file=err)
    warnings = tuple(f"not covered: {gap}" for gap in gaps)
    return CommandResult(f"{'PARTIAL' if gaps else 'OK'}: {verdict}", 3 if gaps else 0, warnings=warnings)


def _commands(setup: EventSetup | None, lake: Lake | None, out: TextIO) -> CommandResult:
    """Print the commands of the set-up of events."""
    if lake is not None and lake.follow is not None and lake.follow.journal is not None:
        raise BadInput(
            "--format commands", "a journal needs no queue", "see docs/follow-setup.md, The journal"
        )
    if setup is None or lake is None:
        raise BadInput("--format commands", "only `follow` needs commands", "add `--for follow`")
    print(event_setup.commands(setup), file=out)
    gaps = tuple(f"not covered: {gap}" for gap in unnamed_places(lake))
    verdict = f"queue {setup.arn}, {number(len(setup.places), 'bucket')}"
    return CommandResult(f"{'PARTIAL' if gaps else 'OK'}: {verdict}", 3 if gaps else 0, warnings=gaps)


def _event_gaps(setup: EventSetup | None, lake: Lake | None, clients: Clients) -> Iterator[str]:
    """Yield the buckets whose events the set-up does not reach."""
    if setup is None or lake is None:
        return
    yield from unnamed_places(lake)
    for place in setup.places:
        region = clients.endpoint(*place).region or setup.region
        if region != setup.region:
            what = f"events of the bucket {place.bucket} in {region}: S3 sends only to a queue in the same region"
            yield f"{what}; use EventBridge (docs/follow-setup.md)"


def _setup_notes(setup: EventSetup | None) -> Iterator[str]:
    if setup is not None:
        what = "the policy is of the role that runs `follow` and `doctor`; `--format commands` prints the commands for"
        yield f"{what} the queue and the notifications of {number(len(setup.places), 'bucket')}"


def _is_place(request: Request) -> bool:
    is_place = "://" in request.target or Path(request.target).is_dir()
    if is_place and request.task != "scan":
        raise BadInput(
            request.target, "is a location and not a lake file", "name a lake file, or add `--for scan`"
        )
    if request.target.startswith(GOOGLE):
        raise BadInput(
            request.target, "is not in AWS, so no IAM policy applies", "give the rights in that cloud"
        )
    return is_place


def _grants(request: Request, lake: Lake | None) -> Iterable[Grant]:
    return scan_grants_at(place_of(request.target)) if lake is None else _GRANTS[request.task](lake)


def _policy(request: Request, found: Permissions) -> Mapping[str, Any]:
    if not found.policies:
        what = "; ".join(["no part of it is in AWS, so no IAM policy applies", *found.missing])
        raise BadInput(request.target, what, "give the rights in the operating system or in that cloud")
    if request.role not in found.policies:
        known = ", ".join(filter(None, found.policies)) or "the lake file names none"
        raise BadInput("--role", f"no request is sent with {request.role}", f"one of: {known}")
    return found.policies[request.role]


def _too_large(request: Request, policy: Mapping[str, Any]) -> Iterator[str]:
    most = MANAGED if request.format == "iam" else INLINE
    if (size := size_of(policy)) > most:
        what = f"the policy has {count(size)} characters, and AWS takes {count(most)}"
        yield f"{what}: attach its statements as several managed policies"


def _other_roles(request: Request, found: Permissions) -> Iterator[str]:
    for role in found.policies:
        if role not in (None, request.role):
            yield f"other requests are sent with {role}: print its policy with `--role {role}`"


def _template(
    request: Request,
    lake: Lake | None,
    clients: Clients,
    policy: Mapping[str, Any],
    gaps: list[str],
    setup: EventSetup | None,
) -> dict[str, Any]:
    is_whole = lake is not None and request.task != "scan"
    bucket = cloudformation.results_bucket(lake, clients) if lake is not None and is_whole else None
    steps = [*cloudformation.setup_steps(lake)] if lake is not None and is_whole else []
    unnamed = cloudformation.unnamed_buckets(lake) if lake is not None and steps else ()
    name = request.target if lake is None else lake.name
    steps += event_setup.notification_steps(setup) if setup is not None else ()
    more = event_setup.stack_resources(setup) if setup is not None else {}
    return cloudformation.template(
        name, request.task, policy, bucket, steps, [*gaps, *unnamed, *LIMITS], more
    )
