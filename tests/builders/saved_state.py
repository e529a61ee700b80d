"""A prepared lake on the tests' own server, which returns to its saved state after a test has changed it."""

import copy
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.backdate import _backend, _bucket, restore_objects, saved_objects


@dataclass(frozen=True)
class SavedState:
    """The content of a bucket, of a table of DynamoDB, and of a folder.

    The ids and times of versions and delete markers are restored, too, so that a plan of the saved state stays valid.
    """

    bucket: str
    folder: Path
    files: Path
    objects: bytes
    tags: Mapping[str, dict[str, str]]
    versioning: str | None
    table: str | None
    items: Any

    def restore(self) -> None:
        """Undo whatever happened to the bucket, the table and the folder."""
        bucket, tags = _bucket(self.bucket), _backend().tagger.tags
        restore_objects(self.bucket, self.objects)
        for arn in _tagged(self.bucket):
            del tags[arn]
        tags.update(copy.deepcopy(dict(self.tags)))
        bucket.versioning_status, bucket.rules = self.versioning, []
        bucket.multiparts.clear()
        if self.table:
            _table(self.table).items = copy.deepcopy(self.items)
        shutil.rmtree(self.folder)
        shutil.copytree(self.files, self.folder)


def saved(bucket: str, folder: Path, *, name: str = "sound", table: str | None = None) -> SavedState:
    """Save a bucket without open uploads, a folder, and a table."""
    tags = {arn: copy.deepcopy(_backend().tagger.tags[arn]) for arn in _tagged(bucket)}
    versioning = _bucket(bucket).versioning_status
    files = folder.with_name(f"{folder.name}-{name}")
    shutil.copytree(folder, files)
    items = copy.deepcopy(_table(table).items) if table else None
    return SavedState(bucket, folder, files, saved_objects(bucket), tags, versioning, table, items)


def _tagged(bucket: str) -> list[str]:
    """Return the resources of a bucket that have tags."""
    return [arn for arn in _backend().tagger.tags if f":::{bucket}/" in arn]


def _table(name: str) -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.dynamodb.models import dynamodb_backends

    return dynamodb_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].tables[name]
