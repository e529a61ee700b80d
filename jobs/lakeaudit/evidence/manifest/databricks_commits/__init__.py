"""Define `databricks_commits`: the marks of Databricks' transactional writes to plain tables."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS


class DatabricksCommitsManifest(ManifestSource):
    """Declares the marks of Databricks' transactional writes in the table's folders."""

    kind: Literal["databricks_commits"]
    complete: Flag = False


KIND = ManifestKind(
    name="databricks_commits",
    title="Databricks' transactional writes",
    model=DatabricksCommitsManifest,
    read=deferred("lakeaudit.evidence.manifest.databricks_commits.reader:DATABRICKS.read"),
    changes=deferred("lakeaudit.evidence.manifest.databricks_commits.reader:DATABRICKS.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.databricks_commits.reader:DATABRICKS.look_up"),
    by_storage=True,
    rows=RECORD_ROWS,
)
