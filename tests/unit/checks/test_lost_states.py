"""Lost states of a table are one loss: what lies between them, what is added up, and what a restore wrote again."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from lakeaudit.checks.lineage.lost_states import (
    count_written_again,
    files_written_again,
    newest_first,
    one_loss_a_table,
    with_states_between,
)
from lakeaudit.evidence.lineage import BROKEN_HINT, LAST_AUDIT, LOST_STATE, Stake, Witness
from lakeaudit.findings.lineage import JudgedWitness, finding
from lakeaudit.runtime import duck
from tests.builders.connections import connection

LOG = "s3://lake/orders/_delta_log"
Row = dict[str, Any]


def lost_state(
    number: int, table: str = "orders", *, claim: str = LOST_STATE, subject: str = ""
) -> JudgedWitness:
    witness = Witness(table, claim, (LAST_AUDIT,), subject or f"{LOG}/{number:020}.json", f"version {number} is gone",
                      number, Stake(1, 10, 100), version_id="v")  # fmt: skip
    return JudgedWitness(witness, "content.state_lost", "finding", "critical")


def subjects(found: list[JudgedWitness]) -> list[str]:
    return [one.witness.subject.rpartition("/")[2].lstrip("0") for one in found]


def test_commits_between_the_newest_one_and_a_lost_one_are_lost_too() -> None:
    found = list(with_states_between([lost_state(5)], {"orders": 2}))
    assert subjects(found) == ["5.json", "4.json", "3.json"]
    assert [one.witness.stake.files for one in found] == [1, None, None]
    assert (
        found[1].witness.words
        == "the file of table version 4 is missing, and the file of the later version 5 is missing too"
    )


HUDI = lost_state(20261101000000000, subject="s3://lake/orders/.hoodie/20261101000000000.commit")


@pytest.mark.parametrize(
    ("one", "newest"),
    [
        (lost_state(5), 4),
        (lost_state(5), None),
        (HUDI, 20261030000000000),
        (lost_state(5, claim=BROKEN_HINT), 2),
    ],
    ids=["the next one", "no state was read", "numbers with gaps", "a hint"],
)
def test_nothing_lies_between(one: JudgedWitness, newest: int | None) -> None:
    assert list(with_states_between([one], {"orders": newest})) == [one]


def test_the_newest_state_of_every_table_comes_first() -> None:
    found = newest_first([lost_state(4), lost_state(5), lost_state(7, "sales"), lost_state(6, "sales")])
    assert [(one.witness.table, one.witness.number) for one in found] == [
        ("orders", 5), ("sales", 7), ("orders", 4), ("sales", 6),
    ]  # fmt: skip


def rows(*found: JudgedWitness, **given: Any) -> list[Row]:
    return [finding(one) | given for one in found]


def test_lost_states_of_a_table_are_one_finding_about_the_newest() -> None:
    hint = finding(lost_state(5, claim=BROKEN_HINT, subject=f"{LOG}/_last_checkpoint"))
    told = [*rows(lost_state(4), lost_state(5)), *rows(lost_state(9, "sales")), hint]
    other, orders, sales = one_loss_a_table(told, {}, {"orders": 3})
    assert other == hint
    assert (orders["subject"], orders["table_version"]) == (f"{LOG}/{5:020}.json", 5)
    assert (orders["files"], orders["rows_at_stake"], orders["bytes_at_stake"]) == (2, 20, 200)
    assert orders["explanation"].endswith(
        f"2 versions of the table are lost together: {4:020}.json, {5:020}.json; storage keeps an object "
        "version of 2 of these 2 files;"
        " 3 files were written again since the last audit, perhaps by a restore of the table"
    )
    assert (sales["files"], "lost together" in sales["explanation"]) == (1, False)


@pytest.mark.parametrize(
    ("older", "newest", "expected"),
    [("yes", "yes", "yes"), ("no", "yes", "no"), ("unknown", "yes", "unknown"), ("no", "unknown", "no")],
)
def test_a_state_comes_back_only_with_those_before_it(older: str, newest: str, expected: str) -> None:
    (row,) = one_loss_a_table(
        [*rows(lost_state(4), recoverable=older), *rows(lost_state(5), recoverable=newest)], {}, {}
    )
    assert row["recoverable"] == expected


def test_a_metadata_json_says_all_by_itself() -> None:
    old, new = (lost_state(n, subject=f"s3://lake/orders/metadata/0000{n}-x.metadata.json") for n in (4, 5))
    (row,) = one_loss_a_table([*rows(old, recoverable="no"), *rows(new, recoverable="yes")], {}, {})
    assert row["recoverable"] == "yes"


def test_bytes_at_stake_are_at_least_the_decrease_of_the_listed_bytes() -> None:
    (row,) = one_loss_a_table(rows(lost_state(5)), {"orders": (7, 50)}, {})
    assert (row["files"], row["bytes_at_stake"]) == (7, 100)


def test_many_states_are_named_by_the_first_and_the_last() -> None:
    (row,) = one_loss_a_table(rows(*map(lost_state, range(100, 130))), {}, {})
    assert f"{104:020}.json, 20 more, {125:020}.json" in row["explanation"]


def test_only_a_state_written_since_the_last_audit_has_no_separate_finding() -> None:
    con, audited_at = connection(), datetime(2026, 11, 1)  # noqa: DTZ001
    later, before = audited_at + timedelta(1), audited_at - timedelta(1)
    told = [
        ("orders", "overwritten", later, "finding"), ("orders", "overwritten", before, "finding"),
        ("orders", "size_mismatch", later, "finding"), ("orders", "overwritten", later, "ignored"),
        ("sales", "overwritten", later, "finding"), ("orders", "overwritten", None, "finding"),
    ]  # fmt: skip
    values = ", ".join(f"({n}, {', '.join(map(duck.literal, row))})" for n, row in enumerate(told))
    given = duck.table(duck.query(con, f"""
        SELECT *, NULL::VARCHAR AS recheck_words
        FROM (VALUES {values}) AS t(number, judged_table, kind, s_modified_at, outcome)"""))  # fmt: skip
    after = duck.relation(con, files_written_again(con, given, {"orders": audited_at}))
    outcomes = {row["number"]: row["outcome"] for row in duck.rows_of(after)}
    assert outcomes == {number: row[3] for number, row in enumerate(told)} | {0: "undecided"}
    assert count_written_again(con, after) == {"orders": 1}
