"""Files that were taken out of an Iceberg table: resolved once no snapshot lists them."""

import io
import time

import pytest

from tests.audits.test_reconcile_iceberg_files import ALLOW, drop_files, repair, server, shop, table
from tests.builders.audits import audited
from tests.builders.iceberg import IcebergLake
from tests.builders.repair_plans import RepairPlans, states
from tests.builders.rest_catalog import RestCatalog

pytestmark = pytest.mark.soak
__all__ = ["repair", "server", "shop"]


def test_it_is_resolved_once_no_snapshot_lists_it(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    """After that there is nothing to go back to."""
    (key,) = drop_files(shop)
    time.sleep(1.1)  # times of storage have whole seconds
    audited(repair.lake, live=True)
    repair.plan(io.StringIO(), allow=ALLOW)
    assert repair.apply().exit_code == 0
    newest = table(shop, server)
    old = [each.snapshot_id for each in newest.snapshots() if each != newest.current_snapshot()]
    newest.maintenance.expire_snapshots().by_ids(old).commit()
    time.sleep(1.1)
    audited(repair.lake, live=True)
    assert states(repair.lake)[key] == ("resolved", "reference_removed")
    assert repair.undo().exit_code == 3
    assert repair.statuses() == {key: "kept"}
