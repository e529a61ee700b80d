"""The words the lake file's contract knows: what this version reads, and what it names as not built yet."""

from collections.abc import Mapping

from lakeaudit.kinds import KINDS

MODES = ("head", "none")
NOT_BUILT: Mapping[str, tuple[str, ...]] = {
    "inventories": ("s3_metadata", "azure_inventory"),
    "metastores": ("hive", "glue", "iceberg_rest", "unity"),
    "events": (),
    "manifests": ("hudi", "listing", "s3_inventory"),
    "alerts": (),
    "mode": ("footer",),
}

FOUND_FORMATS = ("delta", "iceberg")
"""Formats of which tables are found; a table of both is one of the first.

Of others that `formats` names it is said that none are found, in a warning.
"""

BLOCKS_NOT_BUILT = ("watch", "maps")
"""Read and checked whole, then without effect: one warning each."""

CONTRACT_FINDINGS = (
    *("incomplete_commit", "stale_pointer", "unregistered_partition", "empty_partition", "duplicate_attempt"),
    *("unregistered_table", "unowned", "will_expire", "probe_before_put", "reused_name"),
    *("overwrite_in_place", "list_after_put", "stale_read"),
)
FINDINGS_NOT_BUILT = tuple(kind for kind in CONTRACT_FINDINGS if kind not in KINDS)
"""Kinds of finding that no rule gives yet: allowed in `severity` and `ignore`, with a warning."""

FINDINGS = (*KINDS, *FINDINGS_NOT_BUILT)
