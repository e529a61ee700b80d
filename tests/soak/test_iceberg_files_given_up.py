"""Files that were taken out of an Iceberg table: resolved once no snapshot lists them."""

import io
import time

import pytest

from tests.audits.test_reconcile_iceberg_files import ALLOW, lost, mending, server, shop, table
from tests.builders.audits import audited
from tests.builders.iceberg import IcebergLake
from tests.builders.mending import Mending, states
from tests.builders.rest_catalog import RestCatalog

pytestmark = pytest.mark.soak
__all__ = ["mending", "server", "shop"]


def test_it_is_resolved_once_no_snapshot_lists_it(
    shop: IcebergLake, server: RestCatalog, mending: Mending
) -> None:
    """After that there is nothing to go back to."""
    (key,) = lost(shop)
    time.sleep(1.1)  # times of storage have whole seconds
    audited(mending.lake, live=True)
    mending.plan(io.StringIO(), allow=ALLOW)
    assert mending.apply().exit_code == 0
    newest = table(shop, server)
    old = [each.snapshot_id for each in newest.snapshots() if each != newest.current_snapshot()]
    newest.maintenance.expire_snapshots().by_ids(old).commit()
    time.sleep(1.1)
    audited(mending.lake, live=True)
    assert states(mending.lake)[key] == ("resolved", "reference_removed")
    assert mending.undo().exit_code == 3
    assert mending.statuses() == {key: "kept"}
