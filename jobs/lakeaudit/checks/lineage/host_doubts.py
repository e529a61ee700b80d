"""Find doubts about hosts: tables with files of another table, the guest, in their folders.

Files that only a guest lists look unused to the host. If this audit cannot read a guest completely, the unused files
of its hosts are in doubt. The same holds for a guest that the lake no longer has, unless it is whole at another
location, its owner dropped it, or the lake file ignores the loss; it is checked only if a host has unused files.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from lakeaudit.checks.lineage.state_counts import with_unused_files
from lakeaudit.collect.evidence import Evidence
from lakeaudit.config import glob_to_regex
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import holds_any_file
from lakeaudit.evidence.lineage import LastState
from lakeaudit.evidence.registry import roots
from lakeaudit.keys import Location, identify
from lakeaudit.kinds import TABLE_MISSING
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation

Hosts = Mapping[str, frozenset[str]]
"""By table the locations of its hosts: tables in whose folders its newest state lists files."""
Roots = Mapping[Location, Collection[str]]
"""Folders that have a table's log now, with the formats of the log."""


def hosts_of(evidence: Evidence, cloned: Relation) -> Hosts:
    """Return the hosts that this run observed, from CLONED rows."""
    places = {table.name: table.location.uri for table in evidence.lake.tables}
    hosts: dict[str, frozenset[str]] = {}
    for row in duck.rows_of(
        duck.made_of(evidence.con, "SELECT DISTINCT table_name, source FROM input", cloned)
    ):
        hosts[row["table_name"]] = hosts.get(row["table_name"], frozenset()) | {places[row["source"]]}
    return hosts


def catalogued_tables(evidence: Evidence) -> frozenset[str]:
    """Return the tables that a catalog names."""
    named = {each.table.name for each in evidence.pointed.named} if evidence.pointed else set[str]()
    return frozenset({*named, *(table.name for table in evidence.lake.tables if table.catalogued)})


def with_doubted_hosts(evidence: Evidence) -> Evidence:
    """Add doubts about the unused files of hosts whose guests this audit could not read completely."""
    facts = {fact.table.name: fact for fact in evidence.facts}
    reasons: dict[str, str] = {}
    for (_, name), last in evidence.context.last_states.items():
        if last.hosts and not last.departed and name in facts and (why := _unread(facts[name])):
            reason = f"files of {name} are here, and not all files of {name} are known: {why}"
            reasons |= dict.fromkeys(_hosts(evidence, name, last), reason)
    known = {fact.table.name: fact.doubt for fact in evidence.facts}
    return evidence.with_doubts({host: why for host, why in reasons.items() if not known.get(host, why)})


def hosts_of_absent(evidence: Evidence, unused_files: Relation, logs: Roots) -> dict[str, str]:
    """Return hosts of tables that the lake no longer has, with the reason why their unused files may be needed.

    Args:
        evidence: the evidence of the run.
        unused_files: rows of unused files.
        logs: roots of tables in tables' folders, as storage has them; other checks read these logs.
    """
    reasons: dict[str, str] = {}
    absent = dict(_absent(evidence))
    unused = with_unused_files(evidence, unused_files) if absent else frozenset[str]()
    for (kind, name), last in absent.items() if unused else ():
        hosts = {
            *unused.intersection(_hosts(evidence, name, last)),
            *_around(evidence, kind, last, unused_files, logs),
        }
        if hosts and (why := _not_whole(evidence, kind, name, last)):
            reasons |= dict.fromkeys(hosts, why)
    return reasons


def _absent(evidence: Evidence) -> Iterator[tuple[tuple[str, str], LastState]]:
    """Yield tables that earlier audits have read and that the lake does not have at that location or in that format."""
    names = {table.name for table in evidence.lake.tables}
    read = {(each.kind, table.location.uri) for table in evidence.lake.tables for each in table.manifests}
    for (kind, name), last in evidence.context.last_states.items():
        is_twin = kind in roots() and name not in names and (kind, last.location) not in read
        if last.departed or is_twin:
            yield (kind, name), last


