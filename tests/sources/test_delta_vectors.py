"""How long a deletion vector's file has to be, and how many rows are left of the files that vectors are about."""

from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.evidence.manifest.delta import reader as delta
from tests.builders.delta_lake import (
    BORN,
    Action,
    Log,
    add,
    claim_rows,
    context,
    frozen,
    remove,
    table,
    vector,
    vector_file,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = vector(1)
"""34 bytes at offset 1: with its size before it and its checksum after it, it ends at 43."""


def second(offset: int = 43, size: int = 50, rows: int = 4) -> Action:
    """Another vector in the same file."""
    return vector(1, offset) | {"sizeInBytes": size, "cardinality": rows}


INLINE = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40,
          "cardinality": 6}  # fmt: skip
ABSOLUTE = {
    "storageType": "p",
    "pathOrInlineDv": "s3://lake/vectors/v.bin",
    "offset": 4,
    "sizeInBytes": 20,
    "cardinality": 2,
}

LOGS: dict[str, tuple[list[list[Action]], dict[str, tuple[int | None, int | None]]]] = {
    "a vector": ([[add("a", SMALL)]], {"a": (None, 9), vector_file(1): (43, 1)}),
    "no vector": ([[add("a")]], {"a": (None, 10)}),
    "a vector that replaced no vector": (
        [[add("a")], [remove("a"), add("a", SMALL)]],
        {"a": (None, 9), vector_file(1): (43, 1)},
    ),
    "two in one file": (
        [[add("a", SMALL), add("b", second())]],
        {"a": (None, 9), "b": (None, 6), vector_file(1): (101, 5)},
    ),
    "the last one in the file is removed": (
        [[add("a", SMALL), add("b", second())], [remove("b", second())]],
        {"a": (None, 9), "b": (None, 6), vector_file(1): (43, 1)},
    ),
    "the first one in the file is replaced by one in another": (
        [[add("a", SMALL), add("b", second())], [remove("a", SMALL), add("a", vector(2))]],
        {"a": (None, 9), "b": (None, 6), vector_file(1): (101, 4), vector_file(2): (43, 1)},
    ),
    "both are removed: nobody needs the file": (
        [[add("a", SMALL)], [remove("a", SMALL)]],
        {"a": (None, 9), vector_file(1): (None, 1)},
    ),
    "without an offset the first vector follows the version byte": (
        [[add("a", vector(1, None))]],
        {"a": (None, 9), vector_file(1): (43, 1)},
    ),
    "in a folder of the table": (
        [[add("a", vector(1, prefix="ab"))]],
        {"a": (None, 9), f"ab/{vector_file(1)}": (43, 1)},
    ),
    "inline": ([[add("a", INLINE)]], {"a": (None, 4)}),
    "elsewhere": ([[add("a", ABSOLUTE)]], {"a": (None, 8), "vectors/v.bin": (32, 2)}),
    "of unknown length": (
        [
            [
                add(
                    "a",
                    {
                        name: value
                        for name, value in SMALL.items()
                        if name not in ("sizeInBytes", "cardinality")
                    },
                )
            ]
        ],
        {"a": (None, 10), vector_file(1): (None, None)},
    ),
}


@pytest.fixture(scope="module")
def claims_by_table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The claims of every log, by table: each log with a checkpoint is a table of its own."""
    homes: dict[str, Path] = {}
    for checkpoint in (False, True):
        for name, (commits, _) in LOGS.items():
            home = tmp_path_factory.mktemp("table")
            log = Log(home).commits(*commits)
            if checkpoint and len(commits) == 1:
                log.checkpoint(0, *BORN, *commits[0]).drop(f"{0:020}.json")
            homes[f"{name} {checkpoint}"] = home
    tables = [table(name, home) for name, home in homes.items()]
    claims: dict[str, list[dict[str, Any]]] = {name: [] for name in homes}
    for row in claim_rows(delta.read(tables, context(), "manifest:delta", frozen)):
        prefix = f"{str(homes[row['table_name']])[1:]}/"
        claims[row["table_name"]].append(row | {"key": row["key"].removeprefix(prefix)})
    return claims


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("name", LOGS)
def test_bytes_and_rows_of_deletion_vectors(
    name: str, checkpoint: bool, claims_by_table: dict[str, list[dict[str, Any]]]
) -> None:
    claims = claims_by_table[f"{name} {checkpoint}"]
    assert {row["key"]: (row["least_size"], row["records"]) for row in claims} == LOGS[name][1]
