"""Read a Hudi table's timeline: every file that its instants wrote, replaced or removed."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import KEY_ROWS, ManifestKind, RowKind, StateFiles, TableRoot, deferred
from lakeaudit.keys import END


class HudiManifest(ManifestSource):
    """Declares that the table's own Hudi timeline defines the state of the table."""

    is_state = True
    folder = ".hoodie"
    has_own_cleaner = True

    kind: Literal["hudi"]
    complete: Flag = True


KIND = ManifestKind(
    name="hudi",
    advice="hudi",
    title="Hudi timelines",
    model=HudiManifest,
    read=deferred("lakeaudit.evidence.manifest.hudi.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.hudi.changes:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.hudi.point_lookup:read"),
    probe=deferred("lakeaudit.evidence.manifest.hudi.timeline.instants:probe"),
    rank=0,
    root=TableRoot(
        ".hoodie",
        r"(?s)\A(?:(.*)/)?\.hoodie/hoodie\.properties\z",
        r"\.hoodie/.+",
    ),
    state_files=StateFiles(
        rf"^((?:.*/)?\.hoodie/(?:timeline/)?)([0-9]{{14,17}})(?:_[0-9]{{14,17}})?\.[a-z]*commit{END}",
        likely="contains(key, '.hoodie/')",
        # old instants have no milliseconds
        number="CASE WHEN length(found.number) = 14 THEN found.number || '999' ELSE found.number END",
        may_be_rolled_back=True,
        have_own_times=True,
    ),
    rows={"hudi_steps": RowKind("hash(table_name, file_group) >> 32"), "hudi_files": KEY_ROWS},
)
