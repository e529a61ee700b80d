"""Joins the rows of all sources for one (bucket, key) into PAIR rows. Nothing is judged here.

The input has all rows of some keys, so versions of an object and actions on a file can be folded. Each side has at most
one row per key. Presence is a marker column: a null never means absence. References are matched over all tables of the
lake, in scope or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.protocol import Contradictions, Fold
from lakeaudit.evidence.registry import state_kinds
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import Places, attach_label, label_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, ENTRY, PAIR, READ_STATE, STORED, VERSION

NOBODY = ""
"""The label of places where a report should decide presence and cannot, see `TableFacts.unseen`."""

Kinds = Mapping[str, Rows]


@dataclass(frozen=True)
class SourceFacts:
    """Describes the sources of a run as wholes: plain data that travels to the tasks.

    `folds` turn rows of manifests into claims, `objects` reduces versions to one row a key. `deciding` maps every
    covered place to the source that decides presence there. `scopes` maps places to their metadata store; `everywhere`
    is the store for all buckets. Readers trust the stores of `trusted_stores` without storage, and other stores below
    the places of `trusted`; entries expire after `ttls`. `holed` are places where a table with a gap in its log could
    list files. `event_kinds` is the number of kinds of event manifests. `contradictions` find commits that do not fit
    the state before them. `flat_stores` are metadata stores without folders. `co_owners` are tables of other formats at
    the location of a table in `roots`; they own the files that they claim there. `read_states` has READ_STATE rows.
    """

    tables: pa.Table
    instants: pa.Table
    roots: Places
    folds: tuple[Fold, ...]
    event_kinds: int
    deciding: Places
    storage_cuts: pa.Table
    objects: Callable[[Connection, Rows], Relation]
    scopes: Places
    everywhere: str | None
    metastore_cuts: pa.Table
    trusted_stores: tuple[str, ...]
    trusted: Places
    ttls: Mapping[str, timedelta]
    holed: Places
    contradictions: tuple[Contradictions, ...] = ()
    flat_stores: tuple[str, ...] = ()
    co_owners: Mapping[str, str] = field(default_factory=dict)
    read_states: pa.Table = field(default_factory=READ_STATE.empty_table)

    @property
    def homes(self) -> Mapping[str, Location]:
        """Return the location of every table."""
        owned = {name: place for place, name in self.roots.items()}
        return owned | {name: owned[owner] for name, owner in self.co_owners.items()}


def pairs(con: Connection, rows: Kinds, sources: SourceFacts) -> Relation:
    """Return PAIR rows of all keys of all sources, with the evidence gaps that are known before anything is judged."""
    claimed = _claimed(con, rows, sources)
    stored = _stored(con, rows, sources)
    entered = _metastore_entries(con, rows, sources)
    joined = duck.query(
        con,
        """
        SELECT * FROM claimed
        FULL JOIN (SELECT * FROM stored FULL JOIN entered USING (bucket, key)) USING (bucket, key)
        """,
        claimed=claimed, stored=stored, entered=entered,
    )  # fmt: skip
    joined = _owned(con, joined, sources)
    joined = attach_label(con, joined, sources.deciding, "s_source")
    joined = attach_label(con, joined, sources.scopes, "m_scope")
    joined = attach_label(con, joined, sources.holed, "holed_place")
    return duck.conform(con, _with_constants(con, joined, sources), PAIR)


def _owned(con: Connection, rows: Rows, sources: SourceFacts) -> Relation:
    """Add `owner`: the table whose location contains the key; among several the one that claims it."""
    owned = attach_label(con, rows, sources.roots, "owner")
    if not sources.co_owners:
        return owned
    known = duck.small(_CO_OWNER, list(sources.co_owners.items()))
    sql = """
        SELECT input.* REPLACE (coalesce(co_owner, owner) AS owner) FROM input
        LEFT JOIN known ON table_name = co_owner AND owner = first_owner
    """
    return duck.made_of(con, sql, owned, known=known)


_CO_OWNER = pa.schema([("co_owner", pa.string()), ("first_owner", pa.string())])

_CLAIM = (
    *(
        "state",
        "certain",
        "size",
        "least_size",
        "etag",
        "version_id",
        "checksum",
        "records",
        "claimed_at",
        "removed_at",
    ),
    *("explained", "listed", "commit_id", "table_version"),
)


def _claimed(con: Connection, rows: Kinds, sources: SourceFacts) -> Relation:
    """Return one row per (table, bucket, key) that a manifest claims, with the references of all tables."""
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in sources.folds]
    every = duck.query(
        con,
        "SELECT every.*, stateful, shares FROM every JOIN tables ON table_name = name",
        every=duck.union(con, [CLAIM.empty_table(), *folded]), tables=sources.tables,
    )  # fmt: skip
    merged = _merged(con, every) if sources.event_kinds > 1 else every
    # event manifests, which record single writes, are checked against state manifests
    side_by_side = _with_events(con, merged) if sources.event_kinds else _without_events(con, merged)
    return _with_references(con, duck.hold(con, side_by_side))


_GAPS = ("size", "etag", "version_id", "checksum", "records")
"""Columns of a claim that another record of the same write can fill."""


def _merged(con: Connection, claims: Rows) -> Relation:
    """Merge the claims of one table's event manifests about one file; the latest event wins.

    Records of one job are written when it ends, so claims of the hour before fill columns that the newest lacks.
    """
    held = duck.hold(con, claims)
    event = f"manifest_kind NOT IN ({duck.literals(state_kinds())})"
    filled = ", ".join(f"coalesce(newest.{name}, {name}) AS {name}" for name in _GAPS)
    gathered = ", ".join(f"arg_max({n}, claimed_at) FILTER (told AND {n} IS NOT NULL) AS {n}" for n in _GAPS)
    sql = f"""
        WITH timed AS (
            SELECT *, coalesce(max(claimed_at) FILTER (state = 'live') OVER whole
                >= coalesce(max(removed_at) OVER whole, '-infinity'), false) AS lives,
                max(claimed_at) FILTER (state = 'live') OVER whole - INTERVAL 1 HOUR AS since
            FROM held WHERE {event} WINDOW whole AS (PARTITION BY table_name, bucket, key)
        ), gathered AS (
            SELECT table_name, bucket, key, bool_and(certain) AS certain, {gathered},
                arg_max(timed, coalesce(removed_at, claimed_at)) AS newest
            FROM (SELECT *, lives AND claimed_at >= since AS told FROM timed WHERE (state = 'live') = lives) timed
            GROUP BY ALL
        )
        SELECT * FROM held WHERE NOT ({event})
        UNION ALL BY NAME
        SELECT newest.* EXCLUDE (lives, since, told) REPLACE (gathered.certain AS certain, {filled}) FROM gathered
    """
    return duck.query(con, sql, held=held)


def _without_events(con: Connection, claims: Rows) -> Relation:
    renamed = ", ".join(f"{name} AS c_{name}" for name in _CLAIM)
    sql = f"""
        SELECT table_name, bucket, key, category, partition_path, shares, {renamed},
            manifest_kind AS c_kind, own_root AS c_own_root,
            CAST(NULL AS VARCHAR) AS e_state, CAST(NULL AS TIMESTAMP) AS e_claimed_at
        FROM claims
    """
    return duck.query(con, sql, claims=claims)


def _with_events(con: Connection, claims: Rows) -> Relation:
    """Join state claims with event claims of the same table; the writer's ETag and checksum fill missing values."""
    held = duck.hold(con, claims)
    event = f"(manifest_kind NOT IN ({duck.literals(state_kinds())}) AND stateful)"
    state = duck.query(con, f"SELECT * FROM held WHERE NOT {event}", held=held)
    filled = ", ".join(f"coalesce(c_{n}, CASE WHEN e.state = 'live' THEN e.{n} END) AS c_{n}" for n in _GAPS)
    shared = ", ".join(
        f"coalesce(s.{name}, e.{name}) AS {name}" for name in ("category", "partition_path", "shares")
    )
    sql = f"""
        SELECT table_name, bucket, key,
            s.* EXCLUDE (table_name, bucket, key, category, partition_path, shares, e_state, e_claimed_at)
                REPLACE ({filled}),
            {shared}, e.state AS e_state, e.claimed_at AS e_claimed_at
        FROM s FULL JOIN (SELECT * FROM held WHERE {event}) e USING (table_name, bucket, key)
    """
    return duck.query(con, sql, s=_without_events(con, state), held=held)


