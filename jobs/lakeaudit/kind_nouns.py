"""Counts discrepancies of a kind in words: `1 file dropped`, `12 stale pointers`. Pure."""

from lakeaudit.formatting import number_of
from lakeaudit.kinds import COVERAGE_LOST, UNREADABLE

_PATTERN = "access pattern ({})", "access patterns ({})"
_NOUNS = {
    "dropped": ("file dropped", "files dropped"),
    "dropped_history": ("file of an older version dropped", "files of older versions dropped"),
    "missing_metadata": ("metadata file missing", "metadata files missing"),
    "table_missing": ("table missing", "tables missing"),
    "size_mismatch": ("size mismatch", "size mismatches"),
    "content_mismatch": ("content mismatch", "content mismatches"),
    "overwritten": ("file overwritten", "files overwritten"),
    "archived": ("file archived", "files archived"),
    "unreadable_content": ("file with unreadable content", "files with unreadable content"),
    "lost_commit": ("file of a lost commit", "files of lost commits"),
    "overwritten_commit": ("commit overwritten", "commits overwritten"),
    "incomplete_commit": ("incomplete commit", "incomplete commits"),
    "duplicate_commit": ("duplicate commit", "duplicate commits"),
    "ineffective_removal": ("ineffective removal", "ineffective removals"),
    "rows_changed_by_rewrite": ("rewrite that changed rows", "rewrites that changed rows"),
    "will_expire": ("file that will expire", "files that will expire"),
    "clone_at_risk": ("clone at risk", "clones at risk"),
    "hidden": ("hidden file", "hidden files"),
    "tombstoned": ("tombstoned file", "tombstoned files"),
    "phantom": ("phantom entry", "phantom entries"),
    "metastore_stale": ("stale entry of the metadata store", "stale entries of the metadata store"),
    "metastore_broken": ("broken entry of the metadata store", "broken entries of the metadata store"),
    "stale_pointer": ("stale pointer", "stale pointers"),
    "unregistered_partition": ("unregistered partition", "unregistered partitions"),
    "empty_partition": ("empty partition", "empty partitions"),
    "duplicate_entry": ("duplicate entry", "duplicate entries"),
    "duplicate_attempt": ("file of a duplicate attempt", "files of duplicate attempts"),
    "duplicate_content": ("file with duplicate content", "files with duplicate content"),
    "half_moved": ("half-moved folder", "half-moved folders"),
    "conflicting_owner": ("file with a conflicting owner", "files with a conflicting owner"),
    "stale_visible": ("stale visible file", "stale visible files"),
    "uncommitted": ("uncommitted file", "uncommitted files"),
    "unvacuumed": ("unvacuumed file", "unvacuumed files"),
    "unreferenced": ("unreferenced file", "unreferenced files"),
    "temporary": ("temporary file", "temporary files"),
    "unfinished_upload": ("unfinished upload", "unfinished uploads"),
    "unregistered_table": ("unregistered table", "unregistered tables"),
    "unowned": ("unowned file", "unowned files"),
    UNREADABLE: ("source with unreadable evidence", "sources with unreadable evidence"),
    COVERAGE_LOST: ("loss of coverage", "losses of coverage"),
    "unclassified": ("unclassified finding", "unclassified findings"),
    **{
        kind: (one.format(kind.replace("_", " ")), many.format(kind.replace("_", " ")))
        for one, many in [_PATTERN]
        for kind in ("overwrite_in_place", "reused_name", "probe_before_put", "list_after_put", "stale_read")
    },
}


def counted_kind(kind: str, discrepancies: int, files: int | None = None) -> str:
    """Return the number of discrepancies of a kind with its noun; of an unknown kind with its name.

    Args:
        kind: kind of the discrepancies.
        discrepancies: their number.
        files: number of their files, None if it is not known. If the noun of the kind is a file, the files are
            counted, because one discrepancy may be about a whole partition.
    """
    name = kind.replace("_", " ")
    one, many = _NOUNS.get(kind, (name, name))
    is_file = "file" in one.split()
    return number_of(max(discrepancies, (files or 0) if is_file else 0), one, many)
