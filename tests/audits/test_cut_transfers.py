"""A proxy that cuts a response once, and says that it is whole: the file is read again, and is no loss of metadata."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audits.test_refused_recheck import Losses, findings_of, losses
from tests.builders.audits import audited
from tests.builders.refusals import LINES_SHORT, SHORTENED, Refusals, refusing

__all__ = ["losses"]
METADATA: dict[str, Callable[[str], bool]] = {
    "delta": lambda request: "GET" in request and request.endswith("_delta_log/00000000000000000000.json"),
    "iceberg": lambda request: "GET" in request and request.endswith(".metadata.json"),
    "hudi": lambda request: "GET" in request and "/.hoodie/" in request and "commit" in request,
}


@pytest.mark.parametrize("answer", [SHORTENED, LINES_SHORT], ids=["half", "lines"])
@pytest.mark.parametrize("name", METADATA)
def test_a_response_that_was_cut_once_is_no_loss(
    losses: Losses, tmp_path: Path, name: str, answer: tuple[str, str]
) -> None:
    lake = losses.lake(tmp_path, name)
    with refusing(Refusals(METADATA[name], first=0, lasting=False, answer=answer)) as rules:
        outcome = audited(lake, run_id="r")
    assert len(rules.refused) == 1 < len(rules.requests)
    assert [row["key"] for row in findings_of(lake)] == [losses.lost[name]]
    assert outcome.exit_code == 0, "the same as without the cut"
