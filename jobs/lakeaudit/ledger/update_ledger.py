"""Update the ledger by a run's findings and observations, and return the changed rows and their transitions.

The rules are those of `settle`; here DuckDB applies them to all discrepancies at once. Times are without a zone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lakeaudit.findings.finding_rows import RunStamp, digest
from lakeaudit.kinds import SEVERAL_STATES
from lakeaudit.ledger import settle
from lakeaudit.ledger.axis_observation import AxisObservation, observation_rows
from lakeaudit.ledger.resolution import OF_NO_VERDICT, RESTORED
from lakeaudit.matching.verdicts import severity_rank
from lakeaudit.results.read import RETIRED
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.expr import Expr, duck_sql
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import DISCREPANCIES, LEDGER, OF_FINDING, OWNER, TRANSITIONS, plain_time, without_zone

CONFIRMED = ("live", "sample", "not_needed")
"""Confirmations after which one snapshot is enough."""

_AMOUNTS = ("files", "rows_at_stake", "bytes_at_stake")
_AT_STAKE = ("files", "rows_at_stake", "bytes_at_stake", "recoverable", "recoverable_until")

FoundSince = Callable[[Connection, Relation], Rows]
"""Rows (discrepancy_id, table_name, axis, l_last_evidence_at) -> (discrepancy_id, l_found_at).

The newest evidence on which earlier runs found each.
"""


@dataclass(frozen=True)
class RunFindings:
    """The results of a run: FINDINGS, resolutions of known subjects (`resolution.resolutions`), and observations."""

    findings: Rows
    resolutions: Rows
    observations: Sequence[AxisObservation]
    tables: Collection[str]
    """All tables that the lake file names."""
    members: Rows | None = None
    """Files found as one of many: their discrepancy_id, and that of the finding that includes them (spoken_by)."""
    owners: pa.Table = field(default_factory=OWNER.empty_table)
    """The owner of each table that the lake file names, null: none. Other tables keep the owner in the ledger."""
    former: Rows | None = None
    """Accepted discrepancies of renamed tables, see `renamed_tables.under_new_names`."""


@dataclass(frozen=True)
class Changes:
    """The changes of a run: rows of DISCREPANCIES and of TRANSITIONS, and the number of changed rows by action."""

    discrepancies: Rows
    transitions: Rows
    counts: Mapping[str, int]


def update_ledger(
    con: Connection,
    ledger: Rows,
    seen: RunFindings,
    stamp: RunStamp,
    now: datetime,
    found_since: FoundSince,
    growth: float = 0.0,
) -> Changes:
    """Settle every discrepancy that is not resolved, or was found again.

    Args:
        con: keeps the changes; only rows that change are kept.
        ledger: rows of DISCREPANCIES, at least those that are not resolved and those of the findings; read once.
        seen: the results of the run.
        stamp: the run.
        now: the run's clock reading.
        found_since: loads the evidence of earlier runs, for the few discrepancies that a snapshot ends.
        growth: share by which an accepted warning may grow and stay accepted.
    """
    if duck.is_empty(ledger) and duck.is_empty(seen.findings):
        none, unchanged = (without_zone(schema).empty_table() for schema in (DISCREPANCIES, TRANSITIONS))
        return Changes(none, unchanged, {})
    rows = settle_rows(con, ledger, seen, stamp, now, growth)
    if seen.former is not None:
        rows = _with_accepted(con, rows, _still_accepted(con, seen.former, seen, stamp, now, growth))
    if seen.members is not None:
        rows = _with_folded(con, rows, seen.members)
    changed = _changed(con, rows)
    if _rule_counts(con, changed).keys() & settle.ENDED_BY_CUT:
        changed = _without_found_again(con, changed, found_since)
    counts = _by_action(_rule_counts(con, changed))
    changed = _with_owners(con, changed, seen.owners)
    return Changes(_discrepancies(con, changed), _transitions(con, changed, stamp), counts)


def _larger(share: float) -> str:
    """Return SQL of whether any amount of a finding exceeds the one in the ledger by more than that share.

    The number of states that are lost together is an amount too, without a share: the next loss is another one.
    """
    amounts = [
        f"coalesce(found.{name} > held.{name} * (1 + CAST({share} AS DOUBLE)), false)" for name in _AMOUNTS
    ]
    return " OR ".join([*amounts, f"coalesce({_states('found')} > {_states('held')}, false)"])


def _states(of: str) -> str:
    """Return SQL of the number of states that are lost together by a finding's explanation."""
    pattern = duck.literal(f"([0-9]+) (?:states are lost together|{SEVERAL_STATES})")
    number = f"TRY_CAST(regexp_extract({of}.explanation, {pattern}, 1) AS BIGINT)"
    return f"CASE WHEN {of}.explanation IS NOT NULL THEN coalesce({number}, 1) END"


