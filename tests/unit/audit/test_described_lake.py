"""Lakes that are described, not listed: profiles, includes, owners, aliases of tables, and tables to be found."""

import time
from datetime import date, timedelta
from pathlib import Path

import pytest

from lakeaudit.audit.plan import Options, in_scope
from lakeaudit.config import AppriseAlert, Expected, Lake, load_lake
from lakeaudit.config.field_types import LOCATION_HINT
from lakeaudit.errors import LakeFileError
from lakeaudit.evidence.discovery import expanded, tables_at, unmatched
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.findings.expected_gaps import mark_expected
from lakeaudit.keys import Location
from lakeaudit.matching.table_facts import co_owners, roots
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.slowness import slowness

HEAD = "version: 1\nlake: shop\nresults: s3://out/shop\n"


def load(tmp_path: Path, text: str) -> Lake:
    file = tmp_path / "lake.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return load_lake(file, {})


def problems_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(LakeFileError) as caught:
        load(tmp_path, text)
    return [str(each).removeprefix(f"{tmp_path}/") for each in caught.value.problems]


def test_a_profile_lies_between_the_defaults_and_the_table(tmp_path: Path) -> None:
    lake = load(
        tmp_path,
        """
defaults: {grace: 2h, retention: 9d, confirm: {limit: 5, rate: 7}}
profiles: {slow: {grace: 3h, leftover_age: 8d, confirm: {limit: 6}}}
tables:
  - {name: a, location: s3://lake/a, profile: slow, leftover_age: 1d}
  - {name: b, location: s3://lake/b}
""",
    )
    a, b = (table.settings for table in lake.tables)
    assert (a.grace, a.leftover_age, a.retention) == (
        timedelta(hours=3),
        timedelta(days=1),
        timedelta(days=9),
    )
    assert (a.confirm.limit, a.confirm.rate) == (6, 7)
    assert (b.grace, b.confirm.limit) == (timedelta(hours=2), 5)


def test_the_first_owner_that_matches_is_notified(tmp_path: Path) -> None:
    lake = load(
        tmp_path,
        """
owners:
  - {match: "sales.eu*", owner: eu, url_env: EU_HOOK}
  - {match: "sales.*", owner: sales, url_env: SALES_HOOK}
  - {match: "crm.*", owner: sales, url_env: SALES_HOOK}
  - {match: "**", owner: platform}
tables:
  - {name: sales.eu_orders, location: s3://lake/a}
  - {name: sales.orders, location: s3://lake/b}
  - {name: raw, location: s3://lake/c}
  - {name: sales.own, location: s3://lake/d, owner: me}
""",
    )
    assert [table.owner for table in lake.tables] == ["eu", "sales", "platform", "me"]
    routes = [(each.url_env, each.tables) for each in lake.alerts if isinstance(each, AppriseAlert)]
    assert routes == [("EU_HOOK", ("sales.eu*",)), ("SALES_HOOK", ("sales.*", "crm.*"))]


def test_tables_of_other_files_stand_as_if_in_this_one(tmp_path: Path) -> None:
    (tmp_path / "tables.d").mkdir()
    (tmp_path / "tables.d" / "b.yaml").write_text("# later\n- {name: b, location: s3://lake/b}\n")
    (tmp_path / "tables.d" / "a.yaml").write_text("- {name: a, location: s3://lake/a}\n")
    lake = load(tmp_path, 'include: ["tables.d/*.yaml"]\ntables: [{name: own, location: s3://lake/own}]\n')
    assert [table.name for table in lake.tables] == ["own", "a", "b"]
    assert [table.name for table in load(tmp_path, 'include: ["tables.d/a.yaml"]\n').tables] == ["a"]


