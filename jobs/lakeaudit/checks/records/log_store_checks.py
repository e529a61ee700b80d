"""Compare the entries of log stores with the logs of tables: a few listings per table, in tasks."""

from lakeaudit.checks.protocol import NOTHING, CheckInput, CheckResult, add_results
from lakeaudit.checks.records import log_entries
from lakeaudit.evidence.protocol import LogEntries
from lakeaudit.evidence.registry import METASTORES

AXIS = "commit"


def judge_log_stores(given: CheckInput) -> CheckResult:
    """Report commits that a log store and the log state differently."""
    return add_results([_judge(given, store) for store in given.evidence.observed.log_entries])


def _judge(given: CheckInput, store: LogEntries) -> CheckResult:
    evidence = given.evidence
    format_ = METASTORES[store.info.kind].model.commits_of
    tables = [t for t in evidence.scope if any(each.kind == format_ for each in t.manifests)]
    if not tables:
        return NOTHING
    by = store.compare({table.location: table.name for table in tables})
    met = given.engine.meet([store.rows], by.project, by.compare)
    remarks = {(str(note["subject"]), AXIS): str(note["reason"]) for note in met.notes if note["reason"]}
    graces = {table.name: table.settings.grace for table in tables}
    suspects = [*met.batches("log_suspects")]
    judged = log_entries.judged_entries(evidence.con, suspects, graces, evidence.policy)
    return CheckResult(
        (log_entries.findings(evidence.con, judged, evidence.stamp),),
        tallies=log_entries.tallies(evidence.con, judged),
        remarks=remarks,
    )
