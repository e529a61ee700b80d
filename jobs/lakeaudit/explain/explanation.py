"""What each source says of one file: from the last audit's results and a few point reads, without a JVM.

Storage and a live S3Guard table are asked now, and manifests where that is wanted (`deep`). Inventories and exports
are not read again: what they said is taken from the findings, and where there is none from the coverage of the table.
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
    Said,
    ask_manifests,
    ask_metastores,
    ask_storage,
    unread_manifests,
)
from lakeaudit.explain.subject import named
from lakeaudit.keys import Aliases, Location, identify, owner_of, true_place, uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.leftover_groups import group_samples
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.aws import Clients


@dataclass(frozen=True)
class Explanation:
    """Everything known of one file.

    `table` owns the key (null: none does); `run` is the row of `runs` the findings are of (null: no audit has
    finished); `findings` are about the file itself, `groups` about a group, prefix or table that holds it;
    `discrepancies` are its rows of the ledger and `history` their transitions, oldest first.
    """

    uri: str
    bucket: str
    key: str
    table: str | None
    sources: list[Said]
    run: Row | None
    findings: list[Row]
    groups: list[Row]
    coverage: list[Row]
    discrepancies: list[Row]
    history: list[Row]
    files: list[str] = field(default_factory=list)
    """The first files behind a group."""
    totals: list[Row] = field(default_factory=list)
    """For a folder: severity, kind and number of all findings below it, worst first; `findings` has the worst."""

    @property
    def is_file(self) -> bool:
        """Whether it is about one file, so that storage was asked."""
        return bool(self.sources)

    @property
    def marker(self) -> str | None:
        """The version id of the delete marker that is the newest version now."""
        listed = [said.facts["newest_first"] for said in self.sources if said.source == STORAGE_VERSIONS]
        newest = next((rows[0] for rows in listed if rows), None)
        return newest["version_id"] if newest and newest["delete_marker"] and newest["latest"] else None

    @property
    def is_gone(self) -> bool:
        """Storage answers that it has no such file now, under the name that was asked for."""
        answers = {said.answer for said in self.sources if said.source.partition(" ")[0] == STORED and
                   said.source != STORAGE_VERSIONS}  # fmt: skip
        return bool(answers & {"absent", "deleted"}) and "present" not in answers

    @property
    def listed_by(self) -> str | None:
        """A manifest that lists it now; None: none was asked, or none does."""
        manifests = (said for said in self.sources if said.source.startswith("manifest "))
        return next((said.source for said in manifests if said.answer == "present"), None)

    @property
    def is_back(self) -> bool:
        """Storage holds a file again that the last audit missed, of the recorded size if any; no archived one."""
        lost = [row for row in self.findings if row["kind"] in _LOST and row["key"] == self.key]
        held = [
            said for said in self.sources if said.source == STORED or said.source.startswith(f"{STORED} s3")
        ]
        stored = next((said.facts for said in held if said.answer == "present"), None)
        torn = any(row["kind"] == "missing_metadata" and row["storage_size"] is not None for row in lost)
        if stored is None or stored.get("archived") or not lost or torn:
            return False
        return all(row["manifest_size"] in (None, stored.get("size")) for row in lost)

    @property
    def held(self) -> list[Row]:
        """What the ledger holds open though the last audit found nothing: it did not judge it."""
        found = bool(self.findings or self.groups)
        return [] if found else [row for row in self.discrepancies if row["state"] == "open"]

    @property
    def unknown(self) -> bool:
        """Nobody has ever heard of it: every source answered, none has it, and no table or finding names it."""
        nobody = all(said.answer in ("absent", "not_asked") for said in self.sources)
        return nobody and self.table is None and not (self.findings or self.groups or self.discrepancies)


_LOST = ("dropped", "dropped_history", "missing_metadata", "size_mismatch")
"""Kinds that are over once an object of the recorded size is there."""


def explain_named(lake: Lake, results: Results, clients: Clients, text: str, *, deep: bool) -> Explanation:
    """Explain whatever a person may name: see `explain_subject`. Raises as `explain_file`."""
    lake, clients = as_stored(lake, clients)
    meant = named(lake, results, text, clients.names)
    if meant.group is not None:
        return _of_group(results, meant.group)
    if not meant.key or meant.key.endswith("/"):
        return _of_folder(lake, results, clients, *true_place(clients.names, meant.bucket, meant.key))
    return explain_file(lake, results, clients, uri_of(meant.bucket, meant.key), deep=deep)


WORST_BELOW = 20
"""Findings of a folder that are shown; the rest is a number."""


def _of_folder(lake: Lake, results: Results, clients: Clients, bucket: str, prefix: str) -> Explanation:
    """The findings of the last run below a folder, the groups that meet it, and what the ledger holds open there."""
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
    """The number of findings by kind and severity, worst first."""
    number: Counter[tuple[str, str]] = Counter()
    for row in totals:
        number[row["severity"], row["kind"]] += row["findings"]
    ordered = sorted(number.items(), key=lambda each: (rank(each[0][0]), -each[1]))
    return [{"severity": of[0], "kind": of[1], "findings": many} for of, many in ordered]


def _groups_below(
    results: Results, run_id: str, names: Sequence[str], lake: Lake, bucket: str, prefix: str
) -> list[Row]:
    """Findings about a partition, a table or many unused files that lie at least in part below the folder."""
    places = {table.name: table.location for table in lake.tables}
    unused = results.groups_of_files_below(run_id, bucket, prefix)
    rows = [row for name in names for row in results.group_findings(run_id, name)]
    return [row for row in rows if row["discrepancy_id"] in unused or _meets(row, places, bucket, prefix)]


def _meets(row: Row, places: Mapping[str, Location], bucket: str, prefix: str) -> bool:
    """Findings whose key has the prefix are shown by themselves."""
    if row["axis"] == "leftover":
        return False  # `leftover_files` names each file
    if row["subject_type"] != "partition" or row["table_name"] not in places:
        return row["subject_type"] == "table" or _holds(row, bucket, prefix)
    partition = f"{places[row['table_name']].prefix}{row['partition_path']}/"
    return partition.startswith(prefix) or prefix.startswith(partition)


def _of_group(results: Results, held: Row) -> Explanation:
    """A discrepancy about more than one file: its finding of the last run, and the first files behind it."""
    run, name = results.last_published(), held["table_name"]
    found = results.group_findings(run["run_id"], name) if run else []
    files = group_samples(results, run["run_id"]) if run else {}
    return Explanation(
        uri=held["subject"],
        bucket=held["bucket"] or "",
        key=held["key"] or "",
        table=name,
        sources=[],
        run=run,
        findings=[],
        groups=[row for row in found if row["discrepancy_id"] == held["discrepancy_id"]],
        coverage=results.coverage(run["run_id"], (name,)) if run and name else [],
        discrepancies=[held],
        history=results.history([held["discrepancy_id"]]),
        files=list(files.get(held["discrepancy_id"], ())),
    )


def explain_file(
    lake: Lake, results: Results, clients: Clients, uri: str, *, deep: bool = False
) -> Explanation:
    """Ask every source that answers about one key, and gather what the last audit said of it.

    With `deep` the manifests of its table, and of others that have to do with it, are read for it.

    Raises:
        BadInput: the URI names no file.
        CannotAudit: the results cannot be read.
    """
    bucket, key = _identity(uri, clients.names)
    lake = _with_table_around(lake, clients, bucket, key)
    table = owner_of({each.location: each.name for each in lake.tables}, bucket, key)
    run = results.last_published()
    findings = results.findings_of_file(run["run_id"], bucket, key) if run else []
    remembered = results.discrepancies_of_file(bucket, key)
    ids = [row["discrepancy_id"] for row in remembered]
    concerned = _concerned(lake, table, [*findings, *remembered])
    return Explanation(
        uri=uri_of(bucket, key),
        bucket=bucket,
        key=key,
        table=table,
        sources=[
            *(ask_manifests(concerned, clients, bucket, key) if deep else unread_manifests(concerned)),
            *ask_storage(clients, bucket, key),
            *ask_metastores(lake, clients, bucket, key),
        ],
        run=run,
        findings=sorted(findings, key=lambda row: rank(row["severity"])),
        groups=_groups(results, run["run_id"], table, bucket, key) if run else [],
        coverage=results.coverage(run["run_id"], (table,)) if run and table else [],
        discrepancies=remembered,
        history=results.history(ids) if ids else [],
    )


def _identity(uri: str, aliases: Aliases) -> tuple[str, str]:
    named = identify(uri)
    found = None if named is None else true_place(aliases, *named)
    if found is None or not found[1]:
        raise BadInput(uri, "names no file", "write s3://bucket/key, or a local path from the root")
    return found


def _with_table_around(lake: Lake, clients: Clients, bucket: str, key: str) -> Lake:
    """The lake with the table that holds the key, where it is one of those that audits find."""
    if lake.catalog_discoveries:
        lake, _ = as_stored(with_tables(lake, find_tables(lake, clients)), clients)
    found = tables_at(lake, root_around(lake, clients, bucket, key) if lake.discoveries else {})[0]
    return lake.model_copy(update={"tables": (*lake.tables, *found)})


def _concerned(lake: Lake, owner: str | None, rows: Sequence[Row]) -> list[Table]:
    """The tables whose manifests may name the file: its owner, those that share with it, those of its findings."""
    known = {table.name: table for table in lake.tables}
    shares = known[owner].shares if owner else ()
    names = dict.fromkeys([owner, *shares, *(row["table_name"] for row in rows)])
    return [known[name] for name in names if name in known]


def _groups(results: Results, run_id: str, table: str | None, bucket: str, key: str) -> list[Row]:
    """Findings about a group of leftovers, a prefix or a whole table that holds the key."""
    held = {row["discrepancy_id"] for row in results.leftovers_of_file(run_id, bucket, key)}
    owners = {row["table_name"] for row in results.leftovers_of_file(run_id, bucket, key)} | {table}
    rows = [row for name in sorted(filter(None, owners)) for row in results.group_findings(run_id, name)]
    return [row for row in rows if row["discrepancy_id"] in held or _holds(row, bucket, key)]


def _holds(row: Row, bucket: str, key: str) -> bool:
    if row["axis"] == "leftover":
        return False  # `leftover_files` says exactly which files are meant
    if row["subject_type"] == "prefix":
        return bool(row["bucket"] == bucket and key.startswith(row["key"] or "\0"))
    if row["subject_type"] == "partition":
        return f"/{row['partition_path']}/" in f"/{unquote(key)}"
    return bool(row["subject_type"] == "table")
