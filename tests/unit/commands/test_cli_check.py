"""`lakeaudit check`: may a table be used? Each situation of the results with the exit code and the answer. No JVM."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lake_check
from lakeaudit import cli
from lakeaudit.commands.check import check
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import leased
from lakeaudit.results.check_file import check_file, write_check_file
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.table_answers import Demand
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.results import LAKE, covered, discrepancy, finding, lake_file, publish, run

Row = dict[str, Any]
Captured = pytest.CaptureFixture[str]

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def audit(run_id: str = "r1", status: str = "complete", hours: float = 2, **given: Any) -> Row:
    at = NOW - hours * HOUR
    return (
        run(run_id, status, as_of=at, started_at=at, finished_at=None if status == "running" else at) | given
    )


def content(table: str = "orders", run_id: str = "r1", hours: float = 2, **given: Any) -> Row:
    return covered(table, run_id=run_id, storage_cut_from=NOW - hours * HOUR, **given)


def fault(kind: str = "phantom", key: str = "k", state: str = "open", **given: Any) -> Row:
    return discrepancy(finding(kind, key, **given), state) | given


ACCEPTED: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": NOW + 99 * HOUR}
GAP: Row = {
    "status": "partial",
    "consistent": 9,
    "undecided": 1,
    "decided_share": 0.9,
    "reason": "1 file undecided",
}
PARTITION: Row = {"status": "partial", "reason": "only s3://lake/orders/day=1 was requested and checked"}


@dataclass(frozen=True)
class Situation:
    """The rows of the results, the options of the command, and the answer for the table `orders`."""

    name: str
    answer: str
    reason: str = ""
    runs: Sequence[Row] = (audit(),)
    coverage: Sequence[Row] = (content(),)
    ledger: Sequence[Row] = ()
    options: Sequence[str] = ()
    open: Mapping[str, int] = field(default_factory=dict)


SITUATIONS = (
    Situation("no run", "unknown", "no audit was published", runs=(), coverage=()),
    Situation("only a running audit", "unknown", "no audit was published", runs=(audit(status="running"),)),
    Situation("healthy", "ok"),
    Situation("healthy, while the next audit runs", "ok", runs=(audit(), audit("r2", "running", 0))),
    Situation("an open error", "discrepancies", "1 error discrepancy is open", ledger=(fault(),), open={"error": 1}),
    Situation(
        "open faults, the worst first", "discrepancies", "1 critical, 2 error discrepancies are open",
        ledger=(fault(key="a"), fault(key="b"), fault("dropped", "c"), fault("dropped", "d", "resolved")),
        open={"critical": 1, "error": 2},
    ),
    Situation("accepted", "ok", ledger=(fault(**ACCEPTED),)),
    Situation(
        "no longer accepted", "discrepancies", "1 error", ledger=(fault(ack_until=NOW - HOUR),), open={"error": 1}
    ),
    Situation("of another table", "ok", ledger=(fault(table_name="returns"),)),
    Situation("of another lake", "ok", ledger=(fault(lake="other"),)),
    Situation("only a warning", "ok", ledger=(fault("overwritten"),), open={"warning": 1}),
    Situation(
        "a warning that counts", "discrepancies", "1 warning discrepancy is open", ledger=(fault("overwritten"),),
        options=("--min-severity", "warning"), open={"warning": 1},
    ),
    Situation(
        "a severity that nobody knows", "discrepancies", "1 dreadful", ledger=(fault(severity="dreadful"),),
        options=("--min-severity", "critical"), open={"dreadful": 1},
    ),
    Situation(
        "pending", "unknown", "1 critical pending: nothing has confirmed or cleared this yet",
        ledger=(fault("dropped", state="pending"),),
    ),
    Situation(
        "partly judged", "unknown", "90.0 % of its files are judged, less than 100 %", coverage=(content(**GAP),)
    ),
    Situation("partly judged, enough", "ok", coverage=(content(**GAP),), options=("--judged", "90%")),
    Situation(
        "a gap that hides files in unknown number", "unknown", "not all of its files are known: a commit is missing",
        coverage=(content(status="partial", reason="a commit is missing"),), options=("--judged", "50%"),
    ),
    Situation(
        "too young", "unknown", "no file is old enough to be judged",
        coverage=(content(consistent=0, out_of_window=10, decided_share=None),),
    ),
    Situation("some too young", "ok", coverage=(content(consistent=4, out_of_window=6),)),
    Situation(
        "no manifest", "unknown", "its files are not compared: no manifest is configured",
        coverage=(content(status="off", reason="no manifest is configured", files=0, consistent=0),),
    ),
    Situation(
        "an empty table", "unknown", "it lists no file", coverage=(content(files=0, consistent=0, decided_share=None),)
    ),
    Situation(
        "nothing judged", "unknown", "none of its files was judged: no storage source covers the table",
        coverage=(content(status="partial", consistent=0, uncovered=10, reason="no storage source covers the table"),),
    ),
    Situation("stale", "unknown", "its last audit is 1 d 16 h old", runs=(audit(hours=40),)),
    Situation("old, but recent enough", "ok", runs=(audit(hours=40),), options=("--max-age", "2d")),
    Situation("recent, but not enough", "unknown", "old, more than 1 h", options=("--max-age", "1h")),
    Situation(
        "suspect after a published run", "unknown", "the last audit (r2) has suspect evidence: 9 of 10 absent",
        runs=(audit(), audit("r2", "suspect", 1, error="9 of 10 absent")), coverage=(content(), content(run_id="r2")),
    ),
    Situation(
        "suspect, and another table audited since", "unknown", "the last audit (r2) has suspect evidence",
        runs=(audit("r2", "suspect"), audit("r3", hours=1)), coverage=(content(run_id="r2"), content("returns", "r3")),
    ),
    Situation(
        "failed after a published run", "unknown", "the last audit (r2) failed",
        runs=(audit(), audit("r2", "failed", 1)),
    ),
    Situation(
        "failed, and published since", "ok", runs=(audit("r0", "failed", 3), audit()),
    ),
    Situation(
        "stale, and an open error", "discrepancies", "1 error discrepancy is open; its last audit is",
        runs=(audit(hours=40),), ledger=(fault(),), open={"error": 1},
    ),
    Situation("not in the audit", "unknown", "no audit since", coverage=(content("returns"),)),
    Situation(
        "the last audit was of another table", "ok",
        runs=(audit(), audit("r2", hours=1)), coverage=(content(), content("returns", "r2")),
    ),
    Situation(
        "the last audit was of a partition", "ok",
        runs=(audit(), audit("r2", hours=1)), coverage=(content(), content(run_id="r2", **PARTITION)),
    ),
    Situation("only ever a partition", "unknown", "no audit since", coverage=(content(**PARTITION),)),
    Situation(
        "a partition with a gap", "unknown", "no audit since",
        coverage=(content(**GAP | {"reason": f"1 file undecided; {PARTITION['reason']}"}),), options=("--judged", "1%"),
    ),
    Situation("overtaken", "unknown", "no audit since", coverage=(content(status="overtaken"),)),
    Situation(
        "of a snapshot before the data", "unknown", "not one after",
        options=("--after", (NOW - HOUR).isoformat()), ledger=(fault(),), open={"error": 1},
    ),
    Situation("of a snapshot after the data", "ok", options=("--after", (NOW - 3 * HOUR).isoformat())),
    Situation(
        "of no snapshot", "unknown", "used no storage snapshot", coverage=(content() | {"storage_cut_from": None},),
        options=("--after", "2020-01-01"),
    ),
)  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path, place: Location) -> str:
    return lake_file(tmp_path, place)


def answers(capsys: Captured, lake: str, *options: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["check", lake, "--format", "json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def store(place: Location, each: Situation) -> None:
    tables: dict[str, Any] = {"runs": each.runs, "coverage": each.coverage, "discrepancies": each.ledger}
    publish(place, **{name: rows for name, rows in tables.items() if rows})


@pytest.mark.parametrize("each", SITUATIONS, ids=lambda each: each.name)
def test_each_situation(capsys: Captured, lake: str, place: Location, each: Situation) -> None:
    store(place, each)
    code, document = answers(capsys, lake, "--table", "orders", *each.options)
    (row,) = document["tables"]
    assert (row["answer"], document["answer"]) == (each.answer, each.answer)
    assert code == {"ok": 0, "discrepancies": 1, "unknown": 3}[each.answer]
    assert each.reason in "; ".join(row["reasons"])
    assert bool(row["reasons"]) == (each.answer != "ok")
    assert row["open"] == each.open
    assert cli.main(["check", lake, "--table", "orders", *each.options]) == code
    assert capsys.readouterr().out.startswith(f"{each.answer:<13}  orders: ")


def value_of(options: Sequence[str], name: str) -> str | None:
    return dict(zip(options[::2], options[1::2], strict=True)).get(name)


@pytest.mark.parametrize("each", SITUATIONS, ids=lambda each: each.name)
def test_the_sensor_answers_alike_from_the_check_file(lake: str, place: Location, each: Situation) -> None:
    store(place, each)
    written = load_lake(lake, {})
    assert write_check_file(Results(place, Clients(), LAKE), written, NOW, all_tables=True) == ()
    severity, judged, age, after = (
        value_of(each.options, f"--{name}") for name in ("min-severity", "judged", "max-age", "after")
    )
    demand = lake_check.Demand(
        severity or "error",
        float(judged[:-1]) / 100 if judged else 1.0,
        {"2d": timedelta(days=2), "1h": HOUR}[age] if age else None,
        lake_check.time_of(after),
    )
    answer, line = lake_check.answer_of(lake_check.read_check_file(lake), "orders", demand, datetime.now(UTC))
    assert answer == each.answer, line
    if each.answer == "discrepancies":
        assert each.reason.partition(";")[0] in line
    assert line


def test_an_acceptance_that_ends_is_not_ok_in_the_check_file(lake: str, place: Location) -> None:
    publish(place, runs=[audit()], coverage=[content()], discrepancies=[fault(**ACCEPTED)])
    write_check_file(Results(place, Clients(), LAKE), load_lake(lake, {}), NOW, all_tables=True)
    written = lake_check.read_check_file(lake)
    demand = lake_check.Demand(max_age=timedelta(days=9))
    at = [lake_check.answer_of(written, "orders", demand, NOW + hours * HOUR)[0] for hours in (98, 100)]
    assert at == ["ok", "unknown"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format 2, and this sensor reads 1"),
        ({"tables": {}}, "no table has this name in the last audit of shop"),
    ],
)
def test_a_check_file_that_does_not_answer(lake: str, place: Location, change: Row, words: str) -> None:
    publish(place, runs=[audit()], coverage=[content()])
    write_check_file(Results(place, Clients(), LAKE), load_lake(lake, {}), NOW, all_tables=True)
    written = lake_check.read_check_file(lake) | change
    answer, line = lake_check.answer_of(written, "orders", lake_check.Demand(), NOW)
    assert (answer, words in line) == ("unknown", True)


def test_acceptances_are_in_the_check_file_at_once(lake: str, place: Location) -> None:
    publish(place, runs=[audit()], coverage=[content()], discrepancies=[fault(discrepancy_id="aaaaaa11")])
    file = str(check_file(Results(place, Clients(), LAKE)).spark_path)

    def answer() -> str:
        return lake_check.answer_of(lake_check.read_check_file(file), "orders", lake_check.Demand(), NOW)[0]

    why = ("--reason", "known", "--until", "2999-01-31")
    assert cli.main(["ack", lake, "aaaaaa11", *why]) == 0
    assert answer() == "ok"
    assert cli.main(["unack", lake, "aaaaaa11"]) == 0
    assert answer() == "discrepancies"
    assert cli.main(["baseline", lake, *why]) == 0
    assert answer() == "ok"


HOSTILE = ("a\u202eb", "x\x1b[31m", '"; drop', "=1+1", "né", "a[b]", "o'r", "percent%41", "*", "<script>")


def test_hostile_names_are_tables_and_not_patterns(capsys: Captured, tmp_path: Path, place: Location) -> None:
    names = [name for name in HOSTILE if name.isprintable()]
    tables = [
        {"name": n, "location": f"s3://lake/t{at}", "manifests": [{"kind": "delta"}]}
        for at, n in enumerate(names)
    ]
    lake = lake_file(tmp_path, place, tables=tables)
    bad = names[0]
    publish(
        place,
        runs=[audit()],
        coverage=[content(name) for name in names],
        discrepancies=[fault(table_name=bad)],
    )
    for name in names:
        code, document = answers(capsys, lake, "--table", name)
        assert ([row["table"] for row in document["tables"]], code) == ([name], 1 if name == bad else 0)
    for name in set(HOSTILE) - set(names):
        code, document = answers(capsys, lake, "--table", name)
        assert (code, document["tables"][0]["table"]) == (3, name)
        assert cli.main(["check", lake, "--table", name]) == 3
        assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
    write_check_file(Results(place, Clients(), LAKE), load_lake(lake, {}), NOW, all_tables=True)
    written = lake_check.read_check_file(lake)
    by_name = {name: lake_check.answer_of(written, name, lake_check.Demand(), NOW)[0] for name in names}
    assert by_name == dict.fromkeys(names, "ok") | {bad: "discrepancies"}


TABLES = [
    {"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]}
    for name in ("sales.orders", "sales.returns", "web.clicks")
] + [{"name": "clicks_alias", "location": "s3://lake/web.clicks", "same_location": "alias"}]


@pytest.mark.parametrize(
    ("patterns", "expected", "code"),
    [
        (["sales.*"], {"sales.orders": "ok", "sales.returns": "discrepancies"}, 1),
        (["web.*", "*.clicks"], {"web.clicks": "ok"}, 0),
        (["clicks_alias"], {"web.clicks": "ok"}, 0),
        (["web.*", "nothing.*"], {"web.clicks": "ok", "nothing.*": "unknown"}, 3),
        (["sales.*", "nothing.*"],
         {"sales.orders": "ok", "sales.returns": "discrepancies", "nothing.*": "unknown"}, 1),
        (["old.table"], {"old.table": "unknown"}, 3),
    ],
)  # fmt: skip
def test_names_and_patterns(
    capsys: Captured,
    tmp_path: Path,
    place: Location,
    patterns: list[str],
    expected: dict[str, str],
    code: int,
) -> None:
    """`old.table` was audited, and the lake file no longer names it."""
    tables = [{**each, "same_location": "alias"} if each["name"] == "web.clicks" else each for each in TABLES]
    lake = lake_file(tmp_path, place, tables=tables)
    audited = ("sales.orders", "sales.returns", "web.clicks", "old.table")
    publish(place, runs=[audit()], coverage=[content(name) for name in audited],
            discrepancies=[fault(table_name="sales.returns")])  # fmt: skip
    options = [word for pattern in patterns for word in ("--table", pattern)]
    given, document = answers(capsys, lake, *options)
    assert {row["table"]: row["answer"] for row in document["tables"]} == expected
    assert given == code


@pytest.mark.parametrize(
    ("name", "later", "answer", "reason"),
    [
        ("a", ["b"], "ok", ""),
        ("a", ["b", "c"], "unknown", "a later audit no longer contains this table"),
        ("b", ["b", "c"], "ok", ""),
        ("?", ["b", "c"], "b c", ""),
        ("?", ["b"], "a b c", ""),
        ("d", ["b"], "unknown", "no table has this name"),
        ("s3://lake/", ["b"], "unknown", "no table has this name"),
    ],
)
def test_discovered_tables(
    capsys: Captured, tmp_path: Path, place: Location, name: str, later: list[str], answer: str, reason: str
) -> None:
    """An audit found a, b and c; the later audit was of fewer tables, or shows that a no longer exists."""
    discover = {"discover": {"from": "inventory", "under": ["s3://lake/"], "name": "{1}"}}
    lake = lake_file(tmp_path, place, tables=[discover], watch=["s3://lake/"],
                     inventories=[{"kind": "s3_inventory", "location": "s3://inv/x/"}])  # fmt: skip
    publish(
        place,
        runs=[audit(tables_expected=3), audit("r2", hours=1, tables_expected=len(later))],
        coverage=[
            *(content(each) for each in "abc"),
            content("s3://lake/", status="off"),
            *(content(each, "r2") for each in later),
        ],
    )
    _, document = answers(capsys, lake, "--table", name)
    rows = document["tables"]
    if len(rows) > 1:
        assert " ".join(sorted(row["table"] for row in rows if row["answer"] == "ok")) == answer
    else:
        assert (rows[0]["answer"], reason in "; ".join(rows[0]["reasons"])) == (answer, True)


def test_ids_are_bounded(capsys: Captured, lake: str, place: Location) -> None:
    publish(
        place, runs=[audit()], coverage=[content()], discrepancies=[fault(key=f"k{n}") for n in range(50)]
    )
    _, document = answers(capsys, lake, "--table", "orders")
    (row,) = document["tables"]
    assert (row["open"], len(row["ids"]["error"])) == ({"error": 50}, 20)
    assert set(row["ids"]["error"]) <= {f"d-k{n}" for n in range(50)}


def test_the_document(capsys: Captured, lake: str, place: Location) -> None:
    publish(place, runs=[audit()], coverage=[content()], discrepancies=[fault()])
    _, document = answers(capsys, lake, "--table", "orders")
    assert {name: type(value).__name__ for name, value in document.items()} == {
        "format": "int", "lake": "str", "checked_at": "str", "answer": "str", "min_severity": "str",
        "judged": "float", "max_age_seconds": "int", "after": "NoneType", "tables": "list",
    }  # fmt: skip
    at = (NOW - 2 * HOUR).isoformat().replace("+00:00", "Z")
    assert document["tables"] == [
        {
            "table": "orders", "answer": "discrepancies", "reasons": ["1 error discrepancy is open"], "run_id": "r1",
            "as_of": at, "through": at, "judged_share": 1.0, "open": {"error": 1}, "pending": {},
            "ids": {"error": ["d-k"]},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Missing option '--table'"),
        (("--table", "orders", "--judged", "0%"), "--judged 0%: is not a share above 0 %"),
        (("--table", "orders", "--judged", "101%"), "is not a share"),
        (("--table", "orders", "--judged", "0.99"), "write 99% or 99.9%"),
        (("--table", "orders", "--judged", "nan%"), "is not a share"),
        (("--table", "orders", "--max-age", "soon"), "--max-age soon: is not a duration; write 36h or 2d"),
        (("--table", "orders", "--after", "soon"), "--after soon: is not a timestamp"),
        (
            ("--table", "orders", "--min-severity", "bad"),
            "no severity bad; one of critical, error, warning, info",
        ),
        (("--table", "[z-a]"), "--table [z-a]: is not a pattern"),
    ],
)
def test_bad_options(capsys: Captured, lake: str, options: tuple[str, ...], message: str) -> None:
    assert cli.main(["check", lake, *options]) == 2
    assert message in capsys.readouterr().err


def test_the_lake_file_gives_the_age(capsys: Captured, tmp_path: Path, place: Location) -> None:
    publish(place, runs=[audit(hours=2)], coverage=[content()])
    assert answers(capsys, lake_file(tmp_path, place, overdue="1h"), "--table", "orders")[0] == 3


def test_results_that_cannot_be_read_are_unknown(capsys: Captured, lake: str, place: Location) -> None:
    publish(place, runs=[audit()], coverage=[content()])
    (log,) = (Path(place.spark_path) / "coverage" / "_delta_log").glob("*.json")
    log.write_text("torn")
    code, document = answers(capsys, lake, "--table", "orders", "--table", "x.*")
    assert code == 3
    assert [(row["table"], row["answer"]) for row in document["tables"]] == [
        ("orders", "unknown"),
        ("x.*", "unknown"),
    ]
    assert re.search("coverage: the table cannot be read", document["tables"][0]["reasons"][0])


class Interrupted(Results):
    """Results into which an audit publishes a fault right after a check has read its table number `after`."""

    after = 1
    reads = 0

    def batches(self, *given: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        batches = list(super().batches(*given, **more))
        self.reads += 1
        if self.reads == self.after:
            publish(
                self.place,
                coverage=[content(run_id="r2")],
                discrepancies=[fault()],
                runs=[audit("r2", hours=1)],
            )
        yield from batches


@pytest.mark.parametrize(
    ("after", "answer"), [(1, "discrepancies"), (2, "discrepancies"), (3, "ok"), (4, "ok")]
)
def test_while_an_audit_publishes(lake: str, place: Location, after: int, answer: str) -> None:
    """A check never calls a run ok whose fault it has not read: `ok` is only ever as of the run before."""
    publish(place, runs=[audit()], coverage=[content()], discrepancies=[fault(key="old", state="resolved")])
    results = Interrupted(place, Clients(), LAKE)
    results.after = after
    (each,) = check(load_lake(lake, {}), results, ["orders"], Demand(timedelta(hours=36)), NOW)
    assert (results.reads, each.answer, each.record.run_id) == (4, answer, "r1")
    (each,) = check(load_lake(lake, {}), results.again(), ["orders"], Demand(timedelta(hours=36)), NOW)
    assert (each.answer, each.record.run_id) == ("discrepancies", "r2")


def test_a_running_audit_and_its_lease_do_not_stop_a_check(
    capsys: Captured, lake: str, place: Location
) -> None:
    publish(place, runs=[audit(), audit("r2", "running", 0)], coverage=[content()])
    with leased(place, Clients(), "nightly", SilentProgress()):
        assert answers(capsys, lake, "--table", "orders")[0] == 0


def test_a_mistyped_name_does_not_blame_the_results(lake: str, place: Location) -> None:
    publish(place, runs=[audit()], coverage=[content()], discrepancies=[fault()])
    (each,) = check(
        load_lake(lake, {}), Results(place, Clients(), LAKE), ["typo"], Demand(timedelta(hours=36)), NOW
    )
    assert (each.answer, each.reasons[0].startswith("no table has this name")) == ("unknown", True)


@pytest.mark.parametrize(("table", "answer"), [("returns", "unknown"), ("orders", "ok")])
def test_a_failed_audit_leaves_a_doubt_until_an_audit_judges_the_table(
    lake: str, place: Location, table: str, answer: str
) -> None:
    runs = [audit(), audit("r2", "failed", 1), audit("r3", hours=0)]
    publish(place, runs=runs, coverage=[content(), content(table, "r3", hours=0)])
    results = Results(place, Clients(), LAKE)
    (each,) = check(load_lake(lake, {}), results, ["orders"], Demand(timedelta(hours=36)), NOW)
    assert each.answer == answer
    assert [reason.partition(":")[0] for reason in each.reasons] == (
        ["the last audit (r2) failed"] if answer == "unknown" else []
    )
