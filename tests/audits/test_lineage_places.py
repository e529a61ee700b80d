"""Whole audits of tables with another name or place in the lake file, or with an exchanged or overwritten folder.

One bucket is audited twice: as it was, and after each table met its fate. The last audit is found again under the new
name, and at the new place where the table is the same; a table that lost its newest state on the way is reported.
"""

import itertools
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, findings_by_table, includes_soak, leftover_status
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.iceberg import IcebergLake
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CopySourceTypeDef


@dataclass
class Place:
    """A table with its entry of the lake file: `name` and `folder` are those of the second audit."""

    shop: Shop
    kind: str
    name: str
    folder: str = ""
    also: list["Place"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.folder or f"warehouse/{self.name}"

    @property
    def entry(self) -> str:
        uri = f"s3://{self.shop.bucket}/{self.folder}"
        return f"- {{name: {self.name}, location: '{uri}', manifests: [{{kind: {self.kind}}}]}}"

    def keys(self, below: str = "") -> list[str]:
        listed = self.shop.s3.list_objects_v2(Bucket=self.shop.bucket, Prefix=f"{self.folder}/{below}")
        return [one["Key"] for one in listed.get("Contents", [])]

    def newest(self) -> str:
        """The key of the newest state."""
        ending = {"delta": ".json", "iceberg": ".metadata.json", "hudi": "commit"}[self.kind]
        log = {"delta": "_delta_log/", "iceberg": "metadata/", "hudi": ".hoodie/2"}[self.kind]
        return max(key for key in self.keys(log) if key.endswith(ending))

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)

    def lose_newest(self) -> None:
        newest = self.newest()
        self.delete(*self.keys(newest.removeprefix(f"{self.folder}/").removesuffix(".commit")))

    def copy_to(self, folder: str) -> None:
        for key in self.keys():
            source: CopySourceTypeDef = {"Bucket": self.shop.bucket, "Key": key}
            to = folder + key.removeprefix(self.folder)
            self.shop.s3.copy_object(Bucket=self.shop.bucket, Key=to, CopySource=source)

    def move(self) -> None:
        """Iceberg's paths are absolute: the files stay, and the metadata is read from the new place."""
        self.copy_to(f"warehouse/elsewhere_{self.name}")
        if self.kind != "iceberg":
            self.delete(*self.keys())
        self.folder = f"warehouse/elsewhere_{self.name}"

    def rename(self) -> None:
        self.name += "_new"


def untouched(table: Place) -> None:
    pass


def renamed(table: Place) -> None:
    table.rename()


def renamed_and_lost(table: Place) -> None:
    table.lose_newest()
    table.rename()


def renamed_and_gone(table: Place) -> None:
    table.delete(
        *table.keys({"delta": "_delta_log/", "iceberg": "metadata/", "hudi": ".hoodie/"}[table.kind])
    )
    table.rename()


def moved(table: Place) -> None:
    table.move()


def moved_and_lost(table: Place) -> None:
    table.lose_newest()
    table.move()


def renamed_and_moved(table: Place) -> None:
    table.move()
    table.rename()


def renamed_moved_and_lost(table: Place) -> None:
    table.lose_newest()
    renamed_and_moved(table)


def renamed_moved_and_copied(table: Place) -> None:
    """If two tables have the audited id, the one with the shorter history is a copy for a test."""
    renamed_and_moved(table)
    copied_for_a_test(table)


def gone_for_a_new_one(table: Place) -> None:
    """Another table, under another name at another place, has nothing to do with the one that was dropped."""
    other = Place(table.shop, table.kind, f"other_{table.kind}")
    other.lose_newest()
    table.delete(*table.keys())
    table.name, table.folder = f"new_{table.kind}", other.folder


def copied_for_a_test(table: Place) -> None:
    """A copy without the newest state is a table of its own, beside the one that it was copied from."""
    table.copy_to(f"warehouse/elsewhere_{table.name}")
    table.also = [Place(table.shop, table.kind, f"{table.name}_copy", f"warehouse/elsewhere_{table.name}")]
    table.also[0].lose_newest()


def written_over(table: Place) -> None:
    """The newest state's file gets the content of an older one."""
    newest = table.newest()
    ending = newest.rpartition(".")[2]
    oldest = min(key for key in table.keys(".hoodie/2") if key.endswith(ending))
    source: CopySourceTypeDef = {"Bucket": table.shop.bucket, "Key": oldest}
    table.shop.s3.copy_object(Bucket=table.shop.bucket, Key=newest, CopySource=source)


def copied_over_itself(table: Place) -> None:
    """A copy in place has the same ETag and another time."""
    table.copy_to("kept")
    keys = table.keys()
    for key in keys:
        source: CopySourceTypeDef = {
            "Bucket": table.shop.bucket,
            "Key": "kept" + key.removeprefix(table.folder),
        }
        table.shop.s3.copy_object(Bucket=table.shop.bucket, Key=key, CopySource=source)


def exchanged(table: Place) -> None:
    """The folder holds another table now, whose beginnings are older or younger."""
    other = Place(table.shop, table.kind, "other_hudi")
    table.delete(*table.keys())
    other.copy_to(table.folder)


def log_of_another_table(table: Place) -> None:
    """The log and the files of a table that still lies at its own place are copied over the table's own log."""
    table.delete(*table.keys({"delta": "_delta_log/", "hudi": ".hoodie/"}[table.kind]))
    Place(table.shop, table.kind, f"untouched_{table.kind}").copy_to(table.folder)


