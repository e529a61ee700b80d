"""A proxy cuts a response once and reports it as whole: the file is read again and not reported as lost metadata."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeaudit.audit.outcome import Outcome
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import present, put
from tests.builders.hudi import NO_WAIT, unpacked
from tests.builders.iceberg import IcebergLake
from tests.builders.refusals import LINES_SHORT, SHORTENED, Refusals, Together, refusing
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

Kind = Callable[[str], bool]
METADATA: dict[str, Kind] = {
    "delta": lambda request: "GET" in request and request.endswith("_delta_log/00000000000000000000.json"),
    "iceberg": lambda request: "GET" in request and request.endswith(".metadata.json"),
    "hudi": lambda request: "GET" in request and "/.hoodie/" in request and "commit" in request,
}
OWN_FOLDERS = ("_delta_log/", "/metadata/", ".hoodie/")
ONCE = {"half": SHORTENED, "lines": LINES_SHORT}
"""How a response of each format is cut once, by name."""
LASTING: dict[str, dict[str, Kind]] = {
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
"""The responses that are cut each time, by name and the format of their table."""
LOST_METADATA = ("missing_metadata", "table_missing", "overwritten_commit", "lost_commit", "content_mismatch")


@dataclass
class Tables:
    """Copies of a table of each format in one bucket, by name their format; each has lost one data file."""

    shop: Shop
    kinds: dict[str, str]
    lost: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        bucket = self.shop.bucket
        self.shop.write("delta_template", days=("a",))
        self.shop.copy("delta_template", *self.names("delta"), own_ids=True)
        ice = IcebergLake(self.shop.s3, self.shop.endpoint, bucket)
        ice.table("iceberg_template")
        ice.copy("iceberg_template", *self.names("iceberg"))
        home = unpacked(folder, 2, ["written"]) / "written"
        for path in (each for each in home.rglob("*") if each.is_file()):
            for name in self.names("hudi"):
                put(bucket, f"warehouse/{name}/{path.relative_to(home)}", path.read_bytes())
        for name in self.kinds:
            keys = [key for key in present(bucket, f"warehouse/{name}/") if key.endswith(".parquet")]
            self.lost[name] = [key for key in keys if not any(part in key for part in OWN_FOLDERS)][-1]
            self.shop.s3.delete_object(Bucket=bucket, Key=self.lost[name])

    def names(self, kind: str) -> list[str]:
        return [name for name, each in self.kinds.items() if each == kind]

    def audit(self, folder: Path, rules: Refusals) -> tuple[Outcome, list[dict[str, Any]], set[str]]:
        """Return the outcome and findings of an audit of all the tables, and the tables with partial coverage."""
        place = f"s3://{self.shop.bucket}/warehouse"
        tables = [
            f"- {{name: {name}, location: '{place}/{name}', manifests: [{{kind: {kind}}}]}}"
            for name, kind in self.kinds.items()
        ]
        listing = f"[{{kind: listing, location: '{place}/'}}]"
        lake = self.shop.lake(folder, inventories=listing, tables=tables, defaults=NO_WAIT)
        time.sleep(1.1)
        with refusing(rules):
            outcome = audited(lake)
        results = results_of(lake)
        partly = {row["table_name"] for row in results.coverage(outcome.run_id) if row["status"] == "partial"}
        return outcome, list(rows_of(results.findings(outcome.run_id))), partly


def tables_of(cases: dict[str, dict[str, Kind]]) -> dict[str, str]:
    """The format of each table, by its name: a table for each format of each case."""
    return {f"{case}_{kind}": kind for case, kinds in cases.items() for kind in kinds}


def of_table(name: str, kind: Kind) -> Kind:
    """Requests that read objects of one table."""
    return lambda request: "GET" in request and f"/{name}/" in request and kind(request)


@dataclass(frozen=True)
class CutAudit:
    """One audit, and the rules by which its responses were cut, by table."""

    tables: Tables
    rules: dict[str, Refusals]
    outcome: Outcome
    found: list[dict[str, Any]]
    partly: set[str]
    """The tables that are covered in part."""


def audit_cut(
    aws: Aws, s3: Endpoint, folder: Path, cases: dict[str, dict[str, Kind]], rules: dict[str, Refusals]
) -> CutAudit:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    tables = Tables(Shop(aws.s3, s3, bucket), tables_of(cases))
    tables.write(folder)
    for name in {"beneath_delta", "pointers_delta"} & tables.kinds.keys():
        uri = f"s3://{bucket}/warehouse/{name}"
        DeltaTable(uri, storage_options=tables.shop.options).create_checkpoint()
    return CutAudit(tables, rules, *tables.audit(folder, Together(*rules.values())))


@pytest.fixture(scope="module")
def cut_once(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> CutAudit:
    """One response of each format is cut, for each way."""
    cases = dict.fromkeys(ONCE, METADATA)
    rules = {
        f"{case}_{kind}": Refusals(of_table(f"{case}_{kind}", reads), first=0, lasting=False, answer=answer)
        for case, answer in ONCE.items()
        for kind, reads in METADATA.items()
    }
    return audit_cut(aws, s3, tmp_path_factory.mktemp("once"), cases, rules)


@pytest.fixture(scope="module")
def cut_each_time(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> CutAudit:
    rules = {
        f"{case}_{kind}": Refusals(of_table(f"{case}_{kind}", reads), first=0, answer=SHORTENED)
        for case, kinds in LASTING.items()
        for kind, reads in kinds.items()
    }
    return audit_cut(aws, s3, tmp_path_factory.mktemp("lasting"), LASTING, rules)


@pytest.mark.parametrize("way", ONCE)
@pytest.mark.parametrize("kind", METADATA)
def test_a_response_that_was_cut_once_is_not_a_loss(cut_once: CutAudit, way: str, kind: str) -> None:
    name = f"{way}_{kind}"
    rules = cut_once.rules[name]
    assert len(rules.refused) == 1 < len(rules.requests)
    assert [row["key"] for row in cut_once.found if row["table_name"] == name] == [cut_once.tables.lost[name]]
    assert cut_once.outcome.exit_code == 0, "the same as without the cut"


@pytest.mark.parametrize(
    ("case", "kind"), [(case, kind) for case, kinds in LASTING.items() for kind in kinds]
)
def test_a_response_that_is_cut_each_time_is_an_evidence_gap_and_no_loss(
    cut_each_time: CutAudit, case: str, kind: str
) -> None:
    name = f"{case}_{kind}"
    assert cut_each_time.rules[name].refused
    found = [row for row in cut_each_time.found if row["table_name"] == name]
    assert [
        (row["kind"], row["key"], row["explanation"]) for row in found if row["kind"] in LOST_METADATA
    ] == []


@pytest.mark.parametrize("case", LASTING)
def test_such_a_gap_is_counted_in_the_coverage(cut_each_time: CutAudit, case: str) -> None:
    assert cut_each_time.partly & {f"{case}_{kind}" for kind in LASTING[case]}
    assert cut_each_time.outcome.exit_code == 3
