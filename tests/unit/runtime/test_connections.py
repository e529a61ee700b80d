"""One chain of settings: whatever boto finds, obstore and delta-rs are given. Real servers on loopback, no AWS."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from deltalake import DeltaTable, write_deltalake

from lakeaudit.errors import CannotAudit, CannotPublish
from lakeaudit.keys import Location, is_of_aws
from lakeaudit.results.delta_writer import try_out
from lakeaudit.results.tables import storage_options
from lakeaudit.runtime.connections import quick_reads
from lakeaudit.runtime.connections.aws import Clients, Endpoint, store_url, why_unusable
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.quick_reads import quick_read, why_left_to_boto
from lakeaudit.runtime.connections.resolve import Proxy, Route, delta_rs_options, obstore_options, route_to
from tests.builders import stores
from tests.conftest import Aws

pytestmark = pytest.mark.usefixtures("own_clients")
ALONE = (
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "AWS_REGION",
)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the machine or of the other tests."""
    for name in [*ALONE, *PROXIES, *map(str.upper, PROXIES)]:
        monkeypatch.delenv(name, raising=False)
    yield
    quick_reads._left_to_boto.clear()


BY_AWS = Endpoint()


@dataclass(frozen=True)
class Settings:
    """The places of settings, and the resulting endpoint."""

    endpoint: str
    by_name: bool = False
    env: tuple[tuple[str, str], ...] = ()
    config: str = ""
    at: Endpoint = BY_AWS
    region: str = "us-east-1"


