"""The publish gate: check a run's findings by the suites before they are published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakeaudit.config import Lake
from lakeaudit.errors import GateFailed
from lakeaudit.evidence.protocol import SourceInfo
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.gates import profiles
from lakeaudit.gates.expectation_suites import Broken
from lakeaudit.gates.second_process import Checker
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.results.read import Row
from lakeaudit.runtime.duck import Connection, Rows


class Judged(Protocol):
    """The results of a run: FINDINGS, rows of COVERAGE, and by source id the numbers of its rows (rows, rejected)."""

    @property
    def findings(self) -> Rows: ...
    @property
    def coverage_rows(self) -> Sequence[Row]: ...
    @property
    def counts(self) -> Mapping[str, Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Guarded:
    """The counts of a run's findings, and the expectations that do not hold."""

    tally: profiles.Tally
    broken: Sequence[Broken]

    @property
    def messages(self) -> list[str]:
        """One line for each expectation that does not hold."""
        return [each.message for each in self.broken]


def guard(
    con: Connection,
    lake: Lake,
    infos: Sequence[SourceInfo],
    judgement: Judged,
    changes: Changes,
    runs: Sequence[Row],
    stamp: RunStamp,
    check: Checker,
) -> Guarded:
    """Check the sources, the findings and the changes of the ledger.

    Args:
        con: the connection that counts findings and changes.
        lake: the lake file.
        infos: the sources that were read.
        judgement: the results of the run.
        changes: its changes of the ledger.
        runs: rows of `runs`, oldest first, that the sources are compared with.
        stamp: the run.
        check: the function that checks profiles.
    """
    sources = profiles.of_sources(lake, infos, judgement.counts, judgement.coverage_rows, runs, stamp.as_of)
    tally = profiles.tally(con, judgement.findings)
    of_gates = {"sources": sources, "findings": profiles.of_findings(tally)}
    if changes.counts:
        of_gates["ledger"] = profiles.of_ledger(con, changes.discrepancies)
    return Guarded(tally, check(of_gates))


def refusal(broken: Sequence[Broken], place: str) -> GateFailed | None:
    """Return the error that ends the run, if a critical expectation does not hold."""
    refusing = [each.message for each in broken if each.refuses]
    if not refusing:
        return None
    hint = "repair the evidence, or edit the suite in expectations/; nothing was published"
    return GateFailed(place, "; ".join(refusing), hint)
