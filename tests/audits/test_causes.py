"""Whole audits that say who or what removed or wrote a file, by access logs as S3 writes them."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.audit.outcome import Outcome
from lakeaudit.checks.hazards.access_patterns import PATTERNS
from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.events import event_files
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.access_logs import JOB, LIFECYCLE, PERSON, Line, deleted, expired, write_line
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.watched_shop import HOUR, Watched
from tests.conftest import Aws


@pytest.fixture
def watched(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Watched:
    return Watched(aws, s3, bucket, tmp_path)


@pytest.mark.variant
def test_nothing_is_read_where_nothing_is_to_be_explained(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.logged([write_line(watched.keys[0], watched.at, bucket=watched.bucket)])
    monkeypatch.setattr("lakeaudit.evidence.events.event_files.blocks", None)
    off = ", ".join(f"{kind}: 'off'" for kind in PATTERNS)
    outcome = audited(watched.lake(more=f"severity: {{{off}}}\n"), live=True, run_id="r")
    assert (outcome.summary["findings"], outcome.exit_code) == ({}, 0)


# --- causes and patterns, by one lake whose logs are kept whole at first ----------------------------------------------


@dataclass(frozen=True)
class Logged:
    """Losses of `orders` and a pattern of access to `visits`, audited once."""

    watched: Watched
    lake: Lake
    outcome: Outcome
    log: str
    """The one that shows the pattern."""

    def patterns(self, run_id: str) -> dict[str, str]:
        """Return the kind of each reported hazard, by subject."""
        rows = rows_of(results_of(self.lake).findings(run_id))
        return {row["subject"]: row["kind"] for row in rows if row["axis"] == "hazard"}

    def states(self) -> dict[str, str]:
        rows = rows_of(results_of(self.lake).discrepancies())
        return {row["kind"]: row["state"] for row in rows if row["axis"] == "hazard"}

    def weak(self, also: str = "") -> Lake:
        """The lake, in a store whose listings may lag; `also` is another place of logs."""
        lake = self.watched.lake(more=f"buckets: [{{match: {self.watched.bucket}, consistency: weak}}]\n")
        if not also:
            return lake
        file = self.watched.folder / "lake.yaml"
        (entry,) = re.findall(r"events: \[(.*)\]", text := file.read_text())
        file.write_text(text.replace(entry, f"{entry}, {{kind: s3_access_log, location: '{also}/'}}"))
        return load_lake(file, {})

    def explanations(self, run_id: str) -> str:
        """Return what the evidence gaps say."""
        rows = rows_of(results_of(self.lake).findings(run_id))
        return "\n".join(row["explanation"] for row in rows if row["kind"] == "unreadable_evidence")

    def audit_weak(self, lake: Lake, run_id: str) -> int:
        """Audit without the pause before the second request to such a store; return the exit code."""
        return audited(lake, live=True, run_id=run_id, pause=lambda _: None).exit_code


@pytest.fixture(scope="module")
def logged(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    watched = Watched(aws, s3, bucket, tmp_path_factory.mktemp("logged"))
    watched.shop.write("visits")
    for entry in aws.s3.list_objects_v2(Bucket=bucket, Prefix="warehouse/visits/")["Contents"]:
        is_log = "_delta_log" in entry["Key"]
        backdate(bucket, entry["Key"], watched.now - 2 * HOUR - timedelta(seconds=0 if is_log else 9))
    delete_files(watched)
    log = watched.logged(again(watched), "AGAIN")
    lake = watched.lake()
    return Logged(watched, lake, audited(lake, live=True, run_id="r1"), log)


def delete_files(watched: Watched) -> None:
    """Files of `orders`, and a log of who did what to them."""
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
            write_line(by_job, after, JOB, **here),
            write_line(silent, after - 5 * HOUR, JOB, **here),
            deleted(silent, after - 4 * HOUR, PERSON, **here),
            Line("REST.DELETE.OBJECT", silent, after, PERSON, status="403", error="AccessDenied", **here),
            deleted(again, after, PERSON, **here),
            write_line(again, after + timedelta(seconds=2), JOB, **here),
            Line("REST.GET.OBJECT", late, after, PERSON, **here),
        ]
    )


def again(watched: Watched) -> list[Line]:
    """A job writes one file of `visits` twice, lists and reads it, as far as a log says."""
    (key, *_), at, here = watched.shop.keys("visits"), watched.at, {"bucket": watched.bucket}
    listed = at + timedelta(minutes=20, seconds=5)
    return [
        write_line(key, at, request="R1", **here),
        write_line(key, at + timedelta(minutes=20), request="R2", **here),
        Line("REST.GET.BUCKET", "warehouse/visits/", listed, JOB, "R3", **here),
    ]


@pytest.mark.variant
def test_each_loss_names_its_cause(logged: Logged, capsys: pytest.CaptureFixture[str]) -> None:
    watched, after = logged.watched, logged.watched.at
    by_rule, by_person, by_job, silent, again, _ = watched.keys
    causes = watched.findings_of_run(logged.lake, "r1")
    assert {key: causes[key] for key in causes if key not in logged.patterns("r1")} == {
        by_rule: ("dropped", "expired by a lifecycle rule (S3.EXPIRE.OBJECT)", LIFECYCLE, after),
        by_person: ("dropped", "deleted (REST.DELETE.OBJECT)", PERSON, after),
        by_job: ("size_mismatch", "overwritten (REST.PUT.OBJECT)", JOB, after),
        silent: ("dropped", None, None, None),
        again: ("dropped", None, None, None),
    }
    first = logged.outcome
    assert (first.exit_code, [each["kind"] for each in first.summary["sources"]][-1]) == (0, "s3_access_log")
    (row,) = [row for row in rows_of(results_of(logged.lake).discrepancies()) if row["key"] == by_person]
    assert (row["cause"], row["cause_principal"]) == ("deleted (REST.DELETE.OBJECT)", PERSON)
    file = str(watched.folder / "lake.yaml")
    for command in (["findings", file], ["explain", file, f"s3://{watched.bucket}/{by_person}"]):
        cli.main(command)
        printed = capsys.readouterr().out
        assert f"cause: deleted (REST.DELETE.OBJECT), by {PERSON}, at " in printed, command
    assert "by request DELETED1" in printed


def check_unreadable_logs(logged: Logged, run: str) -> None:
    """A log that is gone once it was listed, a torn one, and a place that cannot be listed: all is judged."""
    watched, nowhere = logged.watched, "s3://no-such-bucket-of-logs/logs"
    lost = watched.shop.keys("visits")[-1]
    watched.shop.s3.delete_object(Bucket=watched.bucket, Key=lost)
    gone = watched.logged([deleted(lost, watched.at, bucket=watched.bucket)], "GONE")
    lake = logged.weak(also=nowhere)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_files, "find", deleting_after(event_files.find, watched, gone))
        assert logged.audit_weak(lake, run) == 3
    causes = watched.findings_of_run(lake, run)
    assert causes[lost] == ("dropped", None, None, None)
    gaps = {source: kind for source, (kind, *_) in causes.items() if kind == "unreadable_evidence"}
    assert gaps == dict.fromkeys(
        (f"events:0 s3://{watched.bucket}/logs", f"events:1 {nowhere}"), "unreadable_evidence"
    )
    words = logged.explanations(run)
    assert f"{gone} does not exist" in words
    assert "no line of an access log: torn" in words


def deleting_after(find: Callable[..., Any], watched: Watched, key: str) -> Callable[..., Any]:
    """Return a `find` after which a log is deleted."""

    def vanishing(*given: Any) -> Any:
        found = find(*given)
        watched.shop.s3.delete_object(Bucket=watched.bucket, Key=key)
        return found

    return vanishing


ROLE = JOB.rpartition("/")[0]


def test_patterns_of_access_are_hazards_and_end_when_whole_records_do_not_show_them(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one only where listings may lag."""
    watched, both = logged.watched, ["overwrite_in_place", "list_after_put"]
    for run, kinds in (("r1", both[:1]), ("r2", both)):
        if run == "r2":
            lake = logged.weak()
            assert logged.audit_weak(lake, run) == 0
        assert cli.main(["hazards", str(watched.folder / "lake.yaml")]) == 0
        printed = capsys.readouterr()
        assert f"{ROLE} overwrote 1 file in place, 1 time from " in printed.out
        assert len(printed.out.splitlines()) == 1 + len(kinds)
        assert f"INFO: {len(kinds)} access pattern{'s' * (len(kinds) > 1)} may lose data" in printed.err
        assert logged.patterns(run) == {f"{kind}#{ROLE}": kind for kind in kinds}
        assert logged.states() == dict.fromkeys(kinds, "open")
    watched.shop.s3.put_object(Bucket=watched.bucket, Key=logged.log, Body=b"torn")
    check_unreadable_logs(logged, "r3")
    assert logged.states() == dict.fromkeys(both, "open"), "nobody knows what the log would say"
    watched.shop.s3.delete_object(Bucket=watched.bucket, Key=logged.log)
    logged.audit_weak(lake, "r4")
    assert logged.states() == dict.fromkeys(both, "resolved")