GLOBAL, OF_S3 = (
    ("AWS_ENDPOINT_URL", "https://all.example"),
    ("AWS_ENDPOINT_URL_S3", "https://s3.example:9000"),
)
KEYS = "aws_access_key_id = K\naws_secret_access_key = S\n"
PROFILE = ("AWS_PROFILE", "night")
SERVICES = (
    "[profile night]\nservices = own\n[services own]\ns3 =\n  endpoint_url = https://services.example/base\n"
)
PLACES = {
    "nowhere": Settings("https://lake.s3.amazonaws.com", True),
    "a region of the environment": Settings(
        "https://lake.s3.eu-west-1.amazonaws.com", True, (("AWS_DEFAULT_REGION", "eu-west-1"),), region="eu-west-1"
    ),
    "the environment": Settings("https://all.example", env=(GLOBAL,)),
    "the environment, for S3": Settings("https://s3.example:9000", env=(GLOBAL, OF_S3)),
    "the profile": Settings(
        "https://own.example", env=(PROFILE,), region="eu-west-2",
        config="[profile night]\nendpoint_url = https://own.example\nregion = eu-west-2\n",
    ),
    "the default profile": Settings("https://own.example", config="[default]\nendpoint_url = https://own.example\n"),
    "services of the profile": Settings("https://services.example/base", env=(PROFILE,), config=SERVICES),
    "the environment before the profile": Settings("https://all.example", env=(GLOBAL, PROFILE), config=SERVICES),
    "the lake file before all": Settings(
        "http://127.0.0.1:9000", env=(GLOBAL, OF_S3), at=Endpoint("http://127.0.0.1:9000", "eu-west-1"),
        region="eu-west-1",
    ),
    "ignored": Settings(
        "https://lake.s3.amazonaws.com", True, (GLOBAL, ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"))
    ),
    "path style of the lake file": Settings(
        "https://s3.eu-west-1.amazonaws.com", at=Endpoint(region="eu-west-1", path_style=True), region="eu-west-1"
    ),
    "path style of the profile": Settings(
        "https://s3.amazonaws.com", env=(PROFILE,), config="[profile night]\ns3 =\n  addressing_style = path\n"
    ),
    "virtual hosts of the profile": Settings(
        "https://lake.store.example:9000", True, (PROFILE,), at=Endpoint("https://store.example:9000"),
        config="[profile night]\ns3 =\n  addressing_style = virtual\n",
    ),
    "dual stack": Settings(
        "https://lake.s3.dualstack.eu-west-1.amazonaws.com", True, at=Endpoint(region="eu-west-1"),
        env=(("AWS_USE_DUALSTACK_ENDPOINT", "true"),), region="eu-west-1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_every_client_goes_where_boto_goes(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = PLACES[name]
    config, keys = tmp_path / "config", tmp_path / "credentials"
    config.write_text(told.config)
    keys.write_text("".join(f"[{each}]\n{KEYS}" for each in ("default", "night")))
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable)
    if "region" not in told.config:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for variable, value in (
        *told.env,
        ("AWS_CONFIG_FILE", str(config)),
        ("AWS_SHARED_CREDENTIALS_FILE", str(keys)),
    ):
        monkeypatch.setenv(variable, value)
    route = route_to(told.at, "lake")
    assert (route.endpoint, route.by_name, route.region) == (told.endpoint, told.by_name, told.region)
    asked = store_url(told.at, "lake").rstrip("/")
    assert asked == (route.endpoint if route.by_name else f"{route.endpoint}/lake")
    options = delta_rs_options(told.at, "lake")
    assert (options["AWS_ENDPOINT_URL"], options["AWS_REGION"]) == (told.endpoint, told.region)
    assert options["AWS_ACCESS_KEY_ID"] == "K"
    built: Any = quick_reads._store(Clients(told.at), Location("lake", "a")).config
    assert built["endpoint"] == told.endpoint
    assert built["virtual_hosted_style_request"] == str(told.by_name).lower()


def _round(clients: Clients, bucket: str) -> None:
    """boto writes, obstore reads, delta-rs writes and reads."""
    clients.s3(bucket).put_object(Bucket=bucket, Key="a", Body=b"content")
    assert why_left_to_boto(clients, Location(bucket, "a")) is None
    assert quick_read(clients, Location(bucket, "a")) == b"content"
    place = Location(bucket, "results")
    try_out(place, clients)
    options = storage_options(place, clients)
    write_deltalake(place.uri, pa.table({"n": [1, 2]}), storage_options=options)
    table = DeltaTable(place.uri, storage_options=options)
    write_deltalake(table, pa.table({"n": [3]}), mode="append")
    table.update_incremental()
    assert table.to_pyarrow_dataset().count_rows() == 3


@pytest.mark.parametrize("by", ["variable", "requests' variable", "profile"])
def test_a_private_authority_is_trusted_by_all(
    by: str, bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, own = stores.authority(tmp_path)
    if by == "profile":
        (tmp_path / "config").write_text(f"[profile night]\nca_bundle = {authority}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        (tmp_path / "keys").write_text("[night]\n" + KEYS)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
        monkeypatch.setenv("AWS_PROFILE", "night")
    else:
        monkeypatch.setenv("AWS_CA_BUNDLE" if by == "variable" else "REQUESTS_CA_BUNDLE", str(authority))
    with stores.store(own) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert why_unusable(Endpoint()) is None
        _round(Clients(), bucket)


def test_an_authority_that_nobody_trusts_is_named(
    bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, own = stores.authority(tmp_path)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    with stores.store(own) as url:
        clients = Clients(Endpoint(url, "us-east-1"))
        with pytest.raises(Exception, match="SSL") as untrusted:
            clients.s3(bucket).head_bucket(Bucket=bucket)
        failure = explain(untrusted.value)
        assert (failure.what, failure.retryable) == (
            f"the certificate of the endpoint {url} is not trusted",
            False,
        )
        assert "AWS_CA_BUNDLE" in failure.hint
        with pytest.raises(
            CannotPublish, match="the certificate of the endpoint is not trusted; name its authority"
        ):
            try_out(Location(bucket, "results"), clients)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
        with pytest.raises(CannotAudit, match=r"none\.pem: the CA bundle cannot be read"):
            route_to(clients.default, bucket)


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_is_used_by_all_and_left_out_by_all(
    secure: bool, bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, own = stores.authority(tmp_path)
    with stores.store(own if secure else None) as url, stores.proxy() as proxy:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        monkeypatch.setenv("HTTPS_PROXY" if secure else "http_proxy", proxy.url)
        clients = Clients(Endpoint(url, "us-east-1"))
        _round(clients, bucket)
        if secure:
            assert len(proxy.tunnels) >= 3
        else:
            assert {agent.partition("/")[0] for agent in proxy.agents} >= {"Boto3", "object_store"}
        used = len(proxy.tunnels) + len(proxy.agents)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        other = Clients(replace(clients.default, region="eu-west-1"))
        assert quick_read(other, Location(bucket, "a")) == b"content"
        try_out(Location(bucket, "more"), other)
        assert len(proxy.tunnels) + len(proxy.agents) == used


def test_proxies_that_boto_does_not_know_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clients take `ALL_PROXY`, too: they are given the host that must not go by it."""
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    route = route_to(Endpoint("https://store.example"), "lake")
    assert route.proxy is not None
    assert route.proxy.excluded == "store.example"
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert route_to(Endpoint("https://store.example"), "lake").proxy == Proxy("http://proxy.example:3128", "")


def test_nothing_is_added_where_nothing_is_set() -> None:
    assert obstore_options(Route("https://a", "r", False)) == {"allow_http": True}
    assert not {name for name in delta_rs_options(Endpoint(), "lake") if "proxy" in name}


SETTING = "AWS_REQUEST_CHECKSUM_CALCULATION"


@pytest.mark.parametrize("secure", [False, True])
def test_a_store_that_is_older_than_checksums(
    secure: bool, bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, own = stores.authority(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    with stores.store(own if secure else None, stores.before_checksums) as url:
        clients = Clients(Endpoint(url, "us-east-1"))
        _round(clients, bucket)
        client = clients.s3(bucket)
        gone = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}]})
        assert [each["Key"] for each in gone["Deleted"]] == ["a"]
        monkeypatch.setenv(SETTING, "when_supported")
        asked_for = Clients(replace(clients.default, region="eu-west-1"))
        with pytest.raises(ClientError) as refused:
            asked_for.s3(bucket).put_object(Bucket=bucket, Key="a", Body=b"content")
        failure = explain(refused.value)
        assert failure.what == "the store refuses the checksums that the AWS SDK adds to requests"
        assert f"{SETTING}=when_required" in failure.hint


@pytest.mark.parametrize(
    ("endpoint", "calculation"),
    [
        (None, "when_supported"),
        ("https://s3.eu-west-1.amazonaws.com", "when_supported"),
        ("https://storage.googleapis.com", "when_required"),
        ("https://ns.compat.objectstorage.eu-frankfurt-1.oraclecloud.com", "when_required"),
    ],
)
def test_checksums_are_for_stores_that_are_known_to_take_them(endpoint: str | None, calculation: str) -> None:
    config: Any = Clients(Endpoint(endpoint, "eu-west-1")).s3("lake").meta.config
    assert (config.request_checksum_calculation, config.response_checksum_validation) == (calculation,) * 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, or a valid sha256 value."),
        ("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match"),
        ("MissingContentLength", "AWS chunked encoding not supported for Content-Length"),
        ("NotImplemented", "A header you provided implies functionality: x-amz-checksum-crc32"),
    ],
)
def test_words_that_stores_refuse_checksums_with(code: str, message: str) -> None:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert "checksums" in explain(ClientError(answer, "PutObject")).what  # type: ignore[arg-type]


def test_a_missing_operation_is_not_a_missing_right() -> None:
    for code, status in (("NotImplemented", 501), ("501", 501)):
        answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        failure = explain(ClientError(answer, "GetBucketLifecycle"))  # type: ignore[arg-type]
        assert (failure.what, failure.retryable) == ("the store lacks this operation", False)
        assert "no right is missing" in failure.hint


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("https://s3.eu-west-1.amazonaws.com", True),
        ("https://s3.cn-north-1.amazonaws.com.cn", True),
        ("https://s3.dualstack.eu-west-1.api.aws", True),
        ("https://s3.eusc-de-east-1.amazonaws.eu", True),
        ("https://amazonaws.com.evil.example", False),
        ("https://notamazonaws.com", False),
        ("http://127.0.0.1:9000", False),
    ],
)
def test_hosts_of_aws(url: str, own: bool) -> None:
    assert is_of_aws(url) is own
