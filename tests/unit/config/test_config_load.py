"""A lake file is read whole, or refused with every problem named."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Confirm, Lake, Problem, S3Options, Settings, load_lake
from lakeaudit.errors import AuditError, LakeFileError
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.listing import Listing
from lakeaudit.keys import Location

HEAD = "version: 1\nlake: shop\nresults: s3://out/shop\n"
TABLES = "tables:\n  - {name: a, location: s3://lake/a}\n"
"""The rows below stand from line 4 on; TABLES follows where a row brings no tables of its own."""


def load(tmp_path: Path, text: str, **env: str) -> Lake:
    file = tmp_path / "lake.yaml"
    file.write_text(text, encoding="utf-8")
    return load_lake(file, env)


def problems(tmp_path: Path, text: str, **env: str) -> list[Problem]:
    with pytest.raises(LakeFileError) as caught:
        load(tmp_path, text, **env)
    assert caught.value.exit_code == 2
    found = caught.value.problems
    assert all(isinstance(each, Problem) for each in found)
    assert len(str(caught.value).splitlines()) == len(found)
    return [each for each in found if isinstance(each, Problem)]


def of(text: str) -> str:
    return HEAD + text + ("\n" if re.search("^tables:", text, re.MULTILINE) else f"\n{TABLES}")


def in_table(text: str) -> str:
    return f"tables:\n  - name: a\n    location: s3://lake/a\n    {text}"


BAD = [
    # text from line 4 on, line of the one problem, what it says
    ("watsh: []", 4, "watsh: unknown key (did you mean watch?)"),
    (
        "airflow: {schedule: every night}",
        4,
        "airflow.schedule: not a schedule: 'every night' (write a cron expression",
    ),
    (
        "airflow: {fail_on: [serious]}",
        4,
        "airflow.fail_on[0]: must not be 'serious' (one of: critical, error",
    ),
    ("airflow: {fail_on: never}", 4, "airflow.fail_on: "),
    ("airflow: {fail_on: []}", 4, "airflow.fail_on: "),
    ("airflow: {fail_on: [never, failed]}", 4, "airflow.fail_on: never and another condition"),
    ("zzz: 1", 4, "zzz: unknown key (one of: airflow, alerts, buckets, ceiling, dashboard_url"),
    ("follow: {}", 4, "names neither a queue nor a journal"),
    (
        "follow: {queue: lake-events}",
        4,
        "follow.queue: not a queue of SQS (write its URL (https://sqs.eu-west-1",
    ),
    (
        "follow: {queue: 'https://me:secret@sqs.eu-west-1.amazonaws.com/123456789012/q'}",
        4,
        "follow.queue: a URL with user info holds a secret",
    ),
    ("follow: {queue: 'arn:aws:sns:eu-west-1:123456789012:q'}", 4, "follow.queue: not a queue of SQS"),
    (
        "follow: {queue: 'arn:aws:sqs:eu-west-1:123456789012:q', window: 0s}",
        4,
        "follow.window: not between 1s and 5m",
    ),
    (
        "follow: {queue: 'arn:aws:sqs:eu-west-1:123456789012:q', window: 6m}",
        4,
        "follow.window: not between 1s and 5m",
    ),
    (
        "follow: {queue: 'arn:aws:sqs:eu-west-1:123456789012:q', state: here}",
        4,
        "follow.state: not a local folder: 'here'",
    ),
    (
        "follow: {queue: 'arn:aws:sqs:eu-west-1:123456789012:q', state: s3://b/x}",
        4,
        "follow.state: not a local folder",
    ),
    (
        "follow: {queue: 'arn:aws:sqs:eu-west-1:123456789012:q', sate: /x}",
        4,
        "follow.sate: unknown key (did you mean state?)",
    ),
    ("s3: {regoin: x}", 4, "s3.regoin: unknown key (did you mean region?)"),
    ("s3: {endpoint: localhost}", 4, "s3.endpoint: not an endpoint (write http://host:port"),
    ("s3: {region: EU}", 4, "s3.region: not a region: 'EU'"),
    ("s3: {path_style: 1}", 4, "s3.path_style: neither true nor false: '1'"),
    ("s3: {role_arn: admin}", 4, "s3.role_arn: not a role: 'admin'"),
    ("s3: [1]", 4, "s3: must be a mapping"),
    ("s3: 5", 4, "s3: must be a mapping"),
    ('"a\\nb": 1', 4, "a\\nb: unknown key"),
    (f"watch: [{'x' * 60}]", 4, f"'{'x' * 60}'"),
    (f"watch: [{'x' * 61}]", 4, f"'{'x' * 60}...'"),
    ("watch: !!omap [a: s3://l]", 4, "watch: the tag 'tag:yaml.org,2002:omap' is not allowed"),
    ("s3: {endpoint: }", 4, "s3.endpoint: has no value"),
    ("inventories: {kind: listing}", 4, "inventories: must be a list"),
    ("inventories:\n  - s3://lake", 5, "inventories[0]: must be a mapping with a kind"),
    (
        "inventories:\n  - {location: s3://lake}",
        5,
        "'kind' is missing (one of: s3_inventory, gcs_inventory, azure_inventory, s3_metadata, listing)",
    ),
    ("inventories: [{kind: lsting, location: s3://l}]", 4, "unknown kind 'lsting' (did you mean listing?)"),
    ("inventories: [{kind: [a], location: s3://l}]", 4, "unknown kind \"['a']\""),
    (
        "inventories: [{kind: listing, location: 'abfss://lake@acme.dfs.core.windows.net/x'}]",
        4,
        "containers of Azure are not listed (have the account make a blob inventory",
    ),
    (
        "inventories: [{kind: listing, location: 'abfss://lake@acme.example/x'}]",
        4,
        "a URL with user info holds a secret",
    ),
    ("inventories: [{kind: listing}]", 4, "inventories[0].location: is missing"),
    ("inventories: [{kind: listing, location: l}]", 4, "not a location: 'l' (write s3://bucket/prefix"),
    (
        "inventories: [{kind: listing, location: s3://l, covers: [s3://l]}]",
        4,
        "covers: unknown key (one of: kind, lo",
    ),
    ("inventories: [{kind: s3_inventory, location: s3://i, covers: []}]", 4, "covers: names nothing"),
    (
        "inventories: [{kind: s3_inventory, location: s3://i, covers: [l]}]",
        4,
        "covers[0]: not a location: 'l'",
    ),
    ("inventories: [{kind: s3_inventory, location: s3://i, covers: s3://l}]", 4, "covers: must be a list"),
    ("inventories: [{kind: s3_inventory, location: s3://i, max_age: 3}]", 4, "max_age: not a duration: '3'"),
    (
        "inventories: [{kind: s3_inventory, location: s3://i, margin: 1 day}]",
        4,
        "margin: not a duration: '1 day' (write 0s",
    ),
    (
        "inventories:\n  - {kind: listing, location: s3://l}\n  - {kind: listing, location: s3a://l/}",
        6,
        "a second time",
    ),
    ("metastores: [{kind: s3guard}]", 4, "metastores[0]: neither table nor export"),
    ("metastores: [{kind: s3guard, table: x}]", 4, "table: not the name of a DynamoDB table: 'x'"),
    (
        "metastores: [{kind: s3guard, table: abc, ttl: never}]",
        4,
        "ttl: not a duration: 'never' (write 0s, 30m, 24h or 7d, or none)",
    ),
    ("metastores: [{kind: s3guard, table: abc, ttl: }]", 4, "ttl: has no value"),
    (
        "metastores: [{kind: s3guard, table: abc, authoritative: some}]",
        4,
        "authoritative: must not be 'some' (one of: none, all)",
    ),
    (
        "metastores: [{kind: s3guard, table: abc, authoritative: [wh]}]",
        4,
        "authoritative[0]: not a location: 'wh'",
    ),
    ("metastores: [{kind: hive}]", 4, "metastores[0].uri: is missing"),
    ("metastores: [{kind: hive, uri: 'http://hms:9083'}]", 4, "uri: not a Hive Metastore"),
    ("metastores: [{kind: hive, uri: 'thrift://hms:9083/x'}]", 4, "uri: not a Hive Metastore"),
    ("metastores: [{kind: hive, uri: 'thrift://hms:9083, thrift://b'}]", 4, "uri: not a Hive Metastore"),
    ("metastores: [{kind: glue, catalog_id: 12}]", 4, "catalog_id: not an account"),
    ("events: [{kind: s3_access_log}]", 4, "events[0].location: is missing"),
    ("events: [{kind: s3_access_log, location: s3://l, window: 7}]", 4, "window: not a duration: '7'"),
    ("events: [{kind: cloudtrial}]", 4, "unknown kind 'cloudtrial' (did you mean cloudtrail?)"),
    ("tables: []", 4, "tables: names nothing"),
    ("tables:", 4, "tables: is missing"),
    ("tables: [5]", 4, "tables[0]: must be a mapping"),
    ("tables: [{location: s3://l}]", 4, "tables[0].name: is missing"),
    ("tables: [{name: a}]", 4, "tables[0].location: is missing"),
    ("tables: [{name: [x], location: s3://l}]", 4, "name: not a name for a table (one line; quote a number)"),
    ("tables: [{name: '', location: s3://l}]", 4, "name: not a name for a table: ''"),
    ("tables: [{name: ' a', location: s3://l}]", 4, "name: not a name for a table: ' a'"),
    (
        "tables: [{name: 2024, location: s3://l}]",
        4,
        "name: not a name for a table: '2024' (one line; quote a number)",
    ),
    (
        "tables:\n- {name: a, location: s3://l/a}\n- {name: a, location: s3://l/b}",
        6,
        "tables[1].name: a second table 'a'",
    ),
    (
        "tables:\n- {name: a, location: s3://l/a}\n- {name: b, location: s3a://l/a/}",
        6,
        "the table 'a' has this location already",
    ),
    ("tables:\n- {name: a, location: s3://out}", 3, "results: the results lie inside the table 'a'"),
    ("tables:\n- {name: a, location: s3://out/shop}", 3, "results: the results lie inside the table 'a'"),
    ("tables:\n- {name: a, location: s3://out/shop/x}", 5, "location: the table lies inside results"),
    ("watch:\n- s3://other\n- s3://out/", 6, "watch[1]: the results lie inside this place"),
    *(
        (f"quarantine: {{location: '{place}'}}\n{more}", 4, f"quarantine.location: {told}")
        for place, more, told in (
            ("s3://l/a/old", "tables: [{name: a, location: s3://l/a}]", "lies inside the table 'a'"),
            ("s3://l", "tables: [{name: a, location: s3://l/a}]", "holds the table 'a'"),
            ("s3://out/shop/q", "", "lies inside the results"),
            ("s3://w/q", "watch: [s3://w]", "lies inside a watched place"),
            ("s3://i/q", "inventories: [{kind: listing, location: s3://i}]", "lies inside a source's place"),
            (
                "s3://i/q",
                "inventories: [{kind: s3_inventory, location: s3://r, covers: [s3://i]}]",
                "lies inside what a source covers",
            ),
            ("s3://r/q", "replicas: [{of: 's3://l/a', at: 's3://r'}]", "lies inside a replica"),
            ("/data/q", "", "is not a place in a bucket"),
        )
    ),
    *(
        (f"quarantine: '{place}'\n{more}", 4, f"quarantine: {told}")
        for place, more, told in (
            ("s3://l/a/old", "tables: [{name: a, location: s3://l/a}]", "lies inside the table 'a'"),
            ("s3://out/shop/q", "", "lies inside the results"),
            ("/data/q", "", "is not a place in a bucket"),
        )
    ),
    (
        "tables:\n- {name: a, location: s3://l/a}\n- discover: {from: inventory, under: [s3://l]}",
        6,
        "tables[1].discover: tables are discovered in inventories (s3_inventory, gcs_inventory, azure_inventory)",
    ),
    (in_table("grace: 1 hour"), 7, "tables[0].grace: not a duration: '1 hour'"),
    (in_table("min_duplicate_size: 4KB"), 7, "not a size: '4KB' (write 1B, 4KiB or 8MiB)"),
    (in_table("owner: 5"), 7, "owner: no text: '5'"),
    (in_table("shares: [a]"), 7, "shares[0]: the table itself"),
    (in_table("shares: [b]"), 7, "shares[0]: no table is called 'b'"),
    (in_table("manifests: [{kind: detla}]"), 7, "unknown kind 'detla' (did you mean delta?)"),
    (in_table("manifests: [{kind: file_list}]"), 7, "manifests[0].location: is missing"),
    (
        in_table("manifests: [{kind: delta, location: s3://l}]"),
        7,
        "location: unknown key (one of: complete, kind, s3)",
    ),
    (in_table("manifests: [{kind: delta}, {kind: delta}]"), 7, "manifests[1]: the same source a second time"),
    (
        in_table("manifests: [{kind: delta}, {kind: previous}]"),
        7,
        "previous is for tables without any other manifest",
    ),
    (
        in_table("manifests: [{kind: delta}, {kind: symlink}]"),
        7,
        "manifests: has delta and symlink, and each of them defines the table's state",
    ),
    (
        in_table("manifests: [{kind: previous, settled: soon}]"),
        7,
        "manifests[0].settled: not a duration: 'soon'",
    ),
    (in_table("manifests: [{kind: delta, complete: maybe}]"), 7, "complete: neither true nor false: 'maybe'"),
    (in_table("confirm: {mode: heed}"), 7, "confirm.mode: must not be 'heed' (did you mean head?)"),
    (in_table("confirm: {limit: -1}"), 7, "confirm.limit: out of bounds: '-1' (at least 0)"),
    (in_table("confirm: {rate: 0}"), 7, "confirm.rate: out of bounds: '0' (at least 1)"),
    (in_table("confirm: {limit: 1.5}"), 7, "confirm.limit: not a whole number: '1.5'"),
    (in_table("confirm: {limit: true}"), 7, "confirm.limit: not a whole number: 'true'"),
    (
        in_table("severity: {droped: info}"),
        7,
        "severity.droped: unknown kind of finding (did you mean dropped?)",
    ),
    (in_table("severity: {dropped: loud}"), 7, "severity.dropped: must not be 'loud' (one of: critical"),
    (in_table("severity: {dropped: on}"), 7, "severity.dropped: must not be 'on'"),
    ("defaults: {name: a}", 4, "defaults.name: unknown key"),
    ("ignore: [{reason: x}]", 4, "ignore[0]: selects nothing to ignore"),
    ("ignore: [{kinds: [dropped]}]", 4, "ignore[0].reason: is missing"),
    ("ignore: [{kinds: [dropped], reason: ' '}]", 4, "ignore[0].reason: no text: ' '"),
    (
        "ignore: [{kinds: [drop], reason: x}]",
        4,
        "kinds[0]: unknown kind of finding: 'drop' (did you mean dropped?)",
    ),
    ("ignore: [{kinds: [], reason: x}]", 4, "ignore[0].kinds: names nothing"),
    ("ignore: [{kinds: , reason: x}]", 4, "ignore[0].kinds: has no value"),
    ("ignore: [{paths: [], reason: x}]", 4, "ignore[0].paths: names nothing"),
    ("ignore: [{paths: [/a], reason: x}]", 4, "paths[0]: not a pattern below a table: '/a'"),
    ("ignore: [{paths: ['s3://l/a'], reason: x}]", 4, "paths[0]: not a pattern below a table: 's3://l/a'"),
    ("ignore: [{tables: ['[z-a]'], reason: x}]", 4, "tables[0]: not a pattern: '[z-a]'"),
    ("ignore: [{tables: [''], reason: x}]", 4, "tables[0]: not a pattern: ''"),
    ("ignore: [{tables: [x], reason: x, until: soon}]", 4, "until: not a date: 'soon' (write 2027-06-01)"),
    ("ignore: [{tables: [x], reason: x, until: 2027-06-31}]", 4, "until: not a value: '2027-06-31'"),
    ("ignore: [{tables: [x], reason: x, until: 2027-06-01 10:00:00}]", 4, "until: not a date"),
    ("maps: [{from: s3://a}]", 4, "maps[0].to: is missing"),
    ("maps: [{from: 'hdfs://', to: s3://b}]", 4, "maps[0].from: not a location: 'hdfs://'"),
    ("maps: [{from: wh/x, to: s3://b}]", 4, "maps[0].from: not a location: 'wh/x'"),
    ("maps: [{from: 's3://a b/x', to: s3://b}]", 4, "maps[0].from: not a location: 's3://a b/x'"),
    ("maps: [{from: s3://a, to: 'hdfs://nn/x'}]", 4, "maps[0].to: not a location: 'hdfs://nn/x'"),
    (
        "maps: [{from: 'hdfs://nn/x', to: s3://b}, {from: 'hdfs://nn/x/', to: s3://c}]",
        4,
        "maps[1].from: a second map of this place",
    ),
    (
        "maps: [{source: s3://a, from: s3://a, to: s3://b}]",
        4,
        "maps[0].source: unknown key (one of: from, to)",
    ),
    ("ceiling: {share: 0}", 4, "ceiling.share: out of bounds: '0' (more than 0)"),
    ("ceiling: {share: 1.1}", 4, "ceiling.share: out of bounds: '1.1' (at most 1"),
    ("ceiling: {share: half}", 4, "ceiling.share: not a number: 'half'"),
    ("ceiling: {share: .nan}", 4, "ceiling.share: "),
    ("ceiling: {sample: 0}", 4, "ceiling.sample: out of bounds: '0'"),
    (
        "alerts: [{kind: email}]",
        4,
        "alerts[0]: unknown kind 'email' (one of: apprise, alertmanager, sns, webhook)",
    ),
    ("alerts: [{kind: apprise}]", 4, "alerts[0].url_env: is missing"),
    ("alerts: [{kind: sns, topic_arn: mine}]", 4, "topic_arn: not a topic: 'mine'"),
    ("alerts: [{kind: sns, topic_arn: 'arn:x', min_severity: 'off'}]", 4, "min_severity: must not be 'off'"),
    (
        "prometheus_textfile: metrics.prom",
        4,
        "prometheus_textfile: not a file for metrics: 'metrics.prom' (write /",
    ),
    ("prometheus_textfile: /m.txt", 4, "prometheus_textfile: not a file for metrics: '/m.txt' (write /"),
    ("heartbeat_url_env: a b", 4, "heartbeat_url_env: not the name of a variable (write"),
    ("lake: again", 4, "lake: duplicate key, first on line 2"),
    ("12: x", 4, "?: a key must be text (quote it)"),
    ("[a, b]: x", 4, "?: a key must be text (quote it)"),
    (
        "watch: [!!python/name:os.system x]",
        4,
        "watch[0]: the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed",
    ),
    ("watch: !!set {s3://l}", 4, "watch: the tag 'tag:yaml.org,2002:set' is not allowed"),
    ("watch: [!!binary aGk=]", 4, "watch[0]: the tag 'tag:yaml.org,2002:binary' is not allowed"),
    ("watch: [!!int x]", 4, "watch[0]: not a value: 'x'"),
    ("watch: [!!bool x]", 4, "watch[0]: not a value: 'x'"),
    ("s3: {<<: 5}", 4, "s3.<<: only mappings can be merged"),
    ("watch: ['s3://${WHERE}']", 4, "watch[0]: the variable WHERE is not set"),
    (
        "watch: ['s3://${}']",
        4,
        "watch[0]: ${ does not begin a variable (write ${NAME}, or $${ for the characters",
    ),
    ("watch: ['s3://l/${A']", 4, "watch[0]: ${ does not begin a variable"),
    ("watch: ['s3://l/${1A}']", 4, "watch[0]: ${ does not begin a variable"),
]


@pytest.mark.parametrize(("text", "line", "says"), BAD)
def test_each_mistake_is_one_problem_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    found = problems(tmp_path, of(text))
    assert [(each.line, says in str(each)) for each in found] == [(line, True)], [str(each) for each in found]
    assert str(found[0]).startswith(f"{tmp_path / 'lake.yaml'}:{line}: ")


@pytest.mark.parametrize(
    ("head", "line", "says"),
    [
        ("version: 2\nlake: x\nresults: /r\n", 1, "version: must not be '2' (one of: 1)"),
        ("version: true\nlake: x\nresults: /r\n", 1, "version: must not be 'true'"),
        ("version: 1.0\nlake: x\nresults: /r\n", 1, "version: must not be '1.0'"),
        ("version: '1'\nlake: x\nresults: /r\n", 1, "version: must not be '1'"),
        ("lake: x\nresults: /r\n", 1, "version: is missing"),
        ("version: 1\nresults: /r\n", 1, "lake: is missing"),
        ("version: 1\nlake: x\n", 1, "results: is missing"),
        ("version: 1\nlake: a b\nresults: /r\n", 2, "lake: not a name for a lake: 'a b'"),
        ("version: 1\nlake: ..\nresults: out/r\n", 3, "results: not a location: 'out/r'"),
        ("version: 1\nlake: x\nresults: 7\n", 3, "results: not a location: '7'"),
        ("version: 1\nlake: x\nresults: [/r]\n", 3, "results: not a location"),
        ("version: 1\nlake: x\nresults: {keep: 400d}\n", 3, "results.location: is missing"),
        (
            "version: 1\nlake: x\nresults:\n  location: out/r\n",
            4,
            "results.location: not a location: 'out/r'",
        ),
        (
            "version: 1\nlake: x\nresults:\n  location: /r\n  keep: a year\n",
            5,
            "results.keep: not a duration: 'a year'",
        ),
        (
            "version: 1\nlake: x\nresults: {location: /r, keeps: 1d}\n",
            3,
            "results.keeps: unknown key (did you mean keep?)",
        ),
        (
            "version: 1\nlake: x\nresults: {location: s3://lake/a}\n",
            3,
            "results: the results lie inside the table",
        ),
    ],
)
def test_the_head_of_the_file(tmp_path: Path, head: str, line: int, says: str) -> None:
    found = problems(tmp_path, head + TABLES)
    assert [(each.line, says in str(each)) for each in found] == [(line, True)], [str(each) for each in found]


def test_five_mistakes_are_five_problems(tmp_path: Path) -> None:
    text = """\
