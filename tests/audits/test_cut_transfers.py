"""A proxy that cuts a response once, and says that it is whole: the file is read again, and is no loss of metadata."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audits.test_refused_recheck import Losses, findings_of, losses
from tests.builders.audits import audited
from tests.builders.refusals import LINES_SHORT, SHORTENED, Refusals, Together, refusing

__all__ = ["losses"]
METADATA: dict[str, Callable[[str], bool]] = {
    "delta": lambda request: "GET" in request and request.endswith("_delta_log/00000000000000000000.json"),
    "iceberg": lambda request: "GET" in request and request.endswith(".metadata.json"),
    "hudi": lambda request: "GET" in request and "/.hoodie/" in request and "commit" in request,
}


@pytest.mark.parametrize("answer", [SHORTENED, LINES_SHORT], ids=["half", "lines"])
def test_a_response_that_was_cut_once_is_no_loss(
    losses: Losses, tmp_path: Path, answer: tuple[str, str]
) -> None:
    """One response of each format is cut in the same audit."""
    lake = losses.lake(tmp_path, *METADATA)
    rules = Together(*(Refusals(kind, first=0, lasting=False, answer=answer) for kind in METADATA.values()))
    with refusing(rules):
        outcome = audited(lake, run_id="r")
    for name, each in zip(METADATA, rules.each, strict=True):
        assert len(each.refused) == 1 < len(each.requests), name
    assert {row["table_name"]: row["key"] for row in findings_of(lake)} == {
        name: losses.lost[name] for name in METADATA
    }
    assert len(findings_of(lake)) == len(METADATA)
    assert outcome.exit_code == 0, "the same as without the cut"