_REPLACED = """coalesce(
    found.axis = 'leftover' AND (held.severity IN ('critical', 'error') OR held.kind = 'uncommitted')
    AND found.storage_time > held.storage_time AND found.files >= held.files, false)"""
"""SQL: whether a group got other files: its oldest file has left, and it has no fewer files."""


def settle_rows(
    con: Connection, ledger: Rows, seen: RunFindings, stamp: RunStamp, now: datetime, growth: float = 0.0
) -> Relation:
    """Return SETTLE rows: `l_`, `r_`, `n_`, `a_`, and the finding and ledger row they come from (`found`, `held`)."""
    live = "found.confirmation = 'live'"
    grown = " OR ".join(f"found.{name} IS DISTINCT FROM held.{name}" for name in _AT_STAKE)
    grown += " OR (found.cause IS NOT NULL AND found.cause IS DISTINCT FROM held.cause)"
    grown += " OR found.owner IS DISTINCT FROM held.owner"
    of_ledger = ", ".join(f"{_ledger_column(name)} AS l_{name}" for name in settle.NEXT)
    former = ", ".join(f"CAST(NULL AS {kind}) AS p_{name}" for name, kind in _ACK.items())
    at = duck.literal(plain_time(now))
    sql = f"""
        SELECT rows.*, {duck.literal(stamp.run_id)} AS run_id, {at} AS now, NULL::TIMESTAMP AS l_found_at,
            {of_ledger}, {former}, {_rank("held.severity")} AS l_rank,
            CASE WHEN {live} THEN {at} WHEN found IS NOT NULL THEN a_evidence_at END AS r_evidence_at,
            found.confirmation IN ({duck.literals(CONFIRMED)}) AS r_confirmed,
            found.kind AS r_kind, found.severity AS r_severity, {_rank("found.severity")} AS r_rank,
            ({grown}) AS r_grown, ({_larger(0)} OR {_REPLACED}) AS r_larger, ({_larger(growth)}) AS r_much_larger,
            false AS n_folded, CASE WHEN n_live THEN {at} ELSE a_evidence_at END AS n_evidence_at
        FROM rows"""
    return duck.query(con, sql, rows=_with_resolution(con, _observed(con, ledger, seen), seen))


_ACK = {"ack_by": "VARCHAR", "ack_reason": "VARCHAR", "ack_until": "TIMESTAMP", "former_name": "VARCHAR"}
"""The columns of an acceptance, with the table's name at that time; with their types."""


def _ledger_column(name: str) -> str:
    """Return SQL of a column of the ledger row; an acceptance under a former name ends once the finding grows."""
    if name not in _ACK:
        return f"held.{name}"
    return f"CASE WHEN held.state = 'pending' AND ({_larger(0)}) THEN NULL ELSE held.{name} END"


