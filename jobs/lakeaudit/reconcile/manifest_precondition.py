"""Check the condition on manifests under which a step may act. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.evidence.references import HISTORY, LIVE, READ, UNKNOWN, Reference
from lakeaudit.reconcile.steps import Step

MET, NOT_MET = "met", "not met"


@dataclass(frozen=True)
class ManifestPrecondition:
    """The condition on manifests under which a step may act; its value is MET, NOT_MET or UNKNOWN.

    `own_table`: the step's table must list the file in one of `states`; else no table may list it.
    """

    states: frozenset[str]
    own_table: bool

    @property
    def needs_manifests(self) -> bool:
        """Return whether the condition depends on manifests."""
        return bool(self.states) or not self.own_table

    def check(self, step: Step, references: Sequence[Reference]) -> tuple[str, str]:
        """Return (MET, NOT_MET or UNKNOWN, the reason unless it is MET)."""
        if not self.needs_manifests:
            return MET, ""
        return self._listed(step, references) if self.own_table else unlisted(references)

    def may_stay(self, step: Step, references: Sequence[Reference], *, is_ours: bool) -> bool:
        """Return whether the effect of a step may remain.

        If the condition is UNKNOWN, a restored file stays, but a removed one does not. An effect that another writer
        may have caused stays, unless a table may need the removed file.
        """
        if not is_ours:
            return self.own_table or not {each.answer for each in references} & {LIVE, UNKNOWN}
        met, _ = self.check(step, references)
        return met == MET or (met != NOT_MET and self.own_table)

    def _listed(self, step: Step, references: Sequence[Reference]) -> tuple[str, str]:
        own = [each for each in references if each.table == step.table_name and each.decides]
        if any(each.answer in self.states for each in own):
            return MET, ""
        unknown = [each.why for each in own if each.answer == UNKNOWN]
        if unknown:
            return UNKNOWN, "; ".join(dict.fromkeys(unknown))
        return NOT_MET, "the table no longer lists the file"


def unlisted(references: Sequence[Reference]) -> tuple[str, str]:
    """Check that no table lists a file; returns as `ManifestPrecondition.check`."""
    listed = sorted({each.table for each in references if each.answer in (LIVE, HISTORY)})
    if listed:
        return NOT_MET, f"{listed[0]} lists the file"
    read = [each.why for each in references if each.answer == READ]
    if read:
        return NOT_MET, read[0]
    unknown = [f"{each.table}: {each.why}" for each in references if each.answer == UNKNOWN]
    return (UNKNOWN, "; ".join(dict.fromkeys(unknown))) if unknown else (MET, "")


LISTED = ManifestPrecondition(frozenset({LIVE}), own_table=True)
"""The newest state of the step's own table lists the file."""
PROMISED = ManifestPrecondition(frozenset({LIVE, HISTORY}), own_table=True)
"""The newest state, or one that readers may still request, lists the file."""
UNLISTED = ManifestPrecondition(frozenset(), own_table=False)
"""No state of any table that readers may request lists the file, all tables could be read completely, and no recorded
request reads the file."""
NO_PRECONDITION = ManifestPrecondition(frozenset(), own_table=True)
"""The step depends only on storage and the metadata store."""
