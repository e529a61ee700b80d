"""Lineage: the state that a manifest reader read of a table, and the witnesses that name other states of that table.

A reader takes one state of a table as the current one. Anything else that names a state of the same table is a
witness: hints, checksum files, checkpoints, delete markers, other metadata files, catalogs, another format's log, and
the state that the last published audit read. The reader reports the claim of each witness, and `findings.lineage`
judges it. This module holds plain data.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

LOST_STATE = "lost_state"
"""A state newer than the one that was read existed, and its file is missing."""
RIVAL_LINE = "rival_line"
"""Another metadata file may be the current one, and neither descends from the other."""
REPLACED_STATE = "replaced_state"
"""The file of a state was written again with other content."""
MISSING_TABLE = "missing_table"
"""The table's log, or every readable part of it, is missing, archived or torn."""
SHORT_CHECKPOINT = "short_checkpoint"
"""A checkpoint lists less than the commits up to it, or contradicts its own counts."""
LESS_LISTED = "less_listed"
"""The state that the last audit read, unchanged by name and ETag, lists fewer files than that audit counted in it."""
BROKEN_HINT = "broken_hint"
"""A hint, or a part of a multi-part checkpoint, is empty or names a file that is missing."""
BROKEN_METADATA_TABLE = "broken_metadata_table"
"""A file of the table's own index of files (Hudi's metadata table) is missing."""
CUT_HISTORY = "cut_history"
"""Data files are older than all known states of the table: older states are missing, also from the archive."""
DROPPED_BY_APPEND = "dropped_by_append"
"""A state lacks files that its parent lists although its operation removes none; or it does not descend from the state
before it; or its branch main lost its snapshot."""
UNMET_COUNTS = "unmet_counts"
"""The counts of files or rows that a state declares exceed its content."""
IDLE_REMOVAL = "idle_removal"
"""A commit removes a path that the state before it does not list."""
RIVAL_OVERWRITES = "rival_overwrites"
"""Two overwrites of one state are both committed."""
CHANGED_ROWS = "changed_rows"
"""A commit that declares that it changes no rows changes their number."""
REPEATED_BATCH = "repeated_batch"
"""Two live commits add what looks like one batch."""
TWO_LINES = "two_lines"
"""Two catalogs commit to the table, each with a line of metadata that the other one lacks."""
FOREIGN_STATE = "foreign_state"
"""The state that was read belongs to another table, which lies at another place."""
LAGGING_HINT = "lagging_hint"
"""A hint names a state older than the current one."""
LAGGING_FORMAT = "lagging_format"
"""Another format's metadata of the same files is behind."""
REPEATED_MANIFEST = "repeated_manifest"
"""A state lists one manifest twice."""

ABSENT, ARCHIVED, TORN = "absent", "archived", "torn"
"""Why no state of a table can be read, where that is proved; a denied or failed request does not count."""

CLAIMS_ABOUT_STATES = (
    *(LOST_STATE, RIVAL_LINE, REPLACED_STATE, MISSING_TABLE, SHORT_CHECKPOINT, LESS_LISTED, BROKEN_HINT),
    *(BROKEN_METADATA_TABLE, DROPPED_BY_APPEND, UNMET_COUNTS, IDLE_REMOVAL, RIVAL_OVERWRITES, CHANGED_ROWS),
    *(REPEATED_BATCH, TWO_LINES, LAGGING_HINT, LAGGING_FORMAT, CUT_HISTORY, REPEATED_MANIFEST, FOREIGN_STATE),
)
LOSSES = (
    LOST_STATE,
    REPLACED_STATE,
    MISSING_TABLE,
    SHORT_CHECKPOINT,
    LESS_LISTED,
    DROPPED_BY_APPEND,
    UNMET_COUNTS,
    TWO_LINES,
    FOREIGN_STATE,
)
"""If one of these claims holds, files that no readable state lists may belong to a lost state."""

