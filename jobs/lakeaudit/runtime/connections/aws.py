"""The only module that builds AWS clients: endpoints from the lake file, credentials from the AWS chain.

`Clients` is plain data, so it travels to Spark's Python workers and builds its clients there. A process has one session
per endpoint, whose credentials botocore renews before they expire; all clients and delta-rs options use that session.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader, create_loader
from botocore.utils import conditionally_calculate_md5

from lakeaudit.keys import GOOGLE, Aliases, in_known_store, is_azure, is_of_aws, moved
from lakeaudit.runtime.connections.aws_failures import (
    Failure,
    OnAzure,
    OnOtherStore,
    explain,
    no_credentials,
    unreachable,
    why_not_read,
)
from lakeaudit.runtime.connections.aws_responses import (
    TolerantParsers,
    read_errors_whole,
    refuse_web_pages,
    timestamp,
)
from lakeaudit.runtime.connections.reach import SECONDS, listens
from lakeaudit.runtime.connections.request_budget import RequestBudget
from lakeaudit.storage_classes import ClassKind, StorageClasses, cloud_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient


@dataclass(frozen=True)
class Endpoint:
    """How to reach one store; every field is optional and falls back to the AWS chain."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    role_arn: str | None = None
    external_id: str | None = None
    requester_pays: bool = False
    budget: RequestBudget | None = None
    """Limits the requests to S3; None: any number."""


@dataclass(frozen=True)
class Clients:
    """The endpoints of all keys.

    Attributes:
        default: for buckets that no rule names.
        rules: (pattern of buckets' names, endpoint); the first that matches holds.
        own: by bucket and folder the endpoints of sources with an `s3` block of their own, and of the others in the
            same buckets. A key outside of these folders takes the endpoint of the folder that shares most of its path.
        aliases: other names of places, as claims write them.
        maps: places by their names before a migration, as tables' manifests may write them.
        azure: (pattern of containers' names, endpoint) of servers that replace Azure's own.
    """

    default: Endpoint = Endpoint()
    rules: tuple[tuple[str, Endpoint], ...] = ()
    own: Mapping[str, Mapping[str, Endpoint]] = field(default_factory=dict)
    aliases: Aliases = ()
    maps: Aliases = ()
    azure: tuple[tuple[str, str], ...] = ()
    classes: tuple[tuple[str, Mapping[str, ClassKind]], ...] = ()
    """(pattern of buckets' names, storage classes in the lake file); the first that matches holds."""

    @property
    def names(self) -> Aliases:
        """Other names of places, as tables' manifests write them."""
        return moved(self.aliases, self.maps) if self.maps else self.aliases

    def endpoint(self, bucket: str, key: str = "") -> Endpoint:
        if bucket in self.own:
            return _nearest(self.own[bucket], key)
        return _by_rule(self.rules, bucket) or self.default

    def s3(self, bucket: str, key: str = "") -> "S3Client":
        """Return the client for a key of a bucket, with retries in the SDK's adaptive mode.

        Raises:
            OnAzure: the bucket is not in a store with the S3 API.
            OnOtherStore: the store is not known, or it is a local path of another host.
        """
        if is_azure(bucket):
            raise OnAzure(bucket=bucket)
        if not in_known_store(bucket):
            raise OnOtherStore(reason=why_not_read(bucket))
        return _client("s3", self.endpoint(bucket, key))  # type: ignore[no-any-return]

    def why_unserved(self, uri: str, bucket: str) -> str:
        """Return why no configured client can read a URI of Google's storage; empty where one may."""
        if not uri.startswith(GOOGLE) or not is_of_aws(self.s3(bucket).meta.endpoint_url):
            return ""
        return f"no client is configured for {uri}: set the `endpoint` of its bucket below `buckets`"

    def storage_classes(self, bucket: str) -> StorageClasses:
        """Return the known storage classes of a bucket."""
        own = next((each for pattern, each in self.classes if re.fullmatch(pattern, bucket)), {})
        named = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        return StorageClasses(
            own, cloud_of(self.endpoint(bucket).endpoint or next(filter(None, named), None))
        )

    def session(self, bucket: str, key: str = "") -> boto3.Session:
        """Return the session of that client, with the credentials that it renews."""
        return session_of(self.endpoint(bucket, key))

    def azure_endpoint(self, bucket: str) -> str | None:
        """Return the endpoint of a container; None: Azure itself."""
        return next((at for pattern, at in self.azure if re.fullmatch(pattern, bucket)), None)

    def dynamodb(self, endpoint: Endpoint | None = None) -> "DynamoDBClient":
        return _client("dynamodb", endpoint or self.default)  # type: ignore[no-any-return]

    def glue(self, endpoint: Endpoint | None = None) -> "GlueClient":
        return _client("glue", endpoint or self.default)  # type: ignore[no-any-return]

    def sqs(self, at: Endpoint) -> Any:
        """Return a client of SQS, at an endpoint of its own."""
        return _client("sqs", at)

    def sns(self, region: str) -> "SNSClient":
        """Return a client of SNS; the endpoints of the lake's stores do not apply to it."""
        return _client("sns", Endpoint(region=region))  # type: ignore[no-any-return]


