"""The JSON documents that commands print, write or send, as types: `documents` publishes their JSON Schemas.

Times are texts in ISO 8601. `documents/documents.toml` describes each property.
"""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

RunStatus = Literal["running", "complete", "partial", "suspect", "failed"]
AxisStatus = Literal["complete", "partial", "off", "overtaken"]
TableStatus = Literal["complete", "partial", "off"]
Answer = Literal["ok", "discrepancies", "unknown"]
VerifiedAnswer = Literal["yes", "no", "unknown"]
GuardStatus = Literal["live", "referenced", "promised", "being_written", "unknown", "free", "absent"]


class _Source(TypedDict):
    role: str
    kind: str
    location: str
    identity: str
    cut_from: str | None
    cut_to: str | None
    rows: int | None
    rejected: int | None


class SourceSummary(_Source):
    """A source that an audit read."""

    seconds: float | None


class AxisSummary(TypedDict):
    """The coverage of one axis of a table."""

    status: AxisStatus
    decided_share: float | None
    reason: str | None


class RunSummary(TypedDict):
    """The outcome of a run."""

    run_id: str | None
    lake: str
    status: RunStatus
    as_of: str
    started_at: str
    finished_at: str | None
    tables: dict[str, TableStatus]
    sources: list[SourceSummary]
    coverage: dict[str, dict[str, AxisSummary]]
    findings: dict[str, int]
    severities: dict[str, int]
    states: dict[str, int]
    coverage_lost: int
    error: str | None
    retry: bool | None


class AuditedAnswer(TypedDict):
    """The answer whether a table may be used, right after an audit."""

    answer: Answer
    reasons: list[str]
    run_id: str | None
    through: str | None
    open: dict[str, int]


class AuditSummary(RunSummary):
    """The output of `lakeaudit audit --format json`, and the status file of an audit."""

    exit_code: int | None
    answers: dict[str, AuditedAnswer]
    unaccepted: dict[str, int]


class TableAnswer(AuditedAnswer):
    """The answer whether a table may be used."""

    table: str
    as_of: str | None
    judged_share: float | None
    pending: dict[str, int]
    ids: dict[str, list[str]]


class CheckSummary(TypedDict):
    """The output of `lakeaudit check --format json`."""

    format: int
    lake: str
    checked_at: str
    answer: Answer
    min_severity: str
    judged: float
    max_age_seconds: int
    after: str | None
    tables: list[TableAnswer]


class RepairFields(TypedDict, total=False):
    """Further properties in the status file of `reconcile`."""

    plan: str
    plan_id: str
    digest: str
    steps: int
    for_person: int
    actions: dict[str, int]
    counts: dict[str, int]


class CommandOutcome(RepairFields):
    """The status file of a command other than `audit` that ended by itself."""

    command: str
    exit_code: int
    verdict: str
    retry: bool


class Failure(TypedDict):
    """The reason why a command failed."""

    exit_code: int
    error: str
    retry: bool


class CommandFailure(Failure):
    """The status file of a command that failed, or of an audit that could not begin."""

    command: str
    status: Literal["failed"]


class FindingTotal(TypedDict):
    """The number of findings of one kind and severity, and of their files as far as they are known."""

    severity: str
    kind: str
    findings: int
    files: int


class ScannedKind(TypedDict):
    """The findings of one kind."""

    kind: str
    severity: str
    findings: int
    files: int | None
    rows: int | None
    bytes: int | None


class ScannedFinding(TypedDict):
    """One of the worst findings."""

    kind: str
    severity: str
    table_name: str | None
    bucket: str | None
    key: str | None
    rows_at_stake: int | None
    bytes_at_stake: int | None
    recoverable: str | None


class ScannedSmallFiles(TypedDict):
    """The small files of one table: data files below 16 MiB that its newest state lists."""

    table_name: str
    files: int
    bytes: int


class ScanSummary(TypedDict):
    """The output of `lakeaudit scan --format json`."""

    place: str
    tables: int
    verdict: str
    kinds: list[ScannedKind]
    findings: list[ScannedFinding]
    all_findings: int
    unlisted_bytes: int
    noncurrent_versions: int
    noncurrent_bytes: int
    unlisted_dollars_a_month: float | None
    small_files: list[ScannedSmallFiles]
    judged: dict[str, AxisStatus]
    left_out: list[str]
    requests: int | None


class Empty(TypedDict):
    """No facets."""


class LineageJob(TypedDict):
    """The job of an event: audits of one lake, or of one of its tables."""

    namespace: str
    name: str
    facets: Empty


class Facet(TypedDict):
    """The two properties of every facet."""

    _producer: str
    _schemaURL: str


class Assertion(TypedDict):
    """A statement about one axis of a table, and whether it holds."""

    assertion: str
    success: bool
    expected: str
    actual: str


class AssertionsFacet(Facet):
    """The statements about a table."""

    assertions: list[Assertion]


class MetricsFacet(Facet):
    """The size of a table, if the audit counted its files."""

    columnMetrics: Empty
    fileCount: NotRequired[int]
    bytes: NotRequired[int]


class InputFacets(TypedDict):
    """What the audit found out about a table."""

    dataQualityAssertions: AssertionsFacet
    dataQualityMetrics: MetricsFacet


class LineageTable(TypedDict):
    """An audited table."""

    namespace: str
    name: str
    facets: Empty
    inputFacets: InputFacets


class AuditFacet(Facet):
    """Totals of an audit."""

    auditId: str
    status: str
    startedAt: str
    tables: int
    tablesLeftOut: int
    findings: dict[str, int]
    page: str | None


class ParentRun(TypedDict):
    """The run of an audit, as the parent of the runs of its tables."""

    runId: str


