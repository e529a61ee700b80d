"""Hudi tables: what their timeline says of every file that they wrote, replaced or removed."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import KEY_ROWS, ManifestKind, RowKind, TableRoot, deferred


class HudiManifest(ManifestSource):
    """The table's own Hudi timeline: what the table is."""

    is_state = True
    folder = ".hoodie"
    has_own_cleaner = True

    kind: Literal["hudi"]
    complete: Flag = True


KIND = ManifestKind(
    name="hudi",
    title="Hudi timelines",
    model=HudiManifest,
    read=deferred("lakeaudit.evidence.manifest.hudi.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.hudi.changes:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.hudi.point_lookup:read"),
    probe=deferred("lakeaudit.evidence.manifest.hudi.timeline:probe"),
    rank=0,
    root=TableRoot(
        ".hoodie",
        r"(?s)\A(?:(.*)/)?\.hoodie/hoodie\.properties\z",
    ),
    rows={"hudi_steps": RowKind("hash(table_name, file_group) >> 32"), "hudi_files": KEY_ROWS},
)
