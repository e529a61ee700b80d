"""Which fields leave a file undecided, as the coverage of its table names them."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.unnamed_file_fields import RULES as NEEDING
from lakeaudit.checks.unnamed_file_fields import of_pairs, of_verdicts
from lakeaudit.rules.file_rules import RULES, UNDECIDED
from lakeaudit.runtime import duck
from lakeaudit.schemas import KNOWN

AT = datetime(2026, 11, 20, tzinfo=UTC).replace(tzinfo=None)
MD5 = "0cc175b9c0f1b6a831c399e269772661"
WHOLE: dict[str, Any] = {
    "judged_table": "orders", "bucket": "lake", "key": "orders/a", "s_source": "storage:0", "s_archived": False,
    "s_storage_class": "STANDARD", "s_modified_at": AT, "s_size": 5, "s_etag": MD5, "s_encryption": "NONE", "c_size": 5,
    "c_etag": MD5, "c_checksum": f"md5:{MD5}", "m_size": 5,
}  # fmt: skip
TYPES = {
    "s_archived": pa.bool_(),
    "s_modified_at": pa.timestamp("us"),
    **dict.fromkeys(("s_size", "c_size", "m_size"), pa.int64()),
}
NO_CLASS: dict[str, Any] = {"s_archived": None, "s_storage_class": None}
CASES: dict[str, tuple[str, dict[str, Any], set[tuple[str, str | None]]]] = {
    "no class": ("content.untold", NO_CLASS, {("StorageClass", None)}),
    "no class, and the content is the same": ("content.same_untold", NO_CLASS, {("StorageClass", None)}),
    "a class that nobody knows": ("content.untold", NO_CLASS | {"s_storage_class": "COLD"}, {("StorageClass", "COLD")}),
    "a class that moves objects itself": (
        "content.untold", NO_CLASS | {"s_storage_class": "INTELLIGENT_TIERING", "s_size": None}, {("Size", None)}),
    "no size": ("content.untold", {"s_size": None}, {("Size", None)}),
    "no size, and none is recorded": ("content.untold", {"s_size": None, "c_size": None}, set()),
    "no size and no time": (
        "content.untold", {"s_size": None, "s_modified_at": None}, {("Size", None), ("LastModified", None)}),
    "no ETag": ("content.untold", {"s_etag": None}, {("ETag", None)}),
    "an MD5 beside an ETag of unknown encryption": (
        "content.untold", {"s_encryption": None}, {("EncryptionStatus", None)}),
    "no latest version": (
        "content.unclear", dict.fromkeys(("s_size", "s_etag", "s_modified_at", "s_archived")), {("IsLatest", None)}),
    "unlisted, without a time": ("leftover.untold", {"s_modified_at": None, **NO_CLASS}, {("LastModified", None)}),
    "equal bytes, without a time": (
        "duplicate.untold", {"s_modified_at": None, "s_size": None}, {("LastModified", None)}),
    "an entry's size, and none stored": ("metastore.untold", {"s_size": None, "s_modified_at": None}, {("Size", None)}),
    "a copy whose ETags cannot be compared": ("content.untold", {}, set()),
}  # fmt: skip


def fields_of(rows: Any) -> set[tuple[str, str | None]]:
    return {(row["field"], row["storage_class"]) for row in duck.rows_of(rows)}


@pytest.mark.parametrize("name", CASES)
def test_the_fields_that_a_file_is_undecided_for(name: str) -> None:
    rule, given, expected = CASES[name]
    axis = rule.partition(".")[0]
    row = WHOLE | given
    ruled = row | {f"rule_{each}": rule if each == axis else f"{each}.same" for each in NEEDING}
    pair = ruled | {"table_name": "orders", "owner": "orders", "first": True}
    known = KNOWN.empty_table()
    scope = pa.table({"scope_table": ["orders"]})
    with duck.task_connection() as con:
        assert fields_of(of_verdicts(con, table_of(row | {"axis": axis, "rule": rule}))) == expected
        pairs = table_of({name: value for name, value in pair.items() if name != "judged_table"})
        assert fields_of(of_pairs(con, pairs, known, scope)) == expected
        assert fields_of(of_pairs(con, pairs, known, pa.table({"scope_table": ["other"]}))) == set()


def table_of(row: dict[str, Any]) -> pa.Table:
    fields = [(name, TYPES.get(name, pa.bool_() if name == "first" else pa.string())) for name in row]
    return pa.Table.from_pylist([row], pa.schema(fields))


def test_every_rule_that_waits_for_a_field_is_named() -> None:
    """A new rule of this sort must name its fields, or its files are undecided without a reason."""
    named = {rule for rules in NEEDING.values() for rule in rules}
    axes = tuple(f"{axis}." for axis in NEEDING)
    waiting = {
        each.id for each in RULES.values()
        if each.verdict == UNDECIDED and each.id.startswith(axes)
        and any(fact in each.when for fact in ("!told", "!time_told", "!entry_told", "!class_told", "!present"))
    } | {"content.same_untold"}  # fmt: skip
    assert waiting == named
