"""Advice as people follow it: each command that findings print is run, and each manual way is done as the text says.

Then the next audit must resolve the finding, and readers must read the rows from before the damage.
"""

import html
import io
import re
import shlex
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lakeaudit.cli import main
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.iceberg import IcebergLake
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Row = Mapping[str, Any]


class AwsCli:
    """The commands of the AWS CLI that lakeaudit prints, done as the CLI does them."""

    OPTIONS: ClassVar = {
        "--bucket": "Bucket",
        "--key": "Key",
        "--version-id": "VersionId",
        "--copy-source": "CopySource",
        "--restore-request": "RestoreRequest",
        "--upload-id": "UploadId",
    }

    def __init__(self, s3: "S3Client") -> None:
        self.s3 = s3

    def run(self, line: str) -> None:
        """Every command of a line; the shell's words are those that `shlex` splits."""
        words: list[str] = []
        for word in [*shlex.split(line), "&&"]:
            if word == "&&":
                self._one(words)
                words = []
            else:
                words.append(word)

    def _one(self, words: list[str]) -> None:
        aws, service, operation, *rest = words
        assert aws == "aws"
        if "--endpoint-url" in rest:
            at = rest.index("--endpoint-url")
            del rest[at : at + 2]
        if service == "s3":
            self._high_level(operation, rest)
            return
        assert service == "s3api"
        if operation == "get-object":  # into a file of its own: nothing changes in storage
            return
        given = {self.OPTIONS[name]: value for name, value in zip(rest[::2], rest[1::2], strict=True)}
        getattr(self.s3, operation.replace("-", "_"))(**given)

    def _high_level(self, operation: str, rest: list[str]) -> None:
        bucket, key = _split(rest[0])
        if operation == "mv":
            to_bucket, to_key = _split(rest[1])
            self.s3.copy_object(Bucket=to_bucket, Key=to_key, CopySource={"Bucket": bucket, "Key": key})
        else:
            assert operation == "rm"
        self.s3.delete_object(Bucket=bucket, Key=key)


def _split(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


DAYS = ("2026-11-01",)
DEFAULTS = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1B"


@dataclass
class Site:
    """A bucket that keeps versions, with Delta, Iceberg and plain tables, and one lake file for all."""

    shop: Shop
    iceberg: IcebergLake
    folder: Path
    plain: list[str] = field(default_factory=list)

    @property
    def s3(self) -> "S3Client":
        return self.shop.s3

    @property
    def lake(self) -> Lake:
        entries = {
            **dict.fromkeys(self.shop.tables, "delta"),
            **dict.fromkeys(self.iceberg.tables, "iceberg"),
            **dict.fromkeys(self.plain, "previous"),
        }
        tables = [
            f"- {{name: {name}, location: 's3://{self.shop.bucket}/warehouse/{name}', manifests: [{{kind: {kind}}}]}}"
            for name, kind in entries.items()
        ]
        listing = f"[{{kind: listing, location: 's3://{self.shop.bucket}/warehouse/'}}]"
        return self.shop.lake(self.folder, inventories=listing, tables=tables, defaults=DEFAULTS)

    @property
    def file(self) -> str:
        return str(self.folder / "lake.yaml")

    def put(self, table: str, name: str, number: int) -> str:
        """A Parquet file of a plain table; its key."""
        if table not in self.plain:
            self.plain.append(table)
        buffer = io.BytesIO()
        pq.write_table(pa.table({"amount": list(range(number, number + 20))}), buffer)
        key = f"warehouse/{table}/{name}"
        self.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=buffer.getvalue())
        backdate(self.shop.bucket, key, datetime.now(UTC) - timedelta(days=30))
        return key

    def keys(self, table: str) -> list[str]:
        return self.shop.keys(f"{table}/")

    def rows(self, table: str) -> "Counter[Any]":
        """The rows that readers of a table read."""
        if table in self.shop.tables:
            uri = f"s3://{self.shop.bucket}/warehouse/{table}"
            return Counter(
                DeltaTable(uri, storage_options=self.shop.options).to_pyarrow_table()["amount"].to_pylist()
            )
        if table in self.iceberg.tables:
            return Counter(
                self.iceberg.catalog.load_table(f"shop.{table}").scan().to_arrow()["amount"].to_pylist()
            )
        content = (
            self.s3.get_object(Bucket=self.shop.bucket, Key=key)["Body"].read() for key in self.keys(table)
        )
        return Counter(n for each in content for n in pq.read_table(io.BytesIO(each))["amount"].to_pylist())

    def log(self, table: str, version: int) -> str:
        return f"warehouse/{table}/_delta_log/{version:020}.json"

    def move(self, key: str, to: str) -> None:
        self.s3.copy_object(
            Bucket=self.shop.bucket, Key=to, CopySource={"Bucket": self.shop.bucket, "Key": key}
        )
        self.drop(key)

    def copy(self, key: str, to: str) -> None:
        self.s3.copy_object(
            Bucket=self.shop.bucket, Key=to, CopySource={"Bucket": self.shop.bucket, "Key": key}
        )

    def drop(self, *keys: str) -> None:
        for key in keys:
            self.s3.delete_object(Bucket=self.shop.bucket, Key=key)

    def spoil(self, key: str, body: bytes = b"junk") -> None:
        self.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=body)


