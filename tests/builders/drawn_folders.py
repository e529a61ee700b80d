"""Folders with two formats and two writers, drawn at random: all have unlisted files, and some lose metadata."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from deltalake.exceptions import DeltaError
from pyiceberg.exceptions import NoSuchTableError, ValidationError

from tests.builders.two_formats import TwoFormats

FORMATS = ("delta", "iceberg")
UNREADABLE = (OSError, DeltaError, NoSuchTableError, ValidationError, ClientError, ValueError)


@dataclass
class DrawnFolder:
    """A folder after some commits of its two writers.

    `declared` is the format that the lake file names; `lost` is what was lost of its metadata, and `kept` are the data
    files that only the lost state lists.
    """

    folder: TwoFormats
    declared: str
    lost: str = ""
    kept: set[str] = field(default_factory=set)

    @property
    def readable(self) -> dict[str, list[int]]:
        """By format the rows that a real reader gets; a format that it cannot read is left out."""
        readers: dict[str, Callable[[], list[int]]] = {
            "delta": self.folder.read_delta,
            "iceberg": self.folder.read_iceberg,
        }
        return {name: rows for name, read in readers.items() if (rows := _rows(read)) is not None}

    def there(self, key: str) -> bool:
        """Whether readers find an object."""
        shop = self.folder.shop
        page = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=key)
        return any(each["Key"] == key for each in page.get("Contents", []))


def _rows(read: Callable[[], list[int]]) -> list[int] | None:
    try:
        return read()
    except UNREADABLE:
        return None


def draw_folder(folder: TwoFormats, chance: random.Random) -> DrawnFolder:
    """Commits of both writers, in any order, days ago."""
    folder.append_delta()
    folder.append_iceberg()
    acts = (
        folder.append_delta,
        folder.append_iceberg,
        folder.rewrite_delta,
        folder.sync,
        folder.expire_iceberg,
    )
    for _ in range(chance.randint(2, 5)):
        chance.choice(acts)()
    for number in range(chance.randint(1, 3)):
        folder.leave(f"died-{number}")
    return DrawnFolder(folder, chance.choice(FORMATS))


def plant(one: DrawnFolder, kind: str) -> None:
    """One more commit of a format, whose files no other state lists: it is lost later."""
    before = one.folder.keys
    (one.folder.append_delta if kind == "delta" else one.folder.append_iceberg)()
    one.kept = one.folder.keys - before


def lose(one: DrawnFolder, kind: str, how: str) -> None:
    """The newest state of a format is hidden by a delete marker, gone for good, or has no bytes."""
    shop, one.lost = one.folder.shop, f"{kind}: {how}"
    key = f"{one.folder.folder}/_delta_log/{one.folder.delta.version():020}.json"
    if kind == "iceberg":
        key = one.folder.iceberg.metadata_location.removeprefix(f"s3://{shop.bucket}/")
    at: Any = {"Bucket": shop.bucket, "Key": key}
    if how == "emptied":
        shop.s3.put_object(**at, Body=b"")
    elif how == "marker":
        shop.s3.delete_object(**at)
    else:
        shop.s3.delete_object(**at, VersionId=shop.s3.head_object(**at)["VersionId"])
