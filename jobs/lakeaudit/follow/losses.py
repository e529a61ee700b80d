"""Judge some objects by the newest states of tables: which of them does a table need, and storage lacks or changed?

It is the judgement of an audit about these objects alone: the same rules, the same live check, the same findings.
Storage counts as empty at first, so that every needed object is requested.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pyarrow as pa

from lakeaudit.audit.kernel import Kernel
from lakeaudit.audit.match import lost_logs
from lakeaudit.audit.task_functions import task_facts
from lakeaudit.checks.lineage.lineage_checks import check_witnesses, lineage_findings
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import all_evidence_gaps, gap_findings, sources_with_gaps
from lakeaudit.collect.lifecycles import Lifecycles, with_ends
from lakeaudit.collect.read_sources import Observed, read_manifests
from lakeaudit.collect.source_facts import Sources
from lakeaudit.config import Lake
from lakeaudit.confirm import suspects
from lakeaudit.confirm.apply_gaps import assumed_vacuums
from lakeaudit.engine.answers import answers_of, few_answers, hold_answers
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import (
    Batches,
    Context,
    Part,
    SnapshotWindow,
    SourceInfo,
    Stored,
    pieces,
)
from lakeaudit.evidence.references import Key
from lakeaudit.findings import finding_rows
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.follow.needed_files import of_tables, read_kinds
from lakeaudit.keys import Location, identify
from lakeaudit.ledger.load_open import OpenDiscrepancies
from lakeaudit.matching.table_facts import table_facts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import OWNER

SOURCE = "storage:0"
_LATER = timedelta(days=1)
"""The empty snapshot of storage is newer than every claim, also if the clock of a writer is ahead."""
_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])


@dataclass(frozen=True)
class Judged:
    """What the newest states and storage show about some objects.

    Attributes:
        findings: FINDINGS rows of objects that a table needs, each confirmed by a live check.
        undecided: objects that a table needs and about which storage or the newest state gave no answer.
        unread: by table why its newest state could not be read, so that an object without a finding may be needed.
        lost: tables that lost a state; their findings name the table, or the file of the state.
    """

    findings: Relation
    undecided: frozenset[Key]
    unread: Mapping[str, str]
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Judge:
    """The lake and what judges its objects.

    Attributes:
        lake: the lake with all of its tables.
        engine: reads the manifests.
        lifecycles: the lifecycle rules of buckets, which are read once.
    """

    lake: Lake
    engine: AuditEngine
    lifecycles: Lifecycles

    def judge(
        self,
        con: Connection,
        tables: Collection[str],
        keys: Collection[Key],
        context: Context,
        stamp: RunStamp,
        memory: OpenDiscrepancies,
        logs: Collection[str] = (),
    ) -> Judged:
        """Judge objects by these tables.

        Args:
            con: holds the findings.
            tables: names of the tables that may need the objects.
            keys: the objects.
            context: of this round.
            stamp: of the run that publishes the findings.
            memory: the open discrepancies of the tables.
            logs: the tables of whose logs or metadata an object is a part.
        """
        few = _restricted(self.lake, tables)
        evidence = self._evidence(con, few, keys, context, stamp, memory)
        wanted = duck.small(_KEYS, sorted(keys))
        evidence, matched = _match(evidence, self.engine, wanted)
        again = suspects.confirm(
            evidence, matched.suspects, matched.young, matched.claimed, matched.with_gaps, matched.vacuumed
        )
        rows = duck.hold(con, _of_content(con, again.rows, self.lake))
        findings = duck.made_of(
            con, "SELECT * FROM input WHERE outcome = 'finding' AND l_confirmation = 'live'", rows
        )
        ended, _ = with_ends(con, findings, self.lifecycles)
        states = [*_lost_states(evidence, logs)] if logs else []
        own = finding_rows.from_plain(con, [*_lost_metadata(evidence, keys), *states], stamp)
        both = duck.union(con, [finding_rows.file_findings(con, ended, stamp), own])
        named = finding_rows.with_owners(con, both, _owners(few))
        sql = f"SELECT DISTINCT bucket, key FROM input WHERE {_UNDECIDED}"
        undecided = duck.rows_of(duck.made_of(con, sql, rows))
        return Judged(
            duck.hold(con, named),
            frozenset((row["bucket"], row["key"]) for row in undecided),
            _unread(evidence),
            frozenset(str(row["table_name"]) for row in states),
        )

    def _evidence(
        self,
        con: Connection,
        few: Lake,
        keys: Collection[Key],
        context: Context,
        stamp: RunStamp,
        memory: OpenDiscrepancies,
    ) -> Evidence:
        claims, gaps = read_manifests(few, context, read_kinds(few))
        stored = _no_storage({bucket for bucket, _ in keys}, context)
        infos = (stored.info, *(each.info for each in claims))
        sources = Sources(claims, [stored], [], {})
        observed = Observed(sources, infos, tuple(gaps), (), listed=True)
        return _SettledEvidence(
            lake=few,
            scope=few.tables,
            partitions={},
            observed=observed,
            context=context,
            stamp=stamp,
            memory=memory,
            con=con,
            facts=tuple(table_facts(few.tables, claims)),
            policy=finding_policy(few.tables, few.ignores, stamp.as_of.date()),
            lifecycles=self.lifecycles,
            named={table.name for table in few.tables},
        )


class _SettledEvidence(Evidence):
    """Evidence whose claims are older than its live checks, whatever the clocks say: they were read before."""

    def look(self, keys: pa.Table) -> pa.Table:
        """Request (bucket, key) rows from storage now, and return LIVE rows."""
        answers = super().look(keys)
        if "claimed_at" not in keys.schema.names:
            return answers
        claimed = {(row["bucket"], row["key"]): row["claimed_at"] for row in keys.to_pylist()}
        rows = answers.to_pylist()
        for row in rows:
            at = claimed.get((row["bucket"], row["key"]))
            row["l_at"] = max(row["l_at"], at) if at else row["l_at"]
        return pa.Table.from_pylist(rows, answers.schema)


def _restricted(lake: Lake, names: Collection[str]) -> Lake:
    """Return the lake with these tables alone, and without a grace period: the events show that the objects existed."""
    tables = tuple(
        table.model_copy(update={"settings": table.settings.model_copy(update={"grace": timedelta(0)})})
        for table in lake.tables
        if table.name in names
    )
    ceiling = lake.ceiling.model_copy(update={"share": 1.0})
    none: tuple[object, ...] = ()
    return lake.model_copy(
        update={"tables": tables, "inventories": none, "metastores": none, "events": none, "ceiling": ceiling}
    )


def _no_storage(buckets: Collection[str], context: Context) -> Stored:
    """Return a storage source without objects that covers these buckets."""
    cut = SnapshotWindow(context.now + _LATER, context.now + _LATER)
    info = SourceInfo(SOURCE, "storage", "listing", "events of storage", "", cut)
    return Stored(info, (), tuple(Location(bucket, "") for bucket in sorted(buckets)))


@dataclass(frozen=True)
class _Matched:
    """Verdict rows of the objects, see `suspects.confirm`."""

    suspects: Relation
    young: Relation
    claimed: Relation
    with_gaps: frozenset[str]
    vacuumed: tuple[str, ...]


def _match(evidence: Evidence, engine: AuditEngine, keys: pa.Table) -> tuple[Evidence, _Matched]:
    """Match the objects with the claims of the tables; gaps that this shows are added."""
    while True:
        con, claims = evidence.con, evidence.observed.sources.claims
        names = tuple(sorted(table.name for table in evidence.scope))
        kernel = Kernel(task_facts(evidence), (), (), {})
        rows = [*pieces(*(rows for each in claims for rows in each.rows)), *_open_parts(evidence.memory)]
        reading = Reading(partial(_only, names, keys))
        answers = hold_answers(con, engine.run(rows, kernel.stages, reading))
        notes = few_answers(answers, "notes")
        if not (lost := lost_logs(evidence, notes)):
            break
        evidence = evidence.with_gaps(lost)
    gaps = all_evidence_gaps(evidence.observed.holes, {}, [note for note in notes if note["reason"]])
    vacuums = assumed_vacuums(con, answers_of(con, answers, "removals"))
    matched = _Matched(
        answers_of(con, answers, "suspects"),
        answers_of(con, answers, "fresh"),
        answers_of(con, answers, "claimed"),
        sources_with_gaps(gaps),
        tuple(row["vacuumed"] for row in vacuums),
    )
    return evidence, matched


def _only(
    names: Sequence[str], keys: pa.Table, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Drop the rows of other tables and objects; rows without a key concern all."""
    rows = of_tables(names, con, rows)
    if {"bucket", "key"} <= {*duck.relation(con, rows).columns}:
        rows = duck.query(
            con, "SELECT input.* FROM input SEMI JOIN keys USING (bucket, key)", input=rows, keys=keys
        )
    yield kind, rows


