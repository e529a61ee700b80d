"""Define `symlink`: manifests for readers by `SymlinkTextInputFormat`, which are the state of the table for them."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS


class SymlinkManifest(ManifestSource):
    """Declares that manifests for `SymlinkTextInputFormat` define the table for its readers."""

    is_state = True
    folder = "_symlink_format_manifest"

    kind: Literal["symlink"]
    complete: Flag = False
    """Unlisted files may be older states of a table from which the manifests were made."""


KIND = ManifestKind(
    name="symlink",
    title="symlink manifests",
    model=SymlinkManifest,
    read=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.read"),
    changes=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.symlink.reader:SYMLINK.look_up"),
    rows=RECORD_ROWS,
)
