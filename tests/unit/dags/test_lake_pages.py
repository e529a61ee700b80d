"""The links of Airflow tasks: the same addresses as those of messages, without lakeaudit."""

from pathlib import Path
from typing import Any

import pytest

from lake_files import LakeFile, read_lake_file
from lake_outcomes import ALERT, APPLY, AUDIT, DOCTOR, PLAN, REPORT, Step
from lake_pages import PAGE, TABLE, address, pages_of
from lakeaudit.dashboard import addresses
from tests.builders.pagedata import HOSTILE

BASES = ("https://data.example", "https://data.example/team/lake/", " https://data.example/?token=secret#top")
NAMES = ("orders", *HOSTILE, "a&owner=b#c?d=e+f%20", "\udcff half a character")


def lake(dashboard: str | None = BASES[0], name: str = "shop") -> LakeFile:
    return LakeFile(Path("shop.yaml"), "lake_audit_shop", name, (), None, dashboard=dashboard)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", NAMES)
def test_the_addresses_are_those_of_messages(base: str, name: str) -> None:
    shop = lake(base, name)
    assert address(shop) == addresses.lake_address(base, lake=name)
    assert address(shop, "table", table=name) == addresses.table_address(base, name, lake=name)
    assert address(shop, "runs", run=name) == addresses.run_address(base, name, lake=name)
    assert address(shop, "plans", plan=name) == addresses.plan_address(base, name, lake=name)


LAKE = "https://data.example/?lake=shop"


@pytest.mark.parametrize(
    ("step", "tables", "outcome", "pages"),
    [
        (DOCTOR, [], None, {PAGE: LAKE}),
        (ALERT, ["orders"], None, {PAGE: LAKE}),
        (REPORT, [], None, {PAGE: LAKE}),
        (AUDIT, [], None, {PAGE: LAKE}),
        (AUDIT, [], {"run_id": None}, {PAGE: LAKE}),
        (AUDIT, [], {"run_id": "r1"}, {PAGE: "https://data.example/runs?lake=shop&run=r1"}),
        (AUDIT, ["a", "b"], {"run_id": "r1"}, {PAGE: "https://data.example/runs?lake=shop&run=r1"}),
        (AUDIT, ["a b"], {"run_id": "r1"}, {
            PAGE: "https://data.example/runs?lake=shop&run=r1",
            TABLE: "https://data.example/table?lake=shop&table=a%20b",
        }),
        (PLAN, [], {"plan_id": "p-1"}, {PAGE: "https://data.example/plans?lake=shop&plan=p-1"}),
        (APPLY, [], {"plan_id": "p-1"}, {PAGE: "https://data.example/plans?lake=shop&plan=p-1"}),
        (PLAN, [], {"plan_id": None}, {PAGE: LAKE}),
    ],
)  # fmt: skip
def test_a_task_links_to_its_run_or_plan(
    step: Step, tables: list[str], outcome: dict[str, Any] | None, pages: dict[str, str]
) -> None:
    assert pages_of(lake(), step, {"tables": tables}, outcome) == pages
    assert pages_of(lake(None), step, {"tables": tables}, outcome) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://data.example/x/", "https://data.example/x"),
        ("${DASHBOARD}", None),
        ("javascript:alert(1)", None),
        ("https://", None),
        ("[1]", None),
    ],
)
def test_only_a_literal_address_is_linked(tmp_path: Path, value: str, expected: str | None) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"lake: shop\nresults: /tmp/x\ndashboard_url: {value}\n")
    found = read_lake_file(file)
    assert isinstance(found, LakeFile)
    assert found.dashboard == expected
