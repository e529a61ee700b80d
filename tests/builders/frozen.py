"""A lake whose sources do not change any more, and what runs that nobody killed make of it."""

import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands.alert import after_audit
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import RESULTS
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

EARLIER, NIGHTLY = "earlier", "nightly"
"""The run that was published before, and the one that is killed."""

NOT_COMPARED = (
    *("started_at", "finished_at", "opened_at", "resolved_at", "at", "made_at", "sent_at"),
    *("transition_id", "notice_id"),
)
"""Clock values, and ids that contain the run's id."""
RECEIVER = "LAKEAUDIT_TEST_RECEIVER"
"""The variable that says where messages go."""
_TOLD = f"alerts: [{{kind: apprise, url_env: {RECEIVER}, min_severity: info}}]\n"
_DEFAULTS = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B"

Tables = dict[str, list[str]]
"""Every row of each result table, in one order, without what a clock says."""


@dataclass(frozen=True)
class Frozen:
    """A lake whose sources do not change any more, and what a run that nobody killed makes of it."""

    shop: Shop
    as_of: datetime
    published: Path
    expected: dict[bool, Tables]
    received: list[Any]
    """Messages that the tests' own audits sent."""

    def lake(self, folder: Path, *, first: bool) -> Lake:
        """The lake with results of its own in `folder`."""
        folder.mkdir(parents=True)
        if not first:
            shutil.copytree(self.published, folder / "results")
        return self.shop.lake(folder, defaults=_DEFAULTS, extra=_TOLD)

    def audited(self, lake: Lake, run_id: str = NIGHTLY) -> Outcome:
        """One whole audit, in this process, and the telling of it."""
        outcome = audited(lake, run_id=run_id, as_of=self.as_of)
        assert send_notifications(lake) == ()
        return outcome


def send_notifications(lake: Lake) -> tuple[str, ...]:
    """Send the notifications of an audit; return the problems."""
    return after_audit(lake, "lake.yaml", clients_of(lake), datetime.now(UTC))


def freeze(
    aws: Aws,
    s3: Endpoint,
    folder: Path,
    received: list[Any],
    *,
    firsts: Collection[bool],
) -> Frozen:
    """A damaged lake with a row for every result table, audited in a new place (True) and in one with results."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("customers", commits=1)
    gone, torn = shop.keys("orders")[:2]
    kept = shop.keys("customers")[0]
    time.sleep(1.1)  # S3 tells whole seconds: what follows is younger than every commit
    aws.s3.delete_object(Bucket=bucket, Key=gone)
    aws.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    stray = kept.replace(".parquet", "-stray.parquet")
    aws.s3.put_object(Bucket=bucket, Key=stray, Body=b"nobody lists this")
    shop.take_inventory()
    time.sleep(1.1)  # S3 tells whole seconds: now everything there is older than `as_of`
    frozen = Frozen(shop, datetime.now(UTC), folder / "published" / "results", {}, received)
    frozen.audited(frozen.lake(frozen.published.parent, first=True), EARLIER)
    frozen.expected[True] = {
        name: [row.replace(EARLIER, NIGHTLY) for row in rows]
        for name, rows in tables_at(frozen.published).items()
    }
    if False in firsts:
        _age(frozen.published)
        frozen.audited(frozen.lake(folder / "again", first=False))
        frozen.expected[False] = tables_at(folder / "again" / "results")
    return frozen


def _age(results: Path) -> None:
    """Let what the ledger knows rest on an older picture, so that the next run confirms it."""
    ledger = DeltaTable(str(results / "discrepancies"))
    times = ("first_seen_at", "last_evidence_at")  # both of a picture: never the first after the last
    ledger.update({name: f"{name} - interval '1 day'" for name in times})


def tables_at(results: Path, names: Iterable[str] = RESULTS) -> Tables:
    """All rows of all result tables, published or not."""
    return {name: _rows(results / name) for name in names}


def _rows(table: Path) -> list[str]:
    return _texts(DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def _texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(_without_clock(row).items())) for row in rows)


def _without_clock(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in NOT_COMPARED}
    if kept.get("sources"):
        kept["sources"] = [{n: v for n, v in source.items() if n != "seconds"} for source in kept["sources"]]
    for name in {"message", "content"} & {name for name, value in kept.items() if value}:
        kept[name] = re.sub(r"/\S*/lake\.yaml", "lake.yaml", kept[name])  # commands name it by its whole path
    return kept


def assert_same(found: Tables, expected: Tables) -> None:
    """Row by row; a failure shows only the rows that differ."""
    for name, rows in expected.items():
        assert rows, f"{name} is empty, so it proves nothing"
        odd = Counter(found[name]) - Counter(rows), Counter(rows) - Counter(found[name])
        assert odd == (Counter(), Counter()), f"{name}: rows that only the rerun has, and rows that it lacks"


def check_what_readers_see(frozen: Frozen, lake: Lake, *, first: bool) -> None:
    """The killed run is published completely, with or without notifications, or not at all."""
    results = results_of(lake)
    if any(run["run_id"] == NIGHTLY and run["status"] != "running" for run in results.runs()):
        later = ("tables", "notices")  # written after publishing
        before_telling = {name: rows for name, rows in frozen.expected[first].items() if name not in later}
        found = tables_at(Path(lake.results.spark_path), before_telling)
        # those of the run before are taken away after publishing, so that a kill may leave them, which nobody reads
        of_run = [row for batch in results.leftover_files(NIGHTLY) for row in batch.to_pylist()]
        logged = results.batches("commits", pc.field("run_id") == NIGHTLY)
        own = {
            "leftover_files": _texts(of_run),
            "commits": _texts([row for batch in logged for row in batch.to_pylist()]),
        }
        assert_same(found | own, before_telling)
        return
    with pytest.raises(BadInput, match=NIGHTLY):
        results.published(NIGHTLY)
    if first:
        with pytest.raises(CannotAudit, match="no finished audit"):
            results.published(None)
        return
    assert results.published(None)["run_id"] == EARLIER
    earlier = [row for batch in results.findings(EARLIER) for row in batch.to_pylist()]
    assert _texts(earlier) == [row for row in frozen.expected[False]["findings"] if EARLIER in row]
