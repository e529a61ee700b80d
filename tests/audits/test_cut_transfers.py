"""A proxy that cuts a response once, and says that it is whole: the file is read again, and is no loss of metadata."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.audits.test_refused_recheck import Losses, findings_of, losses
from tests.builders.audits import audited
from tests.builders.refusals import LINES_SHORT, SHORTENED, Refusals, Together, refusing
from tests.builders.shop import Shop
from tests.conftest import Aws

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


LASTING: dict[str, dict[str, Callable[[str], bool]]] = {
    "states": {
        "delta": METADATA["delta"],
        "iceberg": lambda request: "/snap-" in request,
        "hudi": METADATA["hudi"],
    },
    "beneath": {
        "delta": lambda request: request.endswith(".checkpoint.parquet"),
        "iceberg": lambda request: request.endswith("-m0.avro"),
    },
    "pointers": {
        "delta": lambda request: request.endswith("_last_checkpoint"),
        "iceberg": METADATA["iceberg"],
    },
}
"""Responses that are cut each time, by the format of their table."""
LOST_METADATA = ("missing_metadata", "table_missing", "overwritten_commit", "lost_commit", "content_mismatch")


@pytest.mark.parametrize("name", LASTING)
def test_a_response_that_is_cut_each_time_is_an_evidence_gap_and_no_loss(
    aws: Aws, losses: Losses, tmp_path: Path, name: str
) -> None:
    cuts, uri = LASTING[name], f"s3://{losses.bucket}/warehouse/delta"
    if name != "states":
        DeltaTable(
            uri, storage_options=Shop(aws.s3, losses.endpoint, losses.bucket).options
        ).create_checkpoint()
    lake = losses.lake(tmp_path, *cuts)

    def is_cut(request: str) -> bool:
        return "GET" in request and any(f"/{each}/" in request and cuts[each](request) for each in cuts)

    with refusing(Refusals(is_cut, first=0, answer=SHORTENED)) as rules:
        outcome = audited(lake, run_id="r")
    assert all(any(f"/{each}/" in request for request in rules.refused) for each in cuts)
    found = [(row["kind"], row["key"], row["explanation"]) for row in findings_of(lake)]
    assert [row for row in found if row[0] in LOST_METADATA] == []
    assert outcome.exit_code == 3
