"""Hold the manifests of a lake's tables before their rows are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakeaudit.collect.manifest_reads import ManifestRead, manifest_read, tables_by_kind, unread_kinds
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Claims, Context, EvidenceGap
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.guard.doubts import Doubt


@dataclass(frozen=True)
class Manifests:
    """The manifests of a lake's tables in their newest states, by kind."""

    lake: Lake
    claims: tuple[Claims, ...]
    gaps: tuple[EvidenceGap, ...]
    kinds: frozenset[str]

    @classmethod
    def of(cls, lake: Lake, context: Context) -> "Manifests":
        """Read which states the tables of a lake have."""
        kinds = {kind for kind, _ in tables_by_kind(lake) if not MANIFESTS[kind].by_storage}
        claims, gaps = read_manifests(lake, context, kinds)
        return cls(lake, tuple(claims), tuple(gaps), frozenset(kinds))

    def decided_by(self, claims: Claims) -> Mapping[str, timedelta]:
        """Return the tables whose files these claims decide, with the retention; records of single writes do not."""
        by_name = {table.name: table for table in self.lake.tables}
        return {
            name: state.retention or by_name[name].settings.retention
            for name, state in claims.states.items()
            if any(
                each.kind == claims.info.kind
                for each in by_name[name].state_manifests or by_name[name].event_manifests
            )
        }

    def reads(self, notes: Sequence[Mapping[str, object]]) -> list[ManifestRead]:
        """Return the manifests after their rows were read."""
        return [
            manifest_read(
                each, self.gaps, self.lake, [note for note in notes if note["source"] == each.info.id]
            )
            for each in self.claims
        ]

    def unread(self) -> Iterator[Doubt]:
        """Yield the tables of kinds that could not be read at all, and of kinds that `guard` does not read."""
        for _, tables, why in unread_kinds(self.lake, self.kinds, self.claims, self.gaps):
            yield from (Doubt(table.name, why) for table in tables)
        for kind, tables in tables_by_kind(self.lake):
            for table in tables:
                if MANIFESTS[kind].by_storage and table.is_decided_by(kind):
                    unread = f"its files are only known by {MANIFESTS[kind].title}, which guard does not read"
                    yield Doubt(table.name, unread, table.location)
