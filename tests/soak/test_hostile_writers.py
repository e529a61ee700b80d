"""Plans that are applied while writers commit, vacuum, compact, overwrite and delete on the same table."""

import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.reconcile.execution.apply import Batch
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.interleaved import interleaved
from tests.builders.shop import Shop
from tests.conftest import Aws

SEEDS = int(os.environ.get("LAKEAUDIT_INTERLEAVINGS", "300"))
FEW = 12


def run(aws: Aws, s3: Endpoint, folder: Path, seeds: range) -> str:
    """Run all seeds, and return a summary."""
    steps, held, applied, acts = 0, 0, 0, 0
    statuses: Counter[str] = Counter()
    for seed in seeds:
        bucket = f"hostile-{seed}-{uuid.uuid4().hex[:8]}"
        aws.s3.create_bucket(Bucket=bucket)
        place = folder / str(seed)
        place.mkdir()
        ended = interleaved(Shop(aws.s3, s3, bucket, ["orders"]), place, seed)
        steps, held, applied, acts = (
            steps + ended.steps,
            held + ended.held,
            applied + ended.applied,
            acts + ended.acts,
        )
        statuses.update(ended.statuses.values())
    assert applied >= 0.95 * held, f"{applied} of {held} steps that nothing stood against were applied"
    assert acts > len(seeds), "writers were at work"
    told = f"{len(seeds)} interleavings, {acts} acts of writers, {steps} steps: {dict(statuses)}"
    return f"{told}; of {held} that nothing stood against {applied} were applied"


@pytest.mark.soak
def test_a_few_interleavings(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    print(run(aws, s3, tmp_path, range(FEW)))  # noqa: T201 - shown with a failure


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_interleavings(
    aws: Aws, s3: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(aws, s3, tmp_path, range(SEEDS))
    with capsys.disabled():
        print(told)  # noqa: T201 - the figures are the point


@pytest.mark.parametrize(
    ("where", "name", "unsafe", "told"),
    [
        (Batch, "put_back", lambda *_: {}, "came back|lost"),
    ],
)
def test_what_is_unsafe_is_found(
    aws: Aws,
    s3: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    unsafe: Any,
    told: str,
) -> None:
    monkeypatch.setattr(where, name, unsafe)
    with pytest.raises(AssertionError, match=told):
        run(aws, s3, tmp_path, range(60))