def _still_accepted(
    con: Connection, former: Rows, seen: RunFindings, stamp: RunStamp, now: datetime, growth: float
) -> Relation:
    """Return the rows of `former` that stay accepted by the rules for open discrepancies: discrepancy_id and `_ACK`."""
    former = duck.hold(con, duck.relation(con, former))
    mine = duck.query(con, "SELECT findings.* FROM findings SEMI JOIN former USING (discrepancy_id)",
                      findings=seen.findings, former=former)  # fmt: skip
    as_open = ", ".join(DISCREPANCIES.names).replace("state", "'open' AS state", 1)
    ledger = duck.query(con, f"SELECT {as_open} FROM former", former=former)
    alone = RunFindings(mine, seen.resolutions, seen.observations, seen.tables)
    settled = ledger_actions(con, settle_rows(con, ledger, alone, stamp, now, growth))
    sql = """
        SELECT discrepancy_id, x_ack_by AS ack_by, x_ack_reason AS ack_reason, x_ack_until AS ack_until, former_name
        FROM settled JOIN (SELECT discrepancy_id, former_name FROM former) USING (discrepancy_id)
        WHERE found IS NOT NULL AND x_ack_until > now"""
    return duck.hold(con, duck.query(con, sql, settled=settled, former=former))


def _with_accepted(con: Connection, rows: Rows, accepted: Rows) -> Relation:
    """Return SETTLE rows with the acceptance under their table's former name, unless they were open under this one."""
    new = f"l_state IS NULL OR l_state = 'pending' OR l_resolution = '{RETIRED}'"
    given = ", ".join(f"CASE WHEN {new} THEN accepted.{name} END AS p_{name}" for name in _ACK)
    sql = f"SELECT rows.* REPLACE ({given}) FROM rows LEFT JOIN accepted USING (discrepancy_id)"
    return duck.query(con, sql, rows=rows, accepted=accepted)


def _observed(con: Connection, ledger: Rows, seen: RunFindings) -> Relation:
    """Return ledger rows and findings by discrepancy, each with the observation of its table and axis."""
    sql = f"""
        WITH known AS (SELECT discrepancy_id, {_struct(DISCREPANCIES)} AS held FROM ledger),
        seen AS (SELECT discrepancy_id, {_struct(OF_FINDING)} AS found FROM findings),
        joined AS (
            SELECT discrepancy_id, held, found, coalesce(found.table_name, held.table_name, '') AS table_name,
                coalesce(found.axis, held.axis) AS axis
            FROM known FULL JOIN seen USING (discrepancy_id)
            WHERE found IS NOT NULL OR held.state <> 'resolved')
        SELECT joined.*, COLUMNS('a_.*') FROM joined LEFT JOIN observations USING (table_name, axis)"""
    findings = _plain_times(con, seen.findings)
    observations = observation_rows(seen.observations)
    return duck.query(
        con, sql, ledger=_plain_times(con, ledger), findings=findings, observations=observations
    )


def _with_resolution(con: Connection, rows: Relation, seen: RunFindings) -> Relation:
    """Add the run's resolution of subjects that it did not find.

    The verdict decides; a subject without a verdict does not exist any more, and one without table or axis is retired.
    """
    unknown = f"table_name <> '' AND table_name NOT IN ({duck.literals([*seen.tables])})"
    sql = f"""
        WITH retiring AS (SELECT *, coalesce(a_off, false) OR ({unknown}) AS retired FROM rows),
        answers AS (SELECT *, true AS answered FROM resolutions)
        SELECT retiring.* EXCLUDE (retired, a_audited, a_off), coalesce(a_audited, false) OR retired AS a_audited,
            CASE WHEN retired THEN '{RETIRED}' WHEN answered THEN n_resolution ELSE {OF_NO_VERDICT} END AS n_resolution,
            retired OR coalesce(n_live, false) AS n_live, n_words
        FROM retiring LEFT JOIN answers USING (discrepancy_id)"""
    return duck.query(con, sql, rows=rows, resolutions=seen.resolutions)


