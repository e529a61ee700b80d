"""`lakeaudit scan` judges the tables below a location once, and leaves nothing behind."""

import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.commands.scan_output import dollars
from lakeaudit.commands.scan_scope import CREDENTIAL, TOKEN, Request, scope_of_catalog
from lakeaudit.config import load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import folders as list_folders
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.audits.test_bounds import put
from tests.builders.delta_lake import BORN, Log, add, remove
from tests.builders.found_tables import LONG_AGO, files_below, lay, lay_in_bucket, lose
from tests.builders.glue import GlueCatalog
from tests.builders.hudi import commit, stat, write_timeline
from tests.conftest import Aws


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return lay(tmp_path / "lake")


def scan(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["scan", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_lost_file_is_named_and_nothing_is_left_behind(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(lake)
    before = files_below(tmp_path)
    code, out, err = scan(capsys, str(lake))
    assert code == 1
    assert f"{lake}/sales/orders/a.parquet" in out
    assert "recoverable: no" in out
    assert "unreferenced: 1 file, 4.9 KiB" in out
    assert "3 of 3 tables fully judged" in out
    titles = [
        out.index(title) for title in ("Worst findings", "Files that no table lists", "Coverage", "Next")
    ]
    assert titles == sorted(titles)
    assert err.splitlines()[-1] == "CRITICAL: 1 file dropped in 1 table"
    assert files_below(tmp_path) == before


def test_a_healthy_lake_is_quiet(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "customers/unlisted.parquet").unlink()
    code, out, err = scan(capsys, "./lake")
    assert code == 0
    assert "Worst findings" not in out
    assert err.splitlines()[-1].startswith("OK: ")


@pytest.mark.variant
def test_a_saved_lake_file_can_be_audited(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(lake)
    code, out, _ = scan(capsys, str(lake), "--save", "mine.yaml", "--fail-on", "never")
    assert code == 0
    assert "lakeaudit audit mine.yaml" in out
    assert "--save" not in out
    assert cli.main(["audit", "mine.yaml"]) == 1
    capsys.readouterr()
    code, _, err = scan(capsys, str(lake), "--save", "mine.yaml")
    assert (code, err.splitlines()[-1]) == (
        2,
        "lakeaudit: mine.yaml: exists already; name another file with --save",
    )


@pytest.mark.variant
def test_programs_get_one_object(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(lake)
    code, out, _ = scan(capsys, str(lake), "--format", "json")
    found = json.loads(out)
    assert code == 1
    assert (found["tables"], found["left_out"], found["unlisted_bytes"]) == (3, [], 5_000)
    kinds = [(each["kind"], each["severity"], each["files"], each["bytes"]) for each in found["kinds"]]
    assert kinds == [("dropped", "critical", 1, 100), ("unreferenced", "info", 1, 5_000)]
    assert found["judged"] == {
        "customers": "complete",
        "sales.orders": "complete",
        "sales.returns": "complete",
    }


@pytest.mark.variant
def test_small_files_are_information(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of the newest states count; a table with one small file is left out."""
    Log(lake / "single").commit(0, *BORN, add("a.parquet", size=100), when=LONG_AGO)
    put(lake / "single/a.parquet", 100, LONG_AGO)
    large = [add(name, size=size) for name, size in (("c.parquet", 16 << 20), ("d.parquet", (16 << 20) - 1))]
    Log(lake / "customers").commit(1, *large, remove("a.parquet", removed=LONG_AGO), when=LONG_AGO)
    for name, size in (("c.parquet", 16 << 20), ("d.parquet", (16 << 20) - 1)):
        put(lake / "customers" / name, size, LONG_AGO)
    code, out, _ = scan(capsys, str(lake))
    assert code == 0
    assert "6 files below 16.0 MiB (16.0 MiB together) in 3 tables" in out
    assert "compaction makes reading faster" in out
    _, out, _ = scan(capsys, str(lake), "--format", "json")
    found = json.loads(out)
    assert [(each["table_name"], each["files"], each["bytes"]) for each in found["small_files"]] == [
        ("customers", 2, (16 << 20) + 99),
        ("sales.orders", 2, 200),
        ("sales.returns", 2, 200),
    ]
    assert "small" not in {each["kind"] for each in found["kinds"]}


@pytest.mark.parametrize(
    ("place", "code", "told"),
    [
        ("./nowhere", 2, "is not a folder; name a folder that exists"),
        (
            "./empty",
            10,
            "no Delta log, no Iceberg metadata and no Hudi timeline was found in 1 folder of 5 levels",
        ),
        ("ftp://x", 2, "is not a location; write s3://bucket/prefix, or a path such as ./data"),
    ],
)
def test_a_location_that_cannot_be_scanned(
    lake: Path, capsys: pytest.CaptureFixture[str], place: str, code: int, told: str
) -> None:
    (lake.parent / "empty").mkdir()
    done, _, err = scan(capsys, place)
    assert done == code
    assert told in err.splitlines()[-1]


@pytest.fixture
def bucket(aws: Aws, tmp_path: Path) -> str:
    return lay_in_bucket(aws, tmp_path / "lake")


@pytest.mark.variant
def test_a_lost_object_that_can_be_restored_is_named(
    s3: Endpoint, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = scan(capsys, f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint))
    assert code == 1, err
    assert f"s3://{bucket}/wh/customers/a.parquet" in out
    assert "recoverable: yes" in out


@pytest.mark.variant
def test_noncurrent_versions_are_counted_but_for_tables_with_losses(
    aws: Aws, s3: Endpoint, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The noncurrent version of a lost file is its only copy."""
    aws.s3.put_object(Bucket=bucket, Key="wh/sales/returns/old.parquet", Body=b"x" * 100)
    aws.s3.delete_object(Bucket=bucket, Key="wh/sales/returns/old.parquet")
    _, out, _ = scan(capsys, f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint), "--price", "2")
    assert "noncurrent versions: 1 version, 100 B" in out
    assert "and the noncurrent versions of tables with losses; they may be needed for repairs" in out
    _, out, _ = scan(capsys, f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint), "--format", "json")
    found = json.loads(out)
    assert (found["noncurrent_versions"], found["noncurrent_bytes"], found["left_out"]) == (1, 100, [])
    assert found["requests"] > 10


@pytest.mark.variant
@pytest.mark.parametrize("most", [1, 4, 10, 16, 20, 25, 30])
def test_a_scan_sends_no_more_requests_than_it_may(
    s3: Endpoint, bucket: str, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    """Whatever the limit cuts off is named, and the exit code says that something is missing."""
    place = (f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint))
    code, out, err = scan(capsys, *place, "--max-requests", str(most), "--fail-on", "never")
    assert code in (3, 10), (out, err)
    assert f"the limit of {most} requests is reached" in out + err
    assert "OK" not in err.splitlines()[-1]


@pytest.mark.variant
def test_the_tables_of_a_catalog_are_judged(
    aws: Aws, s3: Endpoint, bucket: str, clients: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    catalog = GlueCatalog(clients, f"db{uuid.uuid4().hex[:8]}")
    delta = {"spark.sql.sources.provider": "delta"}
    catalog.table("customers", f"s3://{bucket}/wh/customers", parameters=delta)
    catalog.table("returns", f"s3://{bucket}/wh/sales/returns", parameters=delta)
    words = ("--catalog", f"glue://{catalog.database}", "--endpoint", str(s3.endpoint))
    code, out, err = scan(capsys, *words, "--format", "json", "--save", "mine.yaml")
    assert code == 1, err
    found = json.loads(out)
    assert (found["tables"], [each["key"] for each in found["findings"]][:1]) == (
        2,
        ["wh/customers/a.parquet"],
    )
    assert [*found["judged"]] == [f"{catalog.database}.customers", f"{catalog.database}.returns"]
    assert cli.main(["audit", "mine.yaml", "--live"]) == 1


@pytest.mark.variant
def test_a_table_without_a_list_of_its_files_is_named_and_is_not_ok(
    s3: Endpoint, bucket: str, clients: Clients, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = GlueCatalog(clients, f"db{uuid.uuid4().hex[:8]}")
    catalog.table("customers", f"s3://{bucket}/wh/customers")
    words = ("--catalog", f"glue://{catalog.database}", "--endpoint", str(s3.endpoint), "--format", "json")
    code, out, err = scan(capsys, *words)
    assert code == 3, err
    assert json.loads(out)["left_out"][0].startswith(f"not judged: {catalog.database}.customers: ")
    assert err.splitlines()[-1].endswith("; not everything was judged")


def test_a_scan_that_fails_leaves_no_lake_file(
    tmp_path: Path, s3: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lake.yaml"
    words = ("--catalog", "glue://no-such-database", "--endpoint", str(s3.endpoint), "--save", str(file))
    code, _, err = scan(capsys, *words)
    assert (code, file.exists()) == (10, False), err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "needs a location or --catalog, and not both"),
        (("./lake", "--catalog", "glue://"), "needs a location or --catalog, and not both"),
        (("--catalog", "glue"), "is not the address of a catalog"),
        (("--catalog", "hive://host"), "is not the address of a catalog"),
        (("--catalog", "hive://host:port"), "is not the address of a catalog"),
        (("--catalog", "https://name:secret@host/api"), "is not the address of a catalog"),
        (("--catalog", "hive://name:secret@host:9083"), "is not the address of a catalog"),
        (("--catalog", "https://host/api#part"), "is not the address of a catalog"),
        (("./lake", "--max-requests", "0"), "Invalid value for '--max-requests'"),
    ],
)
def test_a_scope_that_makes_no_sense(
    lake: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    code, _, err = scan(capsys, *words)
    assert (code, told in err.splitlines()[-1], "secret" in err) == (2, True, False), err


CATALOGS = [
    ("glue://", (), "{kind: glue}"),
    ("glue://sales", (), '{kind: glue, databases: ["sales"]}'),
    ("hive://metastore:9083", (), '{kind: hive, uri: "thrift://metastore:9083"}'),
    ("hive://metastore:9083/sales", (), '{kind: hive, uri: "thrift://metastore:9083", databases: ["sales"]}'),
    ("hive://[::1]:9083", (), '{kind: hive, uri: "thrift://[::1]:9083"}'),
    ("https://catalog/api", (), '{kind: iceberg_rest, uri: "https://catalog/api"}'),
    ("https://c/api", (TOKEN,), f'{{kind: iceberg_rest, uri: "https://c/api", bearer_env: {TOKEN}}}'),
    ("https://c/api", (CREDENTIAL,), f'{{kind: iceberg_rest, uri: "https://c/api", credential_env: {CREDENTIAL}}}'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "env", "entry"), CATALOGS)
def test_the_address_of_a_catalog_becomes_an_entry_of_a_lake_file(
    tmp_path: Path, text: str, env: tuple[str, ...], entry: str
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(scope_of_catalog(text, "http://127.0.0.1:9", env).text("/results"))
    assert f"metastores: [{entry}]" in file.read_text()
    assert load_lake(str(file), {}).finds_tables


def test_a_bucket_that_does_not_exist_cannot_be_scanned(
    s3: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = scan(capsys, f"s3://none-{uuid.uuid4().hex}/wh", "--endpoint", str(s3.endpoint))
    assert (code, "bucket" in err.splitlines()[-1]) == (10, True), err


def request(**given: Any) -> Request:
    return Request(**{"place": Location("b", "wh")} | given)


@pytest.mark.parametrize(
    ("asked", "size", "cost"),
    [
        (request(), 2**40, 1024 * 0.023),
        (request(endpoint="http://minio"), 2**40, None),
        (request(place=Location("", "data")), 2**40, None),
        (request(place=Location("", "data"), price=0.5), 2**31, 1.0),
    ],
)
def test_prices_are_those_of_s3_or_given(asked: Request, size: int, cost: float | None) -> None:
    assert dollars(asked, size) == cost


@pytest.mark.variant
def test_a_table_inside_of_a_table_is_named_and_is_not_ok(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Partition folders are not searched, so the scan does not judge a table in one."""
    Log(lake / "customers/day=1/inner").commit(0, *BORN, add("lost.parquet", size=100), when=LONG_AGO)
    code, out, err = scan(capsys, str(lake), "--format", "json")
    assert code == 3, err
    assert [line for line in json.loads(out)["left_out"] if "day=1/inner is a table of its own" in line]


@pytest.mark.variant
def test_a_folder_whose_name_is_not_utf8_is_named(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "sales" / os.fsdecode(b"\xff\xfebad")).mkdir()
    code, out, err = scan(capsys, str(lake), "--format", "json")
    assert code == 3, err
    assert any(line.endswith("its name is not UTF-8") for line in json.loads(out)["left_out"])


@pytest.mark.variant
def test_everything_that_is_not_judged_is_named(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a log, folders of partitions, links, a folder that cannot be listed, and a table of two formats."""
    put(lake / "lostlog/part.parquet", 100, LONG_AGO)
    put(lake / "region=eu/orders/part.parquet", 100, LONG_AGO)
    (lake / "latest").symlink_to(lake / "sales")
    put(lake / "denied/x", 1, LONG_AGO)
    write_timeline(
        lake / "customers",
        {"20261101100000000.commit": commit(stat("d=1/a_0-1-2_20261101100000000.parquet"))},
    )

    def folders(clients: Clients, folder: Location) -> list[str]:
        if folder.key.endswith("/denied"):
            raise SourceError(folder.uri, "access denied", "grant it")
        return list_folders(clients, folder)

    monkeypatch.setattr("lakeaudit.commands.init.folders", folders)
    code, out, err = scan(capsys, str(lake))
    assert code == 3
    told = "".join(out.split())
    assert f"notjudged:2folders({lake},{lake}/lostlog)withfiles,butwithoutatablelog" in told
    assert "whichisalsoatableofhudi" in told
    assert "denied:accessdenied" in told
    assert "notsearched:1partitionorhiddenfolderoutsideoftables" in told
    assert f"notfollowed:1symboliclink({lake}/latest)" in told
    assert err.splitlines()[-1].endswith("; the location was not searched completely")


@pytest.mark.variant
def test_files_of_tables_with_losses_may_be_needed(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "customers/a.parquet").unlink()
    code, out, _ = scan(capsys, str(lake))
    assert code == 1
    assert (
        "not included: 1 file and the noncurrent versions of tables with losses; they may be needed for repairs"
        in out
    )


@pytest.mark.variant
def test_a_new_loss_is_found(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The live check decides about files that are too young for an audit."""
    Log(lake / "new").commit(
        0, *BORN, *(add(name, size=100) for name in ("a.parquet", "b.parquet")), when=datetime.now(UTC)
    )
    put(lake / "new/a.parquet", 100, datetime.now(UTC))
    code, out, _ = scan(capsys, str(lake))
    assert (code, "new/b.parquet" in out) == (1, True)


@pytest.mark.variant
def test_hostile_names_stop_no_scan(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that would be equal in a lake file, and characters that YAML does not take as they are."""
    for name in ("sales.orders", "\U0001f600", 'a "b" \\ $(c) ${D}', "line\nbreak", "\x85x\u2028"):
        Log(lake / name).commit(0, *BORN, add("lost.parquet", size=100), when=LONG_AGO)
    code, _, err = scan(capsys, str(lake))
    assert code == 1, err
    assert "5 files dropped in 5 tables" in err.splitlines()[-1]