LAST_AUDIT, HINT, CHECKSUM, CHECKPOINT = "the last audit", "a hint", "a checksum file", "a checkpoint"
MARKER, METADATA, MANIFESTS = "a delete marker", "a metadata file", "manifests that no metadata names"
DATA_FILES, TIMELINE, CATALOG = "data files", "the metadata table's timeline", "a catalog"
OTHER_FORMAT, CONTENT, REPORT = "another format's log", "the table's own content", "a report of storage"

PROOFS = frozenset({LAST_AUDIT, HINT, CHECKSUM, CHECKPOINT, MARKER, TIMELINE, CATALOG, CONTENT, REPORT})
"""One piece of such evidence proves a claim. `DATA_FILES` proves it from two files on; the rest raises a doubt."""


@dataclass(frozen=True)
class StateRef:
    """One state of a table, with the names that its format uses.

    Attributes:
        number: Delta's version, the number of an Iceberg metadata.json, a Hudi instant; grows from state to state.
        name: file name of the state's own file; empty where the format has none.
        table_id: id of the table, a new one if the table was created again; empty where no file has it.
        written_at: when the state's own file was written, by storage's clock.
        etag: of that file; empty where the store has none.
        uri: of that file; empty in states that earlier audits read.
    """

    number: int | None = None
    name: str = ""
    table_id: str = ""
    written_at: datetime | None = None
    etag: str = ""
    uri: str = ""

    def is_unchanged_since(self, other: "StateRef") -> bool:
        """Return whether this equals the other state of a location, by number, name and ETag; False without an ETag.

        Only the name in the id of a Hudi table (`name@first instant`) counts: its first instants may be lost.
        """
        ids = {each.table_id.partition("@")[0] for each in (self, other)} - {""}
        same = (self.number, self.name, self.etag) == (other.number, other.name, other.etag)
        return bool(self.etag) and same and len(ids) < 2


@dataclass(frozen=True)
class MissingState:
    """Why a table cannot be read that should be readable.

    Attributes:
        cause: `ABSENT`, `ARCHIVED` or `TORN`.
        subject: URI of the state's file, or of the folder (with a slash at its end) that holds none.
        restore: how to restore the table, as a part of a sentence; empty if only an older version can.
        named_by: kind and name of the catalog that names the state; empty if no catalog does.
    """

    cause: str
    subject: str
    restore: str = ""
    named_by: str = ""


@dataclass(frozen=True)
class LostState:
    """A state that an earlier audit reported as lost, at `reported_at`."""

    state: StateRef
    reported_at: datetime

    @property
    def description(self) -> str:
        """Its evidence, as the start of a sentence."""
        return f"the audit of {self.reported_at:%Y-%m-%dT%H:%M:%SZ} reported it as lost"


@dataclass(frozen=True)
class LastState:
    """The newest state that a published audit has read of a table by one kind of manifest.

    `location` is the URI of the table at that time and `as_of` the time of the run; `files` and `bytes` count the files
    that the state listed, None if not counted. `lost` are states that were reported as lost and may still be lost.
    `comparable`: this version of lakeaudit counted them; another one may count other files. `former_ids` are table ids
    that earlier audits read at this location. `hosts` are the locations of other tables in whose folders it listed
    files; `catalogued`: a catalog named it, which is known only where it has hosts. `departed`: the lake has no table
    at this location now.
    """

    state: StateRef
    as_of: datetime
    run_id: str
    location: str
    files: int | None = None
    bytes: int | None = None
    lost: tuple[LostState, ...] = ()
    comparable: bool = False
    former_ids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    catalogued: bool = False
    departed: bool = False

    def is_of(self, location: str, table_id: str) -> bool:
        """Return whether the table at a location is the audited one: it is still there, or it was moved there."""
        return self.location == location or self.was_moved(location, table_id)

    def was_moved(self, location: str, table_id: str) -> bool:
        """Return whether the audited table was moved to this location: the id is the same."""
        return self.location != location and bool(table_id) and self.state.table_id == table_id

    def is_of_another(self, location: str, table_id: str) -> bool:
        """Return whether the table that was audited at this location had another id than the one that is read now."""
        return self.location == location and bool(table_id) and self.state.table_id not in ("", table_id)

    def description(self, location: str) -> str:
        """Return the start of a sentence about the earlier audit of the table that lies at this location now."""
        there = "" if self.location == location else f" at {self.location}"
        return f"the audit of {self.as_of:%Y-%m-%dT%H:%M:%SZ} read it{there}"


