"""Read an Iceberg table's own metadata: every file that a retained snapshot lists."""

from typing import ClassVar, Literal

from lakeaudit.config.field_types import Flag, Place, Text
from lakeaudit.config.sources import ManifestSource, Pointer
from lakeaudit.evidence.kind import KEY_ROWS, ManifestKind, StateFiles, TableRoot, deferred
from lakeaudit.keys import END, Location


class IcebergManifest(ManifestSource):
    """Declares that the table's own Iceberg metadata defines the state of the table.

    `metadata`: one metadata.json, or the folder that has them; `catalog`: the metastore that points at one. Neither:
    the newest one in `metadata` below the table's location.
    """

    is_state = True
    is_named_by_catalogs = True
    folder: ClassVar[str | None] = "metadata"

    kind: Literal["iceberg"]
    metadata: Place | None = None
    """One metadata.json, or a folder of them; None: the folder `metadata` below the table's location."""
    catalog: Text | None = None
    """Name of the metastore that points at the current metadata.json; None: the newest file is current."""
    table: Text | None = None
    """Name of the table in the catalog, `namespace.table`; None: the same as here."""
    complete: Flag = True

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.metadata,) if self.metadata else ()

    @property
    def catalog_entry(self) -> tuple[str, str | None] | None:
        return None if self.catalog is None else (self.catalog, self.table)

    def pointed(self, pointers: tuple[Pointer, ...]) -> "PointedIceberg":
        return PointedIceberg(**dict(self), pointers=pointers)


class PointedIceberg(IcebergManifest):
    """An Iceberg table in a `Lake` whose state is defined by catalogs: several must point at the same file."""

    folder = None

    pointers: tuple[Pointer, ...]

    @property
    def catalog_pointers(self) -> tuple[Pointer, ...]:
        return self.pointers


KIND = ManifestKind(
    name="iceberg",
    advice="iceberg",
    title="Iceberg metadata",
    model=IcebergManifest,
    read=deferred("lakeaudit.evidence.manifest.iceberg.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.iceberg.changes:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.iceberg.point_lookup:read"),
    probe=deferred("lakeaudit.evidence.manifest.iceberg.current.discover:probe"),
    permissions=deferred("lakeaudit.evidence.manifest.iceberg.permissions:permissions"),
    dates_claims=True,
    counts_rows=True,
    rank=2,
    root=TableRoot(
        "metadata",
        r"(?s)\A(?:(.*)/)?metadata/[^/]*\.metadata\.json(?:\.gz)?\z",
        r"metadata/[^/]*\.metadata\.json(?:\.gz)?",
        reserved=False,
        proof=deferred("lakeaudit.evidence.manifest.iceberg.state.metadata:is_state_file"),
    ),
    state_files=StateFiles(
        rf"^((?:.*/)?metadata/)v?([0-9]{{1,18}})(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?{END}",
        likely="(ends_with(key, '.metadata.json') OR ends_with(key, '.metadata.json.gz'))",
        may_lose_races=True,
    ),
    rows={"iceberg_files": KEY_ROWS},
)
