"""Define `redshift_unload`: manifests that UNLOAD of Redshift writes."""

from typing import Literal

from lakeaudit.config.field_types import Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS
from lakeaudit.keys import Location


class RedshiftUnloadManifest(ManifestSource):
    """Declares manifests that UNLOAD writes: one of them, or a folder that has them."""

    kind: Literal["redshift_unload"]
    location: Place
    complete: Flag = False

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


KIND = ManifestKind(
    name="redshift_unload",
    title="Redshift's UNLOAD",
    model=RedshiftUnloadManifest,
    read=deferred("lakeaudit.evidence.manifest.redshift_unload.reader:REDSHIFT.read"),
    changes=deferred("lakeaudit.evidence.manifest.redshift_unload.reader:REDSHIFT.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.redshift_unload.reader:REDSHIFT.look_up"),
    rows=RECORD_ROWS,
)
