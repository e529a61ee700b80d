"""HTTP requests go through the proxies of the environment and trust its certificates. Real servers on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3.exceptions import HTTPError, MaxRetryError, ProxyError, SSLError

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.http_pool import HttpPool, proxy_for
from tests.builders import stores
from tests.builders.catcher import catching
from tests.unit.runtime.test_connections import ALONE, PROXIES


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine."""
    for name in [*ALONE, *PROXIES, *map(str.upper, PROXIES)]:
        monkeypatch.delenv(name, raising=False)


def get(url: str, further: str | None = None) -> int:
    answer = HttpPool(further=further).send("GET", url, {}, (5, 5))
    answer.close()
    return answer.status


P = "http://proxy:3128"
ROUTES = [
    # environment, URL, proxy
    ({}, "https://a.example/", None),
    ({"HTTPS_PROXY": P}, "https://a.example/", P),
    ({"https_proxy": "proxy:3128"}, "https://a.example/", P),
    ({"HTTPS_PROXY": P}, "http://a.example/", None),
    ({"http_proxy": P}, "http://a.example/", P),
    ({"ALL_PROXY": P}, "https://a.example/", P),
    ({"ALL_PROXY": "http://other:1", "HTTPS_PROXY": P}, "https://a.example/", P),
    ({"HTTPS_PROXY": P, "NO_PROXY": "a.example"}, "https://a.example/", None),
    ({"HTTPS_PROXY": P, "NO_PROXY": ".example"}, "https://u:p@a.example:8443/x", None),
    ({"HTTPS_PROXY": P, "NO_PROXY": "b.example, a.example:8443"}, "https://a.example:8443/", None),
    ({"HTTPS_PROXY": P, "NO_PROXY": "a.example:8443"}, "https://a.example/", P),
    ({"HTTPS_PROXY": P, "NO_PROXY": "ample"}, "https://a.example/", P),
    ({"HTTPS_PROXY": P, "NO_PROXY": "*"}, "https://a.example/", None),
    ({"HTTPS_PROXY": P, "NO_PROXY": "localhost, 10.0.0.0/8"}, "https://10.1.2.3:9093/", None),
    ({"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, "https://11.1.2.3/", P),
    ({"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, "https://a.example/", P),
    ({"HTTPS_PROXY": P, "NO_PROXY": "fd00::/8"}, "https://[fd00::1]/", None),
]


@pytest.mark.parametrize(("env", "url", "proxy"), ROUTES)
def test_the_proxy_of_a_request(
    env: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


def test_requests_go_through_the_proxy_with_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with catching() as direct, stores.proxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:p%40ss@"))
        assert get(direct.url) == 200
        assert (len(proxy.agents), proxy.passwords) == (1, ["Basic bWU6cEBzcw=="])
        monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
        assert get(direct.url) == 200
        assert len(proxy.agents) == 1


def test_a_dead_proxy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(ProxyError):
        get("http://a.example/")


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The certificate of an authority, and the URL of a server that it certifies."""
    certificate, own = stores.authority(tmp_path)
    with stores.store(own) as url:
        yield certificate, url


BUNDLES = [
    # variable, whether it names the authority's file or its folder
    ("REQUESTS_CA_BUNDLE", "file"),
    ("REQUESTS_CA_BUNDLE", "folder"),
    ("CURL_CA_BUNDLE", "file"),
    ("SSL_CERT_FILE", "file"),
]


@pytest.mark.parametrize(("variable", "form"), BUNDLES)
def test_the_certificates_of_the_environment_are_trusted(
    variable: str, form: str, authority: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate, url = authority
    with pytest.raises(SSLError):
        get(url)
    folder = tmp_path / "certificates"
    folder.mkdir()
    file = folder / "own.pem"
    file.write_bytes(certificate.read_bytes())
    monkeypatch.setenv(variable, str(file if form == "file" else folder))
    assert get(url) < 500
    monkeypatch.delenv(variable)
    assert get(url, further=certificate.read_text()) < 500


def test_a_tunnel_through_a_proxy_trusts_the_same(
    authority: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, url = authority
    with stores.proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises((SSLError, ProxyError)):
            get(url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert get(url) < 500
        assert proxy.tunnels


def test_certificates_that_cannot_be_read_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")
    with pytest.raises(CannotAudit, match=r"nowhere\.pem: the CA bundle cannot be read"):
        get("https://127.0.0.1:1/")


def test_a_request_is_sent_once_and_follows_redirects_only_if_it_may() -> None:
    with catching() as caught, catching() as other:
        caught.answer, caught.location = 503, ""
        assert get(caught.url) == 503
        assert len(caught.gets) == 1
        caught.answer, caught.location = 308, f"{other.url}/b"
        assert get(caught.url) == 308
        assert other.gets == []
        answer = HttpPool().send("POST", caught.url, {}, (5, 5), redirect=True, json={"a": 1})
        assert (answer.status, other.posts) == (200, [{"a": 1}])
        other.answer, other.location = 302, f"{other.url}/b"
        with pytest.raises(HTTPError) as endless:
            HttpPool().send("GET", caught.url, {}, (5, 5), redirect=True)
        assert not isinstance(endless.value, MaxRetryError)
