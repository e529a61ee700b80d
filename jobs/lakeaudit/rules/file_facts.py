"""Defines the facts about one PAIR row, before any verdict. A fact is true or false, never null.

The time rule (docs/evidence.md) is here: a claim is judged only if the claim, the object and the metastore entry are
all older than the storage cutoff by a margin.
"""

from datetime import timedelta

from lakeaudit import keys
from lakeaudit.evidence.registry import original_kinds
from lakeaudit.rules.expr import Expr, algorithm, col, concat, earliest, first_known, latest, lit

MD5_TEXT = rf"^[0-9a-f]{{32}}{keys.END}"
PARTS_TEXT = rf"^[0-9a-f]{{32}}-[0-9]+{keys.END}"
PART_SUFFIX = rf"-[0-9]+{keys.END}"
CLOCK_STEP = timedelta(seconds=2)
"""S3 times have whole seconds and clocks of writers differ: an object counts as rewritten only beyond this."""

LEAST_PARQUET = 12
"""Bytes of the shortest Parquet file: `PAR1`, the length of the metadata, `PAR1` (Parquet format, "File format")."""
LEAST_ORC = 8
"""Bytes of the shortest ORC file: a postscript with `ORC` (7) and its length, or `ORC` at the begin, a postscript of 4
and its length."""
LEAST_AVRO = 37
"""Bytes of the shortest Avro file: the magic (4), a map of one entry `avro.schema` with the shortest schema `[]` (17),
and the sync marker (16)."""
LEAST_PUFFIN = 32
"""Bytes of the shortest Puffin file (deletion vectors of Iceberg): a magic in front, and a footer of two magics, the
payload `{"blobs":[]}` (12), its length and flags (4 each)."""
LEAST_READABLE = max(LEAST_PARQUET, LEAST_ORC, LEAST_AVRO, LEAST_PUFFIN)

edge = col("s_from") - col("s_margin")
metastore_edge = col("m_from") - col("m_margin")
entry_touched = latest(col("m_last_updated"), col("m_mod_time"), col("s_modified_at"))

_md5_etag = (
    col("s_etag").matches(MD5_TEXT)
    & ~first_known(col("s_multipart"), False)
    & col("s_encryption").among("NONE", "SSE-S3")
)
_same_algorithm = algorithm(col("c_checksum")).is_(algorithm(col("s_checksum")))
_md5_against_etag = algorithm(col("c_checksum")).is_("md5") & _md5_etag
_etags_comparable = _md5_etag & col("c_etag").matches(MD5_TEXT)
_by_parts = first_known(col("s_multipart"), False) | first_known(col("s_etag").matches(PART_SUFFIX), False)

# for a tiered class the name suffices; for any other class `s_archived` must be known
_class_told = col("s_archived").is_known() | col("s_storage_class").among(*keys.TIERED_CLASSES)
_size_told = ~col("c_size").is_known() | col("s_size").is_known()
# a recorded ETag or MD5 is compared with the object's ETag; an MD5 only if the encryption makes the ETag an MD5
_content_told = (~col("c_etag").is_known() | col("s_etag").is_known()) & (
    ~first_known(algorithm(col("c_checksum")).is_("md5"), False)
    | first_known(_same_algorithm, False)
    | (col("s_etag").is_known() & col("s_encryption").is_known())
)

# a copy is younger than its original and has another version; its ETag is equal if both are MD5s
_copy = col("c_kind").among(*original_kinds()) | col("t_moved")
_copy_untold = first_known(
    col("c_etag").matches(MD5_TEXT)
    & col("s_etag").matches(MD5_TEXT)
    & ~first_known(col("s_multipart"), False)
    & (~col("s_encryption").is_known() | col("s_encryption").among("NONE", "SSE-S3")),
    False,
)

_recorded_size = first_known(col("c_size"), col("s_size"))


def _shorter_than(least: int, name: str) -> Expr:
    return col("key").matches(name) & (lit(least) > _recorded_size)


