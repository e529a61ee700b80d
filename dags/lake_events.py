"""Updates the assets of a lake after a published audit, also after one that failed the task `audit`.

A task that fails updates no asset, and the DAGs that repair a lake or wait for a table must start anyway.
"""

import json
from collections.abc import Mapping
from typing import Any

from airflow import __version__
from airflow.sdk import Asset, AssetAlias, BaseOperator

from lake_files import LakeFile
from lake_gate import table_asset
from lake_links import links
from lake_outcomes import AUDIT
from lake_pages import pages_of
from lake_steps import AUDIT_FIELDS, audit_outcome

EVENTS = "events"
"""The id of the task."""


class LakeEvents(BaseOperator):
    """Adds an event to the asset of the ledger, and to the asset of each selected table that the audit judged."""

    def __init__(self, *, lake: LakeFile, **options: Any) -> None:
        super().__init__(task_id=EVENTS, outlets=_outlets(lake), **options)
        self.lake = lake
        self.pages: dict[str, str] = {}

    @property
    def operator_extra_links(self) -> Any:
        """Return the links to the dashboard."""
        return links(getattr(self, "lake", None), of_audit=False)

    def execute(self, context: Any) -> None:
        """Add the events."""
        outcome = audit_outcome(context["ti"])
        self.pages = pages_of(self.lake, AUDIT, {}, outcome)
        for asset in self.outlets:
            events = context["outlet_events"][asset]
            if isinstance(asset, AssetAlias):
                for name, answer in outcome["answers"].items():
                    events.add(table_asset(self.lake.lake, name), extra=_extra(answer))
            else:
                events.extra = {name: outcome[name] for name in AUDIT_FIELDS}
        if left_out := outcome["answers_left_out"]:
            self.log.warning("%s more tables of airflow.assets have no event: there are too many", left_out)


def _extra(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra of an event of an alias. Airflow 3.0 fails on lists and objects: there they are JSON texts."""
    if not __version__.startswith("3.0."):
        return dict(answer)
    return {
        name: json.dumps(value) if isinstance(value, (list, dict)) else value
        for name, value in answer.items()
    }


def discrepancies(lake: LakeFile) -> Asset:
    """Return the asset that signals a change of the ledger to other DAGs."""
    name = f"{lake.dag_id}.discrepancies"
    if lake.results is None:
        return Asset(name)
    return Asset(
        name, uri=f"{lake.results}/discrepancies?lake={lake.lake}"
    )  # several lakes may share a place


def _outlets(lake: LakeFile) -> list[Asset | AssetAlias]:
    """Return the asset of the ledger, and the assets of single tables by an alias."""
    return [discrepancies(lake), *([AssetAlias(f"{lake.dag_id}.tables")] if lake.assets else [])]
