"""A check with a route of its own: it brings files of equal size together. Tasks import it from here."""

import pyarrow as pa

from lakeaudit.checks.protocol import Check, CheckInput, CheckResult
from lakeaudit.evidence.protocol import Batches
from lakeaudit.matching.pairs import Kinds
from lakeaudit.matching.share import Share, TaskFacts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection

SIZES = pa.schema([("size", pa.int64()), ("files", pa.int64())])


def select_sizes(share: Share) -> Batches:
    sql = "SELECT s_size AS size, key FROM input WHERE s_presence = 'present' AND table_name IS NOT NULL"
    yield "sizes", duck.query(share.con, sql, input=share.every_pair)


def combine_sizes(_: TaskFacts, con: Connection, rows: Kinds) -> Batches:
    if "sizes" in rows:
        sql = "SELECT size, count(*) AS files FROM input GROUP BY size HAVING files > 1"
        yield "equal_sizes", duck.query(con, sql, input=rows["sizes"])


def judge_sizes(given: CheckInput, kind: str = "duplicate_content") -> CheckResult:
    rows = duck.rows_of(duck.relation(given.evidence.con, given.matched.rows("equal_sizes", SIZES)))
    same = {"table_name": "orders", "axis": "duplicate", "kind": kind, "severity": "info",
            "subject_type": "table", "confirmation": "not_needed"}  # fmt: skip
    found = [same | {"subject": f"orders#{each['size']}", "files": each["files"]} for each in rows]
    return CheckResult(rows=tuple(found))


SIZE_CHECK = Check(
    "equal_sizes",
    judge_sizes,
    select_sizes,
    combine_sizes,
    every_key=True,
    routes={"sizes": "hash(size) >> 32"},
)
