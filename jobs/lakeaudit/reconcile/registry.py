"""Register the actions, and by kind of discrepancy those that can repair it, in order of preference.

A new action is a module of `reconcile.actions` and a line here.
"""

from collections.abc import Mapping

from lakeaudit.reconcile.actions.catalogs.add_partition import AddPartition
from lakeaudit.reconcile.actions.catalogs.drop_partition import DropPartition
from lakeaudit.reconcile.actions.catalogs.remove_iceberg_reference import RemoveIcebergReference
from lakeaudit.reconcile.actions.catalogs.remove_reference import RemoveReference
from lakeaudit.reconcile.actions.catalogs.repoint_partition import RepointPartition
from lakeaudit.reconcile.actions.catalogs.repoint_table import RepointTable
from lakeaudit.reconcile.actions.entries.enter_restored import EnterRestored
from lakeaudit.reconcile.actions.entries.put_entry import PutEntry
from lakeaudit.reconcile.actions.entries.put_folder import PutFolder
from lakeaudit.reconcile.actions.entries.put_name import PutName
from lakeaudit.reconcile.actions.entries.remove_entry import RemoveEntry
from lakeaudit.reconcile.actions.entries.remove_name import RemoveName
from lakeaudit.reconcile.actions.files.abort_upload import AbortUpload
from lakeaudit.reconcile.actions.files.copy_replica import CopyReplica
from lakeaudit.reconcile.actions.files.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.files.quarantine import Quarantine
from lakeaudit.reconcile.actions.files.remove_delete_marker import RemoveDeleteMarker
from lakeaudit.reconcile.actions.files.replace_version import ReplaceVersion
from lakeaudit.reconcile.actions.files.restore_probable import RestoreProbable
from lakeaudit.reconcile.actions.files.restore_version import RestoreVersion
from lakeaudit.reconcile.deletion_guards import DUPLICATES, LEFTOVERS
from lakeaudit.reconcile.protocol import METADATA, Action
from lakeaudit.reconcile.stores.partitions import EMPTY, STALE, UNREGISTERED

_ALL: tuple[Action, ...] = (
    RemoveDeleteMarker(),
    RestoreVersion(),
    CopyReplica(),
    RestoreProbable(),
    ReplaceVersion(),
    RemoveReference(),
    RemoveIcebergReference(),
    EnterRestored(),
    PutEntry(),
    PutFolder(),
    RemoveEntry(),
    PutName(),
    RemoveName(),
    HideLeftover(),
    Quarantine(),
    AbortUpload(),
    AddPartition(),
    RepointPartition(),
    DropPartition(),
    RepointTable(),
)

ACTIONS: Mapping[str, Action] = {action.name: action for action in _ALL}

_BRING_BACK = ("remove_delete_marker", "restore_version", "copy_replica", "restore_probable")

WAYS: Mapping[str, tuple[str, ...]] = {
    "dropped": (*_BRING_BACK, "remove_reference", "remove_iceberg_reference"),
    "dropped_history": _BRING_BACK,
    METADATA: ("remove_delete_marker", "restore_version", "copy_replica"),
    "size_mismatch": ("replace_version",),
    "content_mismatch": ("replace_version",),
    "hidden": ("put_entry", "put_name"),
    "tombstoned": ("put_entry", "put_name", "remove_name"),
    "metastore_stale": ("put_entry",),
    "metastore_broken": ("put_entry", "put_folder", "remove_entry"),
    "phantom": ("remove_entry", "remove_name"),
    "unfinished_upload": ("abort_upload",),
    UNREGISTERED: ("add_partition", "repoint_partition"),
    EMPTY: ("drop_partition",),
    STALE: ("repoint_table",),
    **dict.fromkeys((*LEFTOVERS, *DUPLICATES), ("hide_leftover", "quarantine")),
}
"""Actions that lose nothing come first. A kind that is missing here needs a person."""

RESTORING = (*_BRING_BACK, "replace_version")
"""Actions that restore a file that somebody may have removed or replaced on purpose."""

REMOVING = ("hide_leftover", "quarantine", "abort_upload", "remove_reference", "remove_iceberg_reference")
"""Actions that hide, move or remove files or entries of a table; not planned while a state of the table is lost."""

FOLLOWED_BY: Mapping[str, str] = dict.fromkeys(RESTORING, EnterRestored.name)
"""The action that a plan adds after a step of another one, if it is needed."""
