"""Rows that are left out are counted, and all others are read as if nothing was filtered."""

from functools import partial

import pyarrow as pa
import pytest

from lakeaudit.engine.chunks import COUNTED, Chunk, Reading, read_part
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.matching.prefilter import BITS
from lakeaudit.matching.prefiltered_reads import RowFilter, ask_again, bitmap, read_again
from lakeaudit.runtime import duck
from lakeaudit.schemas import VERSION
from tests.builders.connections import connection
from tests.builders.screen_lake import ScreenLake
from tests.builders.screen_rows import version
from tests.builders.screen_truth import bucket_of

KEYS = [f"shop/p{number}" for number in range(50)]
WANTED = RowFilter(
    bitmap([[bucket_of("lake", key, BITS) for key in KEYS[:3]]]), bitmap([[bucket_of("lake", KEYS[7], BITS)]])
)
ROWS = [
    *[version(key) for key in KEYS],
    version("shop/odd", storage_class="GLACIER_NEXT", archived=None),
    {"source": "storage:0", "reject": "part 1: no key"},
    {"source": "storage:0", "reject": "part 0: no size"},
]


def _read(con: duck.Connection) -> Batches:
    yield "versions", duck.relation(con, pa.Table.from_pylist(ROWS, VERSION))


@pytest.mark.parametrize("alone", [False, True])
def test_rows_that_are_left_out_are_counted(alone: bool) -> None:
    con = connection()
    reading = Reading(
        partial(ask_again, WANTED, alone),
        partial(read_again, ScreenLake().screen(), WANTED, "none"),
        left=0.01,
    )
    chunks = list(read_part(con, Part("storage:0", _read, 1), 1, reading))
    assert sorted(_column(chunks, "versions", "key")) == sorted([*KEYS[:3], KEYS[7]])
    assert _column(chunks, "settled_keys", "key") == [KEYS[7]]
    counted = [row for chunk in chunks if chunk.kind == "counted" for row in chunk.batch.to_pylist()]
    assert all(chunk.batch.schema.equals(COUNTED) for chunk in chunks if chunk.kind == "counted")
    assert sum(row["rows"] for row in counted) == len(ROWS)
    assert sum(row["rejected"] for row in counted) == 2
    assert [row["sample"] for row in counted if row["sample"]] == ["part 0: no size"]
    assert [each for row in counted for each in row["unknown_classes"]] == ["lake/GLACIER_NEXT"]
    assert len(counted) == 1 + alone
    con.close()


def _column(chunks: list[Chunk], kind: str, name: str) -> list[str]:
    return [each for chunk in chunks if chunk.kind == kind for each in chunk.batch.column(name).to_pylist()]
