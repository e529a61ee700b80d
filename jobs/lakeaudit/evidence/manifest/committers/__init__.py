"""What committers of Hadoop leave of their jobs: `s3a_committer` and `manifest_committer`."""

from typing import Literal

from lakeaudit.config.field_types import Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS
from lakeaudit.keys import Location


class CommitterManifest(ManifestSource):
    """What a committer of Hadoop leaves of its jobs in the folders that they write.

    `reports`: the folder of the reports of all jobs, for tables that jobs only add files to.
    """

    reports: Place | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.reports,) if self.reports else ()


class S3ACommitterManifest(CommitterManifest):
    """Jobs of the S3A committers: magic, directory, partitioned."""

    kind: Literal["s3a_committer"]
    reports: Place | None = None
    """fs.s3a.committer.summary.report.directory; None: only what lies beside the files."""
    complete: Flag = False


class ManifestCommitterManifest(CommitterManifest):
    """Jobs of the manifest committer."""

    kind: Literal["manifest_committer"]
    reports: Place | None = None
    """mapreduce.manifest.committer.summary.report.directory; None: only what lies beside the files."""
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