def test_problems_of_other_files_name_those(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "- name: b\n  location: s3://lake/b\n  grase: 1h\n- {name: own, location: x}\n"
    )
    (tmp_path / "two.yaml").write_text("name: c\n")
    text = "include: [one.yaml, two.yaml, none.yaml, /etc/hosts]\ntables: [{name: own, location: s3://lake/own}]\n"
    dash = "(begin each entry with a dash, as below `tables`)"
    assert problems_of(tmp_path, text) == [
        f"lake.yaml:4: include[1]: {tmp_path}/two.yaml:1: the file is not a list {dash}",
        "lake.yaml:4: include[2]: no file is called 'none.yaml' (a path or pattern, from the lake file's folder on)",
        "lake.yaml:4: include[3]: no file is called '/etc/hosts' (a path or pattern, from the lake file's folder on)",
        "one.yaml:3: tables[1].grase: unknown key (did you mean grace?)",
        "one.yaml:4: tables[2].name: a second table 'own' (each table needs a name of its own)",
        f"one.yaml:4: tables[2].location: not a location: 'x' ({LOCATION_HINT})",
    ]


def test_one_location_is_one_table_where_all_of_its_tables_say_so(tmp_path: Path) -> None:
    alias = "same_location: alias"
    lake = load(
        tmp_path,
        f"""
tables:
  - {{name: a, location: s3://lake/a, {alias}}}
  - {{name: b, location: s3://lake/b, shares: [a2, a]}}
  - {{name: a2, location: "s3a://lake/a/", {alias}}}
""",
    )
    assert [(table.name, table.also, table.shares) for table in lake.tables] == [
        ("a", ("a2",), ()),
        ("b", (), ("a",)),
    ]
    assert [table.name for table in in_scope(lake, Options(tables=("a2", "a")))] == ["a"]
    (problem,) = problems_of(
        tmp_path, f"tables: [{{name: a, location: s3://l/a, {alias}}}, {{name: b, location: s3://l/a}}]\n"
    )
    assert "all of its tables say same_location: alias" in problem


DELTA_HERE = "{name: d, location: s3://l/a, manifests: [{kind: delta}]%s}"
ICEBERG_HERE = "{name: i, location: s3://l/a, manifests: [{kind: iceberg, catalog: g, table: x.y}]%s}"
PLAIN_HERE = "{name: p, location: s3://l/a%s}"
ALIAS = ", same_location: alias"
TWO = {"d": ((), ("delta",), ("i",)), "i": ((), ("iceberg",), ("d",))}


@pytest.mark.parametrize(
    ("entries", "tables"),
    [
        ((DELTA_HERE % "", ICEBERG_HERE % ""), TWO),
        ((DELTA_HERE % ALIAS, ICEBERG_HERE % ALIAS), TWO),
        ((DELTA_HERE % ALIAS, ICEBERG_HERE % ""), TWO),
        # a name without a format is one of the table that owns what no table lists, and hides no manifest
        ((DELTA_HERE % ALIAS, PLAIN_HERE % ALIAS), {"d": (("p",), ("delta",), ())}),
        ((PLAIN_HERE % ALIAS, DELTA_HERE % ALIAS), {"p": (("d",), ("delta",), ())}),
        (
            (DELTA_HERE % ALIAS, ICEBERG_HERE % ALIAS, PLAIN_HERE % ALIAS),
            {"d": (("p",), ("delta",), ("i",)), "i": ((), ("iceberg",), ("d",))},
        ),
    ],
)
def test_formats_of_one_location_are_tables_of_their_own(
    tmp_path: Path, entries: tuple[str, ...], tables: dict[str, tuple[tuple[str, ...], ...]]
) -> None:
    catalog = "metastores: [{kind: glue, name: g, region: us-east-1}]\n"
    for order in (entries, entries[::-1]) if tables is TWO else (entries,):
        lake = load(tmp_path, f"{catalog}tables: [{', '.join(order)}]\n")
        said = {t.name: (t.also, tuple(m.kind for m in t.manifests), t.shares) for t in lake.tables}
        assert said == tables
        pointers = [
            p.name
            for t in lake.tables
            for m in t.manifests
            if isinstance(m, PointedIceberg)
            for p in m.pointers
        ]
        assert pointers == ["x.y"] * ("i" in tables)
        assert set(roots(lake.tables).values()) == {next(iter(tables))}
        assert co_owners(lake.tables) == ({"i": "d"} if "i" in tables else {})


