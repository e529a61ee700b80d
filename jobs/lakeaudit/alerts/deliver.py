"""Deliver: takes a message to its receiver. What goes wrong is one line that holds no address and no secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import requests
from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Alert, AlertmanagerAlert, AppriseAlert, SnsAlert
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain

PATIENCE = (5.0, 15.0)
"""Seconds to connect, and to answer."""

INCIDENTS = ("pagerduty", "opsgenie")
"""Schemes of channels that keep incidents by a key: they get a message a table, which can be resolved."""

HOLDS_FOR = timedelta(days=7)
"""How long Alertmanager shows an alert of which it hears nothing more, at least: audits tell only what changes."""

_NAME_LIMIT = 100
"""SNS subjects (API reference, Publish): at most 100 ASCII characters, no line breaks."""

_TYPES = {"critical": NotifyType.FAILURE, "error": NotifyType.FAILURE, "warning": NotifyType.WARNING}

_ASSET = AppriseAsset(app_id="lakeaudit", app_desc="lakeaudit", image_url_mask=None)
"""What channels show as the sender; no image is to be fetched from elsewhere."""


class CannotDeliver(Exception):
    """A message did not reach its receiver; the text says why and is safe to show."""


@dataclass(frozen=True)
class Post:
    """One message. `key` names what it is about: the same in every run."""

    title: str
    body: str
    severity: str
    over: bool
    key: str
    labels: Mapping[str, str]
    at: datetime


class Channel(Protocol):
    """A way to one receiver; `per_table`: it wants a message a table, since it keeps incidents of its own."""

    per_table: bool

    def send(self, post: Post) -> None:
        """Deliver.

        Raises:
            CannotDeliver: it did not arrive, or it is not known whether it did.
        """


def channel(route: Alert, env: Mapping[str, str], clients: Clients) -> Channel:
    """The way to a route's receiver.

    Raises:
        CannotDeliver: its variable is not set, or does not hold an address.
    """
    match route:
        case SnsAlert():
            return SnsChannel(route.topic_arn, clients)
        case AlertmanagerAlert():
            holds_for = max(HOLDS_FOR, (route.repeat or timedelta()) * 2)
            return AlertmanagerChannel(_address(route.url_env, env), route.url_env, holds_for)
        case AppriseAlert():
            return AppriseChannel(_address(route.url_env, env), route.url_env)
    raise TypeError(type(route).__name__)


def _address(name: str, env: Mapping[str, str]) -> str:
    if not env.get(name):
        raise CannotDeliver(f"the variable {name} is not set")
    return env[name]


class AppriseChannel:
    """Any of Apprise's channels: chats, mail, webhooks, PagerDuty."""

    def __init__(self, url: str, name: str) -> None:
        if Apprise.instantiate(url, suppress_exceptions=True) is None:
            raise CannotDeliver(f"the variable {name} holds no address that Apprise knows")
        self._url = url
        self._name = name
        self.per_table = url.partition("://")[0].lower() in INCIDENTS

    def send(self, post: Post) -> None:
        """Deliver; Apprise gives a channel four seconds to connect and four to answer."""
        kind = NotifyType.SUCCESS if post.over else _TYPES.get(post.severity, NotifyType.INFO)
        apprise = Apprise(asset=_ASSET)
        apprise.add(self._keyed(post.key) if self.per_table else self._url)
        if not apprise.notify(post.body, post.title, kind, body_format=NotifyFormat.TEXT):
            raise CannotDeliver(f"the channel of {self._name} refused the message or did not answer")

    def _keyed(self, key: str) -> str:
        """`dedup` names the incident, `action=map` opens it or resolves it by the message's type."""
        return f"{self._url}{'&' if '?' in self._url else '?'}action=map&dedup={key}"


class SnsChannel:
    """An SNS topic."""

    per_table = False

    def __init__(self, topic_arn: str, clients: Clients) -> None:
        self._topic = topic_arn
        self._clients = clients

    def send(self, post: Post) -> None:
        """Deliver."""
        subject = post.title.encode("ascii", "replace").decode()[:_NAME_LIMIT]
        try:
            sns = self._clients.sns(self._topic.split(":")[3])
            sns.publish(TopicArn=self._topic, Subject=subject, Message=post.body)
        except (ClientError, BotoCoreError, IndexError) as error:
            what = explain(error)[0] if isinstance(error, ClientError | BotoCoreError) else "it is no topic"
            raise CannotDeliver(f"SNS refused: {what}") from error


class AlertmanagerChannel:
    """Alertmanager's API v2: an alert is its labels, which hold nothing that changes from run to run."""

    per_table = True

    def __init__(self, url: str, name: str, holds_for: timedelta) -> None:
        self._url = url.rstrip("/")
        self._name = name
        self._holds_for = holds_for

    def send(self, post: Post) -> None:
        """Deliver."""
        ends = post.at if post.over else post.at + self._holds_for
        alert = {
            "labels": {"alertname": "lakeaudit", "key": post.key, **post.labels},
            "annotations": {"summary": post.title, "description": post.body},
            "startsAt": post.at.isoformat(),
            "endsAt": ends.isoformat(),
        }
        _post(f"{self._url}/api/v2/alerts", [alert], self._name)


def ping(name: str, env: Mapping[str, str]) -> None:
    """Tell the heartbeat's URL that an audit was published.

    Raises:
        CannotDeliver: it did not arrive.
    """
    try:
        requests.get(_address(name, env), timeout=PATIENCE).raise_for_status()
    except requests.RequestException as error:
        raise CannotDeliver(_said(error, name)) from None


def post_all(name: str, env: Mapping[str, str], contents: Sequence[Any]) -> None:
    """Post each as JSON to the address.

    Raises:
        CannotDeliver: one did not arrive; those after it are not sent.
    """
    for content in contents:
        _post(_address(name, env), content, name)


def _post(url: str, content: Any, name: str) -> None:
    try:
        requests.post(url, json=content, timeout=PATIENCE).raise_for_status()
    except requests.RequestException as error:
        raise CannotDeliver(_said(error, name)) from None


def _said(error: requests.RequestException, name: str) -> str:
    """Without the address, which may be a secret itself."""
    if error.response is not None:
        return f"the address of {name} answered {error.response.status_code}"
    return f"the address of {name} did not answer ({type(error).__name__})"
