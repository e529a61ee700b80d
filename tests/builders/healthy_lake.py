"""Healthy lakes, drawn at random: tables of several formats and writers, whose histories go on between audits."""

import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.backdate import age_all
from tests.builders.glue import GlueCatalog
from tests.builders.healthy_delta import DeltaHistory
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.healthy_iceberg import IcebergHistory, UniformHistory, catalog_of
from tests.builders.shop import Shop

History = DeltaHistory | IcebergHistory | UniformHistory | HudiHistory
AGE = timedelta(days=2)
DISCOVERED = "warehouse/found"


@dataclass
class HealthyLake:
    """Some tables in one bucket that keeps versions, and what the lake file says of them.

    Where storage is listed, the lake file names the tables that are `discovered` until they are dropped.

    `by_inventory`: storage is known by reports of all versions, else by a listing. `grace` is that of the whole lake.
    """

    shop: Shop
    chance: random.Random
    by_inventory: bool
    grace: str
    glue: GlueCatalog | None
    named: list[History] = field(default_factory=list)
    discovered: list[DeltaHistory] = field(default_factory=list)

    @property
    def tables(self) -> list[History]:
        """Those that are there."""
        return [each for each in (*self.named, *self.discovered) if not each.dropped]

    def lake(self, folder: Path) -> Lake:
        """The lake file, loaded."""
        bucket = self.shop.bucket
        entries = [f"- {each.entry}" for each in self.named]
        if self.by_inventory:
            entries.append(f"- discover: {{from: inventory, under: ['s3://{bucket}/{DISCOVERED}/']}}")
        else:
            entries += [f"- {each.entry}" for each in self.discovered if not each.dropped]
        extra = f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n"
        if self.glue:
            extra += f"metastores: [{{kind: glue, databases: [{self.glue.database}]}}]\n"
        listing = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
        return self.shop.lake(
            folder,
            tables=entries,
            inventories=None if self.by_inventory else listing,
            defaults=f"grace: {self.grace}, leftover_age: {self.grace}, max_upload: 0s, min_duplicate_size: 1MiB",
            extra=extra,
        )

    def begin(self) -> None:
        """Create every table, days ago, and let some time pass."""
        for each in self.tables:
            each.begin()
            for _ in range(self.chance.randint(1, 4)):
                each.act()
            if isinstance(each, UniformHistory):
                each.convert()
        age_all(self.shop.bucket, AGE)
        for each in self.tables:
            if isinstance(each, HudiHistory):
                each.age = timedelta()

    def go_on(self, acts: int) -> None:
        """Some acts a history, each of some table; a discovered one may be dropped by its owner."""
        for _ in range(acts * len(self.discovered)):
            table = self.chance.choice(self.tables)
            if isinstance(table, DeltaHistory) and table in self.discovered and self.chance.random() < 0.3:
                table.drop()
            else:
                table.act()

    def old_files(self, table: History) -> int:
        """How many files that a table lists are old enough to be judged, whatever the grace."""
        pages = self.shop.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.shop.bucket, Prefix=f"{table.home}/"
        )
        listed = [each for page in pages for each in page.get("Contents", [])]
        before = datetime.now(UTC) - AGE / 2
        return len(table.live & {each["Key"] for each in listed if each["LastModified"] < before})

    def settle(self, at: datetime | None = None) -> None:
        """Let every file be older than the second that stores give; deliver the next report."""
        if self.by_inventory:
            self.shop.take_inventory(at=at, all_versions=True)
        else:
            time.sleep(1.1)

    @property
    def rows(self) -> dict[str, dict[str, list[int]]]:
        """Return the files that real readers read, by table."""
        return {each.name: each.rows() for each in self.tables}

    @property
    def story(self) -> str:
        """Return the settings of the lake and the acts on each table."""
        how = f"by {'inventory' if self.by_inventory else 'listing'}, grace {self.grace}"
        words = (f"{each.name} {'(dropped) ' * each.dropped}{each.entry}: {', '.join(each.done)}"
                for each in (*self.named, *self.discovered))  # fmt: skip
        return "\n".join((how, *words))


def drawn_lake(
    shop: Shop, clients: Clients, chance: random.Random, *, by_inventory: bool, histories: int = 1
) -> HealthyLake:
    """A lake whose tables are not created yet: `histories` times one of each format, and two formats in one folder."""
    grace = chance.choice(("0s", "0s", "1h"))
    glue = GlueCatalog(clients, f"d{shop.bucket.replace('-', '')}") if chance.random() < 0.5 else None
    lake = HealthyLake(shop, chance, by_inventory, grace, glue)
    numbers = count(1)
    catalogs = catalog_of(shop), catalog_of(shop)
    for one in range(histories):
        orders = DeltaHistory(shop, f"orders{one}", chance, numbers)
        visits = IcebergHistory(shop, f"visits{one}", chance, numbers, *catalogs, glue)
        both = UniformHistory(
            DeltaHistory(shop, f"both{one}", chance, numbers, may_partition=False),
            IcebergHistory(shop, f"both{one}", chance, numbers, *catalogs),
            chance.choice(("delta", "iceberg")),
            may_lag=grace != "0s",
        )
        rides = HudiHistory(shop, f"rides{one}", chance, numbers, layout=chance.choice((1, 2)), age=AGE)
        lake.named += [orders, visits, both, rides]
        lake.discovered.append(DeltaHistory(shop, f"found{one}", chance, numbers, under=DISCOVERED))
    return lake
