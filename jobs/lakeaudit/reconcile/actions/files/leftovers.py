"""Read the state of an unused file, decide whether it may be removed, and record it, for all actions on such files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.registry import roots
from lakeaudit.evidence.storage.head import MD5_ENCRYPTIONS, ObjectHead, is_md5
from lakeaudit.formatting import iso
from lakeaudit.keys import Location
from lakeaudit.reconcile import deletion_guards
from lakeaudit.reconcile.copying import head_or_none
from lakeaudit.reconcile.key_state import Current, KeyState
from lakeaudit.reconcile.manifest_precondition import ManifestPrecondition
from lakeaudit.reconcile.protocol import OLDER, CannotActSafely, Case, Look, StateReader, Target
from lakeaudit.reconcile.steps import Step

PROOF = "the audit and the four deletion guards"
"""The text in a plan; apply checks the third guard again."""
LONGEST = 1024
"""Most bytes of a key (S3 User Guide, "Naming Amazon S3 objects")."""


@dataclass(frozen=True)
class LeftoverState:
    """The current state of an unused file.

    Attributes:
        versioning: versioning of its bucket, as in `KeyState`.
        current: the object that readers get; None: no object.
        versions: versions of the key, if its bucket keeps them.
        place: location of its copy in the quarantine, unique to the plan; None: the bucket keeps versions, or the
            server cannot copy from the bucket to the quarantine.
        copy: the object at that location.
        inside: folder around the file of a table that the lake file does not name.
        is_folder: the object may stand for a folder of other objects.
    """

    versioning: str
    current: Current | None
    versions: KeyState | None = None
    place: Location | None = None
    copy: Current | None = None
    inside: str | None = None
    is_folder: bool = False


def look(reader: StateReader, bucket: str, key: str) -> LeftoverState:
    """Read the key, its copy and the folders around it. Raises Unclear."""
    versioning = reader.keys.versioning(bucket, key)
    current, inside = reader.keys.current(bucket, key), _unnamed_root(reader, bucket, key)
    state = LeftoverState(
        versioning, current, inside=inside, is_folder=_is_folder(reader, current, bucket, key)
    )
    if versioning:
        return replace(state, versions=reader.keys.read(bucket, key))
    place = _place(reader, bucket, key)
    return replace(state, place=place, copy=None if place is None else reader.keys.current(*place))


def _is_folder(reader: StateReader, current: Current | None, bucket: str, key: str) -> bool:
    """Return whether an object is the name of a folder: programs that delete it may delete the files below it, too."""
    if current is None:
        return False
    return key.endswith("/") or (current.head.size == 0 and reader.keys.holds_any(bucket, f"{key}/"))


def _unnamed_root(reader: StateReader, bucket: str, key: str) -> str | None:
    """Return the first folder between the table and the key that contains metadata of another table."""
    tables = [table.location for table in reader.lake.tables if table.location.holds(bucket, key)]
    own = max(tables, key=lambda place: place.depth, default=None)
    if own is None:
        return None
    folder = own.prefix
    for part in key[len(own.prefix) :].split("/")[:-1]:
        folder += f"{part}/"
        if any(reader.keys.holds_any(bucket, f"{folder}{root.folder}/") for root in roots().values()):
            return folder
    return None


def _place(reader: StateReader, bucket: str, key: str) -> Location | None:
    if reader.lake.quarantine is None:
        return None
    place, clients = reader.lake.quarantine.location.join(reader.plan_id, bucket, key), reader.clients
    return place if clients.endpoint(*place).endpoint == clients.endpoint(bucket, key).endpoint else None


def why_not(case: Case) -> str | None:
    """Return all reasons against the removal that are known without requests: guard 1, and those of the lake file."""
    of_kind = (
        deletion_guards.kind_allows(case.row) if case.row["key"] else None
    )  # a group has no category of its own
    return "; ".join(filter(None, (*_of_lake(case), of_kind, _too_old(case)))) or None


def _of_lake(case: Case) -> Iterator[str]:
    """Yield the reasons that the lake file gives for the location."""
    lake, place = case.lake, (case.row["bucket"], case.row["key"])
    if lake.quarantine is None:
        yield "the lake file names no quarantine"
    knowing = [each.location for each in lake.metastores if each.knows_files]
    if any(location is None or location.holds(*place) for location in knowing if place[1]):
        yield "a metadata store lists files there and would have to be updated"
    holding = [table for table in lake.tables if place[1] and table.location.holds(*place)]
    cleaned = [t.name for t in holding if _cleans_up(t)]
    if cleaned:
        yield f"{cleaned[0]} is a Hudi table: its own cleaner removes files"
    incomplete = [t.name for t in holding if not t.complete]
    if incomplete:
        yield f"the claims of {incomplete[0]} are incomplete"


def _too_old(case: Case) -> str | None:
    """Check guard 4 by the time in the finding, if there is no quarantine and so no request for the object."""
    written = case.row["storage_time"]
    if case.lake.quarantine is not None or written is None:
        return None
    return deletion_guards.is_since(written, case.first_audit, allowed=OLDER in case.allow)


def _cleans_up(table: Table) -> bool:
    """Return whether the table has a cleaner: a Hudi timeline that lost its archive may be incomplete unnoticed."""
    return any(manifest.has_own_cleaner for manifest in table.manifests)


def why_not_now(case: Case, seen: LeftoverState) -> str | None:
    """Return all reasons against the removal that the object itself gives, guards 2 and 4 among them."""
    current = seen.current
    if current is None:
        return "it no longer exists"
    head = current.head
    if not _is_as_audited(case.row, head):
        return "it was overwritten since the audit"
    inside = seen.inside and f"it is inside a table that the lake file does not name ({seen.inside})"
    obstacles = (
        *_locks(current, case.now),
        inside,
        _FOLDER if seen.is_folder else None,
        deletion_guards.is_old_enough_at_place(case.lake.tables, case.table, head, case.now),
        deletion_guards.is_since_first_audit(head, case.first_audit, allowed=OLDER in case.allow),
    )
    return "; ".join(filter(None, obstacles)) or None


_FOLDER = "its name is that of a folder, which may contain files"


def _locks(current: Current, now: datetime) -> Iterator[str]:
    if current.legal_hold:
        yield "it is under a legal hold"
    if current.locked_until is not None and current.locked_until > now:
        yield f"it is locked until {current.locked_until:%Y-%m-%d}"
    if current.head.archived:
        yield f"it is archived ({current.head.storage_class})"


def _is_as_audited(row: Mapping[str, Any], head: ObjectHead) -> bool:
    now = {"storage_size": head.size, "storage_etag": head.etag}
    return all(row[name] in (None, value) for name, value in now.items())


def recorded(head: ObjectHead) -> dict[str, Any]:
    """Return the attributes of an object that a plan records."""
    return {
        "version_id": head.version_id,
        "size": head.size,
        "etag": head.etag,
        "checksum": head.checksum,
        "encryption": head.encryption,
        "storage_class": head.storage_class,
        "modified_at": iso(head.modified_at),
    }


def twin_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded name of the file that stays, for a duplicate."""
    return {"twin": row["related_key"]} if row["kind"] in deletion_guards.DUPLICATES else {}


