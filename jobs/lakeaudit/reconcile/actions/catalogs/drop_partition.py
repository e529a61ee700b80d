"""Remove a partition from the catalog if its location contains no file that readers see. No file changes."""

from lakeaudit.reconcile.actions.catalogs.partition_action import PartitionAction, proposal_for
from lakeaudit.reconcile.protocol import DROP_PARTITION, Case, Proposal
from lakeaudit.reconcile.steps import COMPENSABLE
from lakeaudit.reconcile.stores.partitions import PartitionState


class DropPartition(PartitionAction):
    """See the module. It needs `--allow`: some lakes keep empty partitions for later writers."""

    name = "drop_partition"
    reversibility = COMPENSABLE
    undo = "enter the same partition again, only while there is none; column statistics are not restored"
    risk = "low: a writer that does not register partitions itself has to register this one again"

    def refuses(self, case: Case) -> str | None:
        """Refuse without `--allow`."""
        if DROP_PARTITION in case.allow:
            return None
        return f"it may be kept for future files: `--allow {DROP_PARTITION}` plans it"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if readers find no files at its location, nor in the folder with its name."""
        if state.partition is None:
            return "it is no longer registered"
        if state.filled:
            return "readers find files there now"
        if state.folder_filled:
            return "the folder with its name has files: it has to be pointed there instead"
        return proposal_for(state, None, "its location is empty, and so is the folder with its name")
