"""Check a run before it is published, by Great Expectations suites over small profiles.

A profile has a few rows that the run has computed anyway (a row for each source, kind and state of the ledger), so the
cost of a gate does not grow with the lake. The suites are plain JSON files in `expectations/`, which users may edit. An
expectation of severity `critical` refuses the run, any other warns.

Great Expectations takes seconds to import and milliseconds to judge: `second_process` does both beside the audit.
"""

import importlib.resources
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.resources.abc import Traversable
from importlib.util import LazyLoader
from threading import local
from types import ModuleType
from typing import Any

from lakeaudit.formatting import share

SUITES: Traversable = importlib.resources.files(__package__) / "expectations"
"""The suites that are shipped; in a checkout a link to the folder at its top."""
REFUSES = "critical"
NAMED = 20
"""The most subjects of an expectation that a message names."""


@dataclass(frozen=True)
class Broken:
    """An expectation that does not hold: its gate, description, severity, and subjects (`where`).

    `failed` describes the failure of each subject, if the suite has a text for it (`meta.broken`).
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
        """The failure in one line."""
        if not self.failed:
            return f"gate `{self.gate}`: {self.expected}{f' (not so: {_listed(self.where)})' if self.where else ''}"
        same = len({*self.failed}) == 1
        each = [f"{where}: {what}" for where, what in zip(self.where, self.failed, strict=True)]
        return f"gate `{self.gate}`: {f'{_listed(self.where)}: {self.failed[0]}' if same else _listed(each, '; ')}"


def _listed(items: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return f"{between.join(items[:NAMED])}{more}"


def suite_of(gate: str, folder: Traversable | None = None) -> dict[str, Any]:
    """Return the suite of a gate."""
    suite: dict[str, Any] = json.loads(
        (folder or SUITES).joinpath(f"{gate}.json").read_text(encoding="utf-8")
    )
    return suite


def check(gate: str, profile: Sequence[Mapping[str, Any]], folder: Traversable | None = None) -> list[Broken]:
    """Return the expectations of a gate that do not hold for a profile, whose rows have `subject` and its columns.

    A null means that the expectation does not apply to the row.
    """
    return check_suite(gate, suite_of(gate, folder), profile)


def check_suite(gate: str, suite: Mapping[str, Any], profile: Sequence[Mapping[str, Any]]) -> list[Broken]:
    """Return the expectations of this suite that do not hold, see `check`."""
    import pandas as pd

    frame = pd.DataFrame(list(profile), columns=_columns(suite), dtype=object)
    batch = _batches(gate).get_batch({"dataframe": frame})
    expected = great_expectations().ExpectationSuite(**suite)
    if batch.validate(
        expected, result_format="BOOLEAN_ONLY"
    ).success:  # half the work, and nearly always the answer
        return []
    result = batch.validate(expected, result_format=_FORMAT)
    rows = {str(row["subject"]): row for row in profile}
    return [_broken(gate, found, rows) for found in result.results if not found.success]


_FORMAT = {"result_format": "COMPLETE", "unexpected_index_column_names": ["subject"]}


def great_expectations() -> Any:
    """Import Great Expectations, without the parts that no gate uses."""
    if not any(isinstance(finder, _Unused) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Unused())
    _IMPORT.runs = True
    try:
        import great_expectations
    finally:
        _IMPORT.runs = False

    return great_expectations


_ENGINES = ("sqlalchemy", "pyspark", "boto3", "botocore")
_IMPORT = local()
"""`runs`: whether this thread imports Great Expectations; other threads may import the same modules meanwhile."""


class _Unused(MetaPathFinder):
    """Loads modules for plots and distributions on demand, and leaves out those for databases, Spark and AWS.

    No gate uses them, and they are half of the imports of Great Expectations, which works without the latter.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not getattr(_IMPORT, "runs", False):
            return None
        if fullname.partition(".")[0] in _ENGINES:
            raise ModuleNotFoundError(f"no gate uses {fullname}")
        spec = PathFinder.find_spec(fullname, path, target) if fullname in ("altair", "scipy.stats") else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@lru_cache(maxsize=1)
def _context() -> Any:
    """Return one context for all gates, in memory and without output."""
    gx = great_expectations()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


@lru_cache
def _batches(gate: str) -> Any:
    """Return the batch definition of a gate, which takes any frame."""
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
    """Fill in the profile's value for `{value}` and `{share}` (in per cent), and the row's cause for `{why}`."""
    put = f"{value:.3g}" if isinstance(value, float) else str(value)
    part = share(float(value)) if isinstance(value, int | float) else put
    why = f" ({row['why']})" if row.get("why") else ""
    return words.replace("{value}", put).replace("{share}", part).replace("{why}", why)
