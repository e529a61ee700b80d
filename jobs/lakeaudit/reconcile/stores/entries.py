"""Compare an entry of a metadata store with its folders and its object, and build the items of S3Guard. Pure.

Items have the form of Hadoop 3.3 (PathMetadataDynamoDBTranslation, see `evidence.metastore.s3guard.items`), with the id
of the plan in an additional attribute. Like `put` of Hadoop's store (DynamoDBMetadataStore, completeAncestry), the
actions also enter missing folders above an entry, parents first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION
from lakeaudit.reconcile.stores.entry_store import PLAN, Item, Place, keys_of

_BLOCK = "33554432"
"""Hadoop's default of fs.s3a.block.size, for entries without a block size."""


@dataclass(frozen=True)
class Above:
    """A folder above an entry; `has_entries`: the folder has an item."""

    place: Place
    item: Item | None
    has_entries: bool = True

    @property
    def is_sound(self) -> bool:
        """Return whether the store has it as a folder."""
        return is_live_folder(self.item)

    def as_row(self) -> dict[str, Any]:
        """Return the folder as JSON data."""
        return {"place": list(self.place), "item": self.item, "has_entries": self.has_entries}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Above":
        """Build the folder from JSON data."""
        return cls((row["place"][0], row["place"][1]), row["item"], row["has_entries"])


@dataclass(frozen=True)
class EntryState:
    """The current state of a key.

    Attributes:
        store: name of the table.
        place: keys of the entry, whose item is `item`.
        above: the folders above the entry, the highest first.
        current: the object with this key.
        keys_below: whether storage has keys below it; requested only if it may be a folder.
    """

    store: str
    place: Place
    item: Item | None
    above: tuple[Above, ...]
    current: ObjectVersion | None
    keys_below: bool

    @property
    def unsound(self) -> tuple[Above, ...]:
        """Return the folders above the entry that the store does not have as folders."""
        return tuple(each for each in self.above if not each.is_sound)

    @property
    def object(self) -> dict[str, Any] | None:
        """Return the identity of the object as JSON data."""
        return None if self.current is None else object_row(self.current)


def object_row(version: ObjectVersion) -> dict[str, Any]:
    """Return the identity of an object as JSON data."""
    return {
        "size": version.size,
        "etag": version.etag,
        "modified_at": _millis(version.modified_at.replace(tzinfo=UTC)),
        "version_id": version.version_id,
    }


def precondition_of(state: EntryState) -> dict[str, Any]:
    """Return the precondition of a step on an entry."""
    return {
        "store": state.store,
        "place": list(state.place),
        "item": state.item,
        "object": state.object,
        "above": [each.as_row() for each in state.unsound],
    }


def is_as_planned(precondition: Mapping[str, Any], state: EntryState, plan: str) -> bool:
    """Return whether entry and object are unchanged, and each folder above is unchanged or entered by now."""
    seen = {each.place: each.item for each in map(Above.of_row, precondition["above"])}
    return (
        (precondition["store"], precondition["object"]) == (state.store, state.object)
        and (state.item == precondition["item"] or is_ours(state.item, plan))
        and all(
            each.is_sound or (each.place in seen and seen[each.place] == each.item) for each in state.above
        )
    )


def why_no_parents(state: EntryState) -> str | None:
    """Return why the folders above an entry cannot be entered."""
    files = [each for each in state.unsound if is_live_file(each.item)]
    if not files:
        return None
    return f"the store has the folder {'/'.join(files[0].place)} above it as a file: repair that entry first"


def is_live_folder(item: Item | None) -> bool:
    """Return whether an item is a folder that was not deleted."""
    return item is not None and _flag(item, "is_dir") and not _flag(item, "is_deleted")


def is_live_file(item: Item | None) -> bool:
    """Return whether an item is a file that was not deleted."""
    return item is not None and not _flag(item, "is_dir") and not _flag(item, "is_deleted")


def is_ours(item: Item | None, plan: str) -> bool:
    """Return whether this plan was the last to write an item."""
    return item is not None and item.get(PLAN) == {"S": plan}


def is_trusted_listing(item: Item | None) -> bool:
    """Return whether readers may trust that the folder's entries are complete."""
    return item is not None and _flag(item, "is_authoritative")


def agrees(item: Item, version: ObjectVersion) -> bool:
    """Return whether a file's entry has every attribute that readers need, and agrees with the object."""
    values = {name: next(iter(value.values())) for name, value in item.items()}
    return (
        is_live_file(item)
        and values.get("file_length") == str(version.size)
        and str(values.get("etag", "")).strip('"') == version.etag
        and values.get("version_id", NULL_VERSION) in (NULL_VERSION, "", version.version_id)
        and {"mod_time", "last_updated"} <= values.keys()
    )


def file_item(place: Place, version: ObjectVersion, seen: Item | None, plan: str, now: datetime) -> Item:
    """Return the entry of an object; it replaces the item `seen`."""
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
    """Return the entry of a folder whose listing is not marked as complete."""
    return {
        **keys_of(place),
        "is_dir": {"BOOL": True},
        "is_deleted": {"BOOL": False},
        "is_authoritative": {"BOOL": False},
        "last_updated": {"N": str(_millis(now))},
        PLAN: {"S": plan},
    }


def place_in(bucket: str, key: str) -> Place:
    """Return the keys of the entry; Hadoop's names do not end in a slash."""
    parent, _, child = f"/{bucket}/{key.rstrip('/')}".rpartition("/")
    return parent, child


def above_of(place: Place) -> list[Place]:
    """Return the keys of the folders above an entry, the highest first; the bucket itself has no entry."""
    names = place[0].split("/")[1:]
    return [("/" + "/".join(names[:depth]), names[depth]) for depth in range(1, len(names))]


def _flag(item: Item, name: str) -> bool:
    return item.get(name, {}).get("BOOL") is True


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)
