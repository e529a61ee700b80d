"""Take a partition out of the catalog whose place holds nothing that readers see. No file is touched."""

from lakeaudit.reconcile.partition_action import PartitionAction, proposed
from lakeaudit.reconcile.partitions import PartitionState
from lakeaudit.reconcile.protocol import DROP_PARTITION, Case, Proposal
from lakeaudit.reconcile.steps import COMPENSABLE


class DropPartition(PartitionAction):
    """See the module. Some keep empty partitions on purpose, for writers that come later: it has to be allowed."""

    name = "drop_partition"
    reversibility = COMPENSABLE
    undo = "the same partition is entered again, only while there is none; column statistics do not come back"
    risk = "low: a writer that registers no partition by itself has to register this one again"

    def refuses(self, case: Case) -> str | None:
        """Where nobody allows it."""
        if DROP_PARTITION in case.allow:
            return None
        return f"it may be kept for files to come: `--allow {DROP_PARTITION}` plans it"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where readers find nothing, nor would in the folder of its name."""
        if state.partition is None:
            return "it is not registered any more"
        if state.filled:
            return "readers find files there now"
        if state.folder_filled:
            return "the folder of its name has files: it is pointed there, and not dropped"
        return proposed(state, None, "nothing lies at its place, nor in the folder of its name")
