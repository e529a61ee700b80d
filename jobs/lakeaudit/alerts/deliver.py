"""Sends a message to its receiver. A failure is one line without addresses and secrets."""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError
from urllib3 import BaseHTTPResponse, Retry
from urllib3.exceptions import HTTPError
from urllib3.util import make_headers, parse_url

from lakeaudit.alerts.posts import Form, Post
from lakeaudit.alerts.receiver_text import ReceiverText, receiver_text
from lakeaudit.config import Alert, AlertmanagerAlert, AppriseAlert, SnsAlert, WebhookAlert
from lakeaudit.errors import AuditError
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.http_pool import HttpPool
from lakeaudit.runtime.extras import install_hint

PATIENCE = (5.0, 15.0)
"""Timeouts to connect and to respond, in seconds."""

PAGERDUTY, OPSGENIE = "pagerduty", "opsgenie"
INCIDENTS = (PAGERDUTY, OPSGENIE)
"""Schemes of channels that keep incidents by a key: they get one message for each table, which can be resolved."""

BATCH = 100
"""Number of alerts in one request to Alertmanager."""

_NOTE_LIMIT = 25_000
"""Characters of a note (Opsgenie, Alert API)."""

_NAME_LIMIT = 100
"""SNS subjects (API reference, Publish): at most 100 ASCII characters, no line breaks."""

_SNS = ReceiverText(200_000, size=lambda text: len(text.encode()))
"""SNS messages (API reference, Publish): at most 256 KiB with subject and attributes."""

_BUSY = (429, 503)
"""Statuses with which a receiver may ask for a later request (`Retry-After`, RFC 9110, 10.2.3)."""
MOST_WAIT = 20.0
"""Seconds that one message waits for a busy receiver; after a longer wait the next round sends it."""
RETRIES = 2

_SUCCESS = 2
"""The first digit of a status that states that a message arrived."""

SIGNATURE = "X-Lakeaudit-Signature"
"""The header with the HMAC of a webhook's body."""

_TYPES = {"critical": "failure", "error": "failure", "warning": "warning"}
"""Apprise's name of a severity."""


class CannotDeliver(Exception):
    """A message did not reach its receiver; the text states the reason and is safe to show."""


class Channel(Protocol):
    """Sends to one receiver, in its form."""

    form: Form

    def send(self, post: Post) -> None:
        """Send the message.

        Raises:
            CannotDeliver: it did not arrive, or its arrival is unknown.
        """


def channel(route: Alert, env: Mapping[str, str], clients: Clients) -> Channel:
    """Return the channel to a route's receiver.

    Raises:
        CannotDeliver: its variable is not set, or has no valid address.
    """
    match route:
        case SnsAlert():
            return SnsChannel(route.topic_arn, clients)
        case AlertmanagerAlert():
            return AlertmanagerChannel(_address(route.url_env, env), route.url_env)
        case AppriseAlert():
            return AppriseChannel(_address(route.url_env, env), route.url_env)
        case WebhookAlert():
            secret = _address(route.secret_env, env) if route.secret_env else None
            return WebhookChannel(_address(route.url_env, env), route.url_env, secret)
    raise TypeError(type(route).__name__)


def keeps_incidents(route: Alert, env: Mapping[str, str]) -> bool:
    """Return whether the receiver of a route keeps incidents or alerts, which must be ended."""
    if isinstance(route, AlertmanagerAlert):
        return True
    scheme = env.get(route.url_env, "").partition("://")[0].lower() if isinstance(route, AppriseAlert) else ""
    return scheme in INCIDENTS


def _address(name: str, env: Mapping[str, str]) -> str:
    if not env.get(name):
        raise CannotDeliver(f"the variable {name} is not set")
    return env[name]


def _apprise() -> Any:
    """Import Apprise, which belongs to the extra `alerts`."""
    try:
        import apprise
    except ModuleNotFoundError as error:
        raise CannotDeliver(f"Apprise is not installed ({install_hint('alerts')})") from error
    return apprise


class AppriseChannel:
    """Sends through Apprise: chats, mail, webhooks, PagerDuty."""

    def __init__(self, url: str, name: str) -> None:
        self._apprise = _apprise()
        account = self._apprise.Apprise.instantiate(url, suppress_exceptions=True)
        if account is None:
            raise CannotDeliver(f"the variable {name} holds no address that Apprise knows")
        self._url = url
        self._name = name
        self._scheme = url.partition("://")[0].lower()
        has_blocks = bool(getattr(account, "use_blocks", False))
        self._text = receiver_text(
            self._scheme, body=account.body_maxlen, title=account.title_maxlen, has_blocks=has_blocks
        )
        self.form: Form = "incidents" if self._scheme in INCIDENTS else "text"

    def send(self, post: Post) -> None:
        """Send the message; Apprise allows a channel four seconds to connect and four to respond."""
        if post.over and self._scheme == OPSGENIE:
            self._close(post)
            return
        kind = self._apprise.NotifyType("success" if post.over else _TYPES.get(post.severity, "info"))
        # the sender that channels show; no image is loaded from another site
        asset = self._apprise.AppriseAsset(app_id="lakeaudit", app_desc="lakeaudit", image_url_mask=None)
        apprise = self._apprise.Apprise(asset=asset)
        url = self._keyed(post.key) if self.form == "incidents" else self._url
        account = apprise.instantiate(url, asset=asset)
        title, body = self._text.fit(post.title, post.body, post.rest)
        if self._scheme == PAGERDUTY:  # Apprise sends title and body as the summary, which is short
            account.details["message"] = body
            account.click = account.click or (post.rest if post.rest.startswith("http") else None)
            title, body = "", title
        apprise.add(account)
        if not apprise.notify(body, title, kind, body_format="text"):
            raise CannotDeliver(f"the channel of {self._name} refused the message or did not answer")

    def _keyed(self, key: str) -> str:
        """Return the URL with the incident's key, and an action that opens it, or for PagerDuty resolves it by type."""
        more = f"action=new&alias={key}" if self._scheme == OPSGENIE else f"action=map&dedup={key}"
        return f"{self._url}{'&' if '?' in self._url else '?'}{more}"

    def _close(self, post: Post) -> None:
        """Close an alert of Opsgenie by its alias; Apprise closes only alerts that the same process has opened."""
        from apprise.plugins.opsgenie import OPSGENIE_API_LOOKUP

        account = self._apprise.Apprise.instantiate(self._url)
        url = f"{OPSGENIE_API_LOOKUP[account.region_name]}/{post.key}/close?identifierType=alias"
        headers = {"Authorization": f"GenieKey {account.apikey}"}
        content = {"source": "lakeaudit", "note": post.body[:_NOTE_LIMIT]}
        _request("POST", url, self._name, headers, json=content)