LOST, REPLACED = [("missing_metadata", "critical")], [("overwritten_commit", "critical")]
MISSING = [("table_missing", "critical")]
Fate = Callable[[Place], None]
ALL = ("delta", "iceberg", "hudi")
FATES: dict[Fate, tuple[tuple[str, ...], list[tuple[str, str]]]] = {
    untouched: (ALL, []),
    renamed: (ALL, []),
    renamed_and_lost: (ALL, LOST),
    renamed_and_gone: (ALL, MISSING),
    moved: (ALL, []),
    moved_and_lost: (ALL, LOST),
    renamed_and_moved: (ALL, []),
    renamed_moved_and_lost: (ALL, LOST),
    renamed_moved_and_copied: (("delta", "hudi"), []),
    gone_for_a_new_one: (("delta",), []),
    copied_for_a_test: (("delta", "hudi"), []),
    written_over: (("hudi",), REPLACED),
    copied_over_itself: (("hudi",), []),
    exchanged: (("hudi",), []),
    log_of_another_table: (("delta", "hudi"), []),
}
CASES = [(fate, kind) for fate, (kinds, _) in FATES.items() for kind in kinds]
IN_SOAK = {
    *((renamed, "iceberg"), (renamed, "hudi"), (moved, "iceberg"), (moved, "delta")),
    *(
        (untouched, "iceberg"),
        (renamed_and_lost, "delta"),
        (renamed_and_lost, "hudi"),
        (moved_and_lost, "iceberg"),
    ),
    *((renamed_and_gone, "iceberg"), (renamed_and_gone, "hudi"), (renamed_and_moved, "delta")),
    *((renamed_moved_and_lost, "hudi"), (renamed_moved_and_copied, "hudi"), (copied_for_a_test, "delta")),
    *((renamed_and_moved, "hudi"), (renamed_moved_and_lost, "delta")),
}
"""Another format of the same fate; long tests."""


def lay_hudi(shop: Shop, names: Sequence[str]) -> None:
    """Tables of two writes each."""
    numbers = itertools.count(1)
    for name in names:
        table = HudiHistory(shop, name, random.Random(1), numbers)
        table.begin()
        table.insert()
        table.insert()


@dataclass(frozen=True)
class SecondAudit:
    places: dict[tuple[Fate, str], Place]
    found: dict[str, list[dict[str, Any]]]
    leftover: dict[str, str]


@pytest.fixture(scope="module")
def second(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> SecondAudit:
    cases = [case for case in CASES if includes_soak(request) or case not in IN_SOAK]
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop, iceberg, folder = (
        Shop(aws.s3, s3, bucket),
        IcebergLake(aws.s3, s3, bucket),
        tmp_path_factory.mktemp("p"),
    )
    shop.write("template", commits=3, rows=4, days=("2026-11-10",))
    iceberg.table("template_of_iceberg")
    names = {kind: [f"{fate.__name__}_{kind}" for fate, of in cases if of == kind] for kind in ALL}
    shop.copy("template", "other_delta", *names["delta"], own_ids=True)
    iceberg.copy("template_of_iceberg", *names["iceberg"])
    lay_hudi(shop, ("other_hudi", *names["hudi"]))
    places = {(fate, kind): Place(shop, kind, f"{fate.__name__}_{kind}") for fate, kind in cases}
    shop.take_inventory()
    lake = shop.lake(folder, tables=[each.entry for each in places.values()])
    assert audited(lake, run_id="before").summary["findings"] == {}
    for (fate, _), place in places.items():
        fate(place)
    now = [one for each in places.values() for one in (each, *each.also)]
    shop.take_inventory()
    lake = shop.lake(folder, tables=[each.entry for each in now])
    audited(lake, run_id="after")
    return SecondAudit(
        places,
        findings_by_table(lake, "after", [each.name for each in now]),
        leftover_status(lake, "after"),
    )


@pytest.mark.parametrize(
    ("fate", "kind"),
    [
        pytest.param(
            *case, id=f"{case[0].__name__}-{case[1]}", marks=[pytest.mark.soak] if case in IN_SOAK else []
        )
        for case in CASES
    ],
)
def test_a_state_that_was_lost_under_another_name_or_on_the_way_elsewhere_is_reported(
    second: SecondAudit, fate: Fate, kind: str
) -> None:
    place, expected = second.places[fate, kind], FATES[fate][1]
    copies = {each.name for each in place.also}
    for name in (place.name, *copies):
        # a file of a state that a copy lacks is unused in it: whether that is a warning depends on the copy's times
        rows = [row for row in second.found[name] if name not in copies or row["kind"] != "uncommitted"]
        assert [(row["kind"], row["severity"]) for row in rows] == expected, [r["explanation"] for r in rows]
        if expected in (LOST, REPLACED):
            assert second.leftover[name] == "partial"


def test_a_missing_table_that_was_renamed_is_named_with_the_state_of_its_old_name(
    second: SecondAudit,
) -> None:
    (row,) = second.found["renamed_and_gone_delta_new"]
    assert (row["table_version"], row["files"]) == (2, 3)


def test_an_exchanged_folder_of_a_format_without_table_ids_is_a_doubt(second: SecondAudit) -> None:
    assert second.leftover["exchanged_hudi"] == "partial"
    assert second.leftover["log_of_another_table_hudi"] == "partial"
    assert second.leftover["log_of_another_table_delta"] == "partial"
    assert second.leftover["untouched_delta"] == "complete"
    assert second.leftover["moved_hudi"] == second.leftover["copied_over_itself_hudi"] == "complete"