def lost_file(site: Site) -> None:
    site.drop(site.keys("lost_file")[0])


def lost_partition(site: Site) -> None:
    site.drop(*site.keys("lost_partition"))


def junk_over_a_file(site: Site) -> None:
    site.spoil(site.keys("junk_over_a_file")[0])


def lost_commits(site: Site) -> None:
    site.drop(*(site.log("lost_commits", version) for version in (1, 2, 3, 4)))


def torn_commit(site: Site) -> None:
    site.spoil(site.log("torn_commit", 1), b'{"add": {"path": "x')


def cut_commit(site: Site) -> None:
    """A commit that begins with its commitInfo, as Spark writes it, and lacks its last line."""
    key = site.log("cut_commit", 1)
    lines = site.s3.get_object(Bucket=site.shop.bucket, Key=key)["Body"].read().splitlines(keepends=True)
    lines.sort(key=lambda line: b'"commitInfo"' not in line)
    site.spoil(key, b"".join(line.rstrip() + b"\n" for line in lines))
    site.spoil(key, lines[0].rstrip() + b"\n")


def torn_checkpoint(site: Site) -> None:
    key = f"warehouse/torn_checkpoint/_delta_log/{5:020}.checkpoint.parquet"
    site.spoil(key, site.s3.get_object(Bucket=site.shop.bucket, Key=key)["Body"].read()[:100])


def plain_file_lost(site: Site) -> None:
    site.drop("warehouse/plain_file_lost/d=1/a.parquet")


def plain_copy(site: Site) -> None:
    """The copy has the lesser name and, as after a copy that keeps times, could as well be the older."""
    site.copy("warehouse/plain_copy/d=1/b.parquet", "warehouse/plain_copy/d=1/a-copy.parquet")


def plain_half_renamed(site: Site) -> None:
    site.move("warehouse/plain_half_renamed/d=1/a.parquet", "warehouse/plain_half_renamed/d=1_old/a.parquet")


def delta_half_renamed(site: Site) -> None:
    key = site.keys("delta_half_renamed")[0]
    site.move(key, key.replace("day=", "old_day="))


def iceberg_manifest_lost(site: Site) -> None:
    table = site.iceberg.catalog.load_table("shop.iceberg_manifest_lost")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table.io)[0].manifest_path
    site.drop(manifest.removeprefix(f"s3://{site.shop.bucket}/"))


def iceberg_file_lost(site: Site) -> None:
    site.drop(site.keys("iceberg_file_lost")[0])


def iceberg_listed_twice(site: Site) -> None:
    """A writer that does not deduplicate appends a file that the table lists already."""
    table = site.iceberg.catalog.load_table("shop.iceberg_listed_twice")
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(_first_file(table))


def put_a_copy_in_its_place(site: Site) -> None:
    """Follow the advice: a copy under a new name replaces all entries of the path in one commit."""
    table = site.iceberg.catalog.load_table("shop.iceberg_listed_twice")
    file = _first_file(table)
    copied = file.file_path.replace(".parquet", "-copy.parquet")
    site.copy(*(path.removeprefix(f"s3://{site.shop.bucket}/") for path in (file.file_path, copied)))
    with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(file)
        names = ("content", "file_format", "partition", "record_count", "file_size_in_bytes")
        overwrite.append_data_file(
            DataFile.from_args(file_path=copied, **{name: getattr(file, name) for name in names})
        )


