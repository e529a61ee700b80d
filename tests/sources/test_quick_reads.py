"""obstore and boto return the same small objects; boto reads the objects that obstore does not return."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.keys import Location
from lakeaudit.runtime.connections import quick_reads
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.quick_reads import quick_read
from tests.builders.catcher import catching
from tests.conftest import Aws

PLAIN = "wh/day=2026-11-25/_delta_log/00000000000000000001.json"
ODD = [
    *("wh/a b.json", "wh/a%20b.json", "wh/a+b.json", "wh/\N{LATIN SMALL LETTER E WITH ACUTE}.json"),
    *("wh//a.json", "wh/./a.json", "wh/../a.json", "wh/a.json/", "wh/a\n.json", "/wh/a.json"),
]


@pytest.mark.parametrize("key", [PLAIN, "a", "wh/..hidden", "wh/a..b=c"])
def test_what_every_client_writes_alike_is_read_quickly(
    key: str, bucket: str, aws: Aws, clients: Clients
) -> None:
    aws.s3.put_object(Bucket=bucket, Key=key, Body=b"\x00rows\xff" * 1000)
    assert quick_read(clients, Location(bucket, key)) == b"\x00rows\xff" * 1000


@pytest.mark.parametrize("key", ODD)
def test_other_names_are_left_to_boto(key: str, bucket: str, aws: Aws, clients: Clients) -> None:
    assert quick_read(clients, Location(bucket, key)) is None


@pytest.mark.parametrize("name", ["a.bucket.with.dots", "zone--x-s3", "arn:aws:s3:::access-point", "UPPER"])
def test_other_buckets_are_left_to_boto(name: str, clients: Clients) -> None:
    assert quick_read(clients, Location(name, "a")) is None


def test_missing_objects_are_requested_from_boto_and_change_nothing(
    bucket: str, aws: Aws, clients: Clients
) -> None:
    assert quick_read(clients, Location(bucket, "nothing")) is None
    assert read_bytes(clients, Location(bucket, "nothing")) is None
    aws.s3.put_object(Bucket=bucket, Key="something", Body=b"1")
    assert quick_read(clients, Location(bucket, "something")) == b"1"


@pytest.mark.parametrize("status", [301, 403, 500, 503])
def test_a_store_that_answers_otherwise_is_left_to_boto_for_good(status: int) -> None:
    with catching() as store:
        store.answer = status
        clients = Clients(Endpoint(store.url, "us-east-1", path_style=True))
        assert quick_read(clients, Location("lake", "a")) is None
        store.answer = 200
        assert quick_read(clients, Location("lake", "a")) is None
        assert quick_read(clients, Location("other", "a")) == store.body
        assert len(store.gets) == 2


def test_what_is_refused_is_boto_s_own_error(bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    with catching() as store:
        store.answer, store.body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        clients = Clients(Endpoint(store.url, "us-east-1", path_style=True))
        with pytest.raises(SourceError, match="access denied"):
            read_bytes(clients, Location("lake", "a"))


@pytest.mark.parametrize(
    ("at", "endpoint", "by_name"),
    [
        (Endpoint(region="eu-west-1"), "https://lake.s3.eu-west-1.amazonaws.com", "true"),
        (Endpoint(region="eu-west-1", path_style=True), "https://s3.eu-west-1.amazonaws.com", "false"),
        (Endpoint("https://store.example:9000", "us-east-1"), "https://store.example:9000", "false"),
        (Endpoint("http://127.0.0.1:9000", "us-east-1"), "http://127.0.0.1:9000", "false"),
        (Endpoint("http://[::1]:9000", "us-east-1"), "http://[::1]:9000", "false"),
    ],
)
def test_a_store_is_requested_at_the_endpoint_of_boto(
    at: Endpoint, endpoint: str, by_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    built: Any = quick_reads._store(Clients(at), Location("lake", "a")).config
    assert (built["endpoint"], built["virtual_hosted_style_request"]) == (endpoint, by_name)
    assert built["region"] == at.region


def test_credentials_are_boto_s_as_they_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role's credentials expire: obstore requests them again long before, and boto's session renews them."""
    given_out = iter(["one", "two"])

    class Renewed:
        def get_frozen_credentials(self) -> Any:
            return SimpleNamespace(access_key=next(given_out), secret_key="secret", token=None)

    monkeypatch.setattr(boto3.Session, "get_credentials", lambda _: Renewed())
    monkeypatch.setattr(quick_reads, "_CREDENTIALS_TTL", quick_reads._CREDENTIALS_TTL * 0)
    with catching() as store:
        clients = Clients(Endpoint(store.url, "us-east-1", path_style=True))
        assert quick_read(clients, Location("lake", "a")) == store.body
        assert quick_read(clients, Location("lake", "a")) == store.body
    assert next(given_out, None) is None


@pytest.fixture(autouse=True)
def reset_stores() -> Iterator[None]:
    yield
    quick_reads._left_to_boto.clear()
