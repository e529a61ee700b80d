"""A shop whose files are lost in every way, and plans that repair it, run in this process as the commands do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from lakeaudit.commands.repair import reconcile as command
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.reconcile.execution.run import Bounds
from lakeaudit.reconcile.plans.plan_file import open_plan
from lakeaudit.results.read import ALL, RowFilter
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.audits import results_of
from tests.builders.backdate import backdate
from tests.builders.results import Row, covered, discrepancy, group, leftover, publish, run
from tests.builders.shop import Shop

Keys = dict[str, list[tuple[Any, ...]]]


def an_hour_old(shop: Shop) -> None:
    """Data files of an hour and nine seconds, logs of an hour."""
    then = datetime.now(UTC) - timedelta(hours=1)
    for entry in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix="warehouse/")["Contents"]:
        is_log = "_delta_log" in entry["Key"]
        backdate(shop.bucket, entry["Key"], then - timedelta(seconds=0 if is_log else 9))


_KNOWN = (
    *("kind", "table_name", "bucket", "key", "manifest_kind"),
    *("manifest_size", "bytes_at_stake", "rows_at_stake"),
)


def finding_rows(shop: Shop, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return rows for `ledger.opened`: findings about these files of `orders`, given a kind by key."""
    table = f"s3://{shop.bucket}/warehouse/orders"
    adds = pa.table(DeltaTable(table, storage_options=shop.options).get_add_actions()).to_pylist()
    sizes = {f"warehouse/orders/{each['path']}": each["size_bytes"] for each in adds}
    log = shop.s3.head_object(Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{0:020}.json")
    return [
        {
            "kind": kind, "table_name": "orders", "bucket": shop.bucket, "key": key, "manifest_kind": "delta",
            "manifest_size": sizes[key], "bytes_at_stake": sizes[key], "rows_at_stake": 50,
            "manifest_time": log["LastModified"],
        }
        for key, kind in kinds.items()
    ]  # fmt: skip


def keys_of(shop: Shop) -> Keys:
    """Every key with its versions and markers, newest first; of markers only that there is one."""
    page: Any = shop.s3.list_object_versions(Bucket=shop.bucket)
    found: dict[str, list[tuple[Any, ...]]] = {}
    each: list[tuple[Any, tuple[Any, ...]]]
    each = [(v, (v["VersionId"], v["ETag"], v["Size"])) for v in page.get("Versions", [])]
    each += [(m, ("marker",)) for m in page.get("DeleteMarkers", [])]
    for entry, told in sorted(
        each, key=lambda one: (one[0]["IsLatest"], one[0]["LastModified"]), reverse=True
    ):
        found.setdefault(entry["Key"], []).append(told)
    return found


def found_set(lake: Lake) -> set[tuple[Any, ...]]:
    """(axis, subject, kind) of the last run's findings."""
    results = results_of(lake)
    batches = results.findings(results.published(None)["run_id"])
    return {(row["axis"], row["subject"], row["kind"]) for b in batches for row in b.to_pylist()}


def open_rows(lake: Lake) -> list[dict[str, Any]]:
    """Return the ledger's open rows with the columns of `finding_rows`, except for the milliseconds of commits."""
    batches = results_of(lake).discrepancies(("open",))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: row[name] for name in _KNOWN} for row in sorted(rows, key=lambda row: str(row["key"]))]


def states(lake: Lake) -> dict[str, tuple[str, str | None]]:
    """By key what the ledger says: (state, resolution)."""
    rows = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    return {row["key"]: (row["state"], row["resolution"]) for row in rows}


def leftover_rows(
    shop: Shop,
    kind: str,
    *keys: str,
    table: str = "orders",
    category: Mapping[str, str] | None = None,
    partition: str = "day=2026-11-01",
) -> tuple[Row, list[Row]]:
    """Return the finding and the rows of `leftover_files` about these files of a table, as they are in storage now.

    They are data files, but for those of another `category`.
    """
    found = {each["Key"]: each for each in shop.s3.list_objects_v2(Bucket=shop.bucket)["Contents"]}
    own = {} if table == "orders" else {"table_name": table, "discrepancy_id": f"d-{table}"}
    one = group(kind, partition, len(keys), bucket=shop.bucket, **own)
    told = [{"size": found[key]["Size"], "etag": found[key]["ETag"].strip('"')} for key in keys]
    return one, [
        leftover(one, key, bucket=shop.bucket, category=(category or {}).get(key, "data"), **each)
        for key, each in zip(keys, told, strict=True)
    ]


def publish_leftovers(
    shop: Shop,
    lake: Lake,
    kind: str,
    *keys: str,
    first_audit: datetime | None = None,
    category: Mapping[str, str] | None = None,
    status: str = "complete",
    partition: str = "day=2026-11-01",
    more: bool = False,
) -> None:
    """Publish the results of an audit that reported these files of `orders`; the first audit was then, by default now.

    They are data files, but for those of another `category`. With `more` they are a further group of the same audit,
    which needs a partition of its own.
    """
    one, files = leftover_rows(shop, kind, *keys, category=category, partition=partition)
    cut = first_audit or datetime.now(UTC)
    coverage = covered(axis="leftover", storage_cut_from=cut, status=status)
    if not more:
        publish(lake.results, runs=[run()], coverage=[coverage])
    publish(lake.results, leftover_files=files, discrepancies=[discrepancy(one)])


def publish_leftover_of_tables(
    lake: Lake, places: Mapping[str, tuple[Shop, str]], first_audit: datetime
) -> None:
    """Publish the results of an audit that reported an uncommitted file of each table: its shop and key, by table."""
    reported = [leftover_rows(shop, "uncommitted", key, table=name) for name, (shop, key) in places.items()]
    publish(
        lake.results,
        runs=[run()],
        coverage=[covered(name, axis="leftover", storage_cut_from=first_audit) for name in places],
        leftover_files=[file for _, files in reported for file in files],
        discrepancies=[discrepancy(one) for one, _ in reported],
    )


def actions_of(lake: Lake) -> list[dict[str, Any]]:
    """Every row of the record."""
    batches = results_of(lake).batches("actions", pc.scalar(True))
    return [row for batch in batches for row in batch.to_pylist()]


@dataclass
class RepairPlans:
    """Plans of a lake below a folder."""

    lake: Lake
    folder: Path
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    @property
    def file(self) -> Path:
        return self.folder / "plan.jsonl"

    def plan(
        self,
        out: Any,
        *,
        allow: Sequence[str] = ("restore",),
        row_filter: RowFilter = ALL,
        max_share: float | None = None,
    ) -> CommandResult:
        return command.plan(
            self.lake, str(self.folder / "lake.yaml"), results_of(self.lake), out, to=str(self.file),
            row_filter=row_filter, allow=allow, now=self.clock(), progress=SilentProgress(), max_share=max_share,
        )  # fmt: skip

    def apply(self, *, max_share: float | None = None, **bounds: Any) -> CommandResult:
        return self._run(partial(command.apply, max_share=max_share), bounds)

    def undo(self) -> CommandResult:
        return self._run(command.undo, {})

    def _run(self, what: Callable[..., CommandResult], bounds: dict[str, Any]) -> CommandResult:
        with open_plan(str(self.file), clients_of(self.lake)) as file:
            return what(
                file, self.lake, str(self.folder / "lake.yaml"), results_of(self.lake), bounds=Bounds(**bounds),
                clock=self.clock, progress=SilentProgress(),
            )  # fmt: skip

    def statuses(self) -> dict[str, str]:
        """By key what became of its step."""
        return {row["key"]: row["status"] for row in actions_of(self.lake) if row["action"] != "put_back"}