def test_tables_of_one_location_that_may_be_one_say_so(tmp_path: Path) -> None:
    for entries in (
        (DELTA_HERE, DELTA_HERE.replace("d,", "e,")),
        (DELTA_HERE, PLAIN_HERE),
        (PLAIN_HERE, ICEBERG_HERE),
    ):
        written = ", ".join(entry % "" for entry in entries)
        problems = problems_of(tmp_path, f"tables: [{written}]\n")
        assert any("has this location already" in problem for problem in problems)


REFUSED = [
    ("tables: [{name: a, location: s3://lake/a, profile: cold}]", "no profile is called 'cold'"),
    (
        "tables: [{discover: {from: inventory, under: [s3://lake/w/]}}]",
        "tables are discovered in inventories (s3_inventory, gcs_inventory, azure_inventory)",
    ),
    ("profiles: {cold: {location: s3://x}}\ntables: [{name: a, location: s3://lake/a}]", "unknown key"),
    ("expect: [{tables: [x], refused: y}]\ntables: [{name: a, location: s3://lake/a}]", "reason: is missing"),
]
DELTA = ("delta",)
INV = "inventories: [{kind: s3_inventory, location: s3://inv/}]\n"
REFUSED_DISCOVERIES = [
    ("{from: listing, under: [s3://lake/]}", "must not be 'listing'"),
    ("{from: inventory, under: []}", "under"),
    ("{from: inventory, under: [s3://lake/], name: '{0}'}", "not a template of names"),
    ("{from: inventory, under: [s3://lake/], name: 'fixed'}", "not a template of names"),
    ("{from: inventory, under: [s3://lake/], profile: cold}", "no profile is called 'cold'"),
    ("{from: inventory, under: [s3://lake/], formats: [parquet]}", "formats"),
    ("{from: inventory, under: [s3://lake/], formats: []}", "formats"),
    ("{from: inventory, under: ['s3://lake-[z-a]/']}", "not a location: 's3://lake-[z-a]/'"),
    ("{from: inventory, under: ['s3://lake {*}/']}", "not a location"),
    ("{from: inventory, under: ['s3:///*']}", "not a location"),
]


@pytest.mark.parametrize(
    ("text", "what"),
    [*REFUSED, *((f"{INV}tables: [{{discover: {text}}}]", what) for text, what in REFUSED_DISCOVERIES)],
)
def test_invalid_values_are_refused(tmp_path: Path, text: str, what: str) -> None:
    (problem,) = problems_of(tmp_path, f"{text}\n")
    assert what in problem


DISCOVER = f"""{INV}
profiles: {{slow: {{grace: 5h}}}}
owners: [{{match: "crm.*", owner: crm}}]
buckets: [{{match: other, region: eu-west-1}}]
tables:
  - {{name: named, location: s3://lake/wh/sales/named}}
  - discover:
      from: inventory
      under: [s3://lake/wh/, s3://lake/wh/deep/er/]
      exclude: ["**/tmp/**", "old.*"]
      name: "{{1}}.{{2}}"
      profile: slow
  - discover: {{from: inventory, under: [s3://other, s3://out]}}
"""

ROOTS = [
    # what the evidence names as a table, and what it becomes
    ("s3://lake/wh/sales/orders", "sales.orders"),
    ("s3://lake/wh/crm/people", "crm.people"),
    ("s3://lake/wh/sales/named", None),
    ("s3://lake/wh/sales/tmp/x", None),
    ("s3://lake/wh/old/x", None),
    ("s3://lake/wh/flat", "flat"),
    ("s3://lake/wh/sales/orders/nested", "sales.orders.nested"),
    ("s3://lake/wh/deep/er/a/b", "a.b"),
    ("s3://lake/elsewhere/x", None),
    ("s3://lake/wh/sales/orders/_delta_log", None),
    ("s3://other", "other"),
    ("s3://other/a b/c", "a b.c"),
    ("s3://other/a/line\nbreak", "a.line\\nbreak"),
    ("s3://out/shop/runs", None),
]


