"""Tables of Hudi's own writers never contradict themselves, and their clusterings count exactly the rows they read."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.config import Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.lineage import CHANGED_ROWS, IDLE_REMOVAL, REPLACED_STATE
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.evidence.manifest.hudi import reader as hudi
from lakeaudit.evidence.manifest.hudi.reader import HudiClaims
from lakeaudit.evidence.protocol import Claims, Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.hudi import names_of, unpacked

NOW = datetime(2026, 11, 25, tzinfo=UTC)
CONTEXT = Context(InProcessEngine(2), Clients(), as_of=NOW, now=NOW, live=True)
OF_CONTENT = {CHANGED_ROWS, IDLE_REMOVAL, REPLACED_STATE}


def claims_of(*homes: Path) -> Claims:
    tables = [
        Table(
            name=home.name,
            location=Location.parse(str(home)),
            manifests=(HudiManifest(kind="hudi"),),
            settings=Settings(),
        )
        for home in homes
    ]
    return hudi.read(tables, CONTEXT, "manifest:hudi")


@pytest.mark.parametrize("layout", [1, 2])
def test_tables_of_real_writers_do_not_contradict_themselves(tmp_path: Path, layout: int) -> None:
    home, names = unpacked(tmp_path, layout), names_of(layout)
    read = claims_of(*(home / name for name in names))
    assert read.states.keys() == set(names)
    assert [one for one in read.witnesses if one.claim in OF_CONTENT] == []
    assert isinstance(read, HudiClaims)
    (clustered,) = (each for each in read.reading.tables if each.name == "clustered")
    (facts,), (groups,) = clustered.facts.values(), clustered.replaced.values()
    assert (facts.operation, facts.rows, facts.foreign) == ("CLUSTER", 20, 0)
    assert (groups.groups, groups.exact, groups.rows, groups.unknown, groups.again) == (4, 4, 20, 0, 0)


def _stats(path: Path) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    record = json.loads(path.read_text())
    for stats in record["partitionToWriteStats"].values():
        for stat in stats:
            yield record, stat


def test_a_real_clustering_that_counts_fewer_rows_changes_them(tmp_path: Path) -> None:
    home = unpacked(tmp_path, 1, ["clustered"]) / "clustered"
    (path,) = (home / ".hoodie").glob("*.replacecommit")
    record, stat = next(_stats(path))
    stat |= {"numWrites": 9, "numInserts": 9}
    path.write_text(json.dumps(record))
    (one,) = claims_of(home).witnesses
    assert (one.claim, one.stake.rows, one.number) == (CHANGED_ROWS, 1, int(path.name[:17]))
    assert "with 20 rows by base files with 19 rows" in one.words


@pytest.mark.parametrize("largest", [(1 << 63) - 1, 1 << 62])
def test_counts_that_no_table_has_end_no_audit(tmp_path: Path, largest: int) -> None:
    home = unpacked(tmp_path, 1, ["clustered"]) / "clustered"
    for path in (home / ".hoodie").glob("2*commit"):
        record = json.loads(path.read_text())
        for stats in record["partitionToWriteStats"].values():
            for stat in stats:
                stat |= {"numWrites": largest, "numInserts": largest, "numDeletes": 0}
        path.write_text(json.dumps(record))
    assert {one.claim for one in claims_of(home).witnesses} <= {CHANGED_ROWS}


def test_a_real_replacement_of_groups_that_nothing_wrote_is_idle(tmp_path: Path) -> None:
    home = unpacked(tmp_path, 1, ["overwritten"]) / "overwritten"
    (path,) = (home / ".hoodie").glob("*.replacecommit")
    record = json.loads(path.read_text())
    (folder,) = record["partitionToReplaceFileIds"]
    record["partitionToReplaceFileIds"][folder] = ["0f0e0d0c-0000-4000-8000-000000000001-0"]
    path.write_text(json.dumps(record))
    (one,) = claims_of(home).witnesses
    assert (one.claim, one.stake.files) == (IDLE_REMOVAL, 1)