def _with_folded(con: Connection, rows: Relation, members: Rows) -> Relation:
    """Retire files that were found as one of many once the discrepancy that includes them is open."""
    rows, members = duck.hold(con, rows), duck.hold(con, members)
    speakers = "SELECT rows.* FROM rows SEMI JOIN members ON rows.discrepancy_id = spoken_by"
    settled = ledger_actions(con, duck.query(con, speakers, rows=rows, members=members))
    sql = f"""
        WITH speaking AS (SELECT discrepancy_id AS spoken_by FROM settled WHERE x_state = 'open'),
        folded AS (SELECT DISTINCT discrepancy_id, true AS is_folded FROM members SEMI JOIN speaking USING (spoken_by))
        SELECT rows.* REPLACE (coalesce(is_folded, false) AS n_folded,
            CASE WHEN is_folded THEN '{RETIRED}' ELSE n_resolution END AS n_resolution)
        FROM rows LEFT JOIN folded USING (discrepancy_id)"""
    return duck.query(con, sql, rows=rows, members=members, settled=settled)


def ledger_actions(con: Connection, rows: Rows) -> Relation:
    """Return SETTLE rows with `rule_settle`, its `action` and `reason`, and each ledger column after it (`x_`)."""
    after = ", ".join(f"{_after(name, changes)} AS x_{name}" for name, changes in settle.NEXT.items())
    sql = f"SELECT *, {after} FROM decided JOIN rules USING (rule_settle)"
    decided = apply_rules(con, rows, settle.FACTS, {"settle": settle.RULES})
    return duck.query(con, sql, decided=decided, rules=_rules())


def _rules() -> pa.Table:
    """Return a row per rule for a join, since DuckDB would copy a CASE over all rules into every filter."""
    names = ("rule_settle", "action", "reason")
    schema = pa.schema([(name, pa.string()) for name in names])
    return duck.small(schema, [(rule.id, rule.verdict, rule.because) for rule in settle.RULES])


def _when(value: str, then: str) -> str:
    return f"WHEN {duck.literal(value)} THEN {duck.literal(then)}"


def _after(name: str, changes: Mapping[str, Expr]) -> str:
    cases = " ".join(
        f"WHEN {duck.literal(action)} THEN {duck_sql(value)}" for action, value in changes.items()
    )
    return f"CASE action {cases} ELSE l_{name} END"


def _changed(con: Connection, rows: Rows) -> Relation:
    """Return the rows that change, kept in the connection; the others are not needed any more."""
    sql = f"SELECT * FROM ledger_actions WHERE action <> {duck.literal(settle.NO_CHANGE)}"
    return duck.hold(con, duck.query(con, sql, ledger_actions=ledger_actions(con, rows)))


def _without_found_again(con: Connection, changed: Relation, found_since: FoundSince) -> Relation:
    """Settle rows that a snapshot would end again with `l_found_at`: a newer snapshot may have found them."""
    by_cut = f"rule_settle IN ({duck.literals(sorted(settle.ENDED_BY_CUT))})"
    known_by = "discrepancy_id, table_name, axis, l_last_evidence_at"
    ended = duck.query(con, f"SELECT * FROM changed WHERE {by_cut}", changed=changed)
    subjects = duck.query(con, f"SELECT {known_by} FROM ended", ended=ended)
    derived = ", ".join(
        ["rule_settle", "action", "reason", "l_found_at", *(f"x_{name}" for name in settle.NEXT)]
    )
    sql = f"SELECT ended.* EXCLUDE ({derived}), since.l_found_at FROM ended LEFT JOIN since USING (discrepancy_id)"
    dated = duck.query(con, sql, ended=ended, since=_plain_times(con, found_since(con, subjects)))
    sql = f"SELECT * FROM changed WHERE NOT {by_cut} UNION ALL BY NAME SELECT * FROM still"
    return duck.hold(con, duck.query(con, sql, changed=changed, still=_changed(con, dated)))


def _with_owners(con: Connection, changed: Rows, owners: pa.Table) -> Relation:
    """Add `x_owner`: the owner by the lake file, else the one in the ledger, for tables that the file does not name."""
    sql = """
        SELECT changed.*, CASE WHEN named.table_name IS NULL THEN coalesce(found.owner, held.owner)
            ELSE named.owner END AS x_owner
        FROM changed LEFT JOIN owners named ON changed.table_name = named.table_name"""
    return duck.query(con, sql, changed=changed, owners=owners)