version: 1
lake: my shop
results: s3://lake/wh/orders/audit
inventories:
  - {kind: s3_inventory, location: s3://inv/daily, max_age: three days}
metastores:
  - {kind: s3guards, table: shop}
tables:
  - {name: orders, location: s3://lake/wh/orders, manifest: [{kind: delta}]}
"""
    found = problems(tmp_path, text)
    file = tmp_path / "lake.yaml"
    assert [str(each) for each in found] == [
        f"{file}:2: lake: not a name for a lake: 'my shop' (letters, digits, . _ and -)",
        f"{file}:3: results: the results lie inside the table 'orders' (write them to a place of their own)",
        f"{file}:5: inventories[0].max_age: not a duration: 'three days' (write 0s, 30m, 24h or 7d)",
        f"{file}:7: metastores[0]: unknown kind 's3guards' (did you mean s3guard?)",
        f"{file}:9: tables[0].manifest: unknown key (did you mean manifests?)",
    ]


def test_every_default_is_the_contracts(tmp_path: Path) -> None:
    lake = load(
        tmp_path,
        of(
            "inventories: [{kind: s3_inventory, location: s3://i}]\nmetastores: [{kind: s3guard, table: abc}]"
        ),
    )
    (inventory,), (store,) = lake.inventories, lake.metastores
    assert isinstance(inventory, S3Inventory)
    assert isinstance(store, S3Guard)
    assert (inventory.covers, inventory.max_age, inventory.margin) == (None, None, None)
    assert (store.location, store.authoritative, store.ttl) == (None, "none", timedelta(minutes=15))
    assert lake.tables[0].settings == Settings(
        grace=timedelta(hours=1),
        leftover_age=timedelta(days=3),
        max_upload=timedelta(hours=24),
        retention=timedelta(days=7),
        min_duplicate_size=4096,
        confirm=Confirm(mode="head", limit=10_000, rate=500),
    )
    assert (lake.tables[0].manifests, lake.tables[0].complete) == ((), False)


@pytest.mark.parametrize(
    ("results", "keep"),
    [
        ("s3://out/shop", None),
        ("{location: s3://out/shop}", None),
        ("{location: s3://out/shop, keep: 400d}", timedelta(days=400)),
    ],
)
def test_results_have_a_short_and_a_long_form(tmp_path: Path, results: str, keep: timedelta | None) -> None:
    lake = load(tmp_path, f"version: 1\nlake: shop\nresults: {results}\n{TABLES}")
    assert (lake.results, lake.keep) == (Location("out", "shop"), keep)


@pytest.mark.parametrize(
    ("quarantine", "keep"),
    [
        ("s3://away/shop", timedelta(days=30)),
        ("{location: s3://away/shop}", timedelta(days=30)),
        ("{location: s3://away/shop, keep: 7d}", timedelta(days=7)),
    ],
)
def test_a_quarantine_has_a_short_and_a_long_form(tmp_path: Path, quarantine: str, keep: timedelta) -> None:
    lake = load(
        tmp_path, f"version: 1\nlake: shop\nresults: s3://out/shop\nquarantine: {quarantine}\n{TABLES}"
    )
    assert lake.quarantine is not None
    assert (lake.quarantine.location, lake.quarantine.keep) == (Location("away", "shop"), keep)


SOURCES = (
    ("inventories", "{kind: s3_inventory, location: s3://i%s}"),
    ("inventories", "{kind: listing, location: s3://i%s}"),
    ("metastores", "{kind: s3guard, table: abc%s}"),
    ("metastores", "{kind: s3guard, export: s3://i%s}"),
)


@pytest.mark.parametrize(("block", "entry"), SOURCES)
@pytest.mark.parametrize(
    ("text", "margin"), [("", None), ("0s", timedelta(0)), ("90m", timedelta(minutes=90))]
)
def test_every_storage_and_metastore_source_takes_a_margin(
    tmp_path: Path, block: str, entry: str, text: str, margin: timedelta | None
) -> None:
    lake = load(tmp_path, of(f"{block}: [{entry % (f', margin: {text}' if text else '')}]"))
    assert [*(s.margin for s in lake.inventories), *(s.margin for s in lake.metastores)] == [margin]


@pytest.mark.parametrize(("block", "entry"), SOURCES)
def test_an_invalid_margin_is_refused(tmp_path: Path, block: str, entry: str) -> None:
    (problem,) = problems(tmp_path, of(f"{block}: [{entry % ', margin: soon'}]"))
    assert (problem.line, problem.what) == (4, f"{block}[0].margin: not a duration: 'soon'")


def test_a_table_overrides_key_by_key(tmp_path: Path) -> None:
    text = """
defaults: {grace: 2h, retention: 0s, confirm: {mode: none, rate: 7}}
severity: {uncommitted: info, unvacuumed: off}
tables:
  - {name: a, location: s3://l/a, grace: 0s, confirm: {limit: 5}, severity: {unvacuumed: error, dropped: off}}
  - {name: b, location: s3://l/b}
"""
    a, b = load(tmp_path, of(text)).tables
    assert (a.settings.grace, a.settings.retention) == (timedelta(0), timedelta(0))
    assert a.settings.confirm == Confirm(mode="none", limit=5, rate=7)
    assert a.severities == {"uncommitted": "info", "unvacuumed": "error", "dropped": "off"}
    assert (a.severity_of("dropped", "critical"), b.severity_of("dropped", "critical")) == ("off", "critical")
    assert (b.settings.grace, b.settings.confirm.limit) == (timedelta(hours=2), 10_000)
    assert b.severities == {"uncommitted": "info", "unvacuumed": "off"}


def test_a_source_overrides_the_way_to_its_store(tmp_path: Path) -> None:
    text = """
s3: {endpoint: http://h:1, region: r1, path_style: true}
inventories: [{kind: listing, location: /d, s3: {path_style: false, role_arn: "arn:x"}}]
tables:
  - name: a
    location: s3://l/a
    manifests: [{kind: file_list, location: s3://m/a, s3: {region: r3}}, {kind: delta, s3: {region: r2}}]
  - {name: b, location: s3://l/b, manifests: [{kind: file_list, location: s3://m/b, s3: {region: r3}}]}
"""
    lake = load(tmp_path, of(text))
    (listing,), (a, b) = lake.inventories, lake.tables
    assert isinstance(listing, Listing)
    assert listing.s3 == S3Options(endpoint="http://h:1", region="r1", path_style=False, role_arn="arn:x")
    assert [(each.kind, each.s3.region, each.s3.endpoint) for each in a.manifests] == [
        ("file_list", "r3", "http://h:1"),
        ("delta", "r2", "http://h:1"),
    ]
    assert (a.s3.region, b.s3.region) == ("r2", "r1")


@pytest.mark.parametrize(
    ("manifests", "complete"),
    [
        ("[]", False),
        ("[{kind: delta}]", True),
        ("[{kind: delta, complete: false}]", False),
        ("[{kind: file_list, location: /m}]", False),
        ("[{kind: file_list, location: /m, complete: true}]", True),
        ("[{kind: delta}, {kind: file_list, location: /m}]", True),
        ("[{kind: file_list, location: /m, complete: true}, {kind: file_list, location: /n}]", False),
    ],
)
def test_complete(tmp_path: Path, manifests: str, complete: bool) -> None:
    table = load(tmp_path, of(in_table(f"manifests: {manifests}"))).table("a")
    assert table.complete is complete
    assert all(isinstance(each, DeltaManifest) for each in table.state_manifests)
    assert all(isinstance(each, FileListManifest) for each in table.event_manifests)
    assert len(table.state_manifests) + len(table.event_manifests) == len(table.manifests)


def test_a_metastore_is_authoritative_below_prefixes_or_everywhere(tmp_path: Path) -> None:
    text = "metastores: [{kind: s3guard, export: /e, authoritative: ['s3://l/a/'], ttl: none}, %s]"
    lake = load(tmp_path, of(text % "{kind: s3guard, table: abc, authoritative: all}"))
    some, every = lake.metastores
    assert isinstance(some, S3Guard)
    assert (some.ttl, some.authoritative, some.name, every.name) == (None, (Location("l", "a"),), "/e", "abc")
    assert every.trusted == "all"


def test_an_ignore_ends_on_its_day(tmp_path: Path) -> None:
    lake = load(
        tmp_path,
        of("ignore: [{tables: ['raw.*'], reason: x, until: 2027-06-01}, {kinds: [dropped], reason: y}]"),
    )
    ends, stays = lake.ignores
    assert (ends.until, ends.paths, ends.kinds, stays.kinds) == (date(2027, 6, 1), None, None, ("dropped",))
    assert [ends.holds_on(day) for day in (date(2027, 5, 31), date(2027, 6, 1))] == [True, False]
    assert stays.holds_on(date(2099, 1, 1))


def test_a_watched_place_inside_another_is_one_place(tmp_path: Path) -> None:
    text = """watch: ["s3://l", "s3://l/inside"]
maps: [{from: "s3://a", to: "s3://b"}]
ceiling: {}
alerts: [{kind: apprise, url_env: X}, {kind: sns, topic_arn: "arn:x"}]
heartbeat_url_env: Y
severity: {unowned: error}"""
    lake = load(tmp_path, of(text))
    (place,) = lake.watched
    assert (place.name, place.severities, place.manifests) == ("s3://l/", {"unowned": "error"}, ())
    load(tmp_path, of("watch: []\nmaps:\nalerts: []\nceiling:\nevents: []"))


def test_variables_are_expanded_once(tmp_path: Path) -> None:
    text = "inventories: [{kind: listing, location: 's3://${B}/${P}/$${B}/$B'}]"
    text += "\ndefaults: {confirm: {limit: '${N}'}}"
    lake = load(tmp_path, of(text), B="lake", P="${B}", N="12")
    assert lake.inventories[0].location == Location("lake", "${B}/${B}/$B")
    assert lake.settings.confirm.limit == 12


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    text = """tables:
  - &a {name: a, location: s3://l/a, owner: o, grace: 5h}
  - {<<: *a, name: b, location: s3://l/b, grace: 6h}
  - {<<: [{owner: p}, *a], name: c, location: s3://l/c}"""
    lake = load(tmp_path, of(text))
    hours = [each.settings.grace / timedelta(hours=1) for each in lake.tables]
    assert ([each.owner for each in lake.tables], hours) == (["o", "o", "p"], [5, 6, 5])


def test_models_are_frozen(tmp_path: Path) -> None:
    lake = load(tmp_path, of(""))
    with pytest.raises(ValueError, match="frozen"):
        lake.tables[0].name = "b"  # type: ignore[misc]
    with pytest.raises(KeyError):
        lake.table("nobody")


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"", 1, "the file is empty"),
        (b"# nothing\n", 1, "the file is empty"),
        (b"- a\n", 1, "the file is not a mapping"),
        (b"text", 1, "the file is not a mapping"),
        (b"a: [1\nb: 2\n", 2, "not YAML: "),
        (b"a: 1\n\tb: 2\n", 2, "not YAML: "),
        (b"a: *b\n", 1, "not YAML: found undefined alias"),
        (b"a: 1\n---\nb: 1\n", 2, "not YAML: but found another document"),
        (b"a: \xff\n", None, "not YAML: not plain UTF-8 text"),
        (b"a: \x00\n", None, "not YAML: not plain UTF-8 text"),
        (b"a: &a [*a]\n", 1, "nested too deep"),
        (b"a: &a {<<: *a}\n", 1, "nested too deep"),
        (b"a: " + b"[" * 1200 + b"]" * 1200, None, "nested too deep"),
        (
            b"a: &a [%s]\n" % b",".join([b"x"] * 100)
            + b"b: &b [%s]\n" % b",".join([b"*a"] * 100)
            + b"c: [%s]\n" % b",".join([b"*b"] * 100),
            1,
            "more than 200,000 values",
        ),
    ],
)
def test_a_file_that_is_not_a_lake_file(tmp_path: Path, content: bytes, line: int | None, says: str) -> None:
    file = tmp_path / "lake.yaml"
    file.write_bytes(content)
    with pytest.raises(LakeFileError) as caught:
        load_lake(str(file), {})
    place = str(file) if line is None else f"{file}:{line}"
    assert str(caught.value).startswith(f"{place}: {says}")
    assert len(caught.value.problems) == 1
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, says in (
        (tmp_path / "none.yaml", "no such lake file"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        with pytest.raises(AuditError, match=says) as caught:
            load_lake(path, {})
        assert str(caught.value).startswith(f"{path}: ")
    with pytest.raises(LakeFileError, match="cannot be read: not a path"):
        load_lake("a\0b", {})


def test_two_thousand_tables(tmp_path: Path) -> None:
    rows = "".join(f"  - {{name: t{i}, location: s3://l/t{i}}}\n" for i in range(2000))
    assert len(load(tmp_path, f"{HEAD}tables:\n{rows}").tables) == 2000


CATALOG = "metastores: [{kind: iceberg_rest, name: prod, uri: 'https://c.example.com/api/'}]\n"
BY_CATALOG = "tables: [{name: a.b, location: s3://lake/b, manifests: [{kind: iceberg, %s}]}]\n"


def test_a_catalog_is_reached_by_the_word_that_a_table_says(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    head = "version: 1\nlake: shop\nresults: s3://out/shop\n"
    for said, name in (("catalog: prod", "a.b"), ("catalog: prod, table: x.y", "x.y")):
        file.write_text(head + CATALOG + BY_CATALOG % said)
        (manifest,) = load_lake(file, {}).tables[0].manifests
        assert isinstance(manifest, PointedIceberg)
        (pointer,) = manifest.pointers
        assert (pointer.name, pointer.source_id, pointer.store.name) == (name, "metastore:0", "prod")
        assert isinstance(pointer.store, IcebergRest)
        assert pointer.store.uri == "https://c.example.com/api"


@pytest.mark.parametrize(
    ("catalogs", "said", "told"),
    [
        (CATALOG, "catalog: prdo", "no catalog is called 'prdo' (did you mean prod?)"),
        ("", "catalog: prod", "no catalog is called 'prod' (add it to metastores)"),
        (CATALOG, "catalog: prod, metadata: s3://lake/b/metadata/", "already names the current metadata"),
        (CATALOG, "table: x.y", "no catalog is named for this table"),
        (CATALOG.replace("]\n", ", {kind: iceberg_rest, name: prod, uri: 'http://d'}]\n"), "catalog: prod",
         "several catalogs are called 'prod'"),
        (CATALOG.replace("https://", "https://me:pw@"), "catalog: prod", "secret"),
        (CATALOG.replace("/api/", "/api?x=1"), "catalog: prod", "not a URL"),
        (CATALOG.replace("}]", ", bearer_env: A, credential_env: B}]"), "catalog: prod", "a second way"),
        (CATALOG.replace("}]", ", token: abc}]"), "catalog: prod", "a secret does not belong"),
    ],
)  # fmt: skip
def test_catalogs_that_nobody_could_ask_are_refused(
    tmp_path: Path, catalogs: str, said: str, told: str
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text("version: 1\nlake: shop\nresults: s3://out/shop\n" + catalogs + BY_CATALOG % said)
    with pytest.raises(LakeFileError) as caught:
        load_lake(file, {})
    assert told in str(caught.value)
