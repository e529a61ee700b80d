"""Define `s3a_committer` and `manifest_committer`: records that committers of Hadoop leave of their jobs."""

from typing import Literal

from lakeaudit.config.field_types import Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS
from lakeaudit.keys import Location


class CommitterManifest(ManifestSource):
    """Declares the records that a committer of Hadoop leaves in the folders that its jobs write.

    `reports`: the folder of the reports of all jobs, for tables to which jobs only add files.
    """

    reports: Place | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.reports,) if self.reports else ()


class S3ACommitterManifest(CommitterManifest):
    """Jobs of the S3A committers: magic, directory, partitioned."""

    kind: Literal["s3a_committer"]
    reports: Place | None = None
    """fs.s3a.committer.summary.report.directory; None: only the `_SUCCESS` files in the tables are read."""
    complete: Flag = False


class ManifestCommitterManifest(CommitterManifest):
    """Jobs of the manifest committer."""

    kind: Literal["manifest_committer"]
    reports: Place | None = None
    """mapreduce.manifest.committer.summary.report.directory; None: only the `_SUCCESS` files are read."""
    complete: Flag = False


S3A = ManifestKind(
    name="s3a_committer",
    title="Hadoop's S3A committers",
    model=S3ACommitterManifest,
    read=deferred("lakeaudit.evidence.manifest.committers.reader:S3A.read"),
    changes=deferred("lakeaudit.evidence.manifest.committers.reader:S3A.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.committers.reader:S3A.look_up"),
    by_storage=True,
    rows=RECORD_ROWS,
)

MANIFEST = ManifestKind(
    name="manifest_committer",
    title="Hadoop's manifest committer",
    model=ManifestCommitterManifest,
    read=deferred("lakeaudit.evidence.manifest.committers.reader:MANIFEST.read"),
    changes=deferred("lakeaudit.evidence.manifest.committers.reader:MANIFEST.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.committers.reader:MANIFEST.look_up"),
    by_storage=True,
    rows=RECORD_ROWS,
)
