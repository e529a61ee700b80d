"""Rows that the kernel returns, by kind, and the requests and responses of live look-ups in storage."""

import pyarrow as pa

from lakeaudit.schemas.columns import row
from lakeaudit.schemas.evidence import UPLOAD
from lakeaudit.schemas.matching import COPY, LEFTOVERS, TREE_VERDICT, VERDICT
from lakeaudit.schemas.pointers import FOLDER_FILES
from lakeaudit.schemas.watched import UNOWNED_FOLDER

TALLY = row(
    judged_table="string",
    axis="string",
    outcome="string",
    files="long",
    bytes="long",
    unconfirmed="long",
    refuted="long",
)
"""Files by outcome for one table and axis, of a share of the keys."""

UNNAMED_FIELDS = row(
    judged_table="string",
    axis="string",
    source="string",  # of storage, that decides presence there
    bucket="string",
    field="string",  # that it does not name, as S3's API calls it
    storage_class="string",  # that is named and not known; null: none is named
    files="long",  # that are undecided
)
"""Undecided files that storage does not name, of a share of the keys."""

BATCH = row(
    table_name="string",
    reading="long",  # which reading of the table's log it belongs to
    version="long",
    time="time",
    operation="string",  # null: not in these lines
    appends="bool",  # these lines add data files and nothing else, each with statistics
    files="long",
    rows="long",
    bytes="long",
    digest="long",  # of sizes, partitions and statistics, whatever their order: adds up, modulo 2 ** 62
    varied="bool",  # some column has more than one value
    adds_alone="bool",  # these lines add data files and nothing else
    transactions="strings",  # appId and version of each `txn`
)
"""The files that one commit appends, or a part of them."""

REPEATED = row(
    table_name="string",
    older="long",
    older_at="time",
    younger="long",
    younger_at="time",
    files="long",
    transaction="string",  # that both carry; null: they look the same
    same_sums="bool",  # they add as many files, rows and bytes
)
"""Two commits that seem to append the same files, or that carry the same transactions."""

COMMIT_SUMS = row(
    table_name="string",
    reading="long",  # which reading of the table's log it belongs to
    version="long",
    operation="string",  # null: not in these lines
    overwrites="bool",  # it replaces the table, partitions of it, or what a predicate selects; null: as above
    predicate="string",  # of the rows that it replaces; null: none
    read_version="long",  # of the state that its writer read; null: the writer does not record it
    declares="bool",  # each of its file actions declares that it changes no rows; null: no file actions in these lines
    adds="long",
    removes="long",
    rows="long",  # that the added files hold, less those that deletion vectors delete
    uncounted="long",  # added files without a row count
    digest="long",  # of the removed entries, whatever their order: adds up, modulo 2 ** 62
    partitions="strings",  # that files are added to, hashed
)
"""The files that one commit adds and removes by a rewrite or overwrite, or a part of them."""

REPLACED = row(
    table_name="string",
    version="long",
    removed="long",  # entries that the commit removes
    listed="long",  # of those that the state before lists
    rows="long",  # of the listed entries that the commit removes, or lists again
    uncounted="long",  # of those entries that have no row count
)
"""The files that a commit that declares no change of rows removes from the state before it, of a share of the keys."""

IDLE_REMOVALS = row(
    table_name="string",
    version="long",
    from_start="bool",  # every state of the table is known, from its first commit on
    files="long",  # that the commit removes, and that the state before does not list
    live="long",  # of those that readers still read, since the log lists them by another entry
    rows="long",  # of the live ones; null: not known of all
    bytes="long",
    sample="string",
)
"""Removals of one commit that have no effect, of a share of the keys."""

CHANGED_ROWS = row(table_name="string", version="long", operation="string", before="long", after="long")
"""A commit that declares that it changes no rows, with the numbers of rows that it removes and adds."""

RIVALS = row(table_name="string", older="long", younger="long")
"""Two commits that declare to overwrite the same state."""

CLONED = row(
    table_name="string",
    source="string",  # the table below whose root the files lie
    rule="string",
    outcome="string",
    severity="string",
    files="long",
    rows="long",
    bytes="long",
    removed_at="time",  # the first removal that can be read
    sample="string",
)
"""Live files of a clone below its source's root, by the rule that fired."""

LOG_VERSIONS = row(
    source="string",
    bucket="string",
    key="string",
    version_id="string",
    is_latest="bool",
    is_delete_marker="bool",
    size="long",
    etag="string",
    modified_at="time",
    md5="bool",  # the ETag is an MD5, so another one is another content
)
"""A version of a commit of a Delta log that has several."""