TIME_RULE: dict[str, Expr] = {
    # absence, and difference from the claim: the claim is older than the cutoff by the grace period
    "claim_in_window": col("c_claimed_at") + col("t_grace") <= edge,
    # difference: the object itself was not changed after the cutoff
    "object_settled": col("s_modified_at") <= edge,
    # written again after the claim, by more than the grace and the clocks' step
    "modified_after_claim": ~_copy
    & (col("s_modified_at") > col("c_claimed_at") + col("t_grace"))
    & (col("s_modified_at") > col("c_claimed_at") + CLOCK_STEP),
    # present and unreferenced: old enough; a multipart object is dated by the start of its upload
    "leftover_in_window": (
        (~_by_parts & (col("s_modified_at") + col("o_leftover_age") <= edge))
        | (col("s_modified_at") + col("o_leftover_age") + col("o_max_upload") <= edge)
    ),
    # ... and no state between the cutoff and the reading of the tables lists it
    "unlisted_since_cut": ~col("r_removed_at").is_known() | (col("r_removed_at") <= edge),
    # retired: the job that retired it may delete it soon
    "retired_in_window": ~col("r_removed_at").is_known() | (col("r_removed_at") + col("o_grace") <= edge),
    "past_retention": col("r_removed_at") + col("o_retention") <= edge,
    "within_horizon": col("s_modified_at") > col("o_horizon"),
    # an entry against storage: neither side touched within the grace before either cut; no time: long ago
    "entry_in_window": first_known(entry_touched + col("o_grace") <= earliest(edge, metastore_edge), True),
    # an entry without size is made when the file is opened; storage has the file after it is closed
    "closed_in_window": first_known(
        col("m_last_updated") + col("o_grace") + col("o_max_upload") <= earliest(edge, metastore_edge), True
    ),
    # an entry that is younger than the object describes this object, not an older one
    "entered_since": first_known(col("s_modified_at") <= col("m_last_updated") + CLOCK_STEP, False),
    # any entry that the write made has expired since, and expired entries are pruned
    "outlived_ttl": col("s_modified_at") + col("m_ttl") <= metastore_edge,
    # a writer's own record against the table's states
    "event_in_window": col("e_claimed_at") + col("t_grace") <= col("t_read_at"),
    "event_within_horizon": col("e_claimed_at") > col("t_horizon"),
}