LastStates = Mapping[tuple[str, str], LastState]
"""By kind of manifest and table name."""


def with_moved(last: LastStates, kind: str, read: Iterable[tuple[str, StateRef | None]]) -> LastStates:
    """Return the last states, with those of departed tables under the names of the tables that have their ids now.

    A table that changed its name and its place at once is identified by its id, unless audits have seen that id at
    several places. If several new tables have one id, the one with the newest state continues; the others are copies.

    Args:
        last: the last states of all tables.
        kind: the kind of manifest that was read.
        read: tables with the state that was read now; consumed only if a table has departed.
    """
    departed = {
        each.state.table_id: (name, each)
        for (of, name), each in last.items()
        if of == kind and each.departed and each.state.table_id
    }
    if not departed:
        return last
    places: dict[str, set[str]] = {}
    for (of, _), each in last.items():
        if of == kind:
            places.setdefault(each.state.table_id, set()).add(each.location)
    departed = {table_id: each for table_id, each in departed.items() if len(places[table_id]) == 1}
    states = {name: state for name, state in read if state is not None}
    return {**last, **dict(_moved(last, kind, states, departed))}


def _moved(
    last: LastStates,
    kind: str,
    read: Mapping[str, StateRef],
    departed: Mapping[str, tuple[str, LastState]],
) -> Iterator[tuple[tuple[str, str], LastState]]:
    """Yield (kind, new name) of each departed table that has another name now, and its last state."""
    for table_id, (old, state) in departed.items():
        same = {name: each.number or 0 for name, each in read.items() if each.table_id == table_id}
        new = {name for name in same if (own := last.get((kind, name))) is None or own.departed}
        if new and old not in same:
            yield (kind, max(sorted(new), key=same.__getitem__)), replace(state, departed=False)


@dataclass(frozen=True)
class Stake:
    """How much a claim is about; None: not known."""

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


NOT_KNOWN = Stake()


@dataclass(frozen=True)
class LostContent:
    """The content of an older version of a lost state's own file.

    Attributes:
        table_id: of the table whose state it was.
        stake: the size of the state's additions.
        sample: names of files that it added.
        undone: the files that it refers to are missing as well, as after a commit that failed and was cleaned up.
    """

    table_id: str
    stake: Stake
    sample: tuple[str, ...] = ()
    undone: bool = False


@dataclass(frozen=True)
class Witness:
    """The claim of one or more pieces of evidence about a state of a table other than the one that was read.

    Attributes:
        table: name of the table.
        claim: one of `CLAIMS_ABOUT_STATES`.
        evidence: its sources, of `PROOFS`, `METADATA`, `MANIFESTS`, `DATA_FILES`, `OTHER_FORMAT`.
        subject: URI of the file of that state, which is lost, replaced or wrong.
        words: the observation, as a sentence without a full stop; keys in it are hostile input.
        number: of the claimed state.
        stake: the size of the state's additions, or of the loss.
        built_on: the number of data files whose names contain the state.
        recreated: the table was created again since: its first state is newer than the claimed one.
        explained: an operation of the format explains it (rollback, RESTORE, clean-up, archiving).
        version_id: of an older version of the subject that can be read.
        sample: names of files that only the claimed state lists.
        contested: commit ids of a state that may have lost a race, as claims name them.
        until: when the last unlisted file was written that would explain the claim; None: no such file would.
    """

    table: str
    claim: str
    evidence: tuple[str, ...]
    subject: str
    words: str
    number: int | None = None
    stake: Stake = NOT_KNOWN
    built_on: int = 0
    recreated: bool = False
    explained: bool = False
    version_id: str | None = None
    sample: tuple[str, ...] = field(default=())
    contested: frozenset[str] = frozenset()
    until: datetime | None = None

    @property
    def proved(self) -> bool:
        """Whether one piece of its evidence is enough."""
        return not PROOFS.isdisjoint(self.evidence)