def _with_references(con: Connection, claims: Relation) -> Relation:
    """Add references of all tables, the tables that claim the key as their own, and the first row of each object.

    Nearly all keys have one claim, whose own columns suffice; only the others are grouped.
    """
    sql = """
        WITH many AS (
            SELECT bucket, key, bool_or(c_state = 'live') AS r_live, bool_or(c_state = 'history') AS r_history,
                bool_or(c_state = 'gone') AS r_gone,
                max(c_removed_at) FILTER (c_state IN ('gone', 'history')) AS r_removed_at,
                list_sort(list(table_name) FILTER (c_own_root AND c_state = 'live')) AS own_tables,
                min(table_name) AS first_table
            FROM claims GROUP BY bucket, key HAVING count(*) > 1
        )
        SELECT claims.*,
            coalesce(coalesce(many.r_live, c_state = 'live'), false) AS r_live,
            coalesce(coalesce(many.r_history, c_state = 'history'), false) AS r_history,
            coalesce(coalesce(many.r_gone, c_state = 'gone'), false) AS r_gone,
            coalesce(many.r_removed_at, CASE WHEN c_state IN ('gone', 'history') THEN c_removed_at END) AS r_removed_at,
            own_tables,
            coalesce(first_table = table_name, true) AS first
        FROM claims LEFT JOIN many USING (bucket, key)
    """
    return duck.query(con, sql, claims=claims)


