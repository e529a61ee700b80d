"""The words the lake file's contract knows: what this version reads, and what it names as not built yet."""

from collections.abc import Mapping

from lakeaudit.kinds import KINDS

MODES = ("head", "footer", "none")
NOT_BUILT: Mapping[str, tuple[str, ...]] = {
    "inventories": (),
    "metastores": (),
    "events": (),
    "manifests": (),
    "alerts": (),
    "mode": (),
}

FOUND_FORMATS = ("delta", "iceberg", "hudi")
"""Formats of which tables are found; a table of several is one of the first."""

FOUND_IN = ("s3_inventory", "gcs_inventory", "azure_inventory")
"""Kinds of inventories in which tables are found."""

BLOCKS_NOT_BUILT: tuple[str, ...] = ()
"""Read and checked whole, then without effect: one warning each."""

CONTRACT_FINDINGS = (
    *("incomplete_commit", "stale_pointer", "unregistered_partition", "empty_partition", "duplicate_attempt"),
    *("unregistered_table", "unowned", "will_expire", "probe_before_put", "reused_name"),
    *("overwrite_in_place", "list_after_put", "stale_read"),
)
FINDINGS_NOT_BUILT = tuple(kind for kind in CONTRACT_FINDINGS if kind not in KINDS)
"""Kinds of finding that no rule gives yet: allowed in `severity` and `ignore`, with a warning."""

FINDINGS = (*KINDS, *FINDINGS_NOT_BUILT)
