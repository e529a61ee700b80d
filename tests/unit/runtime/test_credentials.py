"""Credentials that end in mid-run: cached clients and delta-rs go on with the renewed ones. No AWS, no JVM."""

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import botocore.credentials
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from deltalake import write_deltalake

from lakeaudit.keys import Location
from lakeaudit.results import tables
from lakeaudit.results.tables import ResultTables
from lakeaudit.runtime.connections.aws import Clients, Endpoint, credentials_from, forget_clients
from lakeaudit.runtime.connections.aws_failures import is_denied
from lakeaudit.runtime.connections.resolve import delta_rs_options
from tests.conftest import Aws

ROLE = "arn:aws:iam::123456789012:role/audit"
AN_HOUR = timedelta(hours=1)
BEFORE_THE_END = AN_HOUR - timedelta(minutes=14)
_ANSWER = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>key-{n}</AccessKeyId><SecretAccessKey>secret-{n}</SecretAccessKey><SessionToken>token-{n}</SessionToken>
<Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_REFUSAL = """<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"""


@dataclass
class Store:
    """STS and S3 in one: a role lasts an hour. The requests in order; `passed` is how far the clock is ahead."""

    endpoint: str = ""
    passed: timedelta = timedelta(0)
    refuses: bool = False
    assumed: list[dict[str, str]] = field(default_factory=list)
    signed: list[tuple[str, str]] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.passed

    def at(self, external_id: str | None = None) -> Endpoint:
        return Endpoint(self.endpoint, "us-east-1", path_style=True, role_arn=ROLE, external_id=external_id)

    def assume(self, form: str) -> str:
        if self.refuses:
            return _REFUSAL
        self.assumed.append({name: values[0] for name, values in parse_qs(form).items()})
        return _ANSWER.format(n=len(self.assumed), end=self.now() + AN_HOUR)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A running store, and a clock of botocore's credentials that is the store's."""
    state = Store()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = state.assume(self.rfile.read(int(self.headers["Content-Length"])).decode()).encode()
            self._answer(403 if state.refuses else 200, body)

        def do_HEAD(self) -> None:
            used = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
            state.signed.append((used, self.headers["x-amz-security-token"]))
            self._answer(200, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    state.endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", state.endpoint)
    monkeypatch.setattr(botocore.credentials, "_local_now", state.now)
    of_credentials = botocore.credentials.DeferredRefreshableCredentials
    monkeypatch.setattr(of_credentials.__init__, "__defaults__", (state.now,))
    yield state
    server.shutdown()
    server.server_close()


def test_a_client_made_before_the_end_signs_with_renewed_credentials_after_it(store: Store) -> None:
    clients = Clients(store.at())
    client = clients.s3("lake")
    for passed in (timedelta(0), timedelta(minutes=30), BEFORE_THE_END, AN_HOUR, 3 * AN_HOUR):
        store.passed = passed
        for key in ("a", "b"):
            client.head_object(Bucket="lake", Key=key)
    periods = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert store.signed == [(f"key-{n}", f"token-{n}") for n in periods]
    assert clients.s3("lake") is client


def test_a_role_is_assumed_once_a_period_by_all_clients_and_threads(store: Store) -> None:
    clients = Clients(store.at(external_id="ours"))

    def look(number: int) -> str:
        clients.s3(f"bucket-{number % 3}").head_object(Bucket="lake", Key=str(number))
        return delta_rs_options(clients.default, "lake")["AWS_SESSION_TOKEN"]

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(look, range(40))) == {"token-1"}
        store.passed = AN_HOUR
        assert set(pool.map(look, range(40))) == {"token-2"}
    sent = [(each["RoleArn"], each["RoleSessionName"], each["ExternalId"]) for each in store.assumed]
    assert sent == [(ROLE, "lakeaudit", "ours")] * 2


def test_a_role_is_assumed_once_however_many_buckets_and_regions_it_is_used_at(store: Store) -> None:
    regions = ("us-east-1", "eu-west-1", "eu-central-1")
    rules = tuple((f"lake-{n}", replace(store.at(), region=region)) for n, region in enumerate(regions))
    clients = Clients(Endpoint(store.endpoint, "us-east-1", path_style=True), rules)
    for key in range(20):
        clients.s3(f"lake-{key % 3}", str(key)).head_object(Bucket=f"lake-{key % 3}", Key=str(key))
    assert len({id(clients.s3(f"lake-{n}")) for n in range(3)}) == 3
    assert len(store.assumed) == 1
    assert {used for used, _ in store.signed} == {"key-1"}


def test_delta_rs_is_given_the_credentials_of_now(store: Store) -> None:
    at = store.at()
    tokens = []
    for passed in (timedelta(0), timedelta(minutes=44), timedelta(minutes=46)):
        store.passed = passed
        options = delta_rs_options(at, "lake")
        tokens.append(
            tuple(options[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"))
        )
    assert tokens == [(f"key-{n}", f"secret-{n}", f"token-{n}") for n in (1, 1, 2)]


def test_credentials_of_the_chain_that_assume_the_role_may_be_renewed_too(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A profile that assumes a role itself: both are renewed."""
    config = tmp_path / "config"
    keys = "aws_access_key_id = K\naws_secret_access_key = S\n"
    config.write_text(
        f"[profile base]\n{keys}[profile night]\nrole_arn = {ROLE}-source\nsource_profile = base\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "night")
    client = Clients(store.at()).s3("lake")
    for passed in (timedelta(0), AN_HOUR):
        store.passed = passed
        client.head_object(Bucket="lake", Key="a")
    assert [each["RoleArn"] for each in store.assumed] == [f"{ROLE}-source", ROLE] * 2


def test_clients_stay_plain_data_that_travels(store: Store) -> None:
    clients = Clients(Endpoint(), own={"lake": {"": store.at()}})
    clients.s3("lake").head_object(Bucket="lake", Key="a")
    travelled = pickle.loads(pickle.dumps(clients))
    assert travelled == clients
    assert travelled.s3("lake") is clients.s3("lake")
    forget_clients()
    travelled.s3("lake").head_object(Bucket="lake", Key="a")
    assert len(store.assumed) == 2


def test_a_role_that_may_not_be_assumed_is_a_refusal(store: Store) -> None:
    store.refuses = True
    at = store.at()
    for ask in (lambda: credentials_from(at), lambda: delta_rs_options(at, "lake")):
        with pytest.raises(ClientError, match="AccessDenied") as refused:
            ask()
        assert is_denied(refused.value)


def test_which_credentials_an_endpoint_has(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (credentials_from(Endpoint()), credentials_from(store.at())) == ("env", "assume-role")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    forget_clients()
    assert (credentials_from(Endpoint()), credentials_from(store.at())) == (None, None)
    with pytest.raises(NoCredentialsError):
        delta_rs_options(store.at(), "lake")


def test_open_result_tables_go_on_with_renewed_credentials(
    aws: Aws, clients: Clients, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version stays the one that was first read; only the way to it is renewed."""
    place = Location(bucket, "results")
    way = delta_rs_options(clients.default, bucket)
    rows = pa.table({"lake": ["shop"], "n": [1]})
    write_deltalake(place.join("runs").uri, rows, storage_options=way)
    results = ResultTables(place, clients, "shop")
    first = results.delta("runs")
    assert results.delta("runs") is first
    write_deltalake(place.join("runs").uri, rows, mode="append", storage_options=way)
    monkeypatch.setattr(tables, "delta_rs_options", lambda *_: way | {"AWS_SESSION_TOKEN": "renewed"})
    second = results.delta("runs")
    assert second is not None
    assert second is not first
    assert (
        second.version(),
        sum(batch.num_rows for batch in results.batches("runs", pa.compute.scalar(True))),
    ) == (0, 1)
    assert results.delta_table("runs")[1]["AWS_SESSION_TOKEN"] == "renewed"
