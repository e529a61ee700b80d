"""What the actions upon leftovers share: what they look at, when a file may be one of theirs, and what they record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.registry import roots
from lakeaudit.evidence.storage.head import MD5_ENCRYPTIONS, ObjectHead, is_md5
from lakeaudit.formatting import iso
from lakeaudit.keys import Location
from lakeaudit.reconcile import four_yeses
from lakeaudit.reconcile.copying import found
from lakeaudit.reconcile.key_state import Current, KeyState
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import OLDER, Case, Look, NotProved, Sight, Target
from lakeaudit.reconcile.steps import Step

PROOF = "the audit, and four yeses"
"""What a plan says: the third is asked again when it is applied."""
LONGEST = 1024
"""Bytes of a key (S3 User Guide, "Naming Amazon S3 objects")."""


@dataclass(frozen=True)
class Seen:
    """A leftover as it is now.

    Attributes:
        versioning: of its bucket, as in `KeyState`.
        current: what readers are given; None: nothing.
        versions: of the key, where its bucket keeps them.
        place: where its copy lies in the quarantine: nobody else's, since no other plan has that id; None: the bucket
            keeps versions, or no copy on the server's side goes from there to the quarantine.
        copy: what lies at that place.
        inside: the folder of a table that the lake file does not name, and that holds it.
    """

    versioning: str
    current: Current | None
    versions: KeyState | None = None
    place: Location | None = None
    copy: Current | None = None
    inside: str | None = None


def look(sight: Sight, bucket: str, key: str) -> Seen:
    """The key, its copy and the folders about it. Raises Unclear."""
    versioning = sight.keys.versioning(bucket, key)
    current, inside = sight.keys.current(bucket, key), _unnamed_root(sight, bucket, key)
    if versioning:
        return Seen(versioning, current, sight.keys.read(bucket, key), inside=inside)
    place = _place(sight, bucket, key)
    copy = None if place is None else sight.keys.current(*place)
    return Seen(versioning, current, place=place, copy=copy, inside=inside)


def _unnamed_root(sight: Sight, bucket: str, key: str) -> str | None:
    """The first folder between a table's and the key in which another table's metadata lies."""
    tables = [table.location for table in sight.lake.tables if table.location.holds(bucket, key)]
    own = max(tables, key=lambda place: place.depth, default=None)
    if own is None:
        return None
    folder = own.prefix
    for part in key[len(own.prefix) :].split("/")[:-1]:
        folder += f"{part}/"
        if any(sight.keys.holds_any(bucket, f"{folder}{root.folder}/") for root in roots().values()):
            return folder
    return None


def _place(sight: Sight, bucket: str, key: str) -> Location | None:
    if sight.lake.quarantine is None:
        return None
    place, clients = sight.lake.quarantine.location.join(sight.plan_id, bucket, key), sight.clients
    return place if clients.endpoint(*place).endpoint == clients.endpoint(bucket, key).endpoint else None


def why_not(case: Case) -> str | None:
    """Every obstacle that is known before storage is asked: the first yes, and what the lake file says."""
    of_kind = (
        four_yeses.kind_allows(case.row) if case.row["key"] else None
    )  # a group has no category of its own
    return "; ".join(filter(None, (*_of_lake(case), of_kind, _too_old(case)))) or None


def _of_lake(case: Case) -> Iterator[str]:
    """What the lake file says of the place."""
    lake, place = case.lake, (case.row["bucket"], case.row["key"])
    if lake.quarantine is None:
        yield "no quarantine place is named"
    knowing = [each.location for each in lake.metastores if each.knows_files]
    if any(location is None or location.holds(*place) for location in knowing if place[1]):
        yield "a metadata store knows of files there: what removes the file has to tell it"
    holding = [table for table in lake.tables if place[1] and table.location.holds(*place)]
    cleaned = [t.name for t in holding if _cleans_up(t)]
    if cleaned:
        yield f"{cleaned[0]} is a Hudi table, whose own cleaner and timeline say what goes"
    unsure = [t.name for t in holding if not t.complete]
    if unsure:
        yield f"not every claim on files of {unsure[0]} is known"


def _too_old(case: Case) -> str | None:
    """The fourth yes by the time that the audit saw, where no quarantine lets anybody look at the object."""
    written = case.row["storage_time"]
    if case.lake.quarantine is not None or written is None:
        return None
    return four_yeses.is_since(written, case.first_audit, allowed=OLDER in case.allow)


def _cleans_up(table: Table) -> bool:
    """A Hudi timeline that lost its archive may name less than there is, and nothing shows it."""
    return any(manifest.has_own_cleaner for manifest in table.manifests)


def why_not_now(case: Case, seen: Seen) -> str | None:
    """Every obstacle that the object itself shows: the second and fourth yes among them."""
    current = seen.current
    if current is None:
        return "it is gone already"
    head = current.head
    if not _is_as_audited(case.row, head):
        return "it was written again since the audit"
    inside = seen.inside and f"a table that the lake file does not name lies about it ({seen.inside})"
    obstacles = (
        *_locks(current, case.now),
        inside,
        four_yeses.is_old_enough(case.table, head, case.now),
        four_yeses.is_since_first_audit(head, case.first_audit, allowed=OLDER in case.allow),
    )
    return "; ".join(filter(None, obstacles)) or None


def _locks(current: Current, now: datetime) -> Iterator[str]:
    if current.legal_hold:
        yield "it is under a legal hold"
    if current.locked_until is not None and current.locked_until > now:
        yield f"it is locked until {current.locked_until:%Y-%m-%d}"
    if current.head.archived:
        yield f"it is archived ({current.head.storage_class})"


def _is_as_audited(row: Mapping[str, Any], head: ObjectHead) -> bool:
    told = {"storage_size": head.size, "storage_etag": head.etag}
    return all(row[name] in (None, value) for name, value in told.items())


def recorded(head: ObjectHead) -> dict[str, Any]:
    """What is written down of an object."""
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
    """Of a double, what is recorded of the file that stays."""
    return {"twin": row["related_key"]} if row["kind"] in four_yeses.DOUBLES else {}


def require_twin(step: Step, target: Target) -> None:
    """A double is removed only while the file that stays is there, with the same bytes where that made it a double.

    Raises:
        NotProved: it is not, or nobody can tell.
        ClientError, BotoCoreError: no answer.
    """
    if step.kind not in four_yeses.DOUBLES:
        return
    twin = found(target.s3, Location(target.bucket, step.precondition["twin"]))
    if twin is None:
        raise NotProved("the file that stays is gone")
    if step.kind == "duplicate_content" and not same_bytes(step.precondition, twin):
        raise NotProved("the file that stays is not known to hold the same bytes")


def is_unchanged(known: Mapping[str, Any], head: ObjectHead | None) -> bool:
    """Whether an object is the one that was recorded, by all that is known of it, its time among it."""
    return head is not None and recorded(head).items() <= known.items()


def is_as_planned(step: Step, seen: Seen) -> bool:
    """The very object that was decided on: its age and all else that was asked of it hold still."""
    current = seen.current
    if current is None or seen.inside is not None or current.legal_hold:
        return False
    return is_unchanged(step.precondition, current.head)


def same_bytes(known: Mapping[str, Any], head: ObjectHead) -> bool | None:
    """Whether an object holds the bytes of what was recorded; None: nobody can tell."""
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
    """Whether an ETag is a digest of the bytes: an MD5, or one of the MD5s of parts."""
    return encryption in MD5_ENCRYPTIONS and is_md5(etag.partition("-")[0])


class LeftoverAction:
    """The base of the actions upon leftovers."""

    look: Look = staticmethod(look)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """No table lists it."""
        return four_yeses.is_unlisted()

    def refuses(self, case: Case) -> str | None:
        """See `why_not`."""
        return why_not(case)
