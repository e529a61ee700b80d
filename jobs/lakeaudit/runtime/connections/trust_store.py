"""Java's view of the certificates this machine trusts.

A JDK brings its own list and looks at no other; where the machine's list has more (a company's own
authority, say), Java would refuse what everything else on the machine accepts. So that list is handed over
as a PKCS #12 file.
"""

import hashlib
import re
import ssl
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakeaudit.runtime.cache import cache_dir, write_once

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PASSWORD = "changeit"  # noqa: S105 - Java's customary one; the file holds public certificates only
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def trust_options(env: Mapping[str, str]) -> list[str]:
    """JVM options that make Java trust what this machine trusts; none where the machine has no list."""
    store = trust_store(env)
    if store is None:
        return []
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def trust_store(env: Mapping[str, str]) -> Path | None:
    """PKCS #12 file of AWS_CA_BUNDLE and SSL_CERT_FILE (else the system's list); a new one for a new list."""
    pem = b"\n".join(path.read_bytes() for path in _bundles(env))
    blocks = sorted(set(_PEM.findall(pem)))
    if not blocks:
        return None
    store = cache_dir(env) / f"trust-{hashlib.sha256(b''.join(blocks)).hexdigest()[:16]}.p12"
    return store if store.is_file() else write_once(store, _pkcs12(blocks))


def _bundles(env: Mapping[str, str]) -> Iterator[Path]:
    default = next((path for path in _SYSTEM if Path(path).is_file()), ssl.get_default_verify_paths().cafile)
    for named in dict.fromkeys((env.get("AWS_CA_BUNDLE"), env.get("SSL_CERT_FILE") or default)):
        if named and Path(named).is_file():
            yield Path(named)


def _pkcs12(blocks: list[bytes]) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old authorities bend the rules; judging them is not our task
        entries = [pkcs12.PKCS12Certificate(certificate, None) for certificate in _readable(blocks)]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(PASSWORD.encode()))


def _readable(blocks: list[bytes]) -> "Iterator[Certificate]":
    """One certificate that cannot be parsed must not cost the trust in all others."""
    from cryptography import x509

    for block in blocks:
        try:
            yield x509.load_pem_x509_certificate(block)
        except ValueError:
            continue
