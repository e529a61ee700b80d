"""The shipped policy allows exactly the requests that an audit sends; an audit writes only its results."""

import io
import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeaudit.commands import doctor, hazards
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.audits import audited
from tests.builders.broken_lake import broken_lake
from tests.builders.rights import Rights, watched
from tests.conftest import Aws

pytestmark = pytest.mark.variant

POLICY = Path(__file__).parents[2] / "conf" / "iam" / "audit-policy.json"


def allowed(stands_for: dict[str, str]) -> Rights:
    """By bucket, and for DynamoDB, what the policy allows."""
    rights: Rights = {}
    for statement in json.loads(POLICY.read_text())["Statement"]:
        name = statement["Resource"].rpartition(":")[2].removeprefix("table/").removesuffix("/*")
        rights.setdefault(stands_for[name], set()).update(statement["Action"])
    return rights


def test_an_audit_asks_for_what_the_policy_allows(
    aws: Aws, s3: Endpoint, spark: SparkSession, tmp_path: Path
) -> None:
    unique = uuid.uuid4().hex[:8]
    stands_for = {
        name: f"{name.lower()}-{unique}" for name in ("LAKE-BUCKET", "EVIDENCE-BUCKET", "RESULTS-BUCKET")
    }
    lake = broken_lake(aws, s3, tmp_path, *stands_for.values(), table=f"guard-{unique}")
    clients, now = clients_of(lake), datetime.now(UTC)
    with watched() as asked:
        doctor.run(lake, clients, os.environ, now, io.StringIO())
        audited(lake)
        audited(lake, spark)
        hazards.find_hazards(lake, clients, now)
    expected = allowed({**stands_for, "METADATA-TABLE": "dynamodb", "*": "glue"})
    assert asked.keys() == expected.keys()
    assert {where: asked[where] ^ expected[where] for where in expected} == {key: set() for key in expected}
