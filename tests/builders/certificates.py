"""Keys for certificates, and the content of signed ones."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
KINDS: dict[str, Callable[[], PrivateKey]] = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
}
"""By name how a private key is made."""


def private_pem(kind: str = "ed25519", password: str = "") -> bytes:
    """A new private key as PEM (PKCS#8)."""
    protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return KINDS[kind]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


def public_pem(kind: str = "ed25519") -> bytes:
    """A new public key as PEM."""
    return KINDS[kind]().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_key(path: Path, kind: str = "ed25519") -> None:
    """Write a new private key."""
    path.write_bytes(private_pem(kind))


def payload_of(path: Path) -> Any:
    """The statement in a signed certificate."""
    return json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
