"""Sessions of the AWS chain that have ended: one line with the command that begins another, exit 10, no retry."""

import hashlib
import json
from pathlib import Path

import pytest
from botocore import exceptions as of_boto

from lakeaudit import cli
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint, why_unusable
from lakeaudit.runtime.connections.aws_failures import explain
from tests.builders.results import lake_file

pytestmark = pytest.mark.usefixtures("own_clients")

START = "https://sso.example/start"
ROLE = "sso_account_id = 123456789012\nsso_role_name = audit\nregion = us-east-1\n"
OLD_FORM = f"[profile night]\nsso_start_url = {START}\nsso_region = us-east-1\n{ROLE}"
NEW_FORM = (
    f"[profile night]\nsso_session = corp\n{ROLE}"
    f"[sso-session corp]\nsso_start_url = {START}\nsso_region = us-east-1\n"
)
LOGIN = "[profile night]\nregion = us-east-1\nlogin_session = arn:aws:iam::123456789012:user/ops\n"
TOKEN = {
    "startUrl": START,
    "region": "us-east-1",
    "accessToken": "secret-token",
    "expiresAt": "2026-01-01T00:00:00Z",
}
SSO = "the SSO session of profile night has ended", "aws sso login --profile night"
CASES = {
    "old form, ended": (OLD_FORM, START, *SSO),
    "old form, never begun": (OLD_FORM, None, *SSO),
    "new form, ended": (NEW_FORM, "corp", *SSO),
    "new form, never begun": (NEW_FORM, None, *SSO),
    "login, without its package": (
        LOGIN,
        None,
        "the AWS configuration needs a package that is missing",
        "pip install 'botocore[crt]'",
    ),
}


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder, whose profile `night` is chosen."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "night")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def begin(home: Path, config: str, session: str | None) -> None:
    """Write the profile, and the token of its session where it was ever begun."""
    (home / "config").write_text(config)
    if session is not None:
        cache = home / ".aws" / "sso" / "cache"
        cache.mkdir(parents=True)
        name = hashlib.sha1(session.encode(), usedforsecurity=False).hexdigest()
        (cache / f"{name}.json").write_text(json.dumps(TOKEN))


@pytest.mark.parametrize("name", CASES)
def test_a_session_that_has_ended_names_the_command(name: str, night: Path) -> None:
    config, session, what, hint = CASES[name]
    begin(night, config, session)
    failure = why_unusable(Endpoint())
    assert failure == (what, hint, False)


@pytest.mark.parametrize("local", [True, False])
def test_an_audit_ends_with_10_and_that_line(
    local: bool, night: Path, s3: Endpoint, capsys: pytest.CaptureFixture[str], bucket: str
) -> None:
    begin(night, OLD_FORM, START)
    results = Location.parse(str(night / "results")) if local else Location(bucket, "results")
    reach = {"endpoint": s3.endpoint, "region": s3.region, "path_style": True}
    table = {"name": "orders", "location": f"s3://{bucket}/orders", "manifests": [{"kind": "delta"}]}
    listing = {"kind": "listing", "location": f"s3://{bucket}/"}
    file = lake_file(night, results, s3=reach, tables=[table], inventories=[listing])
    status = night / "status.json"
    code = cli.main(["audit", file, "--status-file", str(status)])
    printed = capsys.readouterr()
    assert code == 10, printed.err
    last = printed.err.splitlines()[-1]
    assert "the SSO session of profile night has ended" in last
    assert "aws sso login --profile night" in last
    assert "secret-token" not in printed.out + printed.err
    assert json.loads(status.read_text())["retry"] is False


OTHERS = {
    "mfa": (of_boto.RefreshWithMFAUnsupportedError(), "a new one needs an MFA code"),
    "process": (
        of_boto.CredentialRetrievalError(provider="custom-process", error_msg="secret-token"),
        "custom-process returned no credentials",
    ),
    "login ended": (of_boto.LoginRefreshRequired(), "the login session of profile night has ended"),
    "login right": (of_boto.LoginInsufficientPermissions(), "the login session lacks a right"),
    "proxy": (
        of_boto.ProxyConnectionError(proxy_url="http://user:secret-token@proxy.example:3128"),
        "the proxy http://proxy.example:3128 cannot be reached",
    ),
    "anything else": (
        of_boto.InvalidConfigError(error_msg="line one\n\x1b[31mline two\x1b[0m\u202e"),
        "InvalidConfigError: line one line two",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_ends_are_named_without_a_secret(name: str, night: Path) -> None:
    error, told = OTHERS[name]
    failure = explain(error)
    assert told in failure.what
    assert "secret-token" not in " ".join(map(str, failure))
    assert failure.what.isprintable()
