"""This machine's clock is ahead of the store's, or behind: no false finding, no silence, and nothing young is moved."""

import time
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.attacked import ALLOWED, PACE, Attacked, attacked
from tests.builders.audits import results_of
from tests.builders.strikes import undisposed
from tests.builders.zygote import zygote
from tests.conftest import Aws

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
HOUR = 3600.0
SKEWS = (0.0, 72 * HOUR, -72 * HOUR, 5 * HOUR, -5 * HOUR, HOUR / 6, -HOUR / 6, 60.0, -60.0)
YOUNG = "-left.parquet"


@pytest.fixture(scope="module")
def one(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """Losses of an hour ago, and files that a job wrote 50 minutes ago and may still commit."""
    with (
        pytest.MonkeyPatch.context() as patch,
        undisposed(),
        attacked(aws, s3, tmp_path_factory.mktemp("lake"), on_s3=True, commands=()) as one,
    ):
        patch.setenv("LAKEAUDIT_TEST_RECEIVER", "json://127.0.0.1:9/")
        file = one.folder / "lake.yaml"
        file.write_text(
            file.read_text().replace("grace: 0s, leftover_age: 0s", "grace: 30m, leftover_age: 24h")
        )
        one.keep("audit")
        return one


def findings_of(one: Attacked) -> set[tuple[str, str]]:
    results = results_of(one.lake)
    if results.last_published() is None:
        return set()
    rows = rows_of(results.findings(results.published(None)["run_id"]))
    return {(row["kind"], row["key"]) for row in rows if row["severity"] in ("critical", "error", "warning")}


@pytest.mark.parametrize("skew", SKEWS)
def test_a_wrong_clock_makes_no_finding_and_moves_nothing(one: Attacked, tmp_path: Path, skew: float) -> None:
    with undisposed(), zygote(tmp_path) as victims:
        victims.skew = skew
        one.back("audit")
        young = {place for place in one.objects() if place[1].endswith(YOUNG)}
        audit = victims.run(*one.argv("audit"))
        found = {kind for kind, _ in findings_of(one)}
        print(skew, audit.code, sorted(found), audit.output[-400:])  # noqa: T201
        assert found <= {"dropped", "size_mismatch", "unreadable_evidence"}
        assert audit.code in (3, 10) or {"dropped", "size_mismatch"} <= found
        plan = victims.run(
            "reconcile", "plan", str(one.folder / "lake.yaml"), "-o", str(one.plan_file), *ALLOWED
        )
        apply = victims.run(*one.argv("apply"))
        print(plan.code, apply.code, apply.output[-300:])  # noqa: T201
        assert young <= set(one.objects())
        assert 70 not in (plan.code, apply.code)


@pytest.mark.parametrize("skew", [-5 * HOUR, 5 * HOUR])
def test_a_wrong_clock_neither_takes_a_lease_nor_keeps_one(
    one: Attacked, tmp_path: Path, skew: float
) -> None:
    """Ages of leases are the store's: a run with a wrong clock waits for the end of one with a right clock."""
    with undisposed(), zygote(tmp_path) as right, zygote(tmp_path) as wrong:
        wrong.skew = skew
        one.back("audit")
        right.pace = wrong.pace = PACE
        right.folder, wrong.folder = tmp_path / "right", tmp_path / "wrong"
        right.folder.mkdir()
        wrong.folder.mkdir()
        right.start(*one.argv("audit"))
        time.sleep(1)
        codes = wrong.run(*one.argv("alert")).code, right.end().code
        assert codes[1] in (0, 1, 3), codes
        assert codes[0] in (0, 13), codes