class SnsChannel:
    """Sends to an SNS topic."""

    form: Form = "text"

    def __init__(self, topic_arn: str, clients: Clients) -> None:
        self._topic = topic_arn
        self._clients = clients

    def send(self, post: Post) -> None:
        """Send the message."""
        subject = post.title.encode("ascii", "replace").decode()[:_NAME_LIMIT]
        try:
            sns = self._clients.sns(self._topic.split(":")[3])
            _, body = _SNS.fit(post.title, post.body, post.rest)
            sns.publish(TopicArn=self._topic, Subject=subject, Message=body)
        except (ClientError, BotoCoreError, IndexError) as error:
            what = explain(error)[0] if isinstance(error, ClientError | BotoCoreError) else "not a topic ARN"
            raise CannotDeliver(f"SNS refused: {what}") from error


class AlertmanagerChannel:
    """Sends to Alertmanager's API v2, which identifies an alert by its labels; they are the same in every run."""

    form: Form = "alerts"

    def __init__(self, url: str, name: str) -> None:
        self._url = url.rstrip("/")
        self._name = name

    def send(self, post: Post) -> None:
        """Send the alerts in batches."""
        for first in range(0, len(post.alerts), BATCH):
            _post(f"{self._url}/api/v2/alerts", post.alerts[first : first + BATCH], self._name)


class WebhookChannel:
    """Posts one JSON document. No redirect is followed: its target is not an address that the user named."""

    form: Form = "json"

    def __init__(self, url: str, name: str, secret: str | None) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise CannotDeliver(f"the variable {name} holds no address of http or https")
        self._url = url
        self._name = name
        self._secret = secret

    def send(self, post: Post) -> None:
        """Send the message, with the HMAC of its bytes if there is a secret."""
        body, headers = post.body.encode(), {"Content-Type": "application/json"}
        if self._secret is not None:
            signature = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE] = f"sha256={signature}"
        _request("POST", self._url, self._name, headers, body=body)


def ping(name: str, env: Mapping[str, str]) -> None:
    """Request the heartbeat's URL, to signal that an audit was published.

    Raises:
        CannotDeliver: it did not arrive.
    """
    _request("GET", _address(name, env), name, redirect=True)


def post(name: str, env: Mapping[str, str], content: Any) -> None:
    """Post content as JSON to the address.

    Raises:
        CannotDeliver: it did not arrive.
    """
    _post(_address(name, env), content, name)


def _post(url: str, content: Any, name: str) -> None:
    _request("POST", url, name, json=content, redirect=True)


def _request(method: str, url: str, name: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
    """Send one request, and again if the receiver asks for a short wait.

    The errors do not contain the address, which may itself be a secret.
    """
    answer = _answer(method, url, name, headers, **more)
    for _ in range(RETRIES):
        wait = _requested_wait(answer)
        if wait is None:
            break
        time.sleep(wait)
        answer = _answer(method, url, name, headers, **more)
    if answer.status // 100 != _SUCCESS:
        raise CannotDeliver(f"the address of {name} answered {answer.status}")


def _requested_wait(answer: BaseHTTPResponse) -> float | None:
    """Return the seconds after which a busy receiver expects the request again; None: not within `MOST_WAIT`."""
    after = answer.headers.get("Retry-After") if answer.status in _BUSY else None
    try:
        wait = None if after is None else Retry().parse_retry_after(after)
    except HTTPError:
        return None
    return wait if wait is not None and wait <= MOST_WAIT else None


def _answer(
    method: str, url: str, name: str, headers: Mapping[str, str] | None, **more: Any
) -> BaseHTTPResponse:
    try:
        user = parse_url(url).auth
        sent = {"User-Agent": "lakeaudit", **make_headers(basic_auth=unquote(user) if user else None)}
        answer = HttpPool().send(method, url, sent | dict(headers or {}), PATIENCE, **more)
    except (HTTPError, UnicodeError) as error:
        raise CannotDeliver(f"the address of {name} did not answer ({type(error).__name__})") from None
    except AuditError as error:
        raise CannotDeliver(str(error)) from None
    answer.close()
    return answer
