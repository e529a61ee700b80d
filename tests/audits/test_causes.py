"""Whole audits that say who or what removed or wrote a file, by access logs as S3 writes them."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.compare.access_patterns import PATTERNS
from lakeaudit.config import load_lake
from lakeaudit.evidence.events import event_files
from lakeaudit.runtime.aws import Endpoint
from tests.builders.access_logs import JOB, LIFECYCLE, PERSON, Line, deleted, expired, written
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.watched_shop import HOUR, Watched
from tests.conftest import Aws


@pytest.fixture
def watched(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Watched:
    return Watched(aws, s3, bucket, tmp_path)


def test_each_loss_names_its_cause(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    shop, bucket, after = watched.shop, watched.bucket, watched.at
    by_rule, by_person, by_job, silent, again, late = watched.keys
    body = shop.s3.get_object(Bucket=bucket, Key=by_job)["Body"].read()
    for key in (by_rule, by_person, silent, again):
        shop.s3.delete_object(Bucket=bucket, Key=key)
    shop.s3.put_object(Bucket=bucket, Key=by_job, Body=body[:-7])
    backdate(bucket, by_job, after)
    here = {"bucket": bucket}
    watched.logged(
        [
            expired(by_rule, after, **here),
            deleted(by_person, after, PERSON, request="DELETED1", agent='"hostile " 200 agent"', **here),
            written(by_job, after, JOB, **here),
            written(silent, after - 5 * HOUR, JOB, **here),
            deleted(silent, after - 4 * HOUR, PERSON, **here),
            Line("REST.DELETE.OBJECT", silent, after, PERSON, status="403", error="AccessDenied", **here),
            deleted(again, after, PERSON, **here),
            written(again, after + timedelta(seconds=2), JOB, **here),
            Line("REST.GET.OBJECT", late, after, PERSON, **here),
        ]
    )
    lake = watched.lake()
    first = audited(lake, live=True, run_id="r")
    told = watched.found(lake, "r")
    assert told == {
        by_rule: ("dropped", "expired by a lifecycle rule (S3.EXPIRE.OBJECT)", LIFECYCLE, after),
        by_person: ("dropped", "deleted (REST.DELETE.OBJECT)", PERSON, after),
        by_job: ("size_mismatch", "overwritten (REST.PUT.OBJECT)", JOB, after),
        silent: ("dropped", None, None, None),
        again: ("dropped", None, None, None),
    }
    assert (first.exit_code, [each["kind"] for each in first.summary["sources"]][-1]) == (0, "s3_access_log")
    (row,) = [
        row for b in results_of(lake).discrepancies() for row in b.to_pylist() if row["key"] == by_person
    ]
    assert (row["cause"], row["cause_principal"]) == ("deleted (REST.DELETE.OBJECT)", PERSON)
    file = str(watched.folder / "lake.yaml")
    for command in (["findings", file], ["explain", file, f"s3://{bucket}/{by_person}"]):
        cli.main(command)
        printed = capsys.readouterr().out
        assert f"cause: deleted (REST.DELETE.OBJECT), by {PERSON}, at " in printed, command
    assert "by request DELETED1" in printed


def test_logs_that_cannot_be_read_are_holes_and_no_cause(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is gone once it was listed, and a place that cannot be listed: all is judged."""
    lost = watched.keys[0]
    watched.shop.s3.delete_object(Bucket=watched.bucket, Key=lost)
    after = watched.at
    gone = watched.logged([deleted(lost, after, bucket=watched.bucket)], "GONE")
    watched.logged([written(watched.keys[1], after, bucket=watched.bucket)], "HERE")
    watched.lake()
    file, nowhere = watched.folder / "lake.yaml", "s3://no-such-bucket-of-logs/logs"
    text = file.read_text()
    (entry,) = re.findall(r"events: \[(.*)\]", text)
    file.write_text(text.replace(entry, f"{entry}, {{kind: s3_access_log, location: '{nowhere}/'}}"))
    lake = load_lake(file, {})
    find = event_files.find

    def vanishing(*given: Any) -> Any:
        found = find(*given)
        watched.shop.s3.delete_object(Bucket=watched.bucket, Key=gone)
        return found

    monkeypatch.setattr(event_files, "find", vanishing)
    outcome = audited(lake, live=True, run_id="r")
    told = watched.found(lake, "r")
    assert told.pop(lost) == ("dropped", None, None, None)
    assert {source: kind for source, (kind, *_) in told.items()} == {
        f"events:0 s3://{watched.bucket}/logs": "unreadable_evidence",
        f"events:1 {nowhere}": "unreadable_evidence",
    }
    assert outcome.exit_code == 3


def test_nothing_is_read_where_nothing_is_to_be_explained(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.logged([written(watched.keys[0], watched.at, bucket=watched.bucket)])
    monkeypatch.setattr("lakeaudit.evidence.events.event_files.blocks", None)
    off = ", ".join(f"{kind}: 'off'" for kind in PATTERNS)
    outcome = audited(watched.lake(more=f"severity: {{{off}}}\n"), live=True, run_id="r")
    assert (outcome.summary["findings"], outcome.exit_code) == ({}, 0)


def again(watched: Watched) -> list[Line]:
    """A job writes one file twice, lists and reads it, as far as a log says."""
    key, at, here = watched.keys[0], watched.at, {"bucket": watched.bucket}
    return [
        written(key, at, request="R1", **here),
        written(key, at + timedelta(minutes=20), request="R2", **here),
        Line(
            "REST.GET.BUCKET", "warehouse/orders/", at + timedelta(minutes=20, seconds=5), JOB, "R3", **here
        ),
    ]


def test_patterns_of_access_are_hazards(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watched.logged(again(watched))
    weak = f"buckets: [{{match: {watched.bucket}, consistency: weak}}]\n"
    file = str(watched.folder / "lake.yaml")
    for more, kinds in (("", ["overwrite_in_place"]), (weak, ["overwrite_in_place", "list_after_put"])):
        lake = watched.lake(more=more)
        assert cli.main(["hazards", file]) == 0
        told = capsys.readouterr()
        role = JOB.rpartition("/")[0]
        assert f"{role} wrote over 1 file in place, 1 time from " in told.out
        assert len(told.out.splitlines()) == 1 + len(kinds)
        assert f"INFO: {len(kinds)} pattern{'s' if more else ''} of access may lose data" in told.err
        run = f"r{len(kinds)}"
        outcome = audited(lake, live=True, run_id=run)
        found = {row: each[0] for row, each in watched.found(lake, run).items()}
        assert sorted(found.items()) == sorted((f"{kind}#{role}", kind) for kind in kinds)
        assert outcome.exit_code == 0


def test_a_pattern_ends_when_whole_records_do_not_show_it(watched: Watched) -> None:
    key = watched.logged(again(watched))
    other = watched.logged([written(watched.keys[1], watched.at, bucket=watched.bucket)], "OTHER")
    lake = watched.lake()
    states = []
    for step in range(3):
        if step == 1:  # a log that is none: nobody knows what it would say
            watched.shop.s3.put_object(Bucket=watched.bucket, Key=key, Body=b"torn")
        if step == 2:
            watched.shop.s3.delete_object(Bucket=watched.bucket, Key=key)
        audited(lake, live=True, run_id=f"r{step}")
        rows = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
        states.append({row["kind"]: row["state"] for row in rows if row["axis"] == "hazard"})
    assert other
    assert states == [
        {"overwrite_in_place": "open"},
        {"overwrite_in_place": "open"},
        {"overwrite_in_place": "resolved"},
    ]