FACTS: dict[str, Expr] = {
    "live": col("c_state").is_("live"),
    "history": col("c_state").is_("history"),
    "certain": first_known(col("c_certain"), False),
    "is_log": col("category").is_("log"),
    "is_statistics": col("category").is_("statistics"),
    "of_metadata_table": col("relative").matches(r"^\.hoodie/metadata/"),
    "explained": col("c_explained"),
    "vacuum_assumed": col("v_assumed"),
    "covered": col("s_presence").differs("uncovered"),
    "present": col("s_presence").is_("present"),
    "absent": col("s_presence").is_("absent"),
    "storage_hole": col("h_storage"),
    "confirmed": col("l_confirmation").is_("live"),
    "size_differs": col("c_size").differs(col("s_size")) | (col("s_size") < col("c_least_size")),
    "too_short": col("category").among("data", "deletes", "changes")
    & (
        _shorter_than(LEAST_PARQUET, keys.PARQUET)
        | _shorter_than(LEAST_AVRO, keys.AVRO)
        | _shorter_than(LEAST_PUFFIN, keys.PUFFIN)
        # an empty ORC file has no rows for its readers
        | (_shorter_than(LEAST_ORC, keys.ORC) & (_recorded_size > lit(0)))
    ),
    # equal ETags prove equal content; unequal ETags prove different content only if both are MD5s
    "content_same": col("c_checksum").is_(col("s_checksum"))
    | col("c_checksum").is_(concat("md5:", col("s_etag")))
    | col("c_etag").is_(col("s_etag"))
    | concat("md5:", col("c_etag")).is_(col("s_checksum"))
    | col("c_version_id").is_(col("s_version_id"))
    | col("s_versus_claimed").is_("same"),
    "content_differs": (_same_algorithm & col("c_checksum").differs(col("s_checksum")))
    | (_md5_against_etag & col("c_checksum").differs(concat("md5:", col("s_etag"))))
    | (~_copy & _etags_comparable & col("c_etag").differs(col("s_etag")))
    | col("s_versus_claimed").is_("differs")
    | col("s_footer_fault").is_known(),
    # on purpose it is as old as that when storage says so, which its picture's margin does not change
    "archived": col("s_archived")
    & ~first_known(col("s_modified_at") + col("t_archived_after") <= col("s_from"), False),
    "class_told": _class_told,
    "time_told": col("s_modified_at").is_known(),
    "told": _class_told
    & _size_told
    & ((_copy & ~_copy_untold) | (~_copy & _content_told))
    & col("s_modified_at").is_known(),
    "entry_told": ~col("m_size").is_known() | col("s_size").is_known(),
    "other_object": ~_copy
    & (col("c_version_id").differs(col("s_version_id")) | col("c_etag").differs(col("s_etag"))),
    "event_live": col("e_state").is_("live"),
    "ever_listed": col("c_state").is_known(),
    "log_holed": col("t_holed"),
    "promised": col("r_history"),
    "needed": col("r_live"),
    "references_incomplete": col("h_references"),
    "removed": col("r_gone"),
    "removed_or_history": col("r_gone") | col("r_history"),
    "temporary_name": col("relative").matches(keys.TEMPORARY),
    "others_name": col("relative").matches(keys.OTHERS),
    "marker_name": col("key").matches(keys.MARKER),
    "live_log_name": col("o_logged") & col("relative").matches(r"^_delta_log/"),
    "manifest": col("o_manifest"),
    "complete": col("o_complete"),
    # as for equal contents: what readers of a folder find; an empty file has no rows
    "read_as_data": col("o_by_folder")
    & col("o_manifest")
    & col("category").is_("data")
    & (~col("s_size").is_known() | (col("s_size") > lit(0)))
    & ~col("relative").matches(keys.UNSEEN),
    "slice_listed": col("o_slice") & col("category").is_("data") & ~col("relative").matches(keys.UNSEEN),
    "by_index": col("o_by_index"),
    "data_or_deletes": col("category").among("data", "deletes"),
    "not_addressable": col("key").matches(keys.NOT_HADOOP),
    "metastore_hole": col("h_metastore"),
    "expired": col("m_expired"),
    "tombstone": col("m_state").is_("tombstone"),
    "file_entry": col("m_state").among("file", "named"),
    "named_entry": col("m_state").is_("named"),
    "opaque_entry": col("m_state").is_("opaque"),
    "no_entry": col("m_state").is_("none"),
    "entry_differs": col("m_size").differs(col("s_size"))
    | col("m_etag").differs(col("s_etag"))
    | col("m_version_id").differs(col("s_version_id")),
    "honoured": col("m_honoured"),
    "unclaimed": ~col("table_name").is_known(),
    "listed_twice": col("c_listed") > lit(1),
    "conflict": col("r_conflict"),
}
"""Positive statements only; the rule table negates them with a leading "!"."""

TREE_FACTS: dict[str, Expr] = {
    name: fact.sure()
    for name, fact in {
        # neither the entry nor its parent was touched within the grace before the store's cut; no time: long ago
        "tree_in_window": ~col("touched_at").is_known()
        | (col("touched_at") + col("grace") <= col("tree_edge")),
        "parent_in_window": ~col("parent_touched_at").is_known()
        | (col("parent_touched_at") + col("grace") <= col("tree_edge")),
        "entry_tombstone": col("tombstone"),
        "entry_expired": col("expired"),
        "entry_not_addressable": col("key").matches(keys.NOT_HADOOP),
        "tree_hole": col("h_metastore"),
        "has_parent": col("parent").differs(""),
        "parent_found": col("parent_found"),
        "parent_tombstone": col("parent_is_tombstone"),
        "parent_file": col("parent_is_file"),
        "is_folder": col("is_dir"),
        "keys_below": col("keys_below"),
        "object_there": col("object_there"),
        "children_missing": col("children_missing"),
        "field_absent": col("field_absent"),
    }.items()
}
"""Facts about one TREE row: an entry of a metadata store with its parent and children."""

ALL_FACTS: dict[str, Expr] = {name: fact.sure() for name, fact in (TIME_RULE | FACTS).items()}
