"""Folders of two formats, drawn at random: after any plan real readers get every row that they got before."""

import io
import os
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.drawn_folders import FORMATS, DrawnFolder, draw_folder, lose, plant
from tests.builders.repair_plans import RepairPlans
from tests.builders.shop import Shop
from tests.builders.two_formats import TwoFormats, lake_of
from tests.conftest import Aws

pytestmark = pytest.mark.variant

ALLOW = ("restore", "older_than_onboarding", "probable", "remove_reference", "abort_upload")
FEW = range(34, 44)
"""Ten folders in one lake that was not audited before its losses; the soak has lakes that were, too."""
MANY = int(os.environ.get("LAKEAUDIT_DRAWN_FOLDERS", "300"))
LOSSES = ("", "", "marker", "gone")
TORN = "emptied"
"""A log with such a commit cannot be read, so it may list any file of the lake: nothing of the lake is moved."""
TOGETHER = 5
"""So many folders are the tables of one lake."""


@dataclass(frozen=True)
class Loss:
    """A loss in one format of a folder; `how` is empty where nothing is lost."""

    how: str
    kind: str


def planned_loss(one: DrawnFolder, chance: random.Random, audited_before: bool, hows: Sequence[str]) -> Loss:
    """A loss that leaves evidence."""
    how, kind = chance.choice(hows), chance.choice(FORMATS)
    # what is gone for good leaves evidence only in an audit of that format before
    if how == "gone" and (one.declared != kind or not audited_before):
        how = "marker"
    return Loss(how, kind)


def reconciled(
    folders: Sequence[DrawnFolder], place: Path, chance: random.Random, audited_before: bool
) -> Counter[str]:
    """Audit, lose, audit, plan, apply; how many files were safe to move, and how many of them were.

    Raises:
        AssertionError: a row, or a file of a lost state, is gone.
    """
    hows = LOSSES if chance.random() < 0.7 else (*LOSSES, TORN)
    losses = [planned_loss(one, chance, audited_before, hows) for one in folders]
    for one, loss in zip(folders, losses, strict=True):
        if loss.how:
            plant(one, loss.kind)
    folders[0].folder.days_ago()
    tables = {f"t{n}": (one.folder.uri, one.declared) for n, one in enumerate(folders)}
    mending = RepairPlans(lake_of(folders[0].folder.shop, place, tables), place)
    if audited_before:
        audited(mending.lake, live=True)
    for one, loss in zip(folders, losses, strict=True):
        if loss.how:
            lose(one, loss.kind, loss.how)
    read = [one.readable for one in folders]
    torn = any(loss.how == TORN for loss in losses)
    safe = [
        one.folder.unlisted if not loss.how and not torn else set()
        for one, loss in zip(folders, losses, strict=True)
    ]
    audited(mending.lake, live=True)
    mending.plan(io.StringIO(), allow=ALLOW)
    mending.apply()
    moved = {key for key, status in mending.statuses().items() if status == "applied"}
    for one, rows in zip(folders, read, strict=True):
        keeps_every_row(one, rows, mending)
    unused = set().union(*safe)
    return Counter(safe=len(unused), taken=len(unused & moved), losses=sum(bool(loss.how) for loss in losses))


def keeps_every_row(one: DrawnFolder, before: dict[str, list[int]], mending: RepairPlans) -> None:
    """Check that readers get the same rows as before, and that files of lost states are there."""
    about = f"{one.folder.uri}, {one.declared}, lost: {one.lost}, {mending.statuses()}"
    after = one.readable
    gone = {name: Counter(rows) - Counter(after.get(name, ())) for name, rows in before.items()}
    assert not any(gone.values()), f"rows are gone: {gone}; {about}"
    assert all(one.there(key) for key in one.kept), f"files of a lost state are gone: {about}"


def survived(
    aws: Aws,
    s3: Endpoint,
    place: Path,
    seeds: range,
    together: int = TOGETHER,
    *,
    audited_before: bool = True,
) -> Counter[str]:
    """What became of the folders of these seeds, so many in a lake; every second lake may be audited before."""
    total: Counter[str] = Counter()
    for number, first in enumerate(seeds[::together]):
        own, bucket = place / str(first), f"drawn-{first}-{uuid.uuid4().hex[:8]}"
        own.mkdir()
        aws.s3.create_bucket(Bucket=bucket)
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        shop, chance = Shop(aws.s3, s3, bucket), random.Random(first)
        folders = [draw_folder(TwoFormats(shop, f"warehouse/t{n}"), chance) for n in range(together)]
        try:
            total += reconciled(folders, own, chance, audited_before and number % 2 == 0)
        except AssertionError as error:
            raise AssertionError(f"seed {first}: {error}") from error
    return total


def test_few_folders_keep_every_row(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    total = survived(aws, s3, tmp_path, FEW, len(FEW), audited_before=False)
    assert total["losses"]
    assert total["taken"] >= 0.95 * total["safe"] > 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_folders_keep_every_row(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    total = survived(aws, s3, tmp_path, range(MANY))
    assert total["taken"] >= 0.95 * total["safe"] > 0
