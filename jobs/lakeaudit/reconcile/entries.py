"""An entry of a metadata store beside its folders and its object, and the items that S3Guard would have for them. Pure.

Items as Hadoop 3.3 writes them (PathMetadataDynamoDBTranslation, see `evidence.metastore.s3guard.items`), with the plan
that wrote them in an attribute of our own. `put` of Hadoop's store enters the missing folders above an entry as well
(DynamoDBMetadataStore, completeAncestry), and so do the actions here: parents first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION
from lakeaudit.reconcile.entry_store import PLAN, Item, Place, keys_of

_BLOCK = "33554432"
"""Hadoop's default of fs.s3a.block.size, for entries of which nothing says another."""


@dataclass(frozen=True)
class Above:
    """A folder above an entry; `has_entries`: any item lies in it."""

    place: Place
    item: Item | None
    has_entries: bool = True

    @property
    def is_sound(self) -> bool:
        """Whether it is entered as a folder."""
        return is_live_folder(self.item)

    def as_row(self) -> dict[str, Any]:
        """As plain data."""
        return {"place": list(self.place), "item": self.item, "has_entries": self.has_entries}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Above":
        """Of plain data."""
        return cls((row["place"][0], row["place"][1]), row["item"], row["has_entries"])


@dataclass(frozen=True)
class EntryState:
    """What there is of a key now.

    Attributes:
        store: the table.
        place: of the entry, whose item is `item`.
        above: the folders above it, the highest first.
        current: the object of that very key.
        keys_below: whether storage has keys below it; asked only where it may be a folder.
    """

    store: str
    place: Place
    item: Item | None
    above: tuple[Above, ...]
    current: ObjectVersion | None
    keys_below: bool

    @property
    def unsound(self) -> tuple[Above, ...]:
        """The folders above it that are no folders in the store."""
        return tuple(each for each in self.above if not each.is_sound)

    @property
    def object(self) -> dict[str, Any] | None:
        """What tells the object from any other, as plain data."""
        return None if self.current is None else object_row(self.current)


def object_row(version: ObjectVersion) -> dict[str, Any]:
    """What tells an object from any other, as plain data."""
    return {
        "size": version.size,
        "etag": version.etag,
        "modified_at": _millis(version.modified_at.replace(tzinfo=UTC)),
        "version_id": version.version_id,
    }


def precondition_of(state: EntryState) -> dict[str, Any]:
    """What a step about an entry is decided on."""
    return {
        "store": state.store,
        "place": list(state.place),
        "item": state.item,
        "object": state.object,
        "above": [each.as_row() for each in state.unsound],
    }


def is_as_planned(precondition: Mapping[str, Any], state: EntryState, plan: str) -> bool:
    """Whether entry and object are as they were seen, and each folder above too, or was entered since."""
    seen = {each.place: each.item for each in map(Above.of_row, precondition["above"])}
    return (
        (precondition["store"], precondition["object"]) == (state.store, state.object)
        and (state.item == precondition["item"] or is_ours(state.item, plan))
        and all(
            each.is_sound or (each.place in seen and seen[each.place] == each.item) for each in state.above
        )
    )


def why_no_parents(state: EntryState) -> str | None:
    """Why the folders above an entry cannot be entered."""
    files = [each for each in state.unsound if is_live_file(each.item)]
    return f"{'/'.join(files[0].place)} above it is entered as a file: mend that first" if files else None


def is_live_folder(item: Item | None) -> bool:
    """Entered as a folder."""
    return item is not None and _flag(item, "is_dir") and not _flag(item, "is_deleted")


def is_live_file(item: Item | None) -> bool:
    """Entered as a file."""
    return item is not None and not _flag(item, "is_dir") and not _flag(item, "is_deleted")


def is_ours(item: Item | None, plan: str) -> bool:
    """Whether this plan wrote an item, and nobody since."""
    return item is not None and item.get(PLAN) == {"S": plan}


def is_trusted_listing(item: Item | None) -> bool:
    """Whether readers may take what is entered in the folder for all that is there."""
    return item is not None and _flag(item, "is_authoritative")


def says(item: Item, version: ObjectVersion) -> bool:
    """Whether an entry of a file has all that its readers need, and none of it contradicts the object."""
    told = {name: next(iter(value.values())) for name, value in item.items()}
    return (
        is_live_file(item)
        and told.get("file_length") == str(version.size)
        and str(told.get("etag", "")).strip('"') == version.etag
        and told.get("version_id", NULL_VERSION) in (NULL_VERSION, "", version.version_id)
        and {"mod_time", "last_updated"} <= told.keys()
    )


def file_item(place: Place, version: ObjectVersion, seen: Item | None, plan: str, now: datetime) -> Item:
    """The entry of an object, written in the place of what was seen there."""
    block = (seen or {}).get("block_size", {}).get("N", "0")
    item: Item = {
        **keys_of(place),
        "is_deleted": {"BOOL": False},
        "file_length": {"N": str(version.size)},
        "block_size": {"N": _BLOCK if block == "0" else block},
        "mod_time": {"N": str(_millis(version.modified_at.replace(tzinfo=UTC)))},
        "last_updated": {"N": str(_millis(now))},
        "etag": {"S": version.etag},
        PLAN: {"S": plan},
    }
    if version.version_id == NULL_VERSION:
        return item
    return {**item, "version_id": {"S": version.version_id}}


def folder_item(place: Place, plan: str, now: datetime) -> Item:
    """The entry of a folder of which nobody may think that its listing here is complete."""
    return {
        **keys_of(place),
        "is_dir": {"BOOL": True},
        "is_deleted": {"BOOL": False},
        "is_authoritative": {"BOOL": False},
        "last_updated": {"N": str(_millis(now))},
        PLAN: {"S": plan},
    }


def place_in(bucket: str, key: str) -> Place:
    """Where the entry of a key lies; a slash at the end is none of Hadoop's names."""
    parent, _, child = f"/{bucket}/{key.rstrip('/')}".rpartition("/")
    return parent, child


def above_of(place: Place) -> list[Place]:
    """The places of the folders above an entry, the highest first; the bucket itself has none."""
    names = place[0].split("/")[1:]
    return [("/" + "/".join(names[:depth]), names[depth]) for depth in range(1, len(names))]


def _flag(item: Item, name: str) -> bool:
    return item.get(name, {}).get("BOOL") is True


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)
