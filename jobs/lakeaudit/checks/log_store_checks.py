"""What log stores know of tables' logs, held against the logs: a few listings a table, in tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeaudit.checks import log_entries
from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.registry import METASTORES
from lakeaudit.findings.coverage import Tallies, together
from lakeaudit.runtime.duck import Relation


@dataclass(frozen=True)
class LogStoreChecks:
    """FINDINGS rows, commits by outcome, and by table why its log could not be compared."""

    findings: tuple[Relation, ...] = ()
    tallies: Tallies = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)


def log_store_checks(evidence: Evidence, engine: AuditEngine) -> LogStoreChecks:
    """What is wrong with commits by each log store, of the tables in scope; of parts of tables nothing."""
    found: list[Relation] = []
    tallies: Tallies = {}
    unsure: dict[str, str] = {}
    for store in () if evidence.partitions else evidence.observed.log_entries:
        format_ = METASTORES[store.info.kind].model.commits_of
        tables = [t for t in evidence.scope if any(each.kind == format_ for each in t.manifests)]
        if not tables:
            continue
        by = store.compare({table.location: table.name for table in tables})
        met = engine.meet([store.rows], by.project, by.compare)
        unsure |= {str(note["subject"]): str(note["reason"]) for note in met.notes if note["reason"]}
        graces = {table.name: table.settings.grace for table in tables}
        judged = log_entries.judged_entries(
            evidence.con, [*met.batches("log_suspects")], graces, evidence.policy
        )
        found.append(log_entries.findings(evidence.con, judged, evidence.stamp))
        tallies = together(tallies, log_entries.tallies(evidence.con, judged))
    return LogStoreChecks(tuple(found), tallies, unsure)
