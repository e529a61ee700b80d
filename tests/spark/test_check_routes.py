"""A check that brings rows of several keys together finds the same on Spark, where shares are tasks of their own."""

from pathlib import Path

from pyspark.sql import SparkSession

from lakeaudit.checks.registry import register, unregister
from lakeaudit.config import load_lake
from tests.builders.artefacts import put
from tests.builders.audits import results_of
from tests.builders.both_ways import audited_both_ways
from tests.builders.delta_lake import Log, add, at
from tests.builders.equal_sizes import SIZE_CHECK


def test_the_route_of_a_check_is_known_to_the_tasks(tmp_path: Path, spark: SparkSession) -> None:
    sizes = {f"part-{number}.parquet": 100 + number % 7 for number in range(40)}
    home = tmp_path / "wh" / "orders"
    Log(home).commits([add(name, size=size) for name, size in sizes.items()])
    for name, size in sizes.items():
        put(home / name, b"x" * size, at(0))
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\n"
        f"inventories: [{{kind: listing, location: '{home.parent}/'}}]\n"
        f"tables: [{{name: orders, location: {home}, manifests: [{{kind: delta}}]}}]\n"
        "defaults: {grace: 0s}\n"
    )
    lake = load_lake(file, {})
    register(SIZE_CHECK)
    try:
        run_id = audited_both_ways(lake, spark).run_id
    finally:
        unregister(SIZE_CHECK)
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    assert {(row["subject"], row["files"]) for row in rows} == {
        (f"orders#{100 + rest}", 6 if rest < 5 else 5) for rest in range(7)
    }