def _open_parts(memory: OpenDiscrepancies) -> Iterator[Part]:
    if memory.still_open is not None:
        yield Part("ledger", partial(_read_open, memory.still_open), memory.still_open.nbytes)


def _read_open(still_open: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield "known", still_open


_UNDECIDED = "outcome = 'undecided' OR (outcome = 'finding' AND l_confirmation <> 'live')"
"""SQL for verdict rows that the next look may decide."""


def _of_content(con: Connection, rows: Rows, lake: Lake) -> Relation:
    """Return the verdict rows about the content of files, without rewrites within the table's grace period.

    An audit takes these for a part of the write.
    """
    grace = duck.small(_GRACE, [(table.name, table.settings.grace) for table in lake.tables])
    sql = """
        SELECT rows.* FROM rows JOIN grace ON judged_table = name
        WHERE axis = 'content'
            AND NOT (rule = 'content.rewritten' AND coalesce(s_modified_at <= c_claimed_at + grace, false))
    """
    return duck.query(con, sql, rows=rows, grace=grace)


_GRACE = pa.schema([("name", pa.string()), ("grace", pa.duration("us"))])


def _lost_metadata(evidence: Evidence, keys: Collection[Key]) -> Iterator[Mapping[str, object]]:
    """Yield FINDINGS rows about those of the objects that the newest state of a table needs to be read."""
    lost = [gap for gap in evidence.observed.holes if gap.table and identify(gap.subject) in keys]
    day = evidence.stamp.as_of.date()
    for row in gap_findings(evidence.lake, evidence.scope, (), lost, (), day):
        if row["kind"] == "missing_metadata":
            yield row


def _lost_states(evidence: Evidence, tables: Collection[str]) -> Iterator[Mapping[str, object]]:
    """Yield FINDINGS rows about tables of which storage lacks the newest state, or every state."""
    for row in lineage_findings(check_witnesses(evidence)):
        if row["table_name"] in tables and row["kind"] in _STATE_LOST:
            yield row


_STATE_LOST = ("table_missing", "missing_metadata")


def _owners(lake: Lake) -> pa.Table:
    return duck.small(OWNER, [(table.name, table.owner) for table in lake.tables])


def _unread(evidence: Evidence) -> dict[str, str]:
    """Return the tables whose newest states could not be read completely, with the reasons."""
    whole = [gap.reason for gap in evidence.observed.holes if gap.table is None]
    found = {table.name: whole[0] for table in evidence.scope} if whole else {}
    for fact in evidence.facts:
        why = fact.refusal or next((gap.reason for gap in fact.holes), None)
        if why:
            found[fact.table.name] = why
    return found
