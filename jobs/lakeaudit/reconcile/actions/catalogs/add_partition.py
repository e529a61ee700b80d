"""Register the partition of a folder with files that no partition of the catalog covers."""

from lakeaudit.reconcile.actions.catalogs.partition_action import PartitionAction, proposal_for
from lakeaudit.reconcile.protocol import Case, Proposal
from lakeaudit.reconcile.stores.partitions import PartitionState


class AddPartition(PartitionAction):
    """See the module. Columns and format are the table's, as after `ALTER TABLE ... ADD PARTITION`."""

    name = "add_partition"

    def propose(self, case: Case, state: PartitionState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if readers would see files, and there is no partition with these values."""
        if state.partition is not None:
            return "a partition with its values is registered"
        if not state.folder_filled:
            return "the folder contains no file that readers see"
        return proposal_for(state, state.location, "the values in the folder's name")
