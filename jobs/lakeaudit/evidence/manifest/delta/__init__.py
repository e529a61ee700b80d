"""Read a Delta table's own log: every file that the table lists, listed or removed."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_TAG, KEY_ROWS, ManifestKind, RowKind, StateFiles, TableRoot, deferred
from lakeaudit.keys import END


class DeltaManifest(ManifestSource):
    """Declares that the table's own Delta log defines the state of the table."""

    is_state = True
    folder = "_delta_log"

    kind: Literal["delta"]
    complete: Flag = True


KIND = ManifestKind(
    name="delta",
    advice="delta",
    title="Delta logs",
    model=DeltaManifest,
    read=deferred("lakeaudit.evidence.manifest.delta.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.delta.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.delta.point_lookup:read"),
    counts_rows=True,
    hides_rows=True,
    rank=1,
    root=TableRoot(
        "_delta_log",
        r"(?s)\A(?:(.*)/)?_delta_log/[0-9]{20}\.(?:json|checkpoint[^/]*)\z",
        r"_delta_log/[^/]+\.(?:json|parquet)",
    ),
    state_files=StateFiles(
        rf"^((?:.*/)?_delta_log/)([0-9]{{20}})\.json{END}",
        likely="contains(key, '_delta_log/0')",
        are_commits=True,
    ),
    rows={"steps": KEY_ROWS, "tagged": RowKind(BY_TAG)},
)