def test_tables_that_are_found_are_named_by_their_folders(tmp_path: Path) -> None:
    """If two tables have one name, both get their whole path; results and declared tables are not discovered."""
    lake = load(tmp_path, DISCOVER)
    roots = [Location(*_place(uri)) for uri, _ in ROOTS]
    tables, doubts = tables_at(lake, dict.fromkeys(roots, DELTA))
    assert {table.location.uri: table.name for table in tables} == {
        Location(*_place(uri)).uri: name for uri, name in ROOTS if name
    }
    assert doubts == ["several tables would be called sales.orders: they go by their whole path"]
    by_name = {table.name: table for table in tables}
    assert by_name["crm.people"].owner == "crm"
    assert by_name["crm.people"].settings.grace == timedelta(hours=5)
    assert by_name["other"].settings.grace == timedelta(hours=1)
    assert (by_name["other"].s3.region, by_name["flat"].s3.region) == ("eu-west-1", None)
    assert all(table.complete and table.manifests[0].s3 == table.s3 for table in tables)


PATTERNS = f"""{INV}
buckets: [{{match: "lake-*", region: eu-west-1}}]
tables:
  - discover: {{from: inventory, under: ["s3://lake-*/wh/", "s3://raw-[ab]", s3://own/x/], name: "{{1}}"}}
  - discover: {{from: inventory, under: ["s3://none-?/"]}}
"""


def test_a_pattern_of_buckets_stands_for_those_that_there_are(tmp_path: Path) -> None:
    lake = load(tmp_path, PATTERNS)
    buckets = {"lake-eu", "lake-us", "raw-a", "raw-c", "own", "other-lake-x", ""}
    assert unmatched(lake, buckets) == ["no inventory is of a bucket that s3://none-?/ matches"]
    first, second = lake.among(buckets).discoveries
    assert [place.uri for place in first.under] == [
        "s3://own/x",
        "s3://lake-eu/wh",
        "s3://lake-us/wh",
        "s3://raw-a/",
    ]
    assert second.under == ()
    assert lake.among(buckets).among(buckets) == lake.among(buckets)
    roots = ["s3://lake-eu/wh/a", "s3://lake-us/other/b", "s3://raw-b/c", "s3://raw-c/d", "s3://own/x/e"]
    tables, _ = tables_at(lake, dict.fromkeys([Location(*_place(uri)) for uri in roots], DELTA))
    assert {table.location.uri: table.name for table in tables} == {
        "s3://lake-eu/wh/a": "a", "s3://raw-b/c": "c", "s3://own/x/e": "e",
    }  # fmt: skip
    assert [table.s3.region for table in tables if table.name == "a"] == ["eu-west-1"]


