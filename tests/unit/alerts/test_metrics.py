"""The metrics of a lake: one row a situation, with the numbers that Prometheus gets."""

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.alerts import samples as metric_samples
from lakeaudit.alerts.metrics import LakeSamples, metrics_text
from lakeaudit.alerts.samples import METRICS, Sample, samples
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.pagedata import HOSTILE
from tests.builders.results import (
    NOON,
    covered,
    discrepancy,
    finding,
    lake_file,
    publish,
    run,
    transition,
)

Row = dict[str, Any]
DOCUMENT = Path(__file__).parents[3] / "docs" / "alerts.md"
HOUR = timedelta(hours=1)
TABLES = [{"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]} for name in "abc"]


def numbers(folder: Path, place: Location, **changes: Any) -> dict[str, float]:
    """The metrics as `name label label`, for a lake with the tables a, b and c."""
    lake = load_lake(lake_file(folder, place, **{"tables": TABLES, **changes}), {})
    found = samples(Results(lake.results, Clients(), lake.name), lake, NOON)
    return {" ".join([each.metric.removeprefix("lakeaudit_"), *each.labels]): each.value for each in found}


def opened(key: str, table: str | None, kind: str = "dropped", **given: Any) -> Row:
    return discrepancy(finding(kind, key, table_name=table), **given)


def of(found: dict[str, float], *metrics: str) -> dict[str, float]:
    return {name: value for name, value in found.items() if name.split(" ")[0] in metrics}


def test_before_the_first_audit_only_the_limit_is_known(tmp_path: Path, place: Location) -> None:
    assert numbers(tmp_path, place, overdue="2h") == {"overdue_seconds": 7200.0}


def test_the_last_run_and_the_last_published_one(tmp_path: Path, place: Location) -> None:
    failed = run("r2", "failed", started_at=NOON + HOUR, finished_at=NOON + 1.5 * HOUR)
    publish(
        place, runs=[run(started_at=NOON - HOUR), failed, run("r3", "running", started_at=NOON + 2 * HOUR)]
    )
    found = numbers(tmp_path, place)
    assert of(found, "last_run_timestamp_seconds", "last_run_duration_seconds", "last_run") == {
        "last_run_timestamp_seconds": (NOON + 1.5 * HOUR).timestamp(),
        "last_run_duration_seconds": 1800.0,
        "last_run complete": 0, "last_run partial": 0, "last_run suspect": 0, "last_run failed": 1,
    }  # fmt: skip
    assert found["last_published_timestamp_seconds"] == NOON.timestamp()


OPEN_ROWS: Sequence[tuple[str, list[Row], dict[str, float]]] = [
    ("nothing open", [], {}),
    ("one", [opened("x", "a", rows_at_stake=5)],
     {"open_discrepancies a critical": 1, "table_open_discrepancies a": 1, "rows_at_stake a": 5}),
    ("rows of the worst severity only, so that no file counts twice",
     [opened("x", "a", rows_at_stake=5), opened("x2", "a", "tombstoned", rows_at_stake=5)],
     {"open_discrepancies a critical": 1, "open_discrepancies a error": 1, "table_open_discrepancies a": 2,
      "rows_at_stake a": 5}),
    ("a number of rows that is not known does not count as 0",
     [opened("x", "a", rows_at_stake=5), opened("y", "a", rows_at_stake=None)],
     {"open_discrepancies a critical": 2, "table_open_discrepancies a": 2, "rows_at_stake a": 5,
      "discrepancies_without_rows a": 1}),
    ("info puts nothing at stake", [opened("x", "b", "hidden", rows_at_stake=5)],
     {"open_discrepancies b info": 1, "table_open_discrepancies b": 1}),
    ("about evidence", [opened("x", None)],
     {"open_discrepancies (sources) critical": 1, "discrepancies_without_rows (sources)": 1}),
    ("accepted, pending and resolved ones do not count",
     [opened("x", "a", ack_until=NOON + HOUR), opened("y", "a", state="pending"), opened("z", "a", state="resolved")],
     {}),
    ("an acceptance that has ended", [opened("x", "a", ack_until=NOON - HOUR, rows_at_stake=1)],
     {"open_discrepancies a critical": 1, "table_open_discrepancies a": 1, "rows_at_stake a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [pytest.param(*case[1:], id=case[0]) for case in OPEN_ROWS])
def test_open_discrepancies(
    tmp_path: Path, place: Location, rows: list[Row], expected: dict[str, float]
) -> None:
    publish(place, runs=[run()], coverage=[covered(name) for name in "abc"], discrepancies=rows)
    found = numbers(tmp_path, place)
    own = of(
        found, "open_discrepancies", "table_open_discrepancies", "rows_at_stake", "discrepancies_without_rows"
    )
    assert {name: value for name, value in own.items() if value} == expected
    assert len(own) == 4 * 4 + 3 + 4 + 4, "every table has every number, even 0: alarms lose no series"


JUDGED: Sequence[tuple[str, list[Row], dict[str, float]]] = [
    ("whole", [covered("a")], {"decided_share a content": 1, "judged_share content": 1, "tables whole": 1}),
    ("part", [covered("a", consistent=6, undecided=4, decided_share=0.6)],
     {"decided_share a content": 0.6, "judged_share content": 0.6, "tables part": 1}),
    ("files that are too young do not lower the share",
     [covered("a", consistent=6, out_of_window=4, decided_share=1.0)],
     {"decided_share a content": 1, "judged_share content": 1, "tables whole": 1}),
    ("an axis that could not be judged is 0, even without a number of files",
     [covered("a", files=None, consistent=0, status="partial", decided_share=None)],
     {"decided_share a content": 0, "judged_share content": 0, "tables nothing": 1}),
    ("an axis that is off has no share",
     [covered("a"), covered("a", "metastore", status="off", decided_share=None)],
     {"decided_share a content": 1, "judged_share content": 1, "tables whole": 1}),
    ("the lake's share counts files, not tables",
     [covered("a", files=30, consistent=30), covered("b", consistent=0, undecided=10, decided_share=0.0)],
     {"decided_share a content": 1, "decided_share b content": 0, "judged_share content": 0.75,
      "tables whole": 1, "tables nothing": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [pytest.param(*case[1:], id=case[0]) for case in JUDGED])
def test_judged_shares(tmp_path: Path, place: Location, rows: list[Row], expected: dict[str, float]) -> None:
    publish(place, runs=[run()], coverage=rows)
    found = numbers(tmp_path, place)
    unchecked = {"tables unchecked": float(3 - len({row["table_name"] for row in rows}))}
    own = of(found, "decided_share", "judged_share", "tables")
    assert {name: value for name, value in own.items() if value or "share" in name} == expected | unchecked
    assert found["audited_files"] == sum(row["files"] or 0 for row in rows if row["axis"] == "content")


def test_after_an_audit_of_one_table_the_others_keep_their_numbers(tmp_path: Path, place: Location) -> None:
    """Also their sources: an audit of one table reads no inventory."""
    inventory = {
        "role": "storage",
        "kind": "s3_inventory",
        "location": "s3://inv/daily/",
        "cut_from": NOON - 9 * HOUR,
    }
    listing = inventory | {"kind": "listing", "location": "s3://lake/a/", "cut_from": NOON}
    manifest = inventory | {"role": "manifest", "location": "s3://lake/a/"}
    old = inventory | {"location": "s3://removed/"}
    publish(
        place,
        runs=[
            run("r0", finished_at=NOON - 99 * HOUR, sources=[old]),
            run("r1", finished_at=NOON - HOUR, sources=[inventory, manifest]),
            run("r2", finished_at=NOON, sources=[listing]),
        ],
        coverage=[
            covered("a"),
            covered("b", decided_share=0.5, undecided=5, consistent=5),
            covered("a", run_id="r2"),
        ],
    )
    source = {"kind": "s3_inventory", "location": "s3://inv/daily/", "max_age": "12h"}
    found = numbers(tmp_path, place, inventories=[source])
    assert of(found, "decided_share") == {"decided_share a content": 1, "decided_share b content": 0.5}
    assert of(found, "evidence_timestamp_seconds", "evidence_max_age_seconds") == {
        "evidence_timestamp_seconds storage s3_inventory s3://inv/daily/": (NOON - 9 * HOUR).timestamp(),
        "evidence_max_age_seconds storage s3_inventory s3://inv/daily/": 43200.0,
        "evidence_timestamp_seconds storage listing s3://lake/a/": NOON.timestamp(),
    }


def test_changes_of_the_last_published_audit(tmp_path: Path, place: Location) -> None:
    lost = [finding("dropped", key, "r2") for key in "xy"]
    publish(
        place, runs=[run(finished_at=NOON - HOUR), run("r2")],
        transitions=[transition(lost[0], "opened"), transition(lost[1], "opened"), transition(lost[1], "acknowledged"),
                     transition(finding("dropped", "z", "r2"), "resolved"),
                     transition(finding("dropped", "old"), "opened")],
    )  # fmt: skip
    assert of(numbers(tmp_path, place), "changed_discrepancies") == {
        "changed_discrepancies opened": 2, "changed_discrepancies reopened": 0, "changed_discrepancies escalated": 0,
        "changed_discrepancies reclassified": 0, "changed_discrepancies resolved": 1,
    }  # fmt: skip


def test_a_large_lake_has_a_bounded_number_of_series(
    tmp_path: Path, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst tables have all numbers, the others one; the sum over all tables stays right."""
    monkeypatch.setattr(metric_samples, "DETAILED_TABLES", 1)
    monkeypatch.setattr(metric_samples, "MOST_TABLES", 2)
    monkeypatch.setattr(metric_samples, "MOST_SOURCES", 0)
    rows = [
        opened("1", "c", rows_at_stake=1),
        opened("2", "b", "tombstoned", rows_at_stake=7),
        opened("3", "b", "hidden"),
    ]
    source = {"role": "storage", "kind": "listing", "location": "s3://lake/", "cut_from": NOON}
    publish(
        place, runs=[run(sources=[source])], coverage=[covered(name) for name in "abc"], discrepancies=rows
    )
    found = numbers(tmp_path, place)
    assert of(found, "decided_share") == {"decided_share c content": 1}
    assert of(found, "table_open_discrepancies") == {
        "table_open_discrepancies c": 1,
        "table_open_discrepancies b": 2,
    }
    assert of(found, "evidence_timestamp_seconds") == {}
    assert of(found, "left_out") == {"left_out table details": 2, "left_out tables": 1, "left_out sources": 1}
    assert of(found, "rows_at_stake") == {
        "rows_at_stake c": 1,
        "rows_at_stake (other tables)": 7,
        "rows_at_stake (sources)": 0,
    }
    severities = of(found, "open_discrepancies")
    assert (len(severities), sum(severities.values())) == (12, 3)
    assert severities["open_discrepancies (other tables) error"] == 1


def test_discovered_tables_and_tables_that_the_lake_file_does_not_name_any_more(
    tmp_path: Path, place: Location
) -> None:
    """A table that the lake file does not name any more has series while it has open discrepancies."""
    publish(place, runs=[run()], coverage=[covered("d"), covered("e")], discrepancies=[opened("x", "e")])
    of_file = {name.split(" ")[1] for name in of(numbers(tmp_path, place), "table_open_discrepancies")}
    assert of_file == {"a", "b", "c", "e"}
    discover = {"discover": {"from": "inventory", "under": ["s3://lake/"]}}
    inventory = {"kind": "s3_inventory", "location": "s3://inv/daily/"}
    found = numbers(tmp_path, place, tables=[discover], inventories=[inventory])
    assert {name.split(" ")[1] for name in of(found, "table_open_discrepancies")} == {"d", "e"}


def test_names_of_tables_cannot_break_the_format(tmp_path: Path, place: Location) -> None:
    publish(place, runs=[run()], discrepancies=[opened(str(at), text) for at, text in enumerate(HOSTILE)])
    lake = load_lake(lake_file(tmp_path, place), {})
    numbers = [*samples(Results(lake.results, Clients(), lake.name), lake, NOON)]
    text = metrics_text([LakeSamples(lake.name, numbers)]).decode()
    line = re.compile(r'lakeaudit_\w+\{(\w+="([^"\\\n]|\\.)*",?)+\} [0-9.e+]+')
    written = [each for each in text.splitlines() if not each.startswith("# ")]
    assert [each for each in written if not line.fullmatch(each) or not each.isprintable()] == []
    assert len(written) == len({each.rpartition(" ")[0] for each in written}), "no series twice"


def test_every_sample_has_the_labels_of_its_metric(tmp_path: Path, place: Location) -> None:
    source = {"role": "storage", "kind": "s3_inventory", "location": "s3://inv/", "cut_from": NOON}
    mark = {"run_id": "r1", "lake": "shop", "table_name": "a", "as_of": NOON, "verified_through": NOON}
    mark |= {"location": "s3://lake/a"}
    publish(place, runs=[run(sources=[source])], coverage=[covered("a")], verified=[mark])
    aged = {"kind": "s3_inventory", "location": "s3://inv/", "max_age": "12h"}
    lake = load_lake(lake_file(tmp_path, place, tables=TABLES, inventories=[aged]), {})
    found = list(samples(Results(lake.results, Clients(), lake.name), lake, NOON))
    assert {each.metric for each in found} == set(METRICS)
    assert [each for each in found if len(each.labels) != len(METRICS[each.metric][0])] == []
    assert len({(each.metric, each.labels) for each in found}) == len(found)
    assert isinstance(found[0], Sample)


def test_names_follow_the_conventions_of_prometheus() -> None:
    """All are gauges, so none ends in `_total`; times are in seconds."""
    assert [
        name for name in METRICS if not re.fullmatch(r"lakeaudit_[a-z_]+", name) or name.endswith("_total")
    ] == []
    timed = [name for name in METRICS if re.search("timestamp|duration|overdue|_age", name)]
    assert [name for name in timed if not name.endswith("_seconds")] == []


def test_the_document_lists_every_metric_with_its_labels() -> None:
    rows = re.findall(
        r"^\| `(lakeaudit_\w+)` \|([^|]*)\|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    listed = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert listed == {name: labels for name, (labels, _) in METRICS.items()}