def _nearest(folders: Mapping[str, Endpoint], key: str) -> Endpoint:
    """Return the endpoint of the key or of the nearest folder around it; the bucket itself always has an entry."""
    while key not in folders:
        key = key.rpartition("/")[0]
    return folders[key]


@lru_cache(maxsize=4096)
def _by_rule(rules: tuple[tuple[str, Endpoint], ...], bucket: str) -> Endpoint | None:
    return next((at for pattern, at in rules if re.fullmatch(pattern, bucket)), None)


_BUILDING = RLock()
"""Held while sessions and clients are built: botocore's sessions are not safe to share between threads."""
USER_AGENT = f"Boto3/{boto3.__version__} lakeaudit"
"""A fixed user agent: botocore builds its own again for each request, which takes a tenth of the request's time."""
_CONNECTIONS = 128
"""Connections of a client, for as many threads as share one."""


def _client(service: str, at: Endpoint) -> Any:
    """Return a cached client: clients are safe to share between threads and slow to build."""
    with _BUILDING:
        return _build_client(service, at)


@lru_cache(maxsize=256)
def _build_client(service: str, at: Endpoint) -> Any:
    client = _client_at(service, at, at.endpoint)
    if at.endpoint is None and not is_of_aws(
        client.meta.endpoint_url
    ):  # the environment or the profile names it
        client = _client_at(service, at, client.meta.endpoint_url)
    if service == "s3":
        refuse_web_pages(client)
        read_errors_whole(client)
    if at.budget is not None and service == "s3":
        client.meta.events.register("before-send.s3", at.budget.take)
    if at.requester_pays and service == "s3":
        client.meta.events.register("before-call.s3", _pay)
    return client


def _client_at(service: str, at: Endpoint, endpoint: str | None) -> Any:
    """Return a client for an endpoint; None: the one that the AWS chain names, else AWS's own."""
    session: Any = session_of(at)
    other = endpoint is not None and not is_of_aws(endpoint)
    config = Config(
        s3={"addressing_style": "path"} if at.path_style else {},
        max_pool_connections=_CONNECTIONS,
        user_agent=USER_AGENT,
        **_patience(endpoint),
        **(_checksums(session) if other else {}),
    )
    client = session.client(service, endpoint_url=endpoint, region_name=at.region, config=config)
    if other and service == "s3":
        client.meta.events.register("before-call.s3", _with_md5)
    return client


def _patience(endpoint: str | None) -> dict[str, Any]:
    """Return retries and timeouts: generous ones, but none for an endpoint at which no server listens."""
    if endpoint is None or listens(endpoint):
        return {"retries": {"mode": "adaptive", "max_attempts": 8}, "connect_timeout": 10}
    return {"retries": {"mode": "standard", "total_max_attempts": 1}, "connect_timeout": SECONDS}


_CHECKSUMS = ("request_checksum_calculation", "response_checksum_validation")


def _checksums(session: boto3.Session) -> dict[str, Any]:
    """Return settings without the SDK's default checksums, which other stores may refuse; the user's setting wins."""
    profile = session._session.get_scoped_config()
    open_ = [name for name in _CHECKSUMS if not (os.environ.get(f"AWS_{name.upper()}") or profile.get(name))]
    return dict.fromkeys(open_, "when_required")


def _with_md5(params: dict[str, Any], **_: Any) -> None:
    """Send Content-MD5 where a request needs a checksum (DeleteObjects): few stores know the new checksums."""
    checksum = params["context"].get("checksum", {})
    required = params["context"]["client_config"].request_checksum_calculation == "when_required"
    if required and checksum.pop("request_algorithm_header", None) is not None:
        del checksum["request_algorithm"]
        conditionally_calculate_md5(params)


def s3_client(at: Endpoint) -> "S3Client":
    """Return the client of an endpoint."""
    return _client("s3", at)  # type: ignore[no-any-return]


