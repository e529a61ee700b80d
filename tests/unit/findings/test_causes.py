"""Which of the recorded requests caused what a finding is about, request by request."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from lakeaudit.findings.causes import ARCHIVED, CHANGED, GONE, causes, with_causes
from lakeaudit.findings.finding_rows import RunStamp, from_plain
from lakeaudit.formatting import cause
from lakeaudit.runtime import duck
from lakeaudit.schemas import CAUSE, EFFECT, REQUEST
from tests.builders.connections import connection

NOON = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - times inside an audit have no zone
"""When the file was claimed; somebody looked ten hours later."""
ANN, JOB, RULE = "arn:aws:iam::1:user/ann", "arn:aws:sts::1:assumed-role/etl/s1", "AmazonS3"
OPERATIONS = {
    "put": "REST.PUT.OBJECT",
    "upload": "REST.POST.UPLOAD",
    "copy": "REST.COPY.OBJECT",
    "delete": "REST.DELETE.OBJECT",
    "expire": "S3.EXPIRE.OBJECT",
    "transition": "S3.TRANSITION_GDA.OBJECT",
}


@dataclass(frozen=True)
class Did:
    """A request about the key, so many minutes after it was claimed."""

    what: str
    minutes: float
    by: str | None = ANN
    version: str | None = None
    request: str | None = None
    seconds: int = 0

    def row(self, number: int) -> tuple[object, ...]:
        at = NOON + timedelta(minutes=self.minutes)
        action = "put" if self.what == "upload" else self.what
        request = self.request or f"R{number}"
        return ("events:0", "lake", "t/a", self.version, action, at, self.seconds * 1000, self.by, request,
                OPERATIONS[self.what], "op_delete of alice", 200, True, None)  # fmt: skip


def effect_row(
    effect: str, written: float | None = None, version: str | None = None, claimed: datetime | None = NOON
) -> tuple[object, ...]:
    at = None if written is None else NOON + timedelta(minutes=written)
    return ("lake", "t/a", effect, claimed, NOON + timedelta(hours=10), at, version)


def cause_of(did: Sequence[Did], question: tuple[object, ...]) -> tuple[object, ...] | None:
    """(action, minutes after the claim, principal) of the cause."""
    con = connection()
    requests = duck.small(REQUEST, [each.row(n) for n, each in enumerate(did)])
    rows = duck.rows_of(causes(con, requests, duck.small(EFFECT, [question])))
    assert len(rows) <= 1
    return next(
        ((r["action"], (r["cause_at"] - NOON) / timedelta(minutes=1), r["cause_principal"]) for r in rows),
        None,
    )


CASES: dict[str, tuple[Sequence[Did], tuple[object, ...], tuple[object, ...] | None]] = {
    # gone
    "nothing is recorded": ([], effect_row(GONE), None),
    "somebody deleted it": ([Did("delete", 5)], effect_row(GONE), ("delete", 5, ANN)),
    "a lifecycle rule expired it": ([Did("expire", 5, RULE)], effect_row(GONE), ("expire", 5, RULE)),
    "nobody signed the request": ([Did("delete", 5, None)], effect_row(GONE), ("delete", 5, None)),
    "the first of two deletes: the second found nothing": (
        [Did("delete", 5), Did("delete", 7, JOB)], effect_row(GONE), ("delete", 5, ANN)),
    "deleted, written and deleted again": (
        [Did("delete", 5), Did("put", 6, JOB), Did("delete", 7, JOB)], effect_row(GONE), ("delete", 7, JOB)),
    "written last, so that the removal is not recorded": (
        [Did("delete", 5), Did("put", 6, JOB)], effect_row(GONE), None),
    "deleted before it was claimed": ([Did("delete", -5)], effect_row(GONE), None),
    "deleted after somebody looked": ([Did("delete", 700)], effect_row(GONE), None),
    "written and deleted within one second": ([Did("put", 5, JOB), Did("delete", 5)], effect_row(GONE), None),
    "two principals within one second": ([Did("delete", 5), Did("delete", 5, JOB)], effect_row(GONE), None),
    "one request that is recorded twice": (
        [Did("delete", 5, request="R"), Did("delete", 5, request="R")], effect_row(GONE), ("delete", 5, ANN)),
    "an older version was removed": ([Did("delete", 5, version="v0")], effect_row(GONE), None),
    "the very version that was recorded": (
        [Did("delete", 5, version="v1")], effect_row(GONE, version="v1"), ("delete", 5, ANN)),
    "some version was removed, then the key: which of them it was is not known": (
        [Did("delete", 5, JOB, "v0"), Did("delete", 7)], effect_row(GONE), None),
    "older versions expired after the key was removed": (
        [Did("delete", 5), Did("expire", 7, RULE, "v0")], effect_row(GONE), ("delete", 5, ANN)),
    "nobody knows when it was claimed": (
        [Did("delete", -5)], effect_row(GONE, claimed=None), ("delete", -5, ANN)),
    # changed
    "a job wrote it again": ([Did("put", 5, JOB)], effect_row(CHANGED, 5), ("put", 5, JOB)),
    "a copy over it": ([Did("copy", 5, JOB)], effect_row(CHANGED, 5), ("copy", 5, JOB)),
    "the last of two writes": (
        [Did("put", 5, ANN), Did("put", 60, JOB)], effect_row(CHANGED, 60), ("put", 60, JOB)),
    "the write that made the object is not recorded": ([Did("put", 5, JOB)], effect_row(CHANGED, 60), None),
    "a write that took long": ([Did("put", 5, JOB, seconds=900)], effect_row(CHANGED, 19), ("put", 5, JOB)),
    "an upload in parts bears the time when it began": (
        [Did("upload", 90, JOB)], effect_row(CHANGED, 5), ("put", 90, JOB)),
    "an upload that ended before the object was written": ([Did("upload", 5, JOB)], effect_row(CHANGED, 90), None),
    "removed last, and yet it is there": ([Did("put", 5, JOB), Did("delete", 7)], effect_row(CHANGED, 5), None),
    "removed and written again": (
        [Did("delete", 5), Did("put", 7, JOB)], effect_row(CHANGED, 7), ("put", 7, JOB)),
    "written before it was claimed": ([Did("put", -5, JOB)], effect_row(CHANGED, -5), None),
    "two writers within one second": ([Did("put", 5, JOB), Did("put", 5)], effect_row(CHANGED, 5), None),
    "nobody knows when the object was written": ([Did("put", 5, JOB)], effect_row(CHANGED), ("put", 5, JOB)),
    # archived
    "a rule moved it": ([Did("transition", 5, RULE)], effect_row(ARCHIVED), ("transition", 5, RULE)),
    "moved, and written since": ([Did("transition", 5, RULE), Did("put", 7)], effect_row(ARCHIVED), None),
    "a write moves nothing that is known": ([Did("put", 7)], effect_row(ARCHIVED), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_named_only_where_the_records_fit(name: str) -> None:
    did, question, expected = CASES[name]
    assert cause_of(did, question) == expected
    assert cause_of([*reversed(did)], question) == expected


def test_findings_say_what_caused_them_by_kind() -> None:
    con = connection()
    stamp = RunStamp("r", "lake", NOON)
    about = {
        "table_name": "t",
        "axis": "content",
        "severity": "critical",
        "bucket": "lake",
        "explanation": "why",
    }
    rows = [
        about | {"kind": kind, "key": key, "subject": key, "subject_type": subject}
        for kind, key, subject in (
            ("dropped", "t/a", "file"), ("overwritten", "t/a", "file"), ("dropped", "t/b", "file"),
            ("dropped", "t/a", "table"),
        )
    ]  # fmt: skip
    known = duck.small(
        CAUSE, [("lake", "t/a", GONE, "expire", "S3.EXPIRE.OBJECT", NOON, RULE, "R1", "op_delete of alice")]
    )
    told = duck.rows_of(with_causes(con, from_plain(con, rows, stamp), known))
    named = {(r["kind"], r["key"], r["subject_type"]): (cause(r), r["explanation"]) for r in told}
    words = "expired by a lifecycle rule (S3.EXPIRE.OBJECT), by AmazonS3, at 2026-11-20 12:00:00Z"
    assert named.pop(("dropped", "t/a", "file")) == (
        words,
        "why; by request R1, which names op_delete of alice",
    )
    assert set(named.values()) == {("", "why")}
    assert len(named) == 3
