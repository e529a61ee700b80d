"""Tables of other formats inside a table's folder, or at its own root: their files are theirs."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.leftover_checks import UnnamedRoot, unnamed_roots
from lakeaudit.config import Table
from lakeaudit.keys import Location
from lakeaudit.matching.leftovers import nested_roots
from lakeaudit.runtime import duck
from tests.builders.connections import connection

ROOTS = [
    # relative key, root below the table, format; None: it shows no table
    ("_delta_log/00000000000000000000.json", "", "delta"),
    ("inner/_delta_log/00000000000000000000.json", "inner", "delta"),
    ("a/b/_delta_log/00000000000000000010.checkpoint.parquet", "a/b", "delta"),
    ("metadata/00001-x.metadata.json", "", "iceberg"),
    ("metadata/v3.gz.metadata.json", "", "iceberg"),
    ("ice/metadata/00001-x.metadata.json.gz", "ice", "iceberg"),
    (".hoodie/hoodie.properties", "", "hudi"),
    ("hudi/.hoodie/20261101000000000.commit", "hudi", "hudi"),
    ("hudi/.hoodie/metadata/.hoodie/hoodie.properties", "hudi", "hudi"),
    (".hoodie/metadata/files/x.hfile", "", "hudi"),
    ("_delta_log/_sidecars/x.parquet", None, None),
    ("metadata/snap-1.avro", None, None),
    ("day=1/part-0.parquet", None, None),
    ("x.hoodie/part-0.parquet", None, None),
    ("my_delta_log/0.json", None, None),
]


@pytest.mark.parametrize(("relative", "root", "kind"), ROOTS)
def test_a_root_is_known_by_its_metadata(relative: str, root: str | None, kind: str | None) -> None:
    key = f"wh/t/{relative}"
    row = {
        "bucket": ["b"], "key": [key], "relative": [relative], "owner": ["t"], "s_presence": ["present"],
        "first": [True],
    }  # fmt: skip
    con = connection()
    found = [tuple(each.values()) for each in duck.rows_of(nested_roots(con, pa.table(row)))]
    con.close()
    assert found == ([] if root is None else [("b", f"wh/t/{root}".rstrip("/"), kind)])


def table(name: str, key: str, *kinds: str) -> Table:
    manifests: Any = [SimpleNamespace(kind=kind) for kind in kinds]
    return Table.model_construct(name=name, location=Location("b", key), manifests=manifests)


def test_only_formats_that_the_lake_file_does_not_name_are_unread() -> None:
    tables = [
        table("plain", "wh/plain", "delta"),
        table("twin", "wh/twin", "delta"),
        table("twin_as_iceberg", "wh/twin", "iceberg"),
        table("uniform", "wh/uniform", "delta"),
        table("inner", "wh/plain/inner", "hudi"),
    ]
    roots = {
        Location("b", "wh/plain"): {"delta"},
        Location("b", "wh/plain/inner"): {"hudi"},
        Location("b", "wh/plain/other"): {"hudi", "iceberg"},
        Location("b", "wh/twin"): {"delta", "iceberg"},
        Location("b", "wh/uniform"): {"delta", "iceberg"},
    }
    assert unnamed_roots(roots, tables) == [
        UnnamedRoot(Location("b", "wh/plain/other"), ("hudi", "iceberg")),
        UnnamedRoot(Location("b", "wh/uniform"), ("iceberg",), ("uniform",)),
    ]
