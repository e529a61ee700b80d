"""Point a partition with an empty location at the folder with its name, if that has files."""

from lakeaudit.reconcile.actions.catalogs.partition_action import PartitionAction, proposal_for
from lakeaudit.reconcile.protocol import Case, Proposal
from lakeaudit.reconcile.stores.partitions import PartitionState


class RepointPartition(PartitionAction):
    """See the module. Only the location of the partition changes."""

    name = "repoint_partition"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if readers find no files now, and would find files in the folder with its name."""
        if state.partition is None:
            return "no partition with its values is registered"
        if state.filled:
            return "readers find files at its registered location: the folder may be an older version"
        if not state.folder_filled:
            return "the folder contains no file that readers see"
        return proposal_for(state, state.location, "the values in the folder's name")
