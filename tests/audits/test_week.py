"""A week of one lake: faults appear, are repaired and return, evidence fails, tables are wiped; one notice each."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.results.write import ResultsWriter
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.catcher import catching
from tests.builders.shop import Shop
from tests.builders.week import CUSTOMERS, HOUR, ORDERS, RECEIVER, Week
from tests.conftest import Aws

MON, TUE, WED, THU, FRI, SAT, SUN = (day * 24 * HOUR for day in range(7))
NEXT_TUE = 8 * 24 * HOUR
NIGHT, DAWN, NOON, EVENING = 2 * HOUR, 5 * HOUR, 12 * HOUR, 18 * HOUR


@dataclass(frozen=True)
class Audit:
    """What happens before an audit, how it is started, and all that must come of it."""

    id: str
    at: timedelta
    before: Callable[[Week], None] = lambda week: week.report()
    options: dict[str, Any] = field(default_factory=dict)
    killed: bool = False
    code: int = 0
    happened: dict[tuple[str, str], int] = field(default_factory=dict)
    """Transitions by what and kind."""
    told: tuple[str, ...] = ()
    """The headlines of its one message."""
    pressing: dict[str, int] | None = None
    """Numbers of findings that are not accepted, by severity; None: not checked."""


def happens(*acts: Callable[[Week], Any]) -> Callable[[Week], None]:
    def all_of_them(week: Week) -> None:
        for act in acts:
            act(week)

    return all_of_them


LOST_AND_TORN = "CRITICAL: 1 file dropped, 1 size mismatch in payments"
LOST = "CRITICAL: 1 file dropped in payments"

EASY = (
    Audit("mon-night", MON + NIGHT),
    Audit(
        "tue-night", TUE + NIGHT,
        happens(lambda w: w.lose(w.a), lambda w: w.tear(w.b), Week.report),
        happened={("opened", "dropped"): 1, ("opened", "size_mismatch"): 1}, told=(LOST_AND_TORN,),
        pressing={"critical": 2},
    ),
    Audit(
        "wed-night", WED + NIGHT, happens(lambda w: w.accept(w.b), lambda w: w.repair(w.a), Week.report),
        happened={("resolved", "dropped"): 1}, told=("RESOLVED: 1 file dropped in payments",), pressing={},
    ),
    Audit(  # the inventory is from before the loss, the live audit sees it
        "wed-noon", WED + NOON, happens(Week.report, lambda w: w.lose(w.c)),
        options={"live": True, "tables": ("payments",)},
        happened={("opened", "dropped"): 1}, told=(LOST,),
    ),
)  # fmt: skip
"""Days on which the evidence is sound."""

SHORT = (
    *EASY,
    Audit("thu-night", THU + NIGHT, happens(lambda w: w.lose(w.d), Week.report), killed=True),
    Audit("thu-night", THU + NIGHT + HOUR, happens(), happened={("opened", "dropped"): 1}, told=(LOST,)),
    Audit(
        "thu-noon", THU + NOON, happens(lambda w: w.repair(w.c, w.d), Week.report),
        happened={("resolved", "dropped"): 2}, told=("RESOLVED: 2 files dropped in payments",), pressing={},
    ),
)  # fmt: skip

WHOLE = (
    *EASY,
    Audit("thu-night", THU + NIGHT, happens(), options={"confirm": False}),
    Audit(
        "fri-night", FRI + NIGHT, lambda w: w.report(lacks=w.all["orders"][::2]), code=12,
        told=("the evidence is suspect: this audit reports no loss of any table, and opened and resolved nothing",),
    ),
    Audit("fri-noon", FRI + NOON, told=("audits work again",)),
    Audit(
        "sat-noon", SAT + NOON, happens(), code=3,
        happened={("opened", "unreadable_evidence"): 1, ("opened", "coverage_lost"): 3},
        told=("COVERAGE LOST (error) in 3 tables", "WARNING: 1 source with unreadable evidence"),
    ),
    Audit("sun-night", SUN + NIGHT, happens(lambda w: w.lose(w.d), Week.report), killed=True),
    Audit(
        "sun-night", SUN + NIGHT + HOUR, happens(),
        happened={("opened", "dropped"): 1, ("resolved", "unreadable_evidence"): 1, ("resolved", "coverage_lost"): 3},
        told=(LOST, "RESOLVED: 1 source with unreadable evidence", "RESOLVED: 1 loss of coverage in customers",
              "RESOLVED: 1 loss of coverage in orders"),
    ),
    Audit(
        "sun-dawn", SUN + DAWN, happens(lambda w: w.lose(w.a), Week.report),
        happened={("reopened", "dropped"): 1}, told=(LOST,),
    ),
    Audit(
        "sun-noon", SUN + NOON, happens(lambda w: w.lose(*w.wiped()), Week.report),
        happened={("opened", "dropped"): 204},
        told=("MASS LOSS: CRITICAL: 104 files dropped in orders",
              "MASS LOSS: CRITICAL: 100 files dropped in customers"),
    ),
    Audit("sun-evening", SUN + EVENING),
    Audit(  # what newer runs settled stays as it is
        "sun-past", SUN + EVENING + HOUR, happens(), options={"as_of": -3 * 24 * HOUR}, code=13,
    ),
    Audit(
        "next-tue", NEXT_TUE, happens(
            Week.give_up, lambda w: w.repair(*w.all["customers"]), lambda w: w.repair(w.a, w.b, w.c, w.d), Week.report,
        ),
        happened={("resolved", "dropped"): 207, ("resolved", "size_mismatch"): 1, ("opened", "dropped_history"): 1},
        told=("CLOSED, NOT RESTORED: 104 files dropped in orders", "RESOLVED: 100 files dropped in customers",
              "RESOLVED: 3 files dropped, 1 size mismatch in payments"),
    ),
)  # fmt: skip

AFTER_SHORT = {
    ("payments", "dropped", "resolved", "restored", 0): 3,
    ("payments", "size_mismatch", "open", None, 0): 1,
}
AFTER_WHOLE = {
    (None, "unreadable_evidence", "resolved", "restored", 0): 1,
    ("customers", "coverage_lost", "resolved", "restored", 0): 1,
    ("orders", "coverage_lost", "resolved", "restored", 0): 1,
    ("payments", "coverage_lost", "resolved", "restored", 0): 1,
    ("payments", "dropped", "resolved", "restored", 1): 1,
    ("payments", "dropped", "resolved", "restored", 0): 2,
    ("payments", "size_mismatch", "resolved", "restored", 0): 1,
    ("customers", "dropped", "resolved", "restored", 0): 100,
    ("orders", "dropped", "resolved", "reference_removed", 0): 104,
    ("orders", "dropped_history", "open", None, 0): 1,  # of info: told to nobody
}


class Killed(BaseException):
    """Raised to end an audit at once."""


@contextmanager
def killed_before_it_is_published() -> Iterator[None]:
    """The ledger is written, the run's last row is not."""
    put_run = ResultsWriter.put_run

    def stop(writer: ResultsWriter, row: dict[str, Any]) -> None:
        if row["status"] != "running":
            raise Killed
        put_run(writer, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResultsWriter, "put_run", stop)
        with pytest.raises(Killed):
            yield


