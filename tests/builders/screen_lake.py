"""A lake made of keys of which every source says one of many things, as an audit that has not read it yet."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.read_sources import Observed
from lakeaudit.collect.source_facts import Sources
from lakeaudit.engine.cached_rows import WORTH
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta.log import paths
from lakeaudit.evidence.manifest.delta.state import replay
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.replica_source import originals
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.protocol import (
    Batches,
    Claims,
    Entries,
    Part,
    SnapshotWindow,
    SourceInfo,
    Stored,
    identity_of,
)
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.keys import Location
from lakeaudit.ledger.load_open import OpenDiscrepancies
from lakeaudit.matching.prefilter import Prefilter, prefilter_of
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import ENTRY, KNOWN, NOTE, UPLOAD, VERSION, plain_time
from tests.builders.connections import connection
from tests.builders.evidence import BUCKET, CUT, ago, rows_table
from tests.builders.scenario import DELTA, table
from tests.builders.screen_rows import ENTRIES, MARGIN, STEPS, VERSIONS, Named, Row, entry, step, version

if TYPE_CHECKING:
    from lakeaudit.config import Lake

KINDS: Mapping[str, pa.Schema] = {
    "versions": VERSION,
    "entries": ENTRY,
    "steps": paths.STEP,
    "events": fold.EVENTS,
    "acts": fold.ACTS,
    "originals": originals.ORIGINAL,
    "uploads": UPLOAD,
}
HERE = Location(BUCKET, "")
NOWHERE = Location("", "nowhere/results")


@dataclass(frozen=True)
class Source:
    """A storage source or metadata store: its places, begin of its picture and margin. No place: every bucket."""

    places: tuple[Location, ...] = (HERE,)
    start: datetime = CUT
    margin: timedelta = MARGIN
    ttl: timedelta | None = None
    authoritative: Any = "none"


@dataclass
class ScreenLake:
    """Tables, sources and rows by kind. `scope` are the tables that are judged, None: all; `kept` kinds were read."""

    tables: list[TableFacts] = field(default_factory=lambda: [table("shop"), table("clone")])
    scope: Sequence[str] | None = None
    storage: Sequence[Source] = (Source(),)
    metastores: Sequence[Source] = (Source(),)
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    known: list[Row] = field(default_factory=list)
    commits: list[Row] = field(default_factory=list)
    """Steps that are read where they lie, whatever tells other parts apart."""
    kept: tuple[str, ...] = ()
    torn: bool = False
    """One part of the first storage source proves to be broken while it is read."""
    results: Location = NOWHERE
    pinned: str = ""
    """Distinguishes the fingerprints of parts from those of another lake; empty: they have none."""

    def add(
        self, key: str, versions: Iterable[Any], entries: Iterable[Any], steps: Iterable[Any], **of: Any
    ) -> None:
        """The rows of one key; `of` (table_name, bucket) holds for all of them."""
        placed = {"bucket": of["bucket"]} if "bucket" in of else {}
        self.rows["versions"] += [version(key, **{**placed, **given}) for given in versions]
        self.rows["entries"] += [entry(key, **{**placed, **given}) for given in entries]
        self.rows["steps"] += [step(key, **{**of, **given}) for given in steps]

    def plain(self, *keys: str, **of: Any) -> None:
        """Keys on which all sources agree."""
        for key in keys:
            self.add(key, [{}], [{}], [{}], **of)

    def grid(self, root: str, versions: Named, entries: Named, steps: Named, **of: Any) -> None:
        """A key for every combination."""
        for v, of_version in versions.items():
            for e, of_entry in entries.items():
                for s, of_step in steps.items():
                    name = f"{root}{v},{e},{s}".replace(" ", "_")
                    self.add(name, of_version, of_entry, of_step, **of)

    def star(self, root: str, **of: Any) -> None:
        """A plain key, and one for everything that a single source may say instead."""
        plain: Named = {"plain": [{}]}
        self.grid(root, VERSIONS, plain, plain, **of)
        self.grid(root, plain, {k: v for k, v in ENTRIES.items() if k != "plain"}, plain, **of)
        self.grid(root, plain, plain, {k: v for k, v in STEPS.items() if k != "plain"}, **of)

    @cached_property
    def arrow(self) -> dict[str, pa.Table]:
        """The rows by kind."""
        return {kind: rows_table(KINDS[kind], rows) for kind, rows in self.rows.items() if rows}

    def evidence(self) -> Evidence:
        """Return an audit's evidence of the lake before it reads rows."""
        configured = [fact.table for fact in self.tables]
        scope = [each for each in configured if self.scope is None or each.name in self.scope]
        open_files = rows_table(KNOWN, self.known) if self.known else None
        return Evidence(
            cast(
                "Lake",
                SimpleNamespace(
                    tables=configured, ignores=(), metastores=(), results=self.results, name="lake", watched=()
                ),
            ),
            scope, {}, self._observed(), cast("Any", SimpleNamespace(live=False, clients=Clients())),
            RunStamp("run", "lake", CUT), OpenDiscrepancies(open_files), connection(),
            tuple(self.tables), finding_policy(scope, (), CUT.date()), Lifecycles(Clients(), live=False),
        )  # fmt: skip

    def screen(self) -> Prefilter:
        """The screen of such an audit."""
        evidence = self.evidence()
        traces = {
            kind: each for read in evidence.observed.sources.claims for kind, each in read.traces.items()
        }
        return prefilter_of(evidence.source_facts, evidence.facts, evidence.policy.scope, traces)

    def _observed(self) -> Observed:
        storage = [self._stored(number, source) for number, source in enumerate(self.storage)]
        stores = [self._entries_of(number, source) for number, source in enumerate(self.metastores)]
        guards = {
            f"metastore:{n}": S3Guard(kind="s3guard", table="guard", authoritative=source.authoritative)
            for n, source in enumerate(self.metastores)
        }
        return Observed(
            Sources([*self._logs(), *self._lists(), *self._originals()], storage, stores, guards), (), (), ()
        )

    def _stored(self, number: int, source: Source) -> Stored:
        info = _info(f"storage:{number}", source)
        parts = [*self._parts("versions", info.id), *(self._parts("uploads") if number == 0 else ())]
        if self.torn and number == 0:
            parts.append(Part(info.id, _torn, 1))
        rows = InProcessEngine(1).keep(parts) if "versions" in self.kept else tuple(parts)
        return Stored(info, rows, source.places, lists_uploads=True)

    def _entries_of(self, number: int, source: Source) -> Entries:
        info = _info(f"metastore:{number}", source)
        parts = self._parts("entries", info.id)
        rows = InProcessEngine(1).keep(parts) if "entries" in self.kept else parts
        return Entries(info, rows, source.places, source.ttl)

    def _logs(self) -> Iterator[Claims]:
        constants = replay_table([fact for fact in self.tables if DELTA in fact.table.manifests])
        parts = self._parts("steps")
        rows = InProcessEngine(1).keep(parts) if "steps" in self.kept else parts
        newer = Part("", partial(_single_batch, "steps", rows_table(KINDS["steps"], self.commits)))
        states = {state.table: state for fact in self.tables for state in fact.states}
        info = SourceInfo("manifest:delta", "manifest", "delta", "", "", None)
        traces = {paths.KIND: partial(replay.fingerprints, constants)}
        fold = partial(replay.claims, constants, info.id)
        yield Claims(info, (rows, (newer,)), fold, states, traces=traces)

    def _lists(self) -> Iterator[Claims]:
        if "events" in self.arrow:
            info = SourceInfo("manifest:file_list", "manifest", "file_list", "", "", None)
            kept = InProcessEngine(1).keep((*self._parts("events"), *self._parts("acts")))
            yield Claims(info, (kept,), partial(fold.claims, source=info.id), {})

    def _originals(self) -> Iterator[Claims]:
        if "originals" in self.arrow:
            info = SourceInfo("manifest:s3_inventory", "manifest", "s3_inventory", "", "", None)
            traces = {originals.KIND: originals.fingerprints}
            fold_of = partial(originals.claims, source=info.id)
            yield Claims(info, (self._parts("originals"),), fold_of, {}, traces=traces)

    def _parts(self, kind: str, source: str | None = None) -> tuple[Part, ...]:
        """The rows of a kind, or of one source of them, in two parts."""
        rows = self.arrow.get(kind, KINDS[kind].empty_table())
        if source is not None:
            rows = rows.filter(pc.equal(rows["source"], source))
        half = (rows.num_rows + 1) // 2
        pinned = self.pinned if kind in ("versions", "uploads", "entries", "steps") else ""
        return tuple(
            Part(
                source or "",
                partial(_single_batch, kind, rows.slice(at, half)),
                WORTH if pinned else 1,
                identity_of(pinned, source, kind, at) if pinned else "",
                slow=True,
            )
            for at in (0, half)
        )


