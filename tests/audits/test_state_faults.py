"""The demo's acts on the newest states of tables, all in one lake of the small tables that they ruin."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lakeaudit.config import load_lake
from lakeaudit.demo.breaker import CATALOGUE, Fault, Site, state_faults
from lakeaudit.demo.breaker.commit_faults import blank_commit_file, empty_newest_commit, lose_commit_file
from lakeaudit.demo.compare import Comparison, compare, read_run
from lakeaudit.demo.inventory import next_second, write_inventory
from lakeaudit.demo.scenario import SETTLED_SECONDS, write_lake_file
from lakeaudit.demo.server import LAKE, Server, forget
from lakeaudit.demo.state_tables import build_state_tables
from lakeaudit.demo.tables import BINS, FLEET, METERS, PALLETS, PARCELS, SCANS, describe
from lakeaudit.results.read import Row
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of

pytestmark = pytest.mark.variant

TABLES = (*FLEET, METERS, PARCELS, PALLETS, SCANS, BINS)
ACTS = {act.__name__: act for act in CATALOGUE if act.__module__ == state_faults.__name__} | {
    act.__name__: act for act in (blank_commit_file, empty_newest_commit, lose_commit_file)
}


@pytest.fixture(scope="module")
def outcome(s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Comparison, list[Row]]]:
    """The outcome of an audit of all acts, and its findings."""
    server, folder = Server(s3), tmp_path_factory.mktemp("states")
    server.create_buckets()
    build_state_tables(server.clients, s3)
    describe(server.clients.s3(LAKE), TABLES)
    time.sleep(SETTLED_SECONDS)
    rng = random.Random(7)
    site = Site(server.clients.s3(LAKE), server.clients.dynamodb(), LAKE, rng)
    made = [act(site) for act in ACTS.values()]
    write_inventory(server.clients, rng, next_second())
    lake = load_lake(_lake_file(folder, server), {})
    findings, leftovers, gaps = read_run(results_of(lake), audited(lake).run_id)
    yield compare(made, findings, leftovers, gaps), findings
    forget()


def _lake_file(folder: Path, server: Server) -> Path:
    """The demo's lake file, with these tables alone."""
    file = write_lake_file(folder / "lake.yaml", folder / "results", server)
    lake = yaml.safe_load(file.read_text())
    names = {table.name for table in TABLES}
    lake["tables"] = [table for table in lake["tables"] if table["name"] in names]
    lake |= {"metastores": [], "inventories": lake["inventories"][:1]}
    file.write_text(yaml.safe_dump(lake))
    return file


def test_the_acts_are_judged_and_nothing_else_is(outcome: tuple[Comparison, list[Row]]) -> None:
    comparison, findings = outcome
    explained = [row["explanation"] for row in findings]
    assert [difference.words for difference in comparison.differences] == [], explained


@pytest.mark.parametrize("act", ACTS)
def test_each_act_is_judged_rightly(outcome: tuple[Comparison, list[Row]], act: str) -> None:
    comparison, _ = outcome
    (fault,) = [fault for fault in comparison.faults if fault.act == act]
    assert not fault.is_trap
    assert fault not in comparison.missed


def test_each_act_ruins_a_table_of_its_own(outcome: tuple[Comparison, list[Row]]) -> None:
    comparison, _ = outcome
    ruined = [_table_of(fault) for fault in comparison.faults]
    assert len(ruined) == len(set(ruined)) == len(ACTS)


def _table_of(fault: Fault) -> str:
    return fault.gap or fault.expected[0].table
