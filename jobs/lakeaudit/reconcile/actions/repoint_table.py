"""Point a catalog at the newest metadata.json of an Iceberg table that it lags behind, by the catalog's own commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import CatalogSource, Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.metadata_pointers import aim_at, successor
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import (
    REPOINT_TABLE,
    Case,
    MetSomebody,
    NotProved,
    Proposal,
    Sight,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.table_pointers import GluePointer, HivePointer, Pointing, TablePointer
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain


@dataclass(frozen=True)
class TableState:
    """What the catalog points at, and the state of the table that came last; None: nobody can tell which."""

    pointing: Pointing
    newest: str | None


def table_of(sight: Sight, bucket: str, key: str) -> TableState:  # noqa: ARG001 - the protocol's
    """What there is now of a finding's subject, `<table>#<kind> <catalog>`. Raises Unclear."""
    try:
        pointing = _pointer_at(sight.lake, sight.clients, key).read()
        if pointing is None or not pointing.location:
            raise Unclear("the catalog does not point at a metadata.json of its table")
        sight.keys.pace()
        aim = aim_at(sight.clients, pointing.location)
        name = None if aim is None else successor(sight.clients, aim)
        folder = pointing.location.rpartition("/")[0]
        return TableState(pointing, None if name is None else f"{folder}/{name}")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"the catalog cannot be asked: {explain(error).what}") from error
    except SourceError as error:
        raise Unclear(str(error)) from error


class RepointTable:
    """See the module."""

    name = "repoint_table"
    reversibility = REVERSIBLE
    undo = "the catalog points at the state that it had, only while it points where the step left it"
    risk = "high: readers see another state of the table; pause its writers, whose commits would be built on either"

    look = staticmethod(table_of)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """The catalog alone says what the table's state is."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where nobody allows it: somebody may have rolled the table back on purpose."""
        if REPOINT_TABLE in case.allow:
            return None
        return f"somebody may have rolled it back on purpose: `--allow {REPOINT_TABLE}` plans it"

    def propose(self, case: Case, state: TableState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where one newest state was built, by two commits at least, on the one that the catalog points at."""
        if state.newest is None:
            return "no single newest state of the table was built on the one that the catalog points at"
        seen = {"location": state.pointing.location, "version": state.pointing.version}
        return Proposal(
            seen | {"wanted": state.newest}, "the newest metadata.json names this state before itself"
        )

    def still_holds(self, step: Step, state: TableState) -> bool:
        """The catalog points there yet, in the same version, and no newer state has come."""
        seen = step.precondition
        return (state.pointing.location, state.pointing.version, state.newest) == (
            seen["location"], seen["version"], seen["wanted"],
        )  # fmt: skip

    def act(self, step: Step, target: Target) -> str | None:
        """On the condition that it is as it was seen; Glue counts every write, also the canary where it is ignored."""
        seen = step.precondition
        pointer = _proved(target)
        pointer.point(Pointing(seen["location"], seen["version"], None), seen["wanted"], step.plan_id)
        return None

    def outcome(self, step: Step, state: TableState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """It points there by this plan."""
        wanted = step.precondition["wanted"]
        if (state.pointing.location, state.pointing.plan) != (wanted, step.plan_id):
            return None
        return {"before": step.precondition["location"], "after": wanted, "plan": step.plan_id}

    def may_undo(self, step: Step, undo: Undo, state: TableState) -> bool:  # noqa: ARG002 - the protocol's
        """Nobody has committed since."""
        return (state.pointing.location, state.pointing.plan) == (undo["after"], undo["plan"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """The same way."""
        pointer = _proved(target)
        now = pointer.read()
        if now is None or (now.location, now.plan) != (undo["after"], undo["plan"]):
            raise MetSomebody
        pointer.point(now, undo["before"], undo["plan"])

    def is_undone(self, step: Step, undo: Undo, state: TableState) -> bool:  # noqa: ARG002 - the protocol's
        """It points where it did."""
        return bool(state.pointing.location == undo["before"])


def _proved(target: Target) -> TablePointer:
    try:
        pointer = _pointer_at(target.lake, target.clients, target.key)
    except Unclear as error:
        raise NotProved(str(error)) from error
    if not target.forms.holds(pointer.name, pointer.honours_conditions):
        raise NotProved("the catalog does not honour the condition of its own commit")
    return pointer


def _pointer_at(lake: Lake, clients: Clients, key: str) -> TablePointer:
    """Of a finding's subject. Raises Unclear: nothing here writes to such a catalog."""
    found = [
        (store, key.removesuffix(mark))
        for store in lake.metastores
        if isinstance(store, CatalogSource) and store.knows_partitions
        for mark in [f"#{store.kind} {store.name}"]
        if key.endswith(mark)
    ]
    if len(found) != 1:
        raise Unclear(f"{len(found)} catalogs of the lake file are called as the finding's")
    ((source, name),) = found
    if source.kind not in _POINTERS:
        raise Unclear(f"nothing here writes to a catalog of kind {source.kind}")
    return _POINTERS[source.kind](source, clients, name)


_POINTERS: Mapping[str, Callable[[Any, Clients, str], TablePointer]] = {
    "glue": GluePointer.opened,
    "hive": lambda source, _, name: HivePointer.opened(source, name),
}
"""By kind of catalog what points at the state of one of its tables."""