MARKED_STATE = row(
    source="string",
    bucket="string",
    folder="string",  # of the table's own metadata, with a slash at its end
    format="string",
    number="long",  # of the state, see evidence.lineage.StateRef
    key="string",  # of the state's own file
    version_id="string",  # of its newest older version; null: none is left
    size="long",
    marked_at="time",  # when the delete marker was written; null: the file is listed as current
    modified_at="time",  # of the file that is listed as current, or of its newest older version
)
"""A state of a table whose own file a delete marker hides, or that storage lists above the state that was read."""

READ_STATE = row(
    format="string",
    bucket="string",
    prefix="string",  # of the table's root
    number="long",  # of the state that was read; null: no manifest of the lake file reads this format there
)
"""The lowest state that was read at a root, by format."""

REPLACED_VERSION = row(
    source="string",
    bucket="string",
    folder="string",  # of the table's own metadata, with a slash at its end
    format="string",
    number="long",
    key="string",  # of the state's own file, which is there
    version_id="string",  # of the newest older version of another size or ETag
)
"""A state of a table whose own file has an older version in storage that may have other content."""

MOVES = row(
    judged_table="string",
    bucket="string",
    folder="string",
    other_folder="string",
    files="long",
    bytes="long",
    modified_at="time",  # the newest of the files, in either folder
    other_modified_at="time",
    unrepeated="bool",  # a file has a name that no two writers give
    ignored="bool",  # the lake file ignores these files
)
"""Two folders with the same files, of a share of the names."""

ANSWERS: dict[str, pa.Schema] = {
    "tallies": TALLY,
    "suspects": VERDICT,
    "fresh": VERDICT,
    "leftovers": LEFTOVERS,
    "copies": COPY,
    "moves": MOVES,
    "uploads": UPLOAD,
    "claimed": row(judged_table="string", source="string", files="long"),
    "nested": row(bucket="string", key="string", format="string"),
    "log_versions": LOG_VERSIONS,
    "marked_states": MARKED_STATE,
    "replaced_versions": REPLACED_VERSION,
    "repeated": REPEATED,
    "cloned": CLONED,
    "elsewhere": row(table_name="string", bucket="string", first_key="string", last_key="string"),
    "idle_removals": IDLE_REMOVALS,
    "changed_rows": CHANGED_ROWS,
    "rivals": RIVALS,
    "removals": row(
        table_name="string",
        present_from="time",
        absent_until="time",
        absent_files="long",
        expired_files="long",  # of those, whose removal had passed the retention before the cutoff
    ),
    "tree_tallies": pa.schema([*TALLY, *row(source="string", mostly_etags="bool")]),
    "tree_suspects": TREE_VERDICT,
    "siblings_judged": pa.schema(
        [
            *row(judged_table="string", axis="string", outcome="string", files="long", bytes="long"),
            *row(source="string", bucket="string", parent="string"),
        ]
    ),
    "unnamed_fields": UNNAMED_FIELDS,
    "settled": row(name="string", files="long", bytes="long"),
    "folders_held": FOLDER_FILES,
    "live_totals": row(
        table_name="string", files="long", bytes="long", rows="long", small_files="long", small_bytes="long"
    ),
    "outside": row(
        table_name="string",
        bucket="string",
        owner="string",
        first_key="string",
        last_key="string",
        files="long",
    ),
    "watched_folders": UNOWNED_FOLDER,
}
"""The rows that the kernel returns, by kind."""

ASKED = row(
    bucket="string",
    key="string",
    claimed_at="time",  # what is claimed of it: see `evidence.storage.object_versions.Claimed`
    claimed_until="time",
    size="long",
    etag="string",
    least_size="long",
    records="long",  # rows that readers of the table see of it; null: not known
    hides_rows="bool",  # deletion vectors may hide more rows of it
    footer="bool",  # its ends are read too
    fresh="bool",  # its versions matter only where it is not what was claimed
    current_only="bool",  # its versions do not matter
)
"""A key that is looked up live in storage."""

LIVE = row(
    bucket="string",
    key="string",
    l_confirmation="string",  # live (answered) | denied | error
    l_presence="string",  # present | absent; null when not answered
    l_size="long",
    l_etag="string",
    l_version_id="string",  # of the current object, or of the delete marker that hides it
    l_modified_at="time",
    l_storage_class="string",
    l_archived="bool",
    l_multipart="bool",
    l_encryption="string",
    l_checksum="string",
    l_delete_marker="bool",
    l_older_version_id="string",
    l_older_size="long",
    l_older_class="string",
    l_older_since="time",
    l_older_newer="long",
    l_older_matches="bool",
    l_older_beneath_marker="bool",
    l_versus_claimed="string",
    l_footer_fault="string",  # see PAIR
    l_versions_known="bool",  # older versions were asked for and answered
    l_at="time",
)
"""The live state of one (bucket, key) in storage."""

OWNER = row(table_name="string", owner="string")
"""The owner of a table or watched place by the lake file; null: no owner."""