class ParentJob(TypedDict):
    """The job of an audit, as the parent of the jobs of its tables."""

    namespace: str
    name: str


class ParentFacet(Facet):
    """The audit to which the run of a table belongs."""

    run: ParentRun
    job: ParentJob


class RunFacets(TypedDict):
    """What an event states about its run."""

    lakeaudit: AuditFacet
    parent: NotRequired[ParentFacet]


class LineageRun(TypedDict):
    """The run of an event."""

    runId: str
    facets: RunFacets


class LineageEvent(TypedDict):
    """The body of a request to `openlineage_url_env`: a published audit, or one of its tables."""

    eventType: Literal["START", "COMPLETE"]
    eventTime: str
    producer: str
    schemaURL: str
    run: LineageRun
    job: LineageJob
    inputs: list[LineageTable]
    outputs: list[Empty]


class AlertTexts(TypedDict):
    """The texts of an alert."""

    summary: str
    description: str


class PostedAlert(TypedDict):
    """An alert as Alertmanager's API v2 receives it."""

    labels: dict[str, str]
    annotations: AlertTexts
    startsAt: str
    endsAt: str
    generatorURL: NotRequired[str]


class WebhookCommands(TypedDict):
    """Commands of lakeaudit or the AWS CLI about a change."""

    show: str | None
    repair: str | None
    recover: str | None


class WebhookChange(TypedDict):
    """Discrepancies of one table, kind and severity that changed in the same way."""

    transition: str
    kind: str
    severity: str
    discrepancies: int
    discrepancy_ids: list[str]
    resolution: str | None
    files: int | None
    rows: int | None
    bytes: int | None
    recoverable: dict[str, int]
    recoverable_until: str | None
    since: str | None
    since_newest: str | None
    cause: str | None
    causes: dict[str, int]
    needs_allow: int
    explanation: str | None
    partitions: list[str]
    more_partitions: int
    question: str | None
    advice: str | None
    commands: WebhookCommands


class WebhookContent(TypedDict):
    """What a notice reports about one table or about the audit itself."""

    kind: str
    run_id: str
    severity: str
    table: str | None
    owner: str | None
    page: str | None
    resolved: bool
    headline: str
    reason: str | None
    changes: list[WebhookChange]
    more_changes: int


class WebhookNotice(WebhookContent):
    """A notice as it is sent."""

    id: str
    late: bool


class WebhookMessage(TypedDict):
    """The body of a request to a webhook."""

    version: int
    id: str
    lake: str
    sent_at: str
    severity: str
    title: str
    open: dict[str, int]
    commands_place: str | None
    notices: list[WebhookNotice]
    more_notices: int


class GuardedFile(TypedDict):
    """The answer about one file of a delete list."""

    line: int
    lines: int
    text: str | None
    uri: str | None
    status: GuardStatus
    reason: str
    table: str | None
    table_version: int | None
    rows: int | None
    until: str | None
    size: int | None


class SafeList(TypedDict):
    """A file with the keys of a delete list that may be deleted."""

    file: str
    sha256: str
    keys: int
    lake: str
    answered_at: str
    valid_until: str


class GuardSummary(TypedDict):
    """The answers about a delete list."""

    format: int
    lake: str
    delete_list: str
    form: str
    answered_at: str
    valid_until: str
    exit_code: int
    complete: bool
    reason: str | None
    counts: dict[str, int]
    doubts: list[str]
    files: list[GuardedFile]
    safe_list: NotRequired[SafeList]


class VerifiedTable(TypedDict):
    """The answer whether the commits of a table are verified."""

    table: str
    answer: VerifiedAnswer
    reason: str
    verified_through: str | None
    as_of: str | None
    run_id: str | None
    open_discrepancies: int | None
    blocked_by: list[str]


class VerifiedSummary(TypedDict):
    """The answers about the commits of tables."""

    format: int
    lake: str
    through: str
    answer: VerifiedAnswer
    tables: list[VerifiedTable]


class CertificateEvidence(_Source):
    """A source that the audit of a certificate read."""

    digests: list[str]
    no_digest: str | None


class CertificateCoverage(TypedDict):
    """The tallies of one axis of a table."""

    table: str
    axis: str
    status: AxisStatus
    reason: str
    files: int
    bytes: int
    consistent: int
    findings: int
    ignored: int
    out_of_window: int
    undecided: int
    uncovered: int
    moved_on: int
    table_version: int | None
    storage_cut_from: str | None
    storage_cut_to: str | None


class CertificateState(TypedDict):
    """A state of a table that the audit read."""

    kind: str
    number: int | None
    state: str | None
    table_id: str | None
    etag: str | None
    written_at: str | None


class CertificateTable(TypedDict):
    """A table of a certificate, with its states and the time up to which its commits are verified."""

    table: str
    location: str
    states: list[CertificateState]
    verified_through: str | None


class Certificate(TypedDict):
    """A certificate: the content of an unsigned one, and the predicate of a signed one."""

    format: int
    lake: str
    run_id: str
    as_of: str
    started_at: str | None
    finished_at: str | None
    made_at: str
    version: str
    rules: str
    lake_file: str
    has_live_checks: bool
    evidence: list[CertificateEvidence]
    evidence_digest: str
    through: str | None
    tables: int
    files_agreed: int
    files: int
    files_too_young: int
    bytes: int
    coverage: list[CertificateCoverage]
    table_states: list[CertificateTable]
    open_discrepancies: dict[str, int]
    exclusions: dict[str, Any]
    digest: str


class CertificateSubject(TypedDict):
    """A table that a Statement is about."""

    name: str
    digest: dict[str, str]


class CertificateStatement(TypedDict):
    """The payload of a signed certificate: an in-toto Statement."""

    _type: str
    subject: list[CertificateSubject]
    predicateType: str
    predicate: Certificate
