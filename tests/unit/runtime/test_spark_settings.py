"""Which Spark and S3A settings follow from which lake file."""

from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.install import shell_exports, spark_defaults
from lakeaudit.runtime.java import Java
from lakeaudit.runtime.spark_settings import (
    bucket_settings,
    launch_environment,
    s3_settings,
    session_settings,
)

CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
PLAIN = {"path.style.access": "false", "requester.pays.enabled": "false"}
ROLE = {
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
    "assumed.role.credentials.provider": CHAIN,
    "assumed.role.arn": "arn:aws:iam::1:role/audit",
    "assumed.role.session.name": "lakeaudit",
}

CASES = [
    ("all left to AWS", Endpoint(), PLAIN),
    ("a region", Endpoint(region="eu-west-1"), PLAIN | {"endpoint.region": "eu-west-1"}),
    (
        "a store of one's own",
        Endpoint(endpoint="http://127.0.0.1:5000", path_style=True),
        PLAIN
        | {
            "path.style.access": "true",
            "endpoint": "http://127.0.0.1:5000",
            "connection.ssl.enabled": "false",
            "endpoint.region": "us-east-1",
        },
    ),
    (
        "the same with TLS and a region",
        Endpoint(endpoint="https://store.example", region="r1"),
        PLAIN
        | {"endpoint": "https://store.example", "connection.ssl.enabled": "true", "endpoint.region": "r1"},
    ),
    ("requester pays", Endpoint(requester_pays=True), PLAIN | {"requester.pays.enabled": "true"}),
    ("a role", Endpoint(role_arn="arn:aws:iam::1:role/audit"), PLAIN | ROLE),
    (
        "a role of another company",
        Endpoint(role_arn="arn:aws:iam::1:role/audit", external_id="us"),
        PLAIN | ROLE | {"assumed.role.external.id": "us"},
    ),
]


@pytest.mark.parametrize(("_name", "s3", "expected"), CASES, ids=[case[0] for case in CASES])
def test_s3_settings(_name: str, s3: Endpoint, expected: dict[str, str]) -> None:
    assert s3_settings(s3) == {f"fs.s3a.{key}": value for key, value in expected.items()}
    assert bucket_settings("b", s3) == {f"fs.s3a.bucket.b.{key}": value for key, value in expected.items()}


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({"AWS_REGION": "eu-1", "AWS_DEFAULT_REGION": "eu-2"}, "eu-1"),
        ({"AWS_DEFAULT_REGION": "eu-2"}, "eu-2"),
        ({}, "us-east-1"),
    ],
)
def test_a_store_of_ones_own_takes_the_region_of_the_chain(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], region: str
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert s3_settings(Endpoint(endpoint="http://127.0.0.1:5000"))["fs.s3a.endpoint.region"] == region


def test_no_setting_carries_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    settings = session_settings(delta=True) | s3_settings(
        Endpoint(endpoint="http://127.0.0.1:5000", role_arn="arn:x")
    )
    assert not [key for key, value in settings.items() if "s3cr3t" in value or "secret" in key]


def test_a_stale_spark_of_the_machine_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark-2.4")
    environment = launch_environment(Java(tmp_path, tmp_path / "java", 17, "PATH"))
    assert (Path(environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()
    assert environment["JAVA_HOME"] == str(tmp_path)


def test_files_for_spark_submit() -> None:
    assert spark_defaults({"b": "2 3", "a": "1"}) == "a 1\nb 2 3\n"
    assert shell_exports({"A": "/a b"}) == "export A='/a b'\nexport PATH=\"$SPARK_HOME/bin:$PATH\"\n"