@pytest.fixture
def week(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Week]:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    shop.write("payments")
    shop.write("orders", commits=4, days=ORDERS, rows=1)
    shop.write("customers", days=CUSTOMERS, rows=1)
    with catching() as caught:
        monkeypatch.setenv(RECEIVER, f"json://127.0.0.1:{caught.port}/")
        yield Week(shop, tmp_path, caught)


@pytest.mark.timeout(900)
@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "left"),
    [
        pytest.param(SHORT, AFTER_SHORT, id="short"),
        pytest.param(WHOLE, AFTER_WHOLE, id="whole"),
    ],
)
def test_a_week_of_one_lake(
    week: Week, script: Sequence[Audit], left: Mapping[tuple[str | int | None, ...], int]
) -> None:
    for audit in script:
        week.caught.posts.clear()
        week.now = week.began + audit.at
        audit.before(week)
        before = week.transitions()
        if audit.killed:
            with killed_before_it_is_published():
                week.audit(audit.id, **audit.options)
            continue
        outcome = week.audit(audit.id, **audit.options)
        assert audit.pressing in (None, outcome.pressing)
        got = (audit.id, outcome.exit_code, happened(week, audit.id, before), headlines(week))
        assert got == (audit.id, audit.code, audit.happened, audit.told), outcome.summary
    assert week.ledger() == left


def happened(week: Week, run_id: str, before: Counter[tuple[str, str, str]]) -> dict[tuple[str, str], int]:
    """What the run made happen, if all that happened before still stands."""
    now = week.transitions()
    assert {run: n for run, n in now.items() if run[0] != run_id} == {
        run: n for run, n in before.items() if run[0] != run_id
    }
    return {(what, kind): n for (run, what, kind), n in now.items() if run == run_id}


def headlines(week: Week) -> tuple[str, ...]:
    """Return the parts of the only message that was sent, in order; empty without a message.

    What else is open, and which audit worked again, are left out.
    """
    if not week.caught.posts:
        return ()
    (post,) = week.caught.posts
    *sections, lake = post["message"].split("\n\n")
    assert lake.startswith(
        ("Open in the lake and not accepted: ", "Nothing is open in the lake", "Known from the last")
    )
    return tuple(_MORE.split(section.partition("\n")[0])[0] for section in sections)


_MORE = re.compile("; open in all: |: the audit ")
