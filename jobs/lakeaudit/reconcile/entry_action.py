"""What all actions on entries of a metadata store share: how they look, write, and take back what they wrote.

Folders above an entry that the store lacks are entered first, by whichever step comes to them first. Each step that was
decided on without them has them in its record, so that the last step that is undone takes them out again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.evidence.storage.head import head_of
from lakeaudit.keys import NOT_HADOOP
from lakeaudit.reconcile.entries import (
    Above,
    EntryState,
    above_of,
    folder_item,
    is_as_planned,
    is_live_folder,
    is_ours,
    place_in,
)
from lakeaudit.reconcile.entry_store import PLAN, EntryStore, Item, is_plain, opened, refused, store_of
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import Case, NotProved, Sight, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.runtime.aws_failures import code_of, is_condition_refused


def entry_of(sight: Sight, bucket: str, key: str) -> EntryState:
    """The entry of a key, the folders above it, and what storage has there. Raises Unclear."""
    source = store_of(sight.lake, bucket, key)
    if isinstance(source, str):
        raise Unclear(source)
    store, name = opened(source, sight.clients), key.rstrip("/")
    place = place_in(bucket, name)
    current = sight.keys.read(bucket, name).current
    try:
        sight.keys.pace()
        *folders, item = store.read([*above_of(place), place])
        above = tuple(_above(store, place, folders, item))
        may_be_folder = current is None or is_live_folder(item)
        below = may_be_folder and _has_keys(sight, bucket, f"{name}/")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(refused(error, store.table)) from error
    if not all(each is None or is_plain(each) for each in (*folders, item)):
        raise Unclear(f"an item of metadata store {store.table} has attributes that Hadoop does not write")
    return EntryState(store.table, place, item, above, current, below)


def _above(
    store: EntryStore, place: tuple[str, str], folders: list[Item | None], item: Item | None
) -> Iterator[Above]:
    """Whether anything lies in a folder matters where it is none in the store, or was entered by a plan."""
    for at, folder, below in zip(above_of(place), folders, [*folders[1:], item], strict=True):
        plain = is_live_folder(folder) and PLAN not in (folder or {})
        yield Above(at, folder, plain or below is not None or store.has_entries("/".join(at)))


def _has_keys(sight: Sight, bucket: str, prefix: str) -> bool:
    sight.keys.pace()
    return holds_any(sight.clients.s3(bucket, prefix), bucket, prefix)


class EntryAction:
    """The base of the actions on entries; `precondition["writes"]`: the entry itself is written, too."""

    reversibility = REVERSIBLE
    undo = "put the item back that was there, or remove what was put, only while it is as the step left it"
    risk = "low: items are written only while they are as they were seen"

    look = staticmethod(entry_of)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """The metadata store has to say what storage has."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where no live table of S3Guard says what readers see, or Hadoop cannot name the key."""
        bucket, key = case.row["bucket"], case.row["key"]
        if re.search(NOT_HADOOP, key.rstrip("/")):
            return "Hadoop has no path for its key"
        store = store_of(case.lake, bucket, key)
        return store if isinstance(store, str) else None

    def item(self, step: Step, target: Target) -> Item | None:
        """The entry as it is to be; None: none."""
        raise NotImplementedError

    def still_holds(self, step: Step, state: EntryState) -> bool:
        """Entry, object and folders above are as they were, or this plan has entered them."""
        return is_as_planned(step.precondition, state, step.plan_id)

    def act(self, step: Step, target: Target) -> str | None:
        """Folders above first, then the entry, which is taken back at once where the object changed meanwhile."""
        seen, store = step.precondition, _proved(target)
        for folder in map(Above.of_row, seen["above"]):
            _enter(store, folder_item(folder.place, step.plan_id, target.now), folder.item)
        if not seen["writes"]:
            return None
        wanted = self.item(step, target)
        _write(store, wanted, seen["item"], step.plan_id)
        if not is_current(target, seen["object"]):
            _restore(store, seen["item"], wanted)
        return None

    def outcome(self, step: Step, state: EntryState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """The entry is the plan's, or none, as was wanted, and all folders above are entered."""
        seen = step.precondition
        same = state.item == seen["item"]
        done = is_ours(state.item, step.plan_id) if seen["writes"] else same
        if not done or any(not each.is_sound for each in state.above):
            return None
        return _undo_of(step, state.item)

    def may_undo(self, step: Step, undo: Undo, state: EntryState) -> bool:  # noqa: ARG002 - the protocol's
        """The entry is as the step left it, or as it was before, and folders are left to take out."""
        return state.item in (undo["after"], undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """The entry first, then the folders above that nothing else lies in."""
        store = _proved(target)
        _restore(store, undo["before"], undo["after"])
        _restore_above(store, undo)

    def is_undone(self, step: Step, undo: Undo, state: EntryState) -> bool:
        """The entry is as it was, and no folder is left that was entered for it alone."""
        had = {each.place: each.has_entries for each in map(Above.of_row, undo["above"])}
        left = [
            each
            for each in state.above
            if each.place in had
            and is_ours(each.item, step.plan_id)
            and (had[each.place] or not each.has_entries)
        ]
        return state.item == undo["before"] and not left


def _proved(target: Target) -> EntryStore:
    source = store_of(target.lake, target.bucket, target.key)
    if isinstance(source, str):
        raise NotProved(source)
    store = opened(source, target.clients)
    if not target.forms.holds(f"dynamodb:{store.table}", store.honours_conditions):
        raise NotProved("the metadata store does not honour conditions")
    return store


def _enter(store: EntryStore, folder: Item, seen: Item | None) -> None:
    """Enter a folder, unless another step or somebody else has done so."""
    try:
        store.put(folder, seen)
    except ClientError as error:
        if not is_condition_refused(error) or not is_live_folder(_found(store, folder)):
            raise


def _write(store: EntryStore, wanted: Item | None, seen: Item | None, plan: str) -> None:
    """Write the entry itself, unless another step of the plan has done so."""
    try:
        store.replace(seen, wanted)
    except ClientError as error:
        found = _found(store, wanted or seen)
        if not is_condition_refused(error) or not (is_ours(found, plan) if wanted else found is None):
            raise


def _found(store: EntryStore, item: Item | None) -> Item | None:
    if item is None:
        return None
    return store.read([(item["parent"]["S"], item["child"]["S"])])[0]


def _undo_of(step: Step, after: Item | None) -> dict[str, Any]:
    seen = step.precondition
    return {"plan": step.plan_id, "before": seen["item"], "after": after, "above": seen["above"]}


def _restore(store: EntryStore, before: Item | None, after: Item | None) -> None:
    """Unless a step that is undone at the same time, and entered the same folder, has done so."""
    if before == after or _found(store, after or before) == before:
        return
    try:
        store.replace(after, before)
    except ClientError as error:
        if not is_condition_refused(error) or _found(store, after or before) != before:
            raise


def _restore_above(store: EntryStore, undo: Undo) -> None:
    """The lowest first. A folder that had entries before is as it was again; one that had none, once it has none."""
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
    """Whether storage still has the object that an entry was written for; of none nothing is asked."""
    if seen is None:
        return True
    try:
        head = head_of(target.s3.head_object(Bucket=target.bucket, Key=target.key.rstrip("/")))
    except ClientError as error:
        if code_of(error) in ("404", "NoSuchKey"):
            return False
        raise
    return (head.size, head.etag) == (seen["size"], seen["etag"])