def _place(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def test_a_table_of_two_formats_is_one_of_the_first_that_is_looked_for(tmp_path: Path) -> None:
    roots = {
        Location("lake", "d"): {"delta"},
        Location("lake", "i"): {"iceberg"},
        Location("lake", "uniform"): {"iceberg", "delta"},
        Location("lake", "h"): {"hudi"},
        Location("lake", "h/.hoodie/metadata"): {"hudi"},
    }
    found = {}
    for formats in ("[delta]", "[iceberg]", "[iceberg, delta]", "[hudi]"):
        text = f"tables: [{{discover: {{from: inventory, under: [s3://lake/], formats: {formats}}}}}]\n"
        tables, _ = tables_at(load(tmp_path, INV + text), roots)
        found[formats] = {table.name: table.manifests[0].kind for table in tables}
    assert found == {
        "[delta]": {"d": "delta", "uniform": "delta"},
        "[iceberg]": {"i": "iceberg", "uniform": "iceberg"},
        "[iceberg, delta]": {"d": "delta", "i": "iceberg", "uniform": "delta"},
        "[hudi]": {"h": "hudi"},
    }


def test_a_root_found_twice_is_one_table_and_names_stay_distinct(tmp_path: Path) -> None:
    lake = load(
        tmp_path,
        f"""{INV}
tables:
  - {{name: x, location: s3://lake/named}}
  - discover: {{from: inventory, under: [s3://a/, s3://b/], name: "{{1}}"}}
  - discover: {{from: inventory, under: [s3://a/one/]}}
""",
    )
    roots = [
        Location("a", "x"),
        Location("a", "x"),
        Location("b", "y/1"),
        Location("b", "y/2"),
        Location("b", "x"),
    ]
    tables, doubts = tables_at(lake, dict.fromkeys(roots, DELTA))
    assert sorted(table.name for table in tables) == ["s3://a/x", "s3://b/x", "y.1", "y.2"]
    assert doubts == ["several tables would be called x, y: they go by their whole path"]


@pytest.mark.parametrize(
    ("number", "seconds"), [(10_000, 6), pytest.param(50_000, 30, marks=pytest.mark.soak)]
)
def test_many_thousand_tables_are_described_in_seconds(tmp_path: Path, number: int, seconds: int) -> None:
    lake = load(tmp_path, DISCOVER)
    roots = [Location("lake", f"wh/db{n % 40}/table{n}") for n in range(number)]
    begun = time.process_time()
    tables, doubts = tables_at(lake, dict.fromkeys(roots, DELTA))
    assert (len(tables), len({table.name for table in tables}), doubts) == (number, number, [])
    took = time.process_time() - begun
    assert took < seconds * slowness()


DAY = date(2026, 11, 23)
EXPECTED = Expected(
    tables=("uc.*",), refused="catalogManaged*", reason="waits for the catalog", until=date(2027, 6, 1)
)


def row(table: str, status: str, reason: str | None) -> dict[str, str | None]:
    return {"table_name": table, "axis": "content", "status": status, "reason": reason}


def test_what_is_expected_says_so_and_the_rest_stays_as_it_is() -> None:
    why = "s3://lake/uc/a: needs reader feature catalogmanaged, which is not read"
    rows = [
        row("uc.a", "partial", why),
        row("uc.b", "partial", "torn"),
        row("x", "partial", why),
        row("uc.c", "off", None),
    ]
    told = mark_expected(rows, [EXPECTED], ["uc.a", "uc.b", "uc.c", "x"], DAY)
    assert [each["reason"] for each in told.rows] == [
        f"expected (waits for the catalog): {why}",
        "torn",
        why,
        None,
    ]
    assert told.reasons == {f"expected (waits for the catalog): {why}"}
    assert told.stale == ()


def test_stale_expectations_are_reported_and_expired_ones_ignored() -> None:
    fine = [row("uc.a", "complete", None)]
    (stale,) = mark_expected(fine, [EXPECTED], ["uc.a"], DAY).stale
    assert stale == (
        "expect (waits for the catalog) no longer applies: no table of it is refused for 'catalogManaged*'"
    )
    assert mark_expected(fine, [EXPECTED], ["other"], DAY).stale == ()
    refused = [row("uc.a", "partial", "catalogManaged")]
    assert mark_expected(refused, [EXPECTED], ["uc.a"], date(2027, 6, 1)).rows == refused


def test_every_configuration_of_every_bucket_below_is_an_inventory(tmp_path: Path) -> None:
    """One listing of the place and one of each bucket's folder; what the entry says holds for each."""
    central = tmp_path / "central"
    for config in ("lake-a/daily", "lake-a/weekly", "lake-b/daily"):
        (central / config / "2026-11-20T01-00Z").mkdir(parents=True)
    (central / "2026-11-20T01-00Z" / "2026-11-20T01-00Z").mkdir(parents=True)
    covers = "['s3://lake-a/wh/', 's3://lake-c/wh/']"
    lake = load(
        tmp_path,
        f"""
inventories:
  - {{kind: s3_inventory, location: '{central}', expand: true, max_age: 9d, covers: {covers}}}
  - {{kind: s3_inventory, location: '{tmp_path}/none', expand: true}}
  - {{kind: listing, location: '{central}'}}
tables: [{{name: a, location: s3://lake-a/wh/a}}]
""",
    )
    wide, warnings = expanded(lake, Clients())
    assert [each.location.uri.removeprefix(str(tmp_path)) for each in wide.inventories] == [
        *("/central/lake-a/daily", "/central/lake-a/weekly", "/central/lake-b/daily", "/none", "/central")
    ]
    first, _, other = wide.inventories[:3]
    assert isinstance(first, S3Inventory)
    assert isinstance(other, S3Inventory)
    assert (first.covers, other.covers) == ((Location("lake-a", "wh"),), None)
    assert first.max_age == other.max_age == timedelta(days=9)
    assert warnings == (
        f"{tmp_path}/none has no folder <source bucket>/<configuration>/, so `expand` finds no report",
    )
