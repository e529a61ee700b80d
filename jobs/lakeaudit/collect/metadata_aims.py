"""Reads the metadata.json that catalogs name for Iceberg tables, as TABLE_POINTER rows."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakeaudit.collect.pointed_tables import CatalogedTable
from lakeaudit.engine.local import WAITING
from lakeaudit.evidence.catalog.metadata_pointers import Aim, aim_at, left_behind
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import TABLE_POINTER, plain_time

KnownAim = tuple[CatalogedTable, Aim]


def read_aims(clients: Clients, named: Sequence[CatalogedTable]) -> list[KnownAim]:
    """Read the metadata.json of each table that a catalog names: a few parallel requests each."""
    pointing = [each for each in named if each.by.metadata_location]
    with ThreadPoolExecutor(WAITING) as pool:
        aims = list(pool.map(lambda each: aim_at(clients, each.by.metadata_location), pointing))
    return [(each, aim) for each, aim in zip(pointing, aims, strict=True) if aim is not None]


def aim_rows(clients: Clients, known: Sequence[KnownAim], now: datetime) -> pa.Table:
    """Return TABLE_POINTER rows of files that exist, or that storage did not answer for."""
    there = [each for each in known if each[1].there is not False]
    by_table: dict[str, list[Aim]] = defaultdict(list)
    for each, aim in there:
        by_table[each.table.name].append(aim)
    with ThreadPoolExecutor(WAITING) as pool:
        rows = list(pool.map(partial(_row, clients, by_table, now), there))
    return pa.Table.from_pylist(rows, TABLE_POINTER) if rows else TABLE_POINTER.empty_table()


def _row(
    clients: Clients, by_table: dict[str, list[Aim]], now: datetime, known: KnownAim
) -> dict[str, object]:
    each, aim = known
    others = [other for other in by_table[each.table.name] if other.place != aim.place]
    cut = each.pointers.info.cut
    before = (cut.start - cut.margin if cut else now) - each.table.settings.grace
    return {
        "judged_table": each.table.name, "relative": "", "catalog": each.catalog, "catalog_id": each.by.catalog,
        "table_name": each.by.name, "bucket": aim.place.bucket, "key": aim.place.key, "partition_path": "",
        "files": int(bool(aim.there)), "bytes": 0, "edge": plain_time(now), "cut": plain_time(now),
        "grace": each.table.settings.grace, "storage_holed": aim.there is None,
        "look": "error" if aim.there is None else "live", "look_there": aim.there, "format": each.by.format,
        "changed_at": plain_time(each.by.updated_at), "objects": int(bool(aim.there)), "partitions_filled": 0,
        "filled_said": True, "removed": 0, "aim": "metadata", "left_behind": left_behind(clients, aim, others, before),
    }  # fmt: skip
