"""The watermark of a table after one audit, and over many."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.results.watermark import BACK, FORWARD, NOTHING_OPEN, SAME, STEP, Blocking, next_watermark

START = datetime(2026, 11, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


LOST_ON_4 = Blocking(1, day(4), ids=("a",))
AUDITS = {
    # name: (before, judged through, open discrepancies) -> (watermark, movement, blocked by)
    "the first audit": ((None, day(5), NOTHING_OPEN), (day(5), FORWARD, ())),
    "the first audit judged a part": ((None, None, NOTHING_OPEN), (None, SAME, ("part",))),
    "a later audit": ((day(5), day(6), NOTHING_OPEN), (day(6), FORWARD, ())),
    "a later audit judged a part": ((day(5), None, NOTHING_OPEN), (day(5), SAME, ("part",))),
    "an audit with an older snapshot": ((day(5), day(3), NOTHING_OPEN), (day(5), SAME, ())),
    "a loss in a new commit": ((day(5), day(8), Blocking(1, day(7), ids=("a",))), (day(7) - STEP, FORWARD, ("a",))),
    "a loss in a verified commit": ((day(5), day(6), LOST_ON_4), (day(4) - STEP, BACK, ("a",))),
    "the same loss, the next night": ((day(4) - STEP, day(7), LOST_ON_4), (day(4) - STEP, SAME, ("a",))),
    "the loss is restored": ((day(4) - STEP, day(8), NOTHING_OPEN), (day(8), FORWARD, ())),
    "a lost log": ((day(5), day(6), Blocking(1, None, undated=1, ids=("a",))), (None, BACK, ("a",))),
    "a lost log, and a part": ((day(5), None, Blocking(1, None, undated=1, ids=("a",))), (None, BACK, ("a",))),
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_the_watermark_after_an_audit(name: str) -> None:
    (before, judged, blocking), expected = AUDITS[name]
    mark = next_watermark(before, judged, blocking, ("part",) if judged is None else ())
    assert (mark.through, mark.movement, mark.blocked_by) == expected


_days = st.one_of(st.none(), st.integers(0, 30).map(day))
_blocking = st.one_of(
    st.just(NOTHING_OPEN),
    st.integers(0, 30).map(lambda number: Blocking(1, day(number), ids=("a",))),
    st.just(Blocking(1, None, undated=1, ids=("a",))),
)


@given(st.lists(st.tuples(_days, _blocking), max_size=8))
def test_over_many_audits(audits: list[tuple[datetime | None, Blocking]]) -> None:
    """It never covers a commit that no audit judged, nor one with an open discrepancy; only these move it back."""
    through: datetime | None = None
    judged: list[datetime] = []
    for judged_through, blocking in audits:
        before, mark = through, next_watermark(through, judged_through, blocking)
        through = mark.through
        judged += [] if judged_through is None else [judged_through]
        assert through is None or through <= max(judged)
        assert through is None or not blocking.undated
        assert through is None or blocking.first_at is None or through < blocking.first_at
        assert mark.movement != BACK or blocking.number
        if not blocking.number:
            assert before is None or (through is not None and through >= before)
