"""The DAGs that Airflow makes from a folder of lake files, and the reasons for broken files. No Airflow."""

from datetime import timedelta
from pathlib import Path

import pytest

from lake_files import KEYS, BrokenFile, LakeFile, dag_id_of, lake_files, read_lake_file, removed_lake_file
from lakeaudit.config import load_lake
from lakeaudit.config.file import Airflow

EXAMPLE = Path(__file__).resolve().parents[3] / "conf" / "example.yaml"
CONDITIONS = "critical, error, warning, info, coverage_lost, failed"
PLAIN = "lake: shop\nresults: s3://audit/shop/\ntables: [{name: a.b}, {name: c}, {location: x}, 7]\n"


def read(folder: Path, text: str, name: str = "shop.yaml") -> LakeFile | BrokenFile:
    (folder / name).write_text(text)
    return read_lake_file(folder / name)


def test_a_file_that_says_nothing_of_airflow(tmp_path: Path) -> None:
    assert read(tmp_path, PLAIN) == LakeFile(
        tmp_path / "shop.yaml",
        "lake_audit_shop",
        "shop",
        ("a.b", "c"),
        "s3://audit/shop",
        place="s3://audit/shop",
    )


def test_a_file_that_says_everything(tmp_path: Path) -> None:
    text = f"""{PLAIN}
s3: {{endpoint: "http://x", path_style: true}}
airflow:
  schedule: 0 5 * * *
  owner: data
  tags: [shop, nightly]
  connection: yarn
  retries: 0
  retry_delay: 90s
  status: s3://audit/status/
  spark_conf: {{spark.executor.memory: 4g, spark.executor.cores: 4, spark.speculation: false}}
  assets: [a.b, "sales.*"]
  fail_on: [error, failed]
  pool: audits
"""
    found = read(tmp_path, text)
    assert isinstance(found, LakeFile)
    assert (found.schedule, found.owner, found.tags) == ("0 5 * * *", "data", ("shop", "nightly"))
    assert (found.connection, found.retries, found.retry_delay) == ("yarn", 0, timedelta(seconds=90))
    assert found.assets == ("a.b", "sales.*")
    assert (found.fail_on, found.pool) == (("error", "failed"), "audits")
    assert (found.status, found.s3) == ("s3://audit/status/", {"endpoint": "http://x", "path_style": True})
    assert found.spark_conf == {
        "spark.executor.memory": "4g", "spark.executor.cores": "4", "spark.speculation": "false",
    }  # fmt: skip


def test_both_readers_know_the_same_keys_and_defaults(tmp_path: Path) -> None:
    """Airflow reads the block itself; lakeaudit checks it, and refuses what Airflow would."""
    checked, taken = Airflow(), read(tmp_path, PLAIN)
    assert set(Airflow.model_fields) == set(KEYS)
    for name in KEYS:
        assert getattr(taken, name) == getattr(checked, name), name


def test_the_example_is_read_as_it_is_explained() -> None:
    found = read_lake_file(EXAMPLE)
    assert isinstance(found, LakeFile)
    assert (found.lake, found.schedule, found.tags) == ("shop", "0 5 * * *", ("shop", "nightly"))
    named = {name for table in load_lake(EXAMPLE, {}).tables for name in (table.name, *table.also)}
    assert len(found.tables) > 5
    assert set(found.tables) == named


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lake: [", "it is not valid YAML: line 2: did not find expected node content"),
        (
            "lake: !!python/object:os.system {}",
            "it is not valid YAML: line 1: could not determine a constructor",
        ),
        ("", "the file must be a mapping"),
        ("- lake", "the file must be a mapping"),
        ("tables: []", "lake must be a text that is not empty"),
        ("lake: 7", "lake must be a text that is not empty"),
        ("lake: ${LAKE}", "lake contains a variable, which Airflow does not resolve: write the value itself"),
        ("lake: x\nairflow: nightly", "airflow must be a mapping"),
        ("lake: x\nairflow: {shedule: x}", "airflow.shedule is not known: write one of schedule, owner"),
        ("lake: x\nairflow: {schedule: 5}", "airflow.schedule must be a text that is not empty"),
        ("lake: x\nairflow: {owner: '${WHO}'}", "airflow.owner contains a variable"),
        ("lake: x\nairflow: {tags: nightly}", "airflow.tags must be a list of texts"),
        ("lake: x\nairflow: {assets: sales.*}", "airflow.assets must be a list of texts"),
        ("lake: x\nairflow: {retries: -1}", "airflow.retries must be a whole number, 0 or more"),
        ("lake: x\nairflow: {retries: true}", "airflow.retries must be a whole number, 0 or more"),
        ("lake: x\nairflow: {retry_delay: soon}", "airflow.retry_delay must be a duration such as 5m"),
        ("lake: x\nairflow: {spark_conf: [x]}", "airflow.spark_conf must be a mapping"),
        (
            "lake: x\nairflow: {reconcile: always}",
            "airflow.reconcile must be one of manual, on_discrepancies",
        ),
        *(
            (
                f"lake: x\nairflow: {{fail_on: {value}}}",
                f"airflow.fail_on must be a list of {CONDITIONS}, or [never]",
            )
            for value in (
                "critical",
                "[]",
                "[Critical]",
                "[never, critical]",
                "[1]",
                "[[critical]]",
                "{critical: 1}",
            )
        ),
        ("lake: x\nairflow: {pool: [x]}", "airflow.pool must be a text that is not empty"),
        ("lake: x\ns3: x", "s3 must be a mapping"),
        ("[" * 20_000, "it is not valid YAML"),
    ],
)
def test_a_file_that_no_dag_can_be_made_of(tmp_path: Path, text: str, reason: str) -> None:
    found = read(tmp_path, text)
    assert isinstance(found, BrokenFile)
    assert found.dag_id == "lake_audit_shop"
    assert found.reason.startswith(reason)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_bytes(b"lake: \xff")
    assert read_lake_file(tmp_path / "shop.yaml").reason == "it cannot be read (UnicodeDecodeError)"  # type: ignore[union-attr]
    assert read_lake_file(tmp_path / "no.yaml").reason == "it cannot be read (FileNotFoundError)"  # type: ignore[union-attr]


