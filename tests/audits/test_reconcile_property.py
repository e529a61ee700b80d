"""Folders of two formats, drawn at random: after any plan real readers get every row that they got before."""

import io
import os
import random
import uuid
from collections import Counter
from pathlib import Path

import pytest

from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.drawn_folders import FORMATS, DrawnFolder, drawn, lose, plant
from tests.builders.mending import Mending
from tests.builders.shop import Shop
from tests.builders.two_formats import TwoFormats
from tests.conftest import Aws

ALLOW = ("restore", "older_than_onboarding", "probable", "remove_reference", "abort_upload")
FEW = 10
MANY = int(os.environ.get("LAKEAUDIT_DRAWN_FOLDERS", "300"))
LOSSES = ("", "", "marker", "gone", "emptied")


def reconciled(one: DrawnFolder, place: Path, chance: random.Random) -> Counter[str]:
    """Audit, lose, audit, plan, apply; how many files were safe to move, and how many of them were.

    Raises:
        AssertionError: a row, or a file of a lost state, is gone.
    """
    how, kind = chance.choice(LOSSES), chance.choice(FORMATS)
    # what is gone for good from the second format leaves no evidence
    how = "marker" if how == "gone" and one.declared != kind else how
    if how:
        plant(one, kind)
    one.folder.days_ago()
    mending = Mending(one.folder.lake(place, one.declared), place)
    if how == "gone" or chance.random() < 0.5:
        audited(mending.lake, live=True)
    if how:
        lose(one, kind, how)
    read, safe = one.readable, one.folder.unlisted if not how else set()
    audited(mending.lake, live=True)
    mending.plan(io.StringIO(), allow=ALLOW)
    mending.apply()
    told = f"{one.declared}, lost: {one.lost}, {mending.statuses()}"
    after = one.readable
    gone = {name: Counter(rows) - Counter(after.get(name, ())) for name, rows in read.items()}
    assert not any(gone.values()), f"rows are gone: {gone}; {told}"
    assert all(one.there(key) for key in one.kept), f"files of a lost state are gone: {told}"
    moved = {key for key, status in mending.statuses().items() if status == "applied"}
    return Counter(safe=len(safe), taken=len(safe & moved), losses=bool(how))


def survived(aws: Aws, s3: Endpoint, folder: Path, seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        bucket, place, chance = (
            f"drawn-{seed}-{uuid.uuid4().hex[:8]}",
            folder / str(seed),
            random.Random(seed),
        )
        place.mkdir()
        aws.s3.create_bucket(Bucket=bucket)
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        try:
            total += reconciled(drawn(TwoFormats(Shop(aws.s3, s3, bucket)), chance), place, chance)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return total


def test_few_folders_keep_every_row(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    total = survived(aws, s3, tmp_path, range(FEW))
    assert total["losses"]
    assert total["taken"] >= 0.95 * total["safe"] > 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_folders_keep_every_row(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    total = survived(aws, s3, tmp_path, range(FEW, FEW + MANY))
    assert total["taken"] >= 0.95 * total["safe"] > 0
