"""Holds manifests of one kind as they were read, with the tables whose files are not all known, and the reasons."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from lakeaudit.config import Lake, Table
from lakeaudit.evidence.protocol import Changes, Claims, Context, EvidenceGap, not_all_listed
from lakeaudit.evidence.references import Key
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.findings import lineage
from lakeaudit.keys import Location
from lakeaudit.matching import verdicts
from lakeaudit.runtime import duck


@dataclass(frozen=True)
class ManifestRead:
    """One kind of manifest, and the reasons why some of its tables may list more files than were read.

    Attributes:
        claims: what the reader returned.
        tables: the tables with such a manifest, by name.
        broken: tables that could not be read completely, with the reason.
        doubts: by table why another state may be the current one, or why a state is lost.
    """

    claims: Claims
    tables: Mapping[str, Table]
    broken: Mapping[str, str]
    doubts: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self.claims.info.kind

    @cached_property
    def protected(self) -> list[tuple[Location, str, str]]:
        """Return places, tables and reasons for which no file may be removed."""
        kept = {
            name: self.doubts.get(name) or self.claims.states[name].leftovers_kept for name in self.tables
        }
        return [(self.tables[name].location, name, why) for name, why in kept.items() if why]

    def kept_at(self, key: Key) -> dict[str, str]:
        """Return the tables around a file from which no file may be removed, with the reasons."""
        return {name: why for place, name, why in self.protected if place.holds(*key)}

    def changes(self, context: Context) -> Changes:
        """Return the changes of the tables since they were read."""
        return MANIFESTS[self.kind].changes(self.claims, [*self.tables.values()], context)


def manifest_read(
    claims: Claims, holes: Sequence[EvidenceGap], lake: Lake, notes: Sequence[Mapping[str, Any]]
) -> ManifestRead:
    """Return manifests of one kind after their rows were read; `notes` are the NOTE rows of their parts."""
    tables = {table.name: table for table in lake.tables if table.name in claims.states}
    lost = [hole for note in notes if claims.gap_of and (hole := claims.gap_of(note))]
    of_source = [hole for hole in (*holes, *claims.holes, *lost) if hole.source == claims.info.id]
    broken = {name: hole.reason for hole in of_source for name in ([hole.table] if hole.table else tables)}
    for name, state in claims.states.items():
        kind = claims.info.kind
        if state.refused or (not state.complete and tables[name].is_decided_by(kind)):
            broken[name] = state.refused or broken.get(name, not_all_listed(kind))
    return ManifestRead(claims, tables, broken, _doubts(claims, [*tables.values()]))


def _doubts(claims: Claims, tables: Sequence[Table]) -> dict[str, str]:
    """Return by table the witness that proves a lost state or raises a doubt about the state that was read."""
    if not claims.witnesses:
        return {}
    words = verdicts.finding_policy(tables, (), date.min)  # an ignored loss is still a loss
    with duck.task_connection() as con:
        judged = lineage.judge_witnesses(
            con, claims.witnesses, tables, [table.name for table in tables], words
        )
    return {one.witness.table: one.witness.words for one in judged if one.is_loss or one.is_doubt}


def tables_by_kind(lake: Lake) -> Iterator[tuple[str, list[Table]]]:
    """Yield each kind of manifest that tables have, with these tables."""
    for kind in MANIFESTS:
        if tables := [t for t in lake.tables if any(each.kind == kind for each in t.manifests)]:
            yield kind, tables


def unread_kinds(
    lake: Lake, kinds: Collection[str], claims: Sequence[Claims], gaps: Sequence[EvidenceGap]
) -> Iterator[tuple[str, list[Table], str]]:
    """Yield those of the kinds that could not be read at all, with the tables that have them, and the reason."""
    read = {each.info.kind for each in claims}
    reasons = {gap.source: gap.reason for gap in gaps}
    for kind, tables in tables_by_kind(lake):
        if kind in kinds and kind not in read:
            yield kind, tables, reasons.get(f"manifest:{kind}", "its manifests cannot be read")