def store_url(at: Endpoint, bucket: str) -> str:
    """Return the URL of a bucket's objects by botocore's own rules; no request is sent."""
    client: Any = s3_client(at)
    operation = client.meta.service_model.operation_model("HeadBucket")
    context = {"client_region": client.meta.region_name, "client_config": client.meta.config}
    url, *_ = client._resolve_endpoint_ruleset(operation, {"Bucket": bucket}, context)
    return str(url)


def bundle_of(at: Endpoint) -> str | None:
    """Return the file of the authorities that boto trusts; None: those that come with it."""
    bundle = session_of(at)._session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    return str(bundle) if bundle else None


def session_of(at: Endpoint) -> boto3.Session:
    """Return the cached session of an endpoint, with the one credentials object that all its clients share."""
    with _BUILDING:
        return _build_session(at)


@lru_cache(maxsize=256)
def _build_session(at: Endpoint) -> boto3.Session:
    inner = botocore.session.get_session()
    inner.register_component("data_loader", _loader(inner.get_config_variable("data_path")))
    parsers = TolerantParsers()
    parsers.set_parser_defaults(timestamp_parser=timestamp)
    inner.register_component("response_parser_factory", parsers)
    if at.role_arn is not None:
        with _BUILDING:
            role = _ROLES.setdefault(
                (at.role_arn, at.external_id), _AssumedRole(at.role_arn, at.external_id, at.region)
            )
        inner.register_component("credential_provider", CredentialResolver([role]))
    return boto3.Session(botocore_session=inner, region_name=at.region)


@lru_cache(maxsize=1)
def _loader(data_path: str | None) -> Loader:
    """Return one loader for all sessions: it caches its data, a megabyte of endpoints among them."""
    return create_loader(data_path)


class _AssumedRole(CredentialProvider):
    """Credentials of a role. The AWS chain's own credentials assume it at the first use and before it expires."""

    METHOD = "assume-role"

    def __init__(self, role_arn: str, external_id: str | None, region: str | None) -> None:
        super().__init__()
        self._role_arn = role_arn
        self._region = region
        self._options = {"RoleSessionName": "lakeaudit"}
        self._held: DeferredRefreshableCredentials | None = None
        if external_id is not None:
            self._options["ExternalId"] = external_id

    def load(self) -> DeferredRefreshableCredentials | None:
        """Return one object for all sessions; None if the AWS chain has no credentials to assume the role with."""
        with _BUILDING:
            self._held = self._held or self._loaded()
            return self._held

    def _loaded(self) -> DeferredRefreshableCredentials | None:
        source = boto3.Session(region_name=self._region)
        credentials = source.get_credentials()
        if credentials is None:
            return None
        fetcher = AssumeRoleCredentialFetcher(source.client, credentials, self._role_arn, self._options)
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)


_ROLES: dict[tuple[str, str | None], _AssumedRole] = {}
"""By role and external id: a process assumes each once, however many regions and endpoints it is used at."""


def forget_clients() -> None:
    """Drop all sessions and clients, as after a change of credentials."""
    with _BUILDING:
        _build_client.cache_clear()
        _build_session.cache_clear()
        _ROLES.clear()
        listens.cache_clear()


def _pay(params: dict[str, Any], **_: Any) -> None:
    """Declare that the requester pays, which some buckets require."""
    params["headers"]["x-amz-request-payer"] = "requester"


def why_unusable(at: Endpoint) -> Failure | None:
    """Return why no request to a store can succeed; None if there are credentials and a server listens."""
    try:
        if missing := why_no_credentials(at):
            return missing
    except ClientError as error:
        failure = explain(error)
        role = f"the role {at.role_arn} cannot be used: " if at.role_arn else ""
        return failure._replace(what=f"{role}{failure.what}")
    endpoint = s3_client(at).meta.endpoint_url
    return None if is_of_aws(endpoint) or listens(endpoint) else unreachable(endpoint)


def why_no_credentials(at: Endpoint) -> Failure | None:
    """Return why the AWS chain has no credentials; None if it has some.

    Raises:
        ClientError: it has some, and the role may not be assumed with them.
    """
    try:
        return no_credentials() if credentials_from(at) is None else None
    except BotoCoreError as error:
        failure = explain(error)
        role = f"the role {at.role_arn} cannot be used: " if at.role_arn else ""
        return failure._replace(what=f"{role}{failure.what}")


def credentials_from(at: Endpoint) -> str | None:
    """Return the member of the AWS chain that has credentials (env, shared-credentials-file, ...), or None.

    Raises:
        ClientError: the role may not be assumed.
    """
    credentials = session_of(at).get_credentials()
    if credentials is None:
        return None
    credentials.get_frozen_credentials()  # only their first use shows whether a role can be assumed
    return str(credentials.method)
