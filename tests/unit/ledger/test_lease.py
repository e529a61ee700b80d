"""One writer at a time: leases on a real S3 server, and locks of folders."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakeaudit.errors import Busy, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import Check, Pace, leased, probe_conditions
from lakeaudit.ledger.lease_object import LeaseObject, Words
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import Counts, SilentProgress, StageLog
from tests.conftest import Aws

QUICK = Pace(beat=0.25, expires=3)
"""The store tells whole seconds."""

Lease = Callable[..., AbstractContextManager[Check]]


@pytest.fixture(params=["s3", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        return Location.parse(str(tmp_path / "new" / "results"))
    return Location(request.getfixturevalue("bucket"), "audit/results")


@pytest.fixture
def on_s3(bucket: str) -> Location:
    return Location(bucket, "audit/results")


@pytest.fixture
def lease(clients: Clients) -> Lease:
    def of(place: Location, run_id: str = "nightly") -> AbstractContextManager[Check]:
        return leased(place, clients, run_id, SilentProgress(), QUICK)

    return of


def body(aws: Aws, place: Location) -> dict[str, Any]:
    return dict(json.loads(aws.s3.get_object(Bucket=place.bucket, Key=f"{place.key}/_lease")["Body"].read()))


def for_a_while(still_ours: Check) -> None:
    for _ in range(100):
        time.sleep(QUICK.beat)
        still_ours()


def left(aws: Aws, place: Location, words: bytes) -> None:
    """As another process, which beats no more, left the lease."""
    aws.s3.put_object(Bucket=place.bucket, Key=f"{place.key}/_lease", Body=words)


# --- in a folder and on S3 ---------------------------------------------------------------------------------


def test_a_lease_is_held_given_back_and_held_again(lease: Lease, place: Location) -> None:
    for _ in range(3):
        with lease(place) as still_ours:
            still_ours()


def test_a_failure_gives_the_lease_back_too(lease: Lease, place: Location) -> None:
    with pytest.raises(ZeroDivisionError), lease(place):
        raise ZeroDivisionError
    with lease(place) as still_ours:
        still_ours()


def test_a_second_audit_is_refused_and_told_of_the_first(lease: Lease, place: Location) -> None:
    with lease(place, "nightly") as still_ours:
        with (
            pytest.raises(Busy, match=r"another audit writes here \(nightly\)") as refused,
            lease(place, "noon"),
        ):
            pass
        still_ours()
    assert refused.value.exit_code == 13


def test_only_one_of_many_gets_it(lease: Lease, place: Location) -> None:
    others = Semaphore(0)

    def acquire(number: int) -> bool:
        try:
            with lease(place, f"run-{number}"):
                return all(others.acquire(timeout=60) for _ in range(5))
        except Busy:
            others.release()
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(acquire, range(6))) == 1


# --- on S3 -------------------------------------------------------------------------------------------------


class RecordedStages(SilentProgress):
    """Keeps the names of stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        self.stages.append(name)
        yield Counts()


@pytest.mark.parametrize("words", [b'{"holder": "dead", "run_id": "killed"}', b'{"holder', b"[]", b""])
def test_what_a_dead_audit_left_is_taken_over_once_it_is_old(
    aws: Aws, clients: Clients, on_s3: Location, words: bytes
) -> None:
    left(aws, on_s3, words)
    heard, begun = RecordedStages(), time.monotonic()
    with leased(on_s3, clients, "nightly", heard, QUICK):
        assert time.monotonic() - begun >= QUICK.expires - 1
        assert body(aws, on_s3)["run_id"] == "nightly"
    assert heard.stages == ["wait whether another audit is alive"]


def test_a_lease_that_was_given_back_is_taken_at_once(
    clients: Clients, on_s3: Location, lease: Lease
) -> None:
    with lease(on_s3):
        pass
    heard = RecordedStages()
    with leased(on_s3, clients, "nightly", heard, QUICK):
        assert heard.stages == []