def _stored(con: Connection, rows: Kinds, sources: SourceFacts) -> Relation:
    """Return the deciding source's row of each key."""
    versions = rows.get("versions", VERSION.empty_table())
    labelled = attach_label(con, versions, sources.deciding, "decides")
    deciding = duck.query(con, "SELECT * EXCLUDE decides FROM input WHERE decides = source", input=labelled)
    names = [name for name in STORED.names if name not in ("bucket", "key", "source")]
    renamed = ", ".join(f"{name} AS s_{name}" for name in names)
    objects = sources.objects(con, deciding)
    return duck.query(con, f"SELECT bucket, key, true AS s_row, {renamed} FROM input", input=objects)


def _metastore_entries(con: Connection, rows: Kinds, sources: SourceFacts) -> Relation:
    """Return the row of the responsible metadata store for each key."""
    entries = attach_label(con, rows.get("entries", ENTRY.empty_table()), sources.scopes, "scope")
    wanted = ("expired", "honoured", "size", "etag", "version_id", "mod_time", "last_updated")
    renamed = ", ".join(f"{name} AS m_{name}" for name in wanted)
    sql = f"""
        SELECT bucket, key, true AS m_row,
            CASE WHEN tombstone THEN 'tombstone' WHEN is_dir THEN 'dir' WHEN opaque THEN 'opaque'
                WHEN bare THEN 'named' ELSE 'file' END AS m_state, {renamed}
        FROM input WHERE coalesce(scope, {duck.literal(sources.everywhere)}) = source
    """
    return duck.query(con, sql, input=entries)


_TABLE_COLUMNS = ("grace", "leftover_age", "max_upload", "retention", "horizon")
_FLAGS = ("manifest", "complete", "logged", "by_folder", "by_index")


def _with_constants(con: Connection, joined: Rows, sources: SourceFacts) -> Relation:
    """Add cutoffs of deciding sources, settings of the claiming table (t_) and the owner (o_), and derived columns."""
    sql = f"""
        SELECT j.* REPLACE (
                CASE WHEN s_row THEN s_presence WHEN s_source IS NULL THEN 'uncovered' ELSE 'absent' END AS s_presence,
                CASE WHEN m_row THEN m_state WHEN m_source IS NULL THEN 'unscoped' ELSE 'none' END AS m_state,
                coalesce(m_honoured, {_trusted(sources)}, false) AS m_honoured,
                coalesce(m_expired, false) AS m_expired,
                coalesce(first, true) AS first,
                {_false("r_live", "r_history", "r_gone")}),
            s.start AS s_from, s.end AS s_to, s.margin AS s_margin, m.start AS m_from, m.margin AS m_margin,
            {_ttl(sources)} AS m_ttl,
            t.grace AS t_grace,
            t.archived_after AS t_archived_after, t.read_at AS t_read_at, t.horizon AS t_horizon,
            coalesce(t.holed, false) AS t_holed, coalesce(t.moved, false) AS t_moved,
            {", ".join(f"o.{name} AS o_{name}" for name in _TABLE_COLUMNS)},
            {", ".join(f"coalesce(o.{name}, false) AS o_{name}" for name in _FLAGS)},
            CASE WHEN o.first_instant IS NOT NULL THEN {_SORTED} END AS slice_instant, o.first_instant,
            coalesce({_CONFLICT}, false) AS r_conflict,
            coalesce(substring(key, CAST(o.root_length AS INTEGER) + 1), key) AS relative_key,
            CASE WHEN s_older_since IS NOT NULL THEN 0 END AS s_older_newer,
            NULL AS s_older_matches, NULL AS s_older_beneath_marker, NULL AS s_versus_claimed, NULL AS s_footer_fault,
            false AS h_storage, holed_place IS NOT NULL AS h_references, false AS h_metastore, false AS v_assumed,
            'none' AS l_confirmation
        FROM (SELECT * REPLACE (nullif(s_source, {duck.literal(NOBODY)}) AS s_source),
                coalesce(m_scope, {duck.literal(sources.everywhere)}) AS m_source FROM joined) j
        LEFT JOIN storage_cuts s ON s.source = j.s_source
        LEFT JOIN metastore_cuts m ON m.source = j.m_source
        LEFT JOIN tables t ON t.name = j.table_name
        LEFT JOIN tables o ON o.name = j.owner
    """
    named = duck.query(
        con, sql, joined=joined, tables=sources.tables,
        storage_cuts=sources.storage_cuts, metastore_cuts=sources.metastore_cuts,
    )  # fmt: skip
    known = "LEFT JOIN completed ON owner = completed.name AND input.slice_instant = completed.slice_instant"
    is_slice = "completed.name IS NOT NULL OR coalesce(input.slice_instant < first_instant, false)"
    by_name = f"""
        SELECT input.* EXCLUDE (relative_key, slice_instant, first_instant) REPLACE (
                coalesce(category, {category_by_name("relative_key")}) AS category,
                coalesce(partition_path, {partition_folder("relative_key")}) AS partition_path),
            relative_key AS relative, {is_slice if sources.instants.num_rows else "false"} AS o_slice
        FROM input {known if sources.instants.num_rows else ""}
    """
    return duck.query(con, by_name, input=named, completed=sources.instants)