def _hosts(evidence: Evidence, name: str, last: LastState) -> list[str]:
    return [
        each.name for each in evidence.lake.tables if each.location.uri in last.hosts and each.name != name
    ]


def _around(
    evidence: Evidence, kind: str, last: LastState, unused_files: Relation, logs: Roots
) -> Iterator[str]:
    """Yield tables with unused files in the absent table's own folder, if its log no longer exists."""
    named = identify(last.location)
    if named is None:
        return
    place = Location(named[0], named[1].rstrip("/"))
    if kind in logs.get(place, ()) or not any(each.location.contains(place) for each in evidence.lake.tables):
        return
    below = f"bucket = {duck.literal(place.bucket)} AND starts_with(key, {duck.literal(place.prefix)})"
    sql = f"SELECT DISTINCT judged_table FROM input WHERE {below}"
    yield from (row["judged_table"] for row in duck.rows_of(duck.made_of(evidence.con, sql, unused_files)))


def _unread(fact: TableFacts) -> str:
    """Return why not all files that a table lists are known; empty if they are."""
    return fact.refusal or next((gap.reason for gap in fact.holes), fact.doubt)


def _not_whole(evidence: Evidence, kind: str, name: str, last: LastState) -> str:
    """Return why files of an absent table may be needed; empty if it is whole elsewhere, was dropped, or is ignored."""
    facts = {fact.table.name: fact for fact in evidence.facts}
    same = [facts[each] for each in _same_id(evidence, kind, last) if each in facts]
    unread = [_unread(fact) for fact in same or ([facts[name]] if name in facts else [])]
    if unread:
        return (
            f"files of {name} are here, and not all files of {name} are known: {unread[0]}"
            if all(unread)
            else ""
        )
    if _may_be_missing(evidence, name) or _was_dropped(evidence, last):
        return ""
    entry = f"{{name: {name}, location: '{last.location}', manifests: [{{kind: {kind}}}]}}"
    ignore = f"{{tables: ['{name}'], kinds: [{TABLE_MISSING}], reason: ...}}"
    return (
        f"the audit of {last.as_of:%Y-%m-%dT%H:%M:%SZ} read {name}, which has files here, and the lake no longer has "
        f"this table: name it below `tables` ({entry}), or, if it was dropped, below `ignore` ({ignore})"
    )


def _same_id(evidence: Evidence, kind: str, last: LastState) -> Iterator[str]:
    """Yield the tables that have the id of the absent one."""
    for read in evidence.observed.sources.claims:
        for name, each in read.states.items() if read.info.kind == kind and last.state.table_id else ():
            if each.state is not None and each.state.table_id == last.state.table_id:
                yield name


def _may_be_missing(evidence: Evidence, name: str) -> bool:
    """Return whether the lake file ignores the loss of this table."""
    today = evidence.stamp.as_of.date()
    return any(
        re.search(glob_to_regex(pattern), name)
        for entry in evidence.lake.ignores
        if entry.holds_on(today) and entry.paths is None and TABLE_MISSING in (entry.kinds or ())
        for pattern in entry.tables or ()
    )


def _was_dropped(evidence: Evidence, last: LastState) -> bool:
    """Return whether the owner dropped the table: a catalog named it then, none does now, and its folder is empty."""
    catalogs, named = evidence.lake.catalog_discoveries or evidence.catalog_sources, identify(last.location)
    if not (last.catalogued and catalogs and evidence.all_found) or named is None:
        return False
    if evidence.pointed is not None and evidence.pointed.gap:
        return False
    place = Location(named[0], named[1].rstrip("/"))
    if any(each.location == place for read in evidence.observed.catalogs for each in read.tables):
        return False
    try:
        return not holds_any_file(evidence.context.clients, place)
    except SourceError:
        return False