def test_a_heart_beats_for_longer_than_a_lease_lasts(aws: Aws, lease: Lease, on_s3: Location) -> None:
    with lease(on_s3) as still_ours:
        time.sleep(QUICK.expires * 1.5)
        still_ours()
        assert body(aws, on_s3)["beat"] > 3
    assert body(aws, on_s3)["holder"] is None


def test_an_overtaken_audit_ends_and_leaves_the_other_s_lease(
    aws: Aws, lease: Lease, on_s3: Location
) -> None:
    with lease(on_s3) as still_ours:
        still_ours()
        left(aws, on_s3, b'{"holder": "other", "run_id": "noon"}')
        with pytest.raises(Busy, match="may have taken over"):
            for_a_while(still_ours)
    assert body(aws, on_s3)["holder"] == "other"


@pytest.mark.usefixtures("own_clients")
def test_an_audit_whose_heart_is_not_heard_stops_in_time(
    clients: Clients, lease: Lease, on_s3: Location
) -> None:
    def deaf(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    with lease(on_s3) as still_ours:
        clients.s3(on_s3.bucket).meta.events.register("before-call.s3.PutObject", deaf)
        time.sleep(QUICK.expires + 3 * QUICK.beat)
        with pytest.raises(Busy, match="stood still"):
            still_ours()


def test_a_write_whose_answer_was_lost_counts(clients: Clients, on_s3: Location) -> None:
    store = LeaseObject(clients.s3(on_s3.bucket), on_s3)
    mine: Words = {"holder": "me", "run_id": "r"}
    other: Words = mine | {"holder": "other"}
    first = store.write(mine, None)
    assert first is not None
    assert (store.write(mine, None), store.write(other, None)) == (first, None)
    assert store.write(other, '"no-such-etag"') is None


def ignores(params: dict[str, Any], **_: Any) -> None:
    for header in ("If-None-Match", "If-Match"):
        params["headers"].pop(header, None)


def ignores_etags(params: dict[str, Any], **_: Any) -> None:
    params["headers"].pop("If-Match", None)


def knows_none(params: dict[str, Any], **_: Any) -> None:
    if "If-None-Match" in params["headers"]:
        raise ClientError({"Error": {"Code": "NotImplemented"}}, "PutObject")


@pytest.mark.usefixtures("own_clients")
@pytest.mark.parametrize(
    ("store", "said"), [(ignores, "ignores"), (ignores_etags, "ignores"), (knows_none, "does not know")]
)
def test_a_store_without_conditional_writes_is_refused(
    clients: Clients, lease: Lease, on_s3: Location, store: Callable[..., None], said: str
) -> None:
    clients.s3(on_s3.bucket).meta.events.register("before-call.s3.PutObject", store)
    with pytest.raises(CannotPublish, match=f"the store {said} conditional writes") as refused, lease(on_s3):
        pass
    assert refused.value.exit_code == 14
    with pytest.raises(CannotPublish, match=f"the store {said} conditional writes"):
        probe_conditions(on_s3, clients)


def test_a_canary_says_that_a_store_keeps_writers_apart_and_is_gone(
    clients: Clients, aws: Aws, on_s3: Location
) -> None:
    for _ in range(2):
        probe_conditions(on_s3, clients)
    assert "Contents" not in aws.s3.list_objects_v2(Bucket=on_s3.bucket)


def test_a_bucket_that_is_not_there_cannot_be_leased(lease: Lease) -> None:
    with pytest.raises(CannotPublish, match="the bucket does not exist"), lease(Location("no-such-one", "x")):
        pass


# --- in a folder -------------------------------------------------------------------------------------------

HOLDER = """
import sys
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import leased
from lakeaudit.runtime.progress import SilentProgress
with leased(Location.parse(sys.argv[1]), Clients(), "killed", SilentProgress()):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free_at_once(lease: Lease, tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path))
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=r"\(killed\)"), lease(place):
            pass
        other.kill()
    with lease(place) as still_ours:
        still_ours()


def test_a_folder_that_cannot_be_made_is_reported_in_one_line(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotPublish) as told, lease(Location.parse(str(tmp_path / "file" / "results"))):
        pass
    assert str(told.value).count("\n") == 0