_CONFLICT = """
    own_tables IS NOT NULL AND list_contains(own_tables, table_name)
    AND len(list_filter(own_tables, lambda other: other <> table_name AND NOT list_contains(j.shares, other))) > 0
    AND table_name = CASE WHEN list_contains(own_tables, owner) THEN owner ELSE own_tables[1] END
"""
"""SQL for a conflict: two tables that do not share list the key as their own. One of them reports it.

The owner of the location reports it if it is one of them, else the first by name.
"""


_INSTANT = f"regexp_extract(key, {duck.pattern(keys.HUDI_BASE)}, 1)"
_SORTED = f"CASE length({_INSTANT}) WHEN 14 THEN {_INSTANT} || '999' WHEN 17 THEN {_INSTANT} END"
"""SQL for the instant in the name of a Hudi base file; null: there is none."""


def _ttl(sources: SourceFacts) -> str:
    """Return SQL for the time after which entries of a row's store expire; null: never."""
    cases = [f"WHEN {duck.literal(source)} THEN {duck.literal(ttl)}" for source, ttl in sources.ttls.items()]
    return f"CASE m_source {' '.join(cases)} END" if cases else "NULL"


def _trusted(sources: SourceFacts) -> str:
    """Return SQL for whether readers trust the store alone at a key that has no entry."""
    by_store = f"m_source IN ({duck.literals(sources.trusted_stores)})"
    return f"(coalesce({by_store}, false) OR ({label_of(sources.trusted)}) IS NOT NULL)"


def _false(*names: str) -> str:
    return ", ".join(f"coalesce({name}, false) AS {name}" for name in names)


def partition_folder(relative: str) -> str:
    """Return SQL for the leading `x=y` folders of a key, unescaped: its partition if no manifest names one."""
    folder = f"rtrim(regexp_extract({relative}, '^((?:[^/=]+=[^/]*/)*)', 1), '/')"
    decoded = f"coalesce(TRY(url_decode(replace({folder}, '+', '%2B'))), {folder})"
    return f"CASE WHEN contains({folder}, '%') THEN {decoded} ELSE {folder} END"


def category_by_name(relative: str) -> str:
    """Return SQL for the category of an unclaimed object, by its name."""
    patterns = (
        ("marker", keys.MARKER),
        ("temporary", keys.TEMPORARY),
        ("log", r"^_delta_log/"),
        ("changes", r"^_change_data/"),
        ("other", keys.OTHERS),
        ("deletes", keys.DELETION_VECTOR),
        ("other", keys.HIDDEN),
    )
    cases = [
        f"WHEN regexp_matches({relative}, {duck.pattern(regex)}) THEN '{name}'" for name, regex in patterns
    ]
    return f"CASE {' '.join(cases)} ELSE 'data' END"
