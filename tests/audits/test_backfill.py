"""Audits of past nights, as a backfill runs them, and an audit that is repeated with its run id, as a retry does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAY = timedelta(days=1)
FIRST = datetime.now(UTC).replace(microsecond=0) + DAY
NIGHTS = (FIRST, FIRST + DAY, FIRST + 2 * DAY)


@pytest.fixture
def lake(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Lake:
    """A lake with a report of each night; a file of the table is lost between the first night and the second."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    lost = shop.keys("orders")[:1]
    for at, lacks in zip(NIGHTS, ([], lost, lost), strict=True):
        shop.take_inventory(at=at - timedelta(hours=1), lacks=lacks)
    return shop.lake(tmp_path)


def outcome_of(lake: Lake, night: int) -> tuple[int, list[tuple[str, str]], dict[str, int]]:
    """Return the exit code of a night's audit, its findings with their confirmation, and the states of the ledger."""
    at = NIGHTS[-1] + DAY
    outcome = audited(lake, run_id=f"night-{night}", as_of=NIGHTS[night], clock=lambda: at)
    rows = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    summary = [(row["kind"], row["confirmation"]) for row in rows]
    return outcome.exit_code, summary, dict(outcome.summary["states"])


UNCONFIRMED, CONFIRMED = ("dropped", "none"), ("dropped", "second_cut")


@pytest.mark.parametrize(
    ("order", "outcomes"),
    [
        (
            (0, 1, 2),
            [(0, [], {}), (0, [UNCONFIRMED], {"pending": 1}), (0, [CONFIRMED], {"open": 1})],
        ),
        (
            (2, 1, 0),
            [
                (0, [UNCONFIRMED], {"pending": 1}),
                (13, [UNCONFIRMED], {"pending": 1}),
                (13, [], {"pending": 1}),
            ],
        ),
    ],
    ids=["oldest first", "newest first"],
)
def test_only_the_oldest_night_first_fills_the_ledger(
    lake: Lake, order: tuple[int, ...], outcomes: list[tuple[int, list[tuple[str, str]], dict[str, int]]]
) -> None:
    assert [outcome_of(lake, night) for night in order] == outcomes


def test_a_retry_replaces_the_rows_of_the_first_try(lake: Lake) -> None:
    expected = (0, [UNCONFIRMED], {"pending": 1})
    assert [outcome_of(lake, 1), outcome_of(lake, 1)] == [expected, expected]
    assert [row["run_id"] for row in results_of(lake).runs()] == ["night-1"]
