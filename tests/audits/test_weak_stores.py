"""A store of weak consistency: an absence counts only if two responses, a minute apart, agree."""

import uuid
from dataclasses import dataclass, replace

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import body_of, put
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

STORES = {"strong": "strong", "weak": "weak", "listed": "weak"}
"""By the name of a bucket its consistency."""


@dataclass(frozen=True)
class Audited:
    """An audit of a lake on three stores, and the pauses that it made."""

    lake: Lake
    run_id: str
    pauses: list[float]

    def dropped(self, store: str) -> set[str]:
        """Return the tables of a store that lost a file."""
        rows = rows_of(results_of(self.lake).findings(self.run_id))
        names = [row["table_name"] for row in rows if row["kind"] == "dropped"]
        return {name.partition(".")[2] for name in names if name.startswith(f"{store}.")}


def entry(shop: Shop, store: str, table: str, more: str = "") -> str:
    place = f"s3://{shop.bucket}/warehouse/{table}"
    return f"- {{name: {store}.{table}, location: '{place}', manifests: [{{kind: delta}}]{more}}}"


def absent_from_report(shop: Shop) -> tuple[str, bytes]:
    """A report lacks a file of `gone` and one of `back`, and storage lacks both; returns that of `back`."""
    for table in ("gone", "back"):
        shop.write(table, commits=1)
    lost = {table: shop.keys(f"{table}/")[0] for table in shop.tables}
    body = body_of(shop.bucket, lost["back"])
    shop.take_inventory(lacks=[*lost.values()])
    for key in lost.values():
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    return lost["back"], body


def absent_from_listing(shop: Shop) -> None:
    """Delete a file of `orders`, which is listed."""
    shop.write("orders", commits=1)
    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])


@pytest.fixture(scope="module")
def audit(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Audit all stores once; after the first pause each has the file of its table `back` again."""
    shops = {store: Shop(aws.s3, s3, f"{store}-{uuid.uuid4().hex[:12]}") for store in STORES}
    for shop in shops.values():
        aws.s3.create_bucket(Bucket=shop.bucket)
    absent_from_listing(shops["listed"])
    back = {shops[store].bucket: absent_from_report(shops[store]) for store in ("strong", "weak")}
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        for bucket, (key, body) in back.items():
            put(bucket, key, body)

    lake = lake_of(shops, tmp_path_factory)
    return Audited(lake, audited(lake, pause=pause).run_id, pauses)


def lake_of(shops: dict[str, Shop], folders: pytest.TempPathFactory) -> Lake:
    tables = [entry(shops[store], store, table) for store in ("strong", "weak") for table in ("gone", "back")]
    tables.append(entry(shops["listed"], "listed", "orders", ", confirm: {mode: none}"))
    reports = [
        f"{{kind: s3_inventory, location: 's3://{shops[store].bucket}/inventories/', margin: 0s}}"
        for store in ("strong", "weak")
    ]
    listing = f"{{kind: listing, location: 's3://{shops['listed'].bucket}/warehouse/'}}"
    buckets = [f"{{match: '{shops[store].bucket}', consistency: {each}}}" for store, each in STORES.items()]
    return shops["weak"].lake(
        folders.mktemp("stores"),
        tables=tables,
        inventories=f"[{', '.join([*reports, listing])}]",
        extra=f"buckets: [{', '.join(buckets)}]",
    )


def test_an_absence_counts_after_a_second_look(audit: Audited) -> None:
    """On a weak store an old answer does not count, and a loss does; a strong store is queried once."""
    assert audit.pauses == [60.0]
    assert audit.dropped("weak") == {"gone"}
    assert audit.dropped("strong") == {"gone", "back"}


def test_a_strong_store_is_queried_without_a_pause_and_a_listing_of_a_weak_one_has_a_margin(
    audit: Audited,
) -> None:
    """A file that was there a moment ago is too young to be missed in the listing."""
    pauses: list[float] = []
    tables = ("listed.orders", "strong.gone")
    live = audited(audit.lake, live=True, tables=tables, pause=pauses.append)
    assert (pauses, live.summary["findings"]) == ([], {"dropped": 1})
    for run in (audit, replace(audit, run_id=live.run_id)):
        assert run.dropped("strong") >= {"gone"}
        assert run.dropped("listed") == set()
        rows = results_of(audit.lake).coverage(run.run_id, ["listed.orders"])
        (row,) = (each for each in rows if each["axis"] == "content")
        assert (row["findings"], row["consistent"], row["out_of_window"]) == (0, 2, 1)
