"""Logs of Spark's streaming sink and Delta's symlink manifests, as they write them, and complete audits with them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.builders.audits import audited
from tests.spark.test_committers import findings, lake_of, live_claims

pytestmark = pytest.mark.variant

BATCHES = 12


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A stream of twelve batches; the tenth made one file of the log of all before."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "in").mkdir()
    for number in range(BATCHES):
        (folder / "in" / f"{number:02}.csv").write_text(f"{number},{'a b%' if number % 2 else 'ü'}\n")
    rows = (
        spark.readStream.schema("n INT, d STRING")
        .option("maxFilesPerTrigger", 1)
        .csv(f"file:{folder / 'in'}")
    )
    query = rows.writeStream.partitionBy("d").trigger(availableNow=True)
    query = query.option("checkpointLocation", f"file:{folder / 'checkpoint'}")
    query.format("json").start(f"file:{folder / 'wh/t'}").awaitTermination()
    return folder


def test_what_a_stream_wrote_is_there_until_it_is_not(sink: Path, tmp_path: Path) -> None:
    log = {path.name for path in (sink / "wh/t/_spark_metadata").iterdir()}
    assert {"9.compact", "10", "11"} <= log
    lake = lake_of(tmp_path, str(sink / "wh"), "spark_sink", None)
    assert audited(lake, run_id="r").status == "complete"
    assert (findings(lake), live_claims(lake)) == ([], BATCHES)
    files = sorted((sink / "wh/t").glob("d=*/part-*"))
    files[0].unlink()
    files[1].write_text("{}")
    stray = files[2].with_name("part-00000-left-by-a-failed-batch.json")
    stray.write_text("{}\n")
    broken = lake_of(tmp_path, str(sink / "wh"), "spark_sink", None, name="b")
    audited(broken, run_id="r")
    home = f"{sink / 'wh/t'}/"
    assert [each for each in findings(broken) if each[0] in ("dropped", "size_mismatch")] == [
        ("dropped", str(files[0]).removeprefix(home)),
        ("size_mismatch", str(files[1]).removeprefix(home)),
    ]
    assert "uncommitted" in {kind for kind, _ in findings(broken)}


def test_a_missing_batch_is_reported(sink: Path, tmp_path: Path) -> None:
    log = sink / "wh/t/_spark_metadata"
    held = (log / "10").read_bytes()
    (log / "10").unlink()
    lake = lake_of(tmp_path, str(sink / "wh"), "spark_sink", None)
    assert audited(lake, run_id="r").status == "partial"
    (log / "10").write_bytes(held)
    assert "missing_metadata" in {kind for kind, _ in findings(lake)}


def test_symlink_manifests_of_delta(spark: SparkSession, tmp_path: Path) -> None:
    """They are of one state; what was removed from it since is still there until a vacuum."""
    home = tmp_path / "wh/t"
    rows = spark.createDataFrame([(1, "a b%"), (2, "c")], "n INT, d STRING").coalesce(1)
    rows.write.format("delta").partitionBy("d").save(f"file:{home}")
    spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`file:{home}`")
    lake = lake_of(tmp_path, str(tmp_path / "wh"), "symlink", None)
    assert audited(lake, run_id="r").status == "complete"
    assert (findings(lake), live_claims(lake)) == ([], 2)
    lost = min(home.glob("d=*/part-*"))
    lost.unlink()
    again = lake_of(tmp_path, str(tmp_path / "wh"), "symlink", None, name="b")
    audited(again, run_id="r")
    assert findings(again) == [("dropped", str(lost).removeprefix(f"{home}/"))]