def _first_file(table: Table) -> DataFile:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest, *_) = snapshot.manifests(table.io)
    return manifest.fetch_manifest_entry(table.io)[0].data_file


def plain_one_of_two_removed(site: Site) -> None:
    """Remove the older one of two equal files before any audit reports them."""
    site.drop("warehouse/plain_one_of_two_removed/d=1/a.parquet")


@dataclass(frozen=True)
class Damage:
    """A change of the table of the same name, and the kind and number of the findings that follow."""

    act: Callable[[Site], None]
    kind: str
    number: int = 1
    words: tuple[str, ...] = ()
    """Parts of the explanation of one of the findings."""
    way: Callable[[Site], None] | None = None
    """Does the work of a person where the advice is not a command."""
    keeps_rows: bool = True

    @property
    def table(self) -> str:
        return self.act.__name__


DAMAGES = (
    Damage(lost_file, "dropped"),
    Damage(lost_partition, "dropped", 6, ("the whole partition is missing: day=2026-11-01, files: 6",)),
    Damage(junk_over_a_file, "size_mismatch"),
    Damage(
        lost_commits,
        "missing_metadata",
        4,
        (
            "commits 1 to 4 are missing",
            "storage keeps an object version of 4 of these 4 files",
            f"{1:020}.json, {2:020}.json",
        ),
    ),
    Damage(torn_commit, "missing_metadata"),
    Damage(torn_commit, "overwritten_commit", words=("the newer version is incomplete",)),
    Damage(
        cut_commit,
        "overwritten_commit",
        words=(
            "the newer version is incomplete",
            "also incomplete_commit (error): commit 1 holds less than its own counts say: 0 of 1 added files, 0 of 10",
        ),
    ),
    Damage(torn_checkpoint, "missing_metadata"),
    Damage(plain_file_lost, "dropped"),
    Damage(plain_copy, "duplicate_content"),
    Damage(plain_half_renamed, "dropped", words=("d=1_old/a.parquet, as after a rename",)),
    Damage(delta_half_renamed, "dropped", words=("old_day=2026-11-01/", "as after a rename")),
    Damage(iceberg_manifest_lost, "missing_metadata", words=("storage keeps the object version",)),
    Damage(iceberg_file_lost, "dropped"),
    Damage(iceberg_listed_twice, "duplicate_entry", way=put_a_copy_in_its_place),
    Damage(plain_one_of_two_removed, "dropped", 0, keeps_rows=False),
)
ONCE = list({damage.table: damage for damage in DAMAGES}.values())


