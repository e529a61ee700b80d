"""Gates: what must hold of a run before it is believed, as Great Expectations suites over small profiles.

A profile is a few rows that the run has gathered anyway (a row a source, a kind, a state of the ledger), so what a gate
costs does not grow with the lake. The suites are the plain JSON files of `expectations/`: whoever disagrees edits them.
An expectation of severity `critical` refuses the run, any other warns.

Great Expectations takes seconds to import and milliseconds to judge: `preload` imports it while the evidence is read.
"""

import importlib.resources
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.resources.abc import Traversable
from importlib.util import LazyLoader
from threading import Thread
from types import ModuleType
from typing import Any

from lakeaudit.formatting import share

SUITES: Traversable = importlib.resources.files(__package__) / "expectations"
"""The suites that are shipped; in a checkout a link to the folder at its top."""
REFUSES = "critical"
NAMED = 20
"""Subjects of an expectation that are written out."""


@dataclass(frozen=True)
class Broken:
    """An expectation that does not hold: of which gate, in words, how severe, and where (subjects of the profile).

    `failed` says of each subject what failed, where the suite has words for that (`meta.broken`).
    """

    gate: str
    expected: str
    severity: str
    where: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def refuses(self) -> bool:
        """Whether nothing of the run may be published."""
        return self.severity == REFUSES

    @property
    def message(self) -> str:
        """One line for people."""
        if not self.failed:
            return f"gate {self.gate}: {self.expected}{f' (not so: {_listed(self.where)})' if self.where else ''}"
        same = len({*self.failed}) == 1
        told = [f"{where}: {what}" for where, what in zip(self.where, self.failed, strict=True)]
        return (
            f"gate {self.gate}: {f'{_listed(self.where)}: {self.failed[0]}' if same else _listed(told, '; ')}"
        )


def _listed(items: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return f"{between.join(items[:NAMED])}{more}"


def preload() -> None:
    """Begin to import Great Expectations in the background; `check` waits for it."""
    Thread(target=_import_quietly, name="great-expectations", daemon=True).start()


def check(gate: str, profile: Sequence[Mapping[str, Any]], folder: Traversable | None = None) -> list[Broken]:
    """What of a suite does not hold for a profile, whose rows have `subject` and the suite's columns.

    A null stands for a question that does not arise, and is no answer that could be wrong.
    """
    import pandas as pd

    suite = json.loads((folder or SUITES).joinpath(f"{gate}.json").read_text(encoding="utf-8"))
    frame = pd.DataFrame(list(profile), columns=_columns(suite)).astype(object)
    batch = _batches(gate).get_batch({"dataframe": frame})
    expected = _great_expectations().ExpectationSuite(**suite)
    if batch.validate(
        expected, result_format="BOOLEAN_ONLY"
    ).success:  # half the work, and nearly always the answer
        return []
    result = batch.validate(expected, result_format=_FORMAT)
    rows = {str(row["subject"]): row for row in profile}
    return [_broken(gate, found, rows) for found in result.results if not found.success]


_FORMAT = {"result_format": "COMPLETE", "unexpected_index_column_names": ["subject"]}


def _great_expectations() -> Any:
    if not any(isinstance(finder, _Unused) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Unused())
    import great_expectations

    return great_expectations


class _Unused(MetaPathFinder):
    """Modules for plots and distributions, which no gate asks for, are loaded once somebody uses them.

    They are a third of what Great Expectations imports.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in ("altair", "scipy.stats") else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _import_quietly() -> None:
    """What goes wrong here goes wrong again, and is raised, where it is needed."""
    with suppress(Exception):
        _great_expectations()


@lru_cache(maxsize=1)
def _context() -> Any:
    """One for all gates, in memory and without a word."""
    gx = _great_expectations()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


@lru_cache
def _batches(gate: str) -> Any:
    """The batch definition of a gate: it takes any frame."""
    asset = _context().data_sources.add_pandas(gate).add_dataframe_asset(gate)
    return asset.add_batch_definition_whole_dataframe(gate)


def _columns(suite: Mapping[str, Any]) -> list[str]:
    named = [expected["kwargs"]["column"] for expected in suite["expectations"]]
    return ["subject", *dict.fromkeys(named)]


def _broken(gate: str, found: Any, rows: Mapping[str, Mapping[str, Any]]) -> Broken:
    expected = found.expectation_config
    if found.exception_info.get("raised_exception"):
        raise ValueError(f"gate {gate}: {expected.description}: {found.exception_info['exception_message']}")
    wrong = found.result.get("unexpected_index_list") or ()
    words = (expected.meta or {}).get("broken")
    subjects = [str(row["subject"]) for row in wrong]
    values = [row.get(expected.kwargs["column"]) for row in wrong]
    failed = (
        [_in_words(words, value, rows[at]) for value, at in zip(values, subjects, strict=True)]
        if words
        else []
    )
    return Broken(gate, expected.description, expected.severity.value, tuple(subjects), tuple(failed))


def _in_words(words: str, value: object, row: Mapping[str, Any]) -> str:
    """`{value}` and `{share}` (in per cent) stand for what the profile says, `{why}` for a cause that the row names."""
    put = f"{value:.3g}" if isinstance(value, float) else str(value)
    part = share(float(value)) if isinstance(value, int | float) else put
    why = f" ({row['why']})" if row.get("why") else ""
    return words.replace("{value}", put).replace("{share}", part).replace("{why}", why)
