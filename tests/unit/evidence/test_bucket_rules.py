"""`buckets` and `dynamodb` of the lake file: which way leads to which place, and by what other names places go."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import LakeFileError
from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.metastore.dynamodb.pages import FIRST_PAGE, ReadCapacity, scan_pages
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.keys import Aliases, Location, true_place
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.endpoints import clients_of, dynamodb_endpoint
from lakeaudit.runtime.duck import task_connection

HEAD = "version: 1\nlake: shop\nresults: s3://out/shop\n"
ARN = "arn:aws:iam::123456789012:role"


def load(tmp_path: Path, text: str) -> Lake:
    file = tmp_path / "lake.yaml"
    tables = "" if "\ntables:" in text else "tables: [{name: a, location: s3://lake/a}]\n"
    file.write_text(HEAD + text.lstrip("\n") + tables, encoding="utf-8")
    return load_lake(file, {})


LAKE = f"""
s3: {{region: us-east-1, role_arn: "{ARN}/lake"}}
buckets:
  - {{match: "prod-eu-*", role_arn: "{ARN}/eu", region: eu-central-1, external_id: x}}
  - {{match: "prod-*", role_arn: "{ARN}/prod", requester_pays: true, consistency: weak}}
inventories:
  - {{kind: s3_inventory, location: s3://central/inv/a/, s3: {{role_arn: "{ARN}/a"}}}}
  - kind: s3_inventory
    location: s3://central/inv/b/cfg/2026-11-20T00-00Z/manifest.json
    s3: {{role_arn: "{ARN}/b"}}
  - {{kind: s3_inventory, location: s3://central/other/}}
  - {{kind: listing, location: s3://prod-eu-1/landing/, s3: {{role_arn: "{ARN}/landing"}}}}
"""

WAYS = [
    # place, role, region: who reads it by which way
    ("s3://lake/a/part", "lake", "us-east-1"),
    ("s3://prod-eu-7/t/part", "eu", "eu-central-1"),
    ("s3://prod-us-7/t/part", "prod", "us-east-1"),
    ("s3://central/inv/a/cfg/2026-11-20T00-00Z/manifest.json", "a", "us-east-1"),
    ("s3://central/inv/a/cfg/data/1.csv.gz", "a", "us-east-1"),
    ("s3://central/inv/b/cfg/2026-11-20T00-00Z/manifest.json", "b", "us-east-1"),
    ("s3://central/inv/b/cfg/data/1.csv.gz", "b", "us-east-1"),
    ("s3://central/other/cfg/data/1.csv.gz", "lake", "us-east-1"),
    ("s3://prod-eu-1/landing/2026/part", "landing", "eu-central-1"),
    ("s3://out/shop/runs", "lake", "us-east-1"),
]


@pytest.mark.parametrize(("uri", "role", "region"), WAYS)
def test_the_first_rule_that_matches_holds_and_a_source_goes_its_own_way(
    tmp_path: Path, uri: str, role: str, region: str
) -> None:
    at = clients_of(load(tmp_path, LAKE)).endpoint(*Location.parse(uri))
    assert (at.role_arn, at.region) == (f"{ARN}/{role}", region)


def test_a_rule_says_what_else_holds_for_its_buckets(tmp_path: Path) -> None:
    lake = load(tmp_path, LAKE)
    clients = clients_of(lake)
    assert [clients.endpoint(name).requester_pays for name in ("prod-1", "prod-eu-1", "lake")] == [
        *(True, False, False)
    ]
    assert [lake.is_weak(name) for name in ("prod-1", "prod-eu-1", "lake")] == [True, False, False]
    assert clients.endpoint("prod-eu-9").external_id == "x"


ALIASED = """
buckets:
  - {match: prod, aliases: [prod-x-s3alias, "dbfs:/mnt/prod", "dbfs:/mnt/prod/deep"]}
  - match: "raw-*"
    aliases: {"dbfs:/mnt/raw": "s3://raw-eu/landing", raw-ap-s3alias: "s3://raw-us"}
inventories:
  - {kind: s3_inventory, location: s3://inv/prod/, covers: ["s3://prod-x-s3alias/warehouse/"]}
tables:
  - {name: a, location: "dbfs:/mnt/prod/warehouse/a", manifests: [{kind: file_list, location: "dbfs:/mnt/raw/lists"}]}
  - {name: b, location: s3://raw-ap-s3alias/b}
"""


def test_no_place_of_a_lake_goes_by_another_name(tmp_path: Path) -> None:
    lake = load(tmp_path, ALIASED)
    assert [table.location.uri for table in lake.tables] == ["s3://prod/warehouse/a", "s3://raw-us/b"]
    assert lake.tables[0].manifests[0].places == (Location("raw-eu", "landing/lists"),)
    assert lake.inventories[0].covers == (Location("prod", "warehouse"),)  # type: ignore[attr-defined]
    elsewhere = (Location("", ""), Location("file:", ""))
    assert clients_of(lake).aliases == (*lake.aliases, elsewhere)


def test_a_pattern_that_matches_one_bucket_of_the_file_is_about_that_bucket(tmp_path: Path) -> None:
    lake = load(tmp_path, 'buckets: [{match: "la*", aliases: [lake-s3alias]}]\n')
    assert lake.aliases == ((Location("lake-s3alias", ""), Location("lake", "")),)


REFUSED = [
    ('buckets: [{match: "prod-*", aliases: [x-s3alias]}]', "the bucket of 'x-s3alias' is not known"),
    (
        "buckets: [{match: a1b, aliases: [x]}, {match: b2c, aliases: [x]}]",
        "'x' is a name of s3://a1b/ already",
    ),
    ("buckets: [{match: prod, aliases: ['mnt/x']}]", "no other name of a bucket: 'mnt/x'"),
    ("buckets: [{match: p, aliases: {'mnt/x': s3://prod}}]", "aliases.mnt/x: no other name of a bucket"),
    ("buckets: [{match: 'a/b'}]", "not a pattern of bucket names: 'a/b'"),
    ("buckets: [{match: prod, consistency: eventual}]", "must not be 'eventual'"),
    ("buckets: [{role_arn: 'arn:aws:iam::1:role/x'}]", "buckets[0].match: is missing"),
    ("watch: ['dbfs:/mnt/elsewhere/']", "not a location: 'dbfs:/mnt/elsewhere/'"),
    ("dynamodb: {read_capacity: 0}", "out of bounds: '0'"),
]


@pytest.mark.parametrize(("text", "what"), REFUSED)
def test_an_ambiguous_name_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(LakeFileError) as refused:
        load(tmp_path, f"{text}\n")
    assert len(refused.value.problems) == 1
    assert what in str(refused.value)


def test_two_tables_of_one_place_are_found_out_by_their_true_names(tmp_path: Path) -> None:
    twice = """
buckets: [{match: prod, aliases: [prod-s3alias]}]
tables: [{name: a, location: s3://prod/a}, {name: b, location: s3a://prod-s3alias/a/}]
"""
    with pytest.raises(LakeFileError, match="the table 'a' has this location already"):
        load(tmp_path, twice)


MOTO, AWS_S3 = "http://127.0.0.1:5000", "https://s3.eu-central-1.amazonaws.com"
DYNAMODB = [
    # s3, dynamodb, the source's own keys; then endpoint, region, role, read_capacity
    ("{}", "{}", "", (None, None, None, None)),
    (f"{{endpoint: '{MOTO}', region: r}}", "{}", "", (MOTO, "r", None, None)),
    (f"{{endpoint: '{AWS_S3}', region: r}}", "{}", "", (None, "r", None, None)),
    (f"{{endpoint: '{MOTO}', region: r}}", "{read_capacity: 9}", "", (MOTO, "r", None, 9)),
    (f"{{endpoint: '{MOTO}', region: r}}", "{region: q}", "", (None, "q", None, None)),
    (f"{{endpoint: '{MOTO}'}}", "{endpoint: 'http://d:1'}", "", ("http://d:1", None, None, None)),
    ("{role_arn: 'arn:lake'}", "{role_arn: 'arn:ddb'}", "", (None, None, "arn:ddb", None)),
    ("{role_arn: 'arn:lake'}", "{region: q}", "", (None, "q", "arn:lake", None)),
    ("{}", "{region: q, role_arn: 'arn:ddb'}", "s3: {region: own}", (None, "own", "arn:ddb", None)),
    (f"{{endpoint: '{MOTO}'}}", "{}", "s3: {role_arn: 'arn:own'}", (MOTO, None, "arn:own", None)),
    ("{}", "{region: q}", "dynamodb: {region: own, read_capacity: 3}", (None, "own", None, 3)),
]


@pytest.mark.parametrize(("s3", "dynamodb", "own", "way"), DYNAMODB)
def test_dynamodb_is_reached_by_its_own_endpoint(
    tmp_path: Path, s3: str, dynamodb: str, own: str, way: tuple[Any, ...]
) -> None:
    source = "{kind: s3guard, table: guard" + (f", {own}" if own else "") + "}"
    (store,) = load(tmp_path, f"s3: {s3}\ndynamodb: {dynamodb}\nmetastores: [{source}]\n").metastores
    assert isinstance(store, S3Guard)
    at = dynamodb_endpoint(store.way)
    assert (at.endpoint, at.region, at.role_arn, store.way.read_capacity) == way


@dataclass
class Store:
    """A table whose items cost `unit` read units each, and a clock that only sleeping moves."""

    items: int
    unit: float
    now: float = 0.0
    asked: list[tuple[float, int]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def scan(self, Limit: int, **request: Any) -> dict[str, Any]:  # noqa: N803 - the API's names
        first = int(request.get("ExclusiveStartKey", {"n": 0})["n"])
        page = range(first, min(first + Limit, self.items))
        self.asked.append((self.now, len(page)))
        more = {"LastEvaluatedKey": {"n": page.stop}} if page.stop < self.items else {}
        units = {"CapacityUnits": len(page) * self.unit}
        return {
            "Items": [{"n": n} for n in page],
            "ScannedCount": len(page),
            "ConsumedCapacity": units,
            **more,
        }


@pytest.mark.parametrize(
    ("items", "unit", "capacity"), [(5000, 0.5, 100.0), (300, 8.0, 20.0), (40, 100.0, 5.0)]
)
def test_a_scan_consumes_no_more_than_its_share_of_read_units(
    items: int, unit: float, capacity: float
) -> None:
    store = Store(items, unit)
    pace = ReadCapacity(capacity, clock=lambda: store.now, sleep=store.sleep)
    pages = list(scan_pages(store, "guard", 0, 1, pace))
    assert sum(map(len, pages)) == items
    first = FIRST_PAGE * unit  # one page is let go before anything is known
    for at, _ in store.asked:
        spent = sum(size for earlier, size in store.asked if earlier < at) * unit
        assert spent <= at * capacity + 1e-6
    assert all(size * unit <= max(capacity, unit) for _, size in store.asked[1:])
    assert store.asked[-1][0] >= (items * unit - max(capacity, unit, first)) / capacity - 1e-6


ALIASES: Aliases = (
    (Location("dbfs:", "mnt/prod/deep"), Location("deep", "")),
    (Location("dbfs:", "mnt/prod"), Location("prod", "root")),
    (Location("alias", ""), Location("prod", "")),
    (Location("part", "a"), Location("prod", "b")),
)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["dbfs:", "alias", "part", "prod", "", "o'dd"]),
            st.sampled_from(["mnt/prod/x", "mnt/prod/deep/x/y", "mnt/product", "a/x", "ab", "x//", "a/'q"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_sql_gives_the_true_place_that_python_gives(named: list[tuple[str, str]]) -> None:
    import pyarrow as pa

    bucket, key = true_columns(ALIASES, "bucket", "key")
    rows = pa.table({"bucket": [b for b, _ in named], "key": [k for _, k in named]})
    with task_connection() as con:
        found = duck.rows_of(duck.query(con, f"SELECT {bucket} AS b, {key} AS k FROM rows", rows=rows))
    assert [(row["b"], row["k"]) for row in found] == [true_place(ALIASES, *each) for each in named]