@dataclass(frozen=True)
class Followed:
    """A site before and after its damages were repaired as the findings advise."""

    site: Site
    before: Mapping[str, "Counter[Any]"]
    after: Mapping[str, "Counter[Any]"]
    found: list[dict[str, Any]]
    ledger: Mapping[str, dict[str, Any]]
    codes: Mapping[str, int]
    left: list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def followed(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    return follow(aws, s3, tmp_path_factory.mktemp("advice"), one_of_each_form)


def follow(
    aws: Aws, s3: Endpoint, folder: Path, typed: Callable[[Iterable[str]], Iterable[str]] = iter
) -> Followed:
    """Audit one lake three times: healthy, damaged, and repaired by the commands that `findings` prints.

    `typed` selects the printed commands of lakeaudit itself that run.
    """
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    site = Site(Shop(aws.s3, s3, bucket), IcebergLake(aws.s3, s3, bucket), folder)
    write(site)
    before = {damage.table: site.rows(damage.table) for damage in ONCE}
    audit(site, "r1")
    for damage in ONCE:
        damage.act(site)
    audit(site, "r2")
    printed = findings_text(site)
    codes = {line: code_of(line) for line in typed(commands(site, printed))}
    repair(site, printed)
    audit(site, "r3")
    ledger = {row["discrepancy_id"]: row for row in rows_of(results_of(site.lake).discrepancies())}
    left = [(row["table_name"], row["kind"], row["subject"]) for row in findings_of(site, "r3")]
    after = {damage.table: site.rows(damage.table) for damage in ONCE}
    return Followed(site, before, after, findings_of(site, "r2"), ledger, codes, left)


def write(site: Site) -> None:
    """A table for each damage."""
    for damage in ONCE:
        if damage.table.startswith("plain_"):
            for number, name in enumerate(("d=1/a", "d=1/b", "d=2/c")):
                same = damage.act is plain_one_of_two_removed and name.startswith("d=1/")
                site.put(damage.table, f"{name}.parquet", 0 if same else number * 100)
    names = [damage.table for damage in ONCE if not damage.table.startswith("plain_")]
    of_iceberg = [name for name in names if name.startswith("iceberg_")]
    site.shop.write("template", commits=6, days=DAYS, rows=10)
    site.shop.copy("template", *(name for name in names if name not in of_iceberg), own_ids=True)
    site.iceberg.table("iceberg_template")
    site.iceberg.copy("iceberg_template", *of_iceberg)
    torn = f"s3://{site.shop.bucket}/warehouse/torn_checkpoint"
    DeltaTable(torn, storage_options=site.shop.options).create_checkpoint()


def audit(site: Site, run_id: str) -> None:
    time.sleep(1.1)  # S3 times have whole seconds
    audited(site.lake, run_id=run_id)


def repair(site: Site, printed: str) -> None:
    """Do as the printed commands say, and as the texts say where there is no command."""
    cli = AwsCli(site.s3)
    for line in printed.splitlines():
        if line.strip().startswith("aws "):
            cli.run(line.strip())
    for damage in ONCE:
        if damage.way is not None:
            damage.way(site)


def findings_of(site: Site, run_id: str) -> list[dict[str, Any]]:
    return list(rows_of(results_of(site.lake).findings(run_id)))


COMMAND = re.compile(r"lakeaudit (?:findings|explain|discrepancies|reconcile plan|hazards) [^<\n]+")


def commands(site: Site, printed: str) -> list[str]:
    """Every command of lakeaudit itself that the report and `findings` print."""
    page = site.folder / "report.html"
    assert code_of(f"lakeaudit report {site.file} -o {page}") == 0
    found = [html.unescape(each) for each in COMMAND.findall(page.read_text())] + COMMAND.findall(printed)
    return list(dict.fromkeys(each.strip() for each in found))


def one_of_each_form(lines: Iterable[str]) -> Iterable[str]:
    """One of the commands that differ by their places and ids alone; the names of places may end in other ways."""
    by_form = {tuple(_form(word) for word in shlex.split(each)): each for each in lines}
    return by_form.values()


def _form(word: str) -> str:
    return Path(word).suffix if "/" in word else re.sub("[0-9]", "", word)


def code_of(line: str) -> int:
    """Run a printed command in a folder of its own, and return the exit code."""
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        redirect_stdout(io.TextIOWrapper(io.BytesIO())),
        redirect_stderr(io.TextIOWrapper(io.BytesIO())),
    ):
        return main(shlex.split(line)[1:])


def findings_text(site: Site) -> str:
    """Return the output of `lakeaudit findings`."""
    out = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(out)), redirect_stderr(io.TextIOWrapper(io.BytesIO())):
        assert main(["findings", site.file]) == 0
        sys.stdout.flush()
        return out.getvalue().decode()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage.table}-{damage.kind}")
def test_the_printed_command_repairs_the_finding(followed: Followed, damage: Damage) -> None:
    mine = [row for row in followed.found if row["table_name"] == damage.table and row["kind"] == damage.kind]
    assert len(mine) == damage.number, [
        (r["kind"], r["subject"]) for r in followed.found if r["table_name"] == damage.table
    ]
    for words in damage.words:
        assert words in mine[0]["explanation"]
    assert {followed.ledger[row["discrepancy_id"]]["state"] for row in mine} <= {"resolved"}
    assert [left for left in followed.left if left[0] == damage.table] == []
    assert (followed.after[damage.table] == followed.before[damage.table]) is damage.keeps_rows


def test_each_form_of_command_that_pages_and_findings_print_can_be_typed(followed: Followed) -> None:
    can_be_typed(followed)


@pytest.mark.soak
def test_every_command_that_pages_and_findings_print_can_be_typed(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    can_be_typed(follow(aws, s3, tmp_path))


def can_be_typed(followed: Followed) -> None:
    assert any("reconcile plan" in line for line in followed.codes)
    assert any("findings" in line for line in followed.codes)
    assert {line: code for line, code in followed.codes.items() if code} == {}