def _rule_counts(con: Connection, changed: Relation) -> dict[str, int]:
    """Return how often each rule fired."""
    sql = "SELECT rule_settle, count(*) AS number FROM changed GROUP BY rule_settle"
    return {row["rule_settle"]: row["number"] for row in duck.rows_of(duck.query(con, sql, changed=changed))}


def _by_action(counts: Mapping[str, int]) -> dict[str, int]:
    actions = {rule.id: rule.verdict for rule in settle.RULES}
    summed: Counter[str] = Counter()
    for rule, number in sorted(counts.items()):
        summed[actions[rule]] += number
    return dict(summed)


_CAUSE = ("cause", "cause_at", "cause_principal")
_KEEPS_CAUSE = """latest.cause IS NULL AND held.cause IS NOT NULL AND held.state <> 'resolved'
    AND held.kind IS NOT DISTINCT FROM latest.kind"""
"""SQL: whether a discrepancy keeps its cause, since records of requests may expire before it ends."""


def _discrepancies(con: Connection, changed: Relation) -> Relation:
    """Return the ledger columns after the action, and those of the finding: the run's, or the ledger's own.

    The finding is selected as one struct: DuckDB plans a CASE for each column slowly.
    """
    by_run = f"action IN ({duck.literals(settle.FOUND)})"
    own = ", ".join(f"{name} := held.{name}" for name in OF_FINDING.names)
    sql = f"SELECT *, CASE WHEN {by_run} THEN found ELSE struct_pack({own}) END AS latest FROM changed"
    given = {name: f"x_{name}" for name in LEDGER.names if name != "discrepancy_id"}
    given |= {name: f"latest.{name}" for name in OF_FINDING.names}
    given |= {name: f"CASE WHEN {_KEEPS_CAUSE} THEN held.{name} ELSE latest.{name} END" for name in _CAUSE}
    given["owner"] = "x_owner"
    return duck.conform(con, duck.query(con, sql, changed=changed), without_zone(DISCREPANCIES), given)


def _transitions(con: Connection, changed: Relation, stamp: RunStamp) -> Relation:
    """Return the transitions of the actions that have one; a repeated run gives the same ids."""
    words = " ".join(_when(action, word) for action, word in settle.TRANSITIONS.items())
    sql = f"SELECT *, CASE action {words} END AS transition FROM changed WHERE action IN ({_TRANSITIONS})"
    given = {
        "transition_id": transition_id(),
        "lake": duck.literal(stamp.lake),
        "from_kind": "l_kind",
        "to_kind": "x_kind",
        "from_severity": "l_severity",
        "to_severity": "x_severity",
        "reason": f"""concat_ws('; ', reason, CASE WHEN x_resolution = '{RESTORED}' THEN n_words END,
            'accepted under its former name ' || p_former_name)""",
        "at": "now",
        "owner": "x_owner",
    }
    return duck.conform(con, duck.query(con, sql, changed=changed), without_zone(TRANSITIONS), given)


_TRANSITIONS = duck.literals([*settle.TRANSITIONS])


def transition_id() -> str:
    """Return SQL of digest(run_id, discrepancy_id, transition)."""
    return digest("run_id", "discrepancy_id", "transition")


def _rank(severity: str) -> str:
    """Return SQL of the rank of a severity: 0 for the worst, null for none."""
    return f"CASE WHEN {severity} IS NOT NULL THEN {severity_rank(severity)} END"


def _struct(schema: pa.Schema) -> str:
    return f"struct_pack({', '.join(f'{name} := {name}' for name in schema.names)})"


def _plain_times(con: Connection, rows: Rows) -> Relation:
    """Convert times with a zone to UTC without one: DuckDB would compare the two types by the local calendar."""
    given = duck.relation(con, rows)
    zoned = [name for name, kind in given.types.items() if "TIME ZONE" in kind]
    if not zoned:
        return given
    plain = ", ".join(f"{name} AT TIME ZONE 'UTC' AS {name}" for name in zoned)
    return duck.query(con, f"SELECT * REPLACE ({plain}) FROM given", given=given)
