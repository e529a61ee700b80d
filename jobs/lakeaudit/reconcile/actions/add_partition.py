"""Register the partition of a folder with files that no partition of the catalog holds."""

from lakeaudit.reconcile.partition_action import PartitionAction, proposed
from lakeaudit.reconcile.partitions import PartitionState
from lakeaudit.reconcile.protocol import Case, Proposal


class AddPartition(PartitionAction):
    """See the module. Its columns and format are the table's, as `ALTER TABLE ... ADD PARTITION` makes it."""

    name = "add_partition"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where readers would see files, and there is no partition of these values."""
        if state.partition is not None:
            return "a partition of its values is registered"
        if not state.folder_filled:
            return "the folder holds no file that readers see"
        return proposed(state, state.location, "the values in the folder's name")
