"""Read, write and restore entries of a metadata store, for all actions on entries.

Missing folders above an entry are entered first, by the first step that needs them. Every step that was decided on
without them records them, so that the last step that is undone removes them again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.evidence.storage.head import head_of
from lakeaudit.grants import Grant
from lakeaudit.keys import NOT_HADOOP
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import CannotActSafely, Case, StateReader, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.stores.entries import (
    Above,
    EntryState,
    above_of,
    folder_item,
    is_as_planned,
    is_live_folder,
    is_ours,
    place_in,
)
from lakeaudit.reconcile.stores.entry_store import (
    PLAN,
    S3GUARD,
    EntryStore,
    Item,
    is_plain,
    open_store,
    store_grants,
    store_of,
    unreadable_reason,
)
from lakeaudit.runtime.connections.aws_failures import code_of, is_condition_refused


def entry_of(reader: StateReader, bucket: str, key: str) -> EntryState:
    """Read the entry of a key, the folders above it, and the object in storage. Raises Unclear."""
    source = store_of(reader.lake, bucket, key)
    if isinstance(source, str):
        raise Unclear(source)
    store, name = open_store(source, reader.clients), key.rstrip("/")
    place = place_in(bucket, name)
    current = reader.keys.read(bucket, name).current
    try:
        reader.keys.pace()
        *folders, item = store.read([*above_of(place), place])
        above = tuple(_above(store, place, folders, item))
        may_be_folder = current is None or is_live_folder(item)
        below = may_be_folder and _has_keys(reader, bucket, f"{name}/")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(unreadable_reason(error, store.table)) from error
    if not all(each is None or is_plain(each) for each in (*folders, item)):
        raise Unclear(f"an item of metadata store {store.table} has attributes that Hadoop does not write")
    return EntryState(store.table, place, item, above, current, below)


def _above(
    store: EntryStore, place: tuple[str, str], folders: list[Item | None], item: Item | None
) -> Iterator[Above]:
    """Yield the folders; their entries are counted only if a folder is missing in the store or a plan entered it."""
    for at, folder, below in zip(above_of(place), folders, [*folders[1:], item], strict=True):
        plain = is_live_folder(folder) and PLAN not in (folder or {})
        yield Above(at, folder, plain or below is not None or store.has_entries("/".join(at)))


def _has_keys(reader: StateReader, bucket: str, prefix: str) -> bool:
    reader.keys.pace()
    return holds_any(reader.clients.s3(bucket, prefix), bucket, prefix)


class EntryAction:
    """The base of the actions on entries; `precondition["writes"]`: the entry itself is written, too."""

    reversibility = REVERSIBLE
    undo = "restore the previous item, or remove the new one, only while it is as the step left it"
    risk = "low: items are written only while they are unchanged"

    look = staticmethod(entry_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from store_grants(lake, (S3GUARD,), ("BatchGetItem", "DeleteItem", "PutItem", "Query"))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """The metadata store has to agree with storage, whatever manifests contain."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse keys without a live table of S3Guard, and keys that Hadoop cannot name."""
        bucket, key = case.row["bucket"], case.row["key"]
        if re.search(NOT_HADOOP, key.rstrip("/")):
            return "Hadoop has no path for its key"
        store = store_of(case.lake, bucket, key)
        return store if isinstance(store, str) else None

    def item(self, step: Step, target: Target) -> Item | None:
        """Return the new entry; None: no entry."""
        raise NotImplementedError

    def still_holds(self, step: Step, state: EntryState) -> bool:
        """Return whether entry, object and folders above are unchanged, or this plan has entered them."""
        return is_as_planned(step.precondition, state, step.plan_id)

    def act(self, step: Step, target: Target) -> str | None:
        """Enter the folders, then the entry; restore the entry at once if the object changed meanwhile."""
        seen, store = step.precondition, _require_store(target)
        for folder in map(Above.of_row, seen["above"]):
            _enter(store, folder_item(folder.place, step.plan_id, target.now), folder.item)
        if not seen["writes"]:
            return None
        item = self.item(step, target)
        _write(store, item, seen["item"], step.plan_id)
        if not is_current(target, seen["object"]):
            _restore(store, seen["item"], item)
        return None

    def outcome(self, step: Step, state: EntryState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if the plan wrote or removed the entry, and all folders above are entered."""
        seen = step.precondition
        same = state.item == seen["item"]
        done = is_ours(state.item, step.plan_id) if seen["writes"] else same
        if not done or any(not each.is_sound for each in state.above):
            return None
        return _undo_of(step, state.item)

    def may_undo(self, step: Step, undo: Undo, state: EntryState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the entry is as the step left it, or as before with folders left to remove."""
        return state.item in (undo["after"], undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """Restore the entry, then remove the folders above that have no other entries."""
        store = _require_store(target)
        _restore(store, undo["before"], undo["after"])
        _restore_above(store, undo)

    def is_undone(self, step: Step, undo: Undo, state: EntryState) -> bool:
        """Return whether the entry is as before, and no folder is left that only this entry needed."""
        had = {each.place: each.has_entries for each in map(Above.of_row, undo["above"])}
        left = [
            each
            for each in state.above
            if each.place in had
            and is_ours(each.item, step.plan_id)
            and (had[each.place] or not each.has_entries)
        ]
        return state.item == undo["before"] and not left


def _require_store(target: Target) -> EntryStore:
    source = store_of(target.lake, target.bucket, target.key)
    if isinstance(source, str):
        raise CannotActSafely(source)
    store = open_store(source, target.clients)
    if not target.forms.holds(f"dynamodb:{store.table}", store.honours_conditions):
        raise CannotActSafely("the metadata store does not honour conditions")
    return store


def _enter(store: EntryStore, folder: Item, seen: Item | None) -> None:
    """Enter a folder, unless another step or another writer has entered it."""
    try:
        store.put(folder, seen)
    except ClientError as error:
        if not is_condition_refused(error) or not is_live_folder(_read_item(store, folder)):
            raise


def _write(store: EntryStore, item: Item | None, seen: Item | None, plan: str) -> None:
    """Write the entry itself, unless another step of the plan has written it."""
    try:
        store.replace(seen, item)
    except ClientError as error:
        now = _read_item(store, item or seen)
        if not is_condition_refused(error) or not (is_ours(now, plan) if item else now is None):
            raise


def _read_item(store: EntryStore, item: Item | None) -> Item | None:
    if item is None:
        return None
    return store.read([(item["parent"]["S"], item["child"]["S"])])[0]


def _undo_of(step: Step, after: Item | None) -> dict[str, Any]:
    seen = step.precondition
    return {"plan": step.plan_id, "before": seen["item"], "after": after, "above": seen["above"]}


def _restore(store: EntryStore, before: Item | None, after: Item | None) -> None:
    """Restore an item, unless a concurrent undo of a step with the same folder has restored it."""
    if before == after or _read_item(store, after or before) == before:
        return
    try:
        store.replace(after, before)
    except ClientError as error:
        if not is_condition_refused(error) or _read_item(store, after or before) != before:
            raise


def _restore_above(store: EntryStore, undo: Undo) -> None:
    """Restore the folders, the lowest first; a folder that had no entries is restored once it has none again."""
    for folder in reversed([*map(Above.of_row, undo["above"])]):
        (now,) = store.read([folder.place])
        if now is None or not is_ours(now, undo["plan"]):
            continue
        if folder.has_entries or not store.has_entries("/".join(folder.place)):
            try:
                store.replace(now, folder.item)
            except ClientError as error:
                if not is_condition_refused(error):
                    raise


def is_current(target: Target, seen: Mapping[str, Any] | None) -> bool:
    """Return whether storage still has the object of the entry; without an object no request is sent."""
    if seen is None:
        return True
    try:
        head = head_of(target.s3.head_object(Bucket=target.bucket, Key=target.key.rstrip("/")))
    except ClientError as error:
        if code_of(error) in ("404", "NoSuchKey"):
            return False
        raise
    return (head.size, head.etag) == (seen["size"], seen["etag"])