def _info(source_id: str, source: Source) -> SourceInfo:
    return SourceInfo(
        source_id, source_id.partition(":")[0], "", "", "", SnapshotWindow(source.start, None, source.margin)
    )


def _single_batch(kind: str, rows: pa.Table, con: duck.Connection) -> Batches:
    yield kind, duck.query(con, "FROM input", input=rows)


def _torn(con: duck.Connection) -> Batches:
    columns = ", ".join(f"CAST(NULL AS {duck.type_of(each.type)}) AS {each.name}" for each in VERSION)
    torn = f"SELECT * REPLACE ('storage:0' AS source, error('torn') AS reject) FROM (SELECT {columns})"
    try:
        yield "versions", duck.query(con, torn)
    except duck.DuckError:
        yield "notes", duck.small(NOTE, [("storage:0", "part", "cannot be read", 0, None)])


def replay_table(facts: Sequence[TableFacts]) -> pa.Table:
    """Constants of their logs: version 7, all commits read as reading 1, their own times believed from version 3."""
    rows: list[tuple[Any, ...]] = [
        (fact.table.name, 1, 7, -1, -1, plain_time(ago(24 * 30)), plain_time(ago(24 * 7)), 3,
         [{"physical": "day", "logical": "day"}], [], fact.table.location.bucket, fact.table.location.prefix)
        for fact in facts
    ]  # fmt: skip
    return duck.small(replay.TABLE, rows)


def moved(fact: TableFacts, bucket: str, key: str = "") -> TableFacts:
    """The table elsewhere."""
    return replace(fact, table=fact.table.model_copy(update={"location": Location(bucket, key)}))
