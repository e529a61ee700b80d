"""What manifests must say of a file for a step to be done. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.evidence.references import HISTORY, LIVE, READ, UNKNOWN, Reference
from lakeaudit.reconcile.steps import Step

WANTED, NOT_WANTED = "wanted", "not wanted"


@dataclass(frozen=True)
class Need:
    """What manifests must say for a step to be done: WANTED while that is so, NOT_WANTED when it is not, or UNKNOWN."""

    states: frozenset[str]
    own_table: bool

    @property
    def asks_manifests(self) -> bool:
        """Whether manifests have a say at all."""
        return bool(self.states) or not self.own_table

    def met(self, step: Step, said: Sequence[Reference]) -> tuple[str, str]:
        """(WANTED, NOT_WANTED or UNKNOWN, and why it is not WANTED)."""
        if not self.asks_manifests:
            return WANTED, ""
        return self._listed(step, said) if self.own_table else unlisted(said)

    def may_stay(self, step: Step, said: Sequence[Reference], *, is_ours: bool) -> bool:
        """Whether what a step did may stay done, now that it is.

        Where nobody can tell, only what the step's own table wanted: what no table may list has to be known so. What
        somebody else may have done is theirs, unless a table may lack the file for it now.
        """
        if not is_ours:
            return self.own_table or not {each.answer for each in said} & {LIVE, UNKNOWN}
        met, _ = self.met(step, said)
        return met == WANTED or (met != NOT_WANTED and self.own_table)

    def _listed(self, step: Step, said: Sequence[Reference]) -> tuple[str, str]:
        told = [each for each in said if each.table == step.table_name and each.decides]
        if any(each.answer in self.states for each in told):
            return WANTED, ""
        unknown = [each.why for each in told if each.answer == UNKNOWN]
        if unknown:
            return UNKNOWN, "; ".join(dict.fromkeys(unknown))
        return NOT_WANTED, "the table does not list the file any more"


def unlisted(said: Sequence[Reference]) -> tuple[str, str]:
    """Whether no table lists a file: as `Need.met`."""
    listed = sorted({each.table for each in said if each.answer in (LIVE, HISTORY)})
    if listed:
        return NOT_WANTED, f"{listed[0]} lists the file"
    read = [each.why for each in said if each.answer == READ]
    if read:
        return NOT_WANTED, read[0]
    unknown = [f"{each.table}: {each.why}" for each in said if each.answer == UNKNOWN]
    return (UNKNOWN, "; ".join(dict.fromkeys(unknown))) if unknown else (WANTED, "")


LISTED = Need(frozenset({LIVE}), own_table=True)
"""The newest state of the step's own table lists the file."""
PROMISED = Need(frozenset({LIVE, HISTORY}), own_table=True)
"""The same, or a state of it that readers may still ask for."""
UNLISTED = Need(frozenset(), own_table=False)
"""No state of any table of the lake that readers may ask for lists the file, all could be read whole, and nobody reads
it, as far as requests are recorded."""
NO_NEED = Need(frozenset(), own_table=True)
"""Manifests have no say: storage and the metadata store alone do."""
