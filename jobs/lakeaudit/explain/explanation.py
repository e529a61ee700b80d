"""Collect the answers of each source about one file, from the last audit's results and a few point reads; no JVM.

Storage and live metadata stores are queried now, and with `deep` also manifests. Inventories and exports are not read
again: their statements are in the findings, and without findings in the coverage of the table.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.config import Lake, Table
from lakeaudit.errors import BadInput
from lakeaudit.evidence.catalog.find_tables import find_tables
from lakeaudit.evidence.discovery import root_around, tables_at, with_tables
from lakeaudit.explain.source_answers import (
    STORAGE_VERSIONS,
    STORED,
    SourceAnswer,
    ask_manifests,
    ask_metastores,
    ask_storage,
    unread_manifests,
)
from lakeaudit.explain.subject import find_subject
from lakeaudit.keys import Aliases, Location, identify, owner_of, true_place, uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.leftover_groups import group_samples
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients


@dataclass(frozen=True)
class Explanation:
    """The answers, findings and ledger rows about one file.

    `table` owns the key (None: no table); `run` is the row of `runs` of the findings (None: no audit has finished);
    `findings` are about the file itself, `groups` about a group, prefix or table that contains it; `discrepancies` are
    its rows of the ledger and `history` their transitions, oldest first.
    """

    uri: str
    bucket: str
    key: str
    table: str | None
    sources: list[SourceAnswer]
    run: Row | None
    findings: list[Row]
    groups: list[Row]
    coverage: list[Row]
    discrepancies: list[Row]
    history: list[Row]
    files: list[str] = field(default_factory=list)
    """The first files of a group."""
    totals: list[Row] = field(default_factory=list)
    """For a folder: severity, kind and number of all findings below it, worst first; `findings` contains the worst."""

    @property
    def is_file(self) -> bool:
        """Return whether it is about one file, so that storage was queried."""
        return bool(self.sources)

    @property
    def marker(self) -> str | None:
        """Return the version id of the delete marker that is the newest version now."""
        listed = [each.facts["newest_first"] for each in self.sources if each.source == STORAGE_VERSIONS]
        newest = next((rows[0] for rows in listed if rows), None)
        return newest["version_id"] if newest and newest["delete_marker"] and newest["latest"] else None

    @property
    def is_gone(self) -> bool:
        """Return whether storage answers that it has no such file now."""
        answers = {each.answer for each in self.sources if each.source.partition(" ")[0] == STORED and
                   each.source != STORAGE_VERSIONS}  # fmt: skip
        return bool(answers & {"absent", "deleted"}) and "present" not in answers

    @property
    def listed_by(self) -> str | None:
        """Return a manifest that lists the file now; None: no manifest was read, or none lists it."""
        manifests = (each for each in self.sources if each.source.startswith("manifest "))
        return next((each.source for each in manifests if each.answer == "present"), None)

    @property
    def is_restored(self) -> bool:
        """Return whether storage has a file again that the last audit reported as lost, readable and of its size."""
        lost = [row for row in self.findings if row["kind"] in _LOST and row["key"] == self.key]
        answers = [
            each for each in self.sources if each.source == STORED or each.source.startswith(f"{STORED} s3")
        ]
        stored = next((each.facts for each in answers if each.answer == "present"), None)
        torn = any(row["kind"] == "missing_metadata" and row["storage_size"] is not None for row in lost)
        if stored is None or stored.get("archived") or not lost or torn:
            return False
        return all(row["manifest_size"] in (None, stored.get("size")) for row in lost)

    @property
    def unjudged(self) -> list[Row]:
        """Return open discrepancies that the last audit did not judge, and so has no finding about."""
        if self.findings or self.groups:
            return []
        return [row for row in self.discrepancies if row["state"] == "open"]

    @property
    def unknown(self) -> bool:
        """Return whether no source has it, and no table or finding names it."""
        absent = all(each.answer in ("absent", "not_asked") for each in self.sources)
        return absent and self.table is None and not (self.findings or self.groups or self.discrepancies)


_LOST = ("dropped", "dropped_history", "missing_metadata", "size_mismatch")
"""Kinds that are resolved once there is an object of the recorded size."""


def explain_named(lake: Lake, results: Results, clients: Clients, text: str, *, deep: bool) -> Explanation:
    """Explain a file, a folder or a discrepancy by a text, see `find_subject`. Raises as `explain_file`."""
    lake, clients = as_stored(lake, clients)
    subject = find_subject(lake, results, text, clients.names)
    if subject.group is not None:
        return _of_group(results, subject.group)
    if not subject.key or subject.key.endswith("/"):
        return _of_folder(lake, results, clients, *true_place(clients.names, subject.bucket, subject.key))
    return explain_file(lake, results, clients, uri_of(subject.bucket, subject.key), deep=deep)


WORST_BELOW = 20
"""Findings of a folder that are printed; the others are only counted."""


def _of_folder(lake: Lake, results: Results, clients: Clients, bucket: str, prefix: str) -> Explanation:
    """Explain a folder: findings of the last run below it, groups that overlap it, and its open discrepancies."""
    lake = _with_table_around(lake, clients, bucket, prefix)
    table = owner_of({each.location: each.name for each in lake.tables}, bucket, prefix)
    inside = [each.name for each in lake.tables if f"{each.location.key}/".startswith(prefix)]
    names = [table] if table else [name for name in inside if _is_in(lake, name, bucket)]
    run = results.last_published()
    return Explanation(
        uri=uri_of(bucket, prefix),
        bucket=bucket,
        key=prefix,
        table=table or (names[0] if len(names) == 1 else None),
        sources=[],
        run=run,
        findings=results.worst(run["run_id"], WORST_BELOW, (bucket, prefix)) if run else [],
        groups=_groups_below(results, run["run_id"], names, lake, bucket, prefix) if run else [],
        coverage=results.coverage(run["run_id"], names) if run and names else [],
        discrepancies=results.open_below(bucket, prefix)[:WORST_BELOW],
        history=[],
        totals=_by_kind(results.totals(run["run_id"], (bucket, prefix))) if run else [],
    )


def _is_in(lake: Lake, name: str, bucket: str) -> bool:
    return any(table.name == name and table.location.bucket == bucket for table in lake.tables)


def _by_kind(totals: Sequence[Row]) -> list[Row]:
    """Return the number of findings and of their known files by kind and severity, worst first."""
    number, files = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in totals:
        number[row["severity"], row["kind"]] += row["findings"]
        files[row["severity"], row["kind"]] += row["files"] or 0
    ordered = sorted(number.items(), key=lambda each: (rank(each[0][0]), -each[1]))
    return [{"severity": of[0], "kind": of[1], "findings": many, "files": files[of]} for of, many in ordered]


def _groups_below(
    results: Results, run_id: str, names: Sequence[str], lake: Lake, bucket: str, prefix: str
) -> list[Row]:
    """Return findings about a partition, a table or many unused files that overlap the folder."""
    places = {table.name: table.location for table in lake.tables}
    unused = results.groups_of_files_below(run_id, bucket, prefix)
    rows = [row for name in names for row in results.group_findings(run_id, name)]
    return [row for row in rows if row["discrepancy_id"] in unused or _meets(row, places, bucket, prefix)]


def _meets(row: Row, places: Mapping[str, Location], bucket: str, prefix: str) -> bool:
    """Return whether a finding about several files overlaps the folder."""
    if row["axis"] == "leftover":
        return False  # `leftover_files` names each file
    if row["subject_type"] != "partition" or row["table_name"] not in places:
        return row["subject_type"] == "table" or _holds(row, bucket, prefix)
    partition = f"{places[row['table_name']].prefix}{row['partition_path']}/"
    return partition.startswith(prefix) or prefix.startswith(partition)


def _of_group(results: Results, row: Row) -> Explanation:
    """Explain a discrepancy about several files: its finding of the last run, and its first files."""
    run, name = results.last_published(), row["table_name"]
    groups = results.group_findings(run["run_id"], name) if run else []
    files = group_samples(results, run["run_id"]) if run else {}
    return Explanation(
        uri=row["subject"],
        bucket=row["bucket"] or "",
        key=row["key"] or "",
        table=name,
        sources=[],
        run=run,
        findings=[],
        groups=[each for each in groups if each["discrepancy_id"] == row["discrepancy_id"]],
        coverage=results.coverage(run["run_id"], (name,)) if run and name else [],
        discrepancies=[row],
        history=results.history([row["discrepancy_id"]]),
        files=list(files.get(row["discrepancy_id"], ())),
    )


def explain_file(
    lake: Lake, results: Results, clients: Clients, uri: str, *, deep: bool = False
) -> Explanation:
    """Query every source that supports point reads about one key, and collect its rows of the last audit.

    With `deep` the manifests of its table and of related tables are read too.

    Raises:
        BadInput: the URI is not that of a file.
        CannotAudit: the results cannot be read.
    """
    bucket, key = _identity(uri, clients.names)
    lake = _with_table_around(lake, clients, bucket, key)
    table = owner_of({each.location: each.name for each in lake.tables}, bucket, key)
    run = results.last_published()
    findings = results.findings_of_file(run["run_id"], bucket, key) if run else []
    discrepancies = results.discrepancies_of_file(bucket, key)
    ids = [row["discrepancy_id"] for row in discrepancies]
    related = _related_tables(lake, table, [*findings, *discrepancies])
    return Explanation(
        uri=uri_of(bucket, key),
        bucket=bucket,
        key=key,
        table=table,
        sources=[
            *(ask_manifests(related, clients, bucket, key) if deep else unread_manifests(related)),
            *ask_storage(clients, bucket, key),
            *ask_metastores(lake, clients, bucket, key),
        ],
        run=run,
        findings=sorted(findings, key=lambda row: rank(row["severity"])),
        groups=_groups(results, run["run_id"], table, bucket, key) if run else [],
        coverage=results.coverage(run["run_id"], (table,)) if run and table else [],
        discrepancies=discrepancies,
        history=results.history(ids) if ids else [],
    )


def _identity(uri: str, aliases: Aliases) -> tuple[str, str]:
    named = identify(uri)
    place = None if named is None else true_place(aliases, *named)
    if place is None or not place[1]:
        raise BadInput(uri, "is not the name of a file", "write s3://bucket/key, or an absolute local path")
    return place


def _with_table_around(lake: Lake, clients: Clients, bucket: str, key: str) -> Lake:
    """Return the lake with the table that contains the key, if audits discover that table."""
    if lake.catalog_discoveries:
        lake, _ = as_stored(with_tables(lake, find_tables(lake, clients)), clients)
    discovered = tables_at(lake, root_around(lake, clients, bucket, key) if lake.discoveries else {})[0]
    return lake.model_copy(update={"tables": (*lake.tables, *discovered)})


def _related_tables(lake: Lake, owner: str | None, rows: Sequence[Row]) -> list[Table]:
    """Return tables whose manifests may name the file: its owner, tables that share files, those of its findings."""
    known = {table.name: table for table in lake.tables}
    shares = known[owner].shares if owner else ()
    names = dict.fromkeys([owner, *shares, *(row["table_name"] for row in rows)])
    return [known[name] for name in names if name in known]


def _groups(results: Results, run_id: str, table: str | None, bucket: str, key: str) -> list[Row]:
    """Return findings about a group of unused files, a prefix or a whole table that contains the key."""
    ids = {row["discrepancy_id"] for row in results.leftovers_of_file(run_id, bucket, key)}
    owners = {row["table_name"] for row in results.leftovers_of_file(run_id, bucket, key)} | {table}
    rows = [row for name in sorted(filter(None, owners)) for row in results.group_findings(run_id, name)]
    return [row for row in rows if row["discrepancy_id"] in ids or _holds(row, bucket, key)]


def _holds(row: Row, bucket: str, key: str) -> bool:
    if row["axis"] == "leftover":
        return False  # `leftover_files` names each file
    if row["subject_type"] == "prefix":
        return bool(row["bucket"] == bucket and key.startswith(row["key"] or "\0"))
    if row["subject_type"] == "partition":
        return f"/{row['partition_path']}/" in f"/{unquote(key)}"
    return bool(row["subject_type"] == "table")
