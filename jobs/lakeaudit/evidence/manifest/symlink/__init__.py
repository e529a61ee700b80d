"""Manifests for readers by `SymlinkTextInputFormat`: what the table is to them."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS


class SymlinkManifest(ManifestSource):
    """Manifests for readers by `SymlinkTextInputFormat`: what the table is to them."""

    is_state = True
    folder = "_symlink_format_manifest"

    kind: Literal["symlink"]
    complete: Flag = False
    """Files that they do not list may be older states of a table that they were made from."""


KIND = ManifestKind(
    name="symlink",
    title="symlink manifests",
    model=SymlinkManifest,
    read=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.read"),
    changes=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.look_up"),
    rows=RECORD_ROWS,
)