def require_twin(step: Step, target: Target) -> None:
    """Check for a duplicate that the other file exists, with the same bytes if its content made it a duplicate.

    Raises:
        CannotActSafely: the other file is missing or different, or its content is not known.
        ClientError, BotoCoreError: no answer.
    """
    if step.kind not in deletion_guards.DUPLICATES:
        return
    twin = head_or_none(target.s3, Location(target.bucket, step.precondition["twin"]))
    if twin is None:
        raise CannotActSafely("the other copy of the file no longer exists")
    if step.kind == "duplicate_content" and not same_bytes(step.precondition, twin):
        raise CannotActSafely("the other copy of the file is not known to contain the same bytes")


def is_unchanged(known: Mapping[str, Any], head: ObjectHead | None) -> bool:
    """Return whether an object is the recorded one, by all recorded attributes including its time."""
    return head is not None and recorded(head).items() <= known.items()


def is_as_planned(step: Step, seen: LeftoverState) -> bool:
    """Return whether the object is the one of the plan, so that its checked age and attributes still hold."""
    current = seen.current
    if current is None or seen.inside is not None or seen.is_folder or current.legal_hold:
        return False
    return is_unchanged(step.precondition, current.head)


def same_bytes(known: Mapping[str, Any], head: ObjectHead) -> bool | None:
    """Return whether an object contains the recorded bytes; None: not known."""
    if known["size"] != head.size:
        return False
    algorithm = (known["checksum"] or "").partition(":")[0]
    if algorithm and algorithm == head.checksum_algorithm:
        return bool(known["checksum"] == head.checksum)
    if not (tells_bytes(known["etag"], known["encryption"]) and tells_bytes(head.etag, head.encryption)):
        return None
    if known["etag"] == head.etag:
        return True
    return False if is_md5(known["etag"]) and is_md5(head.etag) else None


def tells_bytes(etag: str, encryption: str) -> bool:
    """Return whether an ETag is a digest of the bytes: an MD5, or one of the parts' MD5s."""
    return encryption in MD5_ENCRYPTIONS and is_md5(etag.partition("-")[0])


class LeftoverAction:
    """The base of the actions on unused files."""

    look: Look = staticmethod(look)

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require that no table lists the file."""
        return deletion_guards.is_unlisted()

    def refuses(self, case: Case) -> str | None:
        """See `why_not`."""
        return why_not(case)