def test_results_may_be_written_in_their_long_form(tmp_path: Path) -> None:
    found = read(tmp_path, "lake: shop\nresults: {location: s3://audit/shop/, keep: 400d}\n")
    assert isinstance(found, LakeFile)
    assert found.results == "s3://audit/shop"


def test_results_that_are_put_together_from_variables_are_not_known(tmp_path: Path) -> None:
    found = read(tmp_path, "lake: shop\nresults: s3://${BUCKET}/shop\n")
    assert isinstance(found, LakeFile)
    assert found.results is None


def test_a_folder(tmp_path: Path) -> None:
    """The example describes no lake; a broken file does not affect the others; no two share a DAG."""
    for name, text in {
        "b.yaml": PLAIN, "a.yml": "lake: [", "b.yml": PLAIN, "example.yaml": PLAIN, "notes.txt": "x", "iam.json": "{}",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    found = {file.dag_id: (file.path.name, isinstance(file, LakeFile)) for file in lake_files(tmp_path)}
    assert found == {
        "lake_audit_a": ("a.yml", False),
        "lake_audit_b": ("b.yaml", True),
        "lake_audit_b.yml": ("b.yml", False),
    }
    assert lake_files(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("name", "dag_id"),
    [
        ("shop.yaml", "lake_audit_shop"),
        ("my shop.v2.yml", "lake_audit_my_shop.v2"),
        ("säle.yaml", "lake_audit_s_le"),
    ],
)
def test_names_of_dags(name: str, dag_id: str) -> None:
    assert dag_id_of(Path(name)) == dag_id


def test_a_file_that_was_taken_away() -> None:
    left = removed_lake_file(Path("/conf"), "lake_audit_shop")
    assert left.path == Path("/conf/shop.yaml")
    assert left.reason == "the lake file was removed: restore it, or delete the DAG lake_audit_shop"


@pytest.mark.parametrize(
    ("first", "second", "rivals"),
    [
        ("results: s3://a/x", "results: s3://a/x/", True),
        ("results: s3://a/x", "results: {location: s3a://a/x}", True),
        ("results: s3://a/x", "results: s3://a/y", False),
        ("results: ${PLACE}", "results: ${PLACE}", True),
        ("results: 7", "results: 7", False),
        ("results: s3://a/x\nairflow: {pool: p}", "results: s3://a/x\nairflow: {pool: p}", False),
        ("results: s3://a/x\nairflow: {pool: p}", "results: s3://a/x\nairflow: {pool: q}", True),
        ("results: s3://a/x\nairflow: {pool: p}", "results: s3://a/x", True),
    ],
)
def test_two_lakes_with_the_same_results_need_one_pool(
    tmp_path: Path, first: str, second: str, rivals: bool
) -> None:
    for name, text in {
        "a.yaml": first,
        "b.yaml": second,
        "c.yaml": "results: s3://a/c",
        "d.yaml": "[",
    }.items():
        (tmp_path / name).write_text(f"lake: x\n{text}\n")
    notes = {file.path.name: file.pool_note for file in lake_files(tmp_path) if isinstance(file, LakeFile)}
    note = (
        "{} write to the same results, and only one audit at a time can: set `airflow.pool` of these files to one "
        "Airflow pool that has one slot"
    )
    assert notes == {
        "a.yaml": note.format("b.yaml and a.yaml") if rivals else "",
        "b.yaml": note.format("a.yaml and b.yaml") if rivals else "",
        "c.yaml": "",
    }
