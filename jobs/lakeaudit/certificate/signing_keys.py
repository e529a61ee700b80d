"""Reads Ed25519 and ECDSA P-256 keys, signs with them and verifies signatures; it alone knows `cryptography` for that.

Errors name the file or the variable of a key, never its content, nor the message of the library.
"""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.runtime.extras import install_hint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAKE = "make an Ed25519 key with `openssl genpkey -algorithm ed25519 -out key.pem`"
_MAKE_PUBLIC = "write the public key with `openssl pkey -in key.pem -pubout -out public.pem`"
_CURVE = "secp256r1"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the base point of P-256 (FIPS 186-5). If (r, s) is a valid signature, so is (r, order - s)."""
ED25519, P256 = "Ed25519", "ECDSA P-256"


@dataclass(frozen=True)
class PublicKey:
    """A public key; `name` is the file from which it was read."""

    _key: "Ed25519PublicKey | EllipticCurvePublicKey"
    name: str = ""

    @property
    def algorithm(self) -> str:
        """Return the name of the signature algorithm."""
        return _algorithm(self._key)

    @property
    def id(self) -> str:
        """Return the SHA-256 of the DER of the key (SubjectPublicKeyInfo), as `openssl pkey -outform DER` has it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return hashlib.sha256(
            self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        ).hexdigest()

    def pem(self) -> bytes:
        """Return the key as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verifies(self, signature: bytes, signed: bytes) -> bool:
        """Return whether a signature over these bytes was made with the key.

        Anybody can compute a second ECDSA signature from the first; only the one with the lower s counts.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            if isinstance(self._key, Ed25519PublicKey):
                self._key.verify(signature, signed)
            elif signature == _with_low_s(signature):
                self._key.verify(signature, signed, _ecdsa())
            else:
                return False
        except (InvalidSignature, ValueError):  # not DER
            return False
        return True


@dataclass(frozen=True, repr=False)
class SigningKey:
    """A private key. Its representation shows nothing of it."""

    _key: "Ed25519PrivateKey | EllipticCurvePrivateKey"

    @property
    def public(self) -> PublicKey:
        """Return the public key that belongs to it."""
        return PublicKey(self._key.public_key())

    def sign(self, content: bytes) -> bytes:
        """Return the signature over these bytes; ECDSA signatures are in DER, with the lower s."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(content)
        return _with_low_s(self._key.sign(content, _ecdsa()))


def signing_key(pem: bytes, name: str, password: bytes | None) -> SigningKey:
    """Read a private key from PEM (PKCS#8). `name` is the file or the variable, for messages.

    Raises:
        BadInput: it is not such a key, or the password is missing or wrong.
        CannotAudit: the package `cryptography` is not installed.
    """
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    is_encrypted = b"ENCRYPTED" in pem
    if is_encrypted and not password:
        what = "is encrypted, and no password is given"
        raise BadInput(name, what, f"set the variable {PASSWORD_VARIABLE}")
    try:
        key = load_pem_private_key(pem, password if is_encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        what = (
            "cannot be decrypted with the password" if is_encrypted else "has no private key in PEM (PKCS#8)"
        )
        hint = f"correct the variable {PASSWORD_VARIABLE}" if is_encrypted else _MAKE
        raise BadInput(name, what, hint) from None
    _require_algorithm(key, name)
    return SigningKey(key)  # type: ignore[arg-type]


def public_key(pem: bytes, name: str) -> PublicKey:
    """Read a public key from PEM (SubjectPublicKeyInfo); `name` is its file.

    Raises:
        BadInput: it is not such a key.
        CannotAudit: the package `cryptography` is not installed.
    """
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in pem:
        raise BadInput(name, "has a private key, which nobody else may have", _MAKE_PUBLIC)
    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadInput(name, "has no public key in PEM", _MAKE_PUBLIC) from None
    _require_algorithm(key, name)
    return PublicKey(key, name)  # type: ignore[arg-type]


KEY_VARIABLE = "LAKEAUDIT_CERTIFICATE_KEY"
"""The environment variable with a private key as PEM."""
PASSWORD_VARIABLE = "LAKEAUDIT_CERTIFICATE_KEY_PASSWORD"  # noqa: S105 - the name of a variable
"""The environment variable with the password of an encrypted key."""


def require_cryptography() -> None:
    """Check that keys can be used.

    Raises:
        CannotAudit: the package `cryptography` is not installed.
    """
    if find_spec("cryptography") is None:
        what = "is not installed: without it, certificates are neither signed nor verified"
        raise CannotAudit("cryptography", what, install_hint("certificate"))


def _require_algorithm(key: Any, name: str) -> None:
    if not _algorithm(key):
        kind = type(key).__name__.removeprefix("_").removesuffix("PrivateKey").removesuffix("PublicKey")
        raise BadInput(name, f"has a key of another kind ({kind}), not Ed25519 or ECDSA P-256", _MAKE)


def _algorithm(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        return ED25519
    is_curve = isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey)
    return P256 if is_curve and key.curve.name == _CURVE else ""


def _ecdsa() -> Any:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    return ECDSA(SHA256())


def _with_low_s(signature: bytes) -> bytes:
    """Return the ECDSA signature of the same bytes with the lower s.

    Raises:
        ValueError: it is not DER.
    """
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

    r, s = decode_dss_signature(signature)
    return encode_dss_signature(r, min(s, _ORDER - s))
