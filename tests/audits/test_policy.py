"""The printed policy is enough for audits and scans, and each of its actions is used; without it they name the refusal.

The tests of the actions of reconcile run with the printed policy, too (`with_printed_policy`).
"""

import io
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.core.authorization import enable_iam_authentication

from lakeaudit import cli
from lakeaudit.commands import doctor, hazards
from lakeaudit.config import Lake, load_lake
from lakeaudit.explain.explanation import explain_named
from lakeaudit.follow import canary
from lakeaudit.runtime.connections.aws import Endpoint, forget_clients, session_of
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.audits import audited, results_of
from tests.builders.broken_lake import broken_lake
from tests.builders.event_queue import arn_of, create_queue, send
from tests.builders.iam_policies import Policy, enforced, printed_policy, unused
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.usefixtures("own_clients")


@pytest.fixture
def lake(aws: Aws, s3: Endpoint, tmp_path: Path) -> Lake:
    unique = uuid.uuid4().hex[:8]
    names = (f"{name}-{unique}" for name in ("lake", "evidence", "results"))
    return broken_lake(aws, s3, tmp_path, *names, table=f"guard-{unique}")


def all_audits(lake: Lake) -> None:
    clients, now = clients_of(lake), datetime.now(UTC)
    doctor.run(lake, clients, os.environ, now, io.StringIO())
    audited(lake)
    audited(lake, live=True)
    hazards.find_hazards(lake, clients, now)
    explain_named(lake, results_of(lake), clients, "stray.parquet", deep=True)


@pytest.mark.variant
def test_audits_need_exactly_the_printed_policy(lake: Lake, tmp_path: Path) -> None:
    """S3 Inventory, a listing, S3Guard, Glue, access logs, Delta, and results in S3."""
    allowed = printed_policy(tmp_path / "lake.yaml")
    with enforced(allowed) as seen:
        all_audits(lake)
    assert (seen.refused, unused(allowed, seen)) == (set(), set())


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """A Delta table of which a file is lost."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    built = Shop(aws.s3, s3, bucket)
    built.write("orders")
    aws.s3.delete_object(Bucket=bucket, Key=built.keys("orders")[0])
    return built


def without(policy: Policy, sid: str) -> Policy:
    assert any(each["Sid"] == sid for each in policy["Statement"])
    return {**policy, "Statement": [each for each in policy["Statement"] if each["Sid"] != sid]}


SCAN = [
    (None, 1, "CRITICAL: 1 file dropped in 1 table"),
    ("ScanTables", 3, "access denied"),
    ("ScanTablesList", 10, "access denied; grant read and list rights"),
]


@pytest.mark.variant
@pytest.mark.parametrize(("sid", "code", "line"), SCAN)
def test_a_scan_with_the_printed_policy_and_without_one_statement(
    shop: Shop, capsys: pytest.CaptureFixture[str], sid: str | None, code: int, line: str
) -> None:
    place = f"s3://{shop.bucket}/warehouse"
    allowed = printed_policy(place, "scan")
    with enforced(allowed if sid is None else without(allowed, sid)) as seen:
        assert cli.main(["scan", place, "--endpoint", str(shop.endpoint.endpoint)]) == code
    told = capsys.readouterr()
    assert line in told.out + told.err
    assert bool(seen.refused) is (sid is not None)


def test_doctor_tests_the_queue_of_follow_with_the_printed_policy(
    shop: Shop, tmp_path: Path, patched: pytest.MonkeyPatch
) -> None:
    """Nothing is configured to send events, so that doctor also reads the notifications of the bucket."""
    patient = canary.probe_events.__defaults__ or ()
    patched.setattr(canary.probe_events, "__defaults__", (timedelta(seconds=1), *patient[1:]))
    shop.lake(tmp_path)
    url = create_queue(shop.endpoint)
    send(shop.endpoint, url, ["{}"])
    file = tmp_path / "lake.yaml"
    file.write_text(f"{file.read_text()}\nfollow: {{queue: '{arn_of(shop.endpoint, url)}'}}\n")
    lake = load_lake(file, {})
    out = io.StringIO()
    allowed = printed_policy(file, "follow")
    with enforced(allowed) as seen:
        doctor.run(lake, clients_of(lake), os.environ, datetime.now(UTC), out)
    assert "the bucket sends no events to this queue" in " ".join(out.getvalue().split())
    unused_rights = unused(allowed, seen, "FollowQueue", "WriteCanary", "ReadNotifications")
    assert (seen.refused, unused_rights) == (set(), {("FollowQueue", "sqs:DeleteMessage")})


@contextmanager
def user_with(policy: Policy, s3: Endpoint) -> Iterator[None]:
    """Send all requests as a user with this policy alone, to a server that enforces IAM."""
    iam, name = session_of(s3).client("iam", endpoint_url=s3.endpoint), f"auditor-{uuid.uuid4().hex[:8]}"
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="printed", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    with pytest.MonkeyPatch.context() as patch, enable_iam_authentication():
        patch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        forget_clients()
        yield
    forget_clients()


AUDIT = [
    (None, 1, "CRITICAL: 1 file dropped in 1 table"),
    ("KeepResults", 14, "/results/_lease: access denied; grant read and list rights"),
    ("ReadTables", 3, "access denied"),
]


@pytest.mark.variant
@pytest.mark.parametrize(("sid", "code", "line"), AUDIT)
def test_a_user_with_only_the_printed_policy_completes_an_audit(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], sid: str | None, code: int, line: str
) -> None:
    """moto's own IAM decides here; it has no conditions."""
    shop.take_inventory()
    shop.lake(tmp_path)
    file = tmp_path / "lake.yaml"
    local = f"results: {tmp_path / 'results'}"
    file.write_text(file.read_text().replace(local, f"results: s3://{shop.bucket}/results"))
    allowed = printed_policy(file)
    with user_with(allowed if sid is None else without(allowed, sid), shop.endpoint):
        assert cli.main(["audit", str(file)]) == code
    told = capsys.readouterr()
    assert line in told.out + told.err
