"""A week of one lake: a clock, acts that break and repair it, and audits that report their findings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.alert import after_audit
from lakeaudit.commands.discrepancies import acknowledge
from lakeaudit.results.acknowledgements import Ack
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.catcher import Catcher
from tests.builders.shop import Shop

RECEIVER = "LAKEAUDIT_TEST_WEEK"
WAITS = "grace: 0s, leftover_age: 0s, max_upload: 0s"
DEFAULTS = f"{WAITS}, confirm: {{limit: 8}}"
BLIND = f"{WAITS}, confirm: {{mode: none}}"
ORDERS = tuple(f"2026-{month:02}-{day:02}" for month in range(1, 5) for day in range(1, 22))
WIPED = ORDERS[:26]
CUSTOMERS = ORDERS[:50]

HOUR = timedelta(hours=1)


@dataclass
class Week:
    """A lake whose clock the script sets; `began` is later than all that was written first."""

    shop: Shop
    folder: Path
    caught: Catcher
    began: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(minutes=1))
    now: datetime = field(init=False)
    markers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.a, self.b, self.c, self.d = self.shop.keys("payments")[:4]
        self.all = {table: self.shop.keys(table) for table in ("orders", "customers")}

    def lose(self, *keys: str) -> None:
        for key in keys:
            gone = self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)
            self.markers[key] = gone["VersionId"]

    def repair(self, *keys: str) -> None:
        """Remove the delete marker, or the version that replaced a file."""
        for key in keys:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key, VersionId=self.markers.pop(key))

    def tear(self, key: str) -> None:
        torn = self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=b"torn")
        self.markers[key] = torn["VersionId"]

    def accept(self, key: str) -> None:
        """A person takes note of it."""
        (row,) = [row for row in rows_of(self.results.discrepancies()) if row["key"] == key]
        ack = Ack("ann", "rebuilt on Monday", self.now + timedelta(days=9))
        acknowledge(self.shop.lake(self.folder), self.results, [row["discrepancy_id"][:8]], ack, self.now)

    def wiped(self) -> list[str]:
        """Return the keys that a lifecycle rule deleted: three in ten of `orders`, and all of `customers`."""
        days = [key for key in self.all["orders"] if key.split("day=")[1][:10] in WIPED]
        return [*days, *self.all["customers"]]

    def report(self, lacks: Sequence[str] = ()) -> None:
        """The inventory of an hour ago."""
        self.shop.take_inventory(at=self.now - HOUR, lacks=lacks)

    def give_up(self) -> None:
        """The writers of `orders` do without the days that were wiped."""
        place = f"s3://{self.shop.bucket}/warehouse/orders"
        table = DeltaTable(place, storage_options=self.shop.options)
        table.delete(f"day IN ({', '.join(repr(day) for day in WIPED)})")

    def audit(self, run_id: str, *, confirm: bool = True, **options: Any) -> Outcome:
        """One audit at the script's time."""
        place = f"s3://{self.shop.bucket}/inventories/"
        inventory = f"{{kind: s3_inventory, location: '{place}', margin: 0s, max_age: 20h}}"
        lake = self.shop.lake(
            self.folder,
            defaults=DEFAULTS if confirm else BLIND,
            inventories=f"[{inventory}]",
            extra=f"alerts: [{{kind: apprise, url_env: {RECEIVER}, min_severity: warning}}]\nceiling: {{sample: 10}}\n",
        )
        if "as_of" in options:
            options |= {"as_of": self.now + options["as_of"]}
        outcome = audited(lake, clock=lambda: self.now, run_id=run_id, **options)
        assert after_audit(lake, "lake.yaml", clients_of(lake), self.now) == ()
        return outcome

    @property
    def results(self) -> Results:
        return results_of(self.shop.lake(self.folder))

    def ledger(self) -> Counter[tuple[Any, ...]]:
        """(table, kind, state, resolution, times reopened) of all that is known."""
        names = ("table_name", "kind", "state", "resolution", "reopened")
        return Counter(tuple(row[name] for name in names) for row in rows_of(self.results.discrepancies()))

    def transitions(self) -> Counter[tuple[str, str, str]]:
        """(run, transition, kind) of all that happened."""
        rows = rows_of(self.results.batches("transitions", pc.scalar(True)))
        return Counter((row["run_id"], row["transition"], row["to_kind"] or row["from_kind"]) for row in rows)
