"""Point a partition, of which nothing lies where it is registered, at the folder of its name that has files."""

from lakeaudit.reconcile.partition_action import PartitionAction, proposed
from lakeaudit.reconcile.partitions import PartitionState
from lakeaudit.reconcile.protocol import Case, Proposal


class RepointPartition(PartitionAction):
    """See the module. All else of the partition stays."""

    name = "repoint_partition"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where readers find nothing now, and would find files in the folder of its name."""
        if state.partition is None:
            return "no partition of its values is registered"
        if state.filled:
            return "readers find files where its partition is registered: the folder may be an older version"
        if not state.folder_filled:
            return "the folder holds no file that readers see"
        return proposed(state, state.location, "the values in the folder's name")
