"""Writes and reads DSSE envelopes (github.com/secure-systems-lab/dsse) and the signed in-toto Statements in them. Pure.

A reader accepts only the bytes that `Envelope.text` writes: whitespace, the order of keys and the spelling of base64
are not signed, and a file with any changed byte must not pass for the original.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_SIGNATURES = 100
_SHOWN = 60


class MalformedError(ValueError):
    """The bytes are not the expected document; the message states why, as the end of a sentence."""


@dataclass(frozen=True)
class Signature:
    """A signature with the id of its key."""

    key_id: str
    value: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload with its type and the signatures over both."""

    payload: bytes
    signatures: tuple[Signature, ...]
    payload_type: str = PAYLOAD_TYPE

    @property
    def signed_bytes(self) -> bytes:
        """Return the bytes that every signature is about."""
        return pre_authentication_encoding(self.payload_type, self.payload)

    def text(self) -> bytes:
        """Return the envelope as one line of JSON."""
        signatures = [{"keyid": each.key_id, "sig": _base64(each.value)} for each in self.signatures]
        stated = {
            "payloadType": self.payload_type,
            "payload": _base64(self.payload),
            "signatures": signatures,
        }
        return json.dumps(stated, separators=(",", ":")).encode() + b"\n"


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the encoding that DSSE signs: the type and the payload, each after its length in bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def envelope_of(stated: Any, content: bytes) -> Envelope:
    """Return the envelope that a file has, whose `content` was parsed to `stated`.

    Raises:
        MalformedError: it is not an envelope, or not exactly as `Envelope.text` writes it.
    """
    if not isinstance(stated, dict) or stated.keys() != {"payloadType", "payload", "signatures"}:
        raise MalformedError("is not a DSSE envelope with payloadType, payload and signatures")
    signatures = stated["signatures"]
    if not isinstance(signatures, list) or len(signatures) > MOST_SIGNATURES:
        raise MalformedError(f"has no list of at most {MOST_SIGNATURES} signatures")
    envelope = Envelope(
        _decoded(stated["payload"], "payload"),
        tuple(map(_signature, signatures)),
        _text(stated["payloadType"], "payloadType"),
    )
    if envelope.text() != content:
        raise MalformedError("was changed or reformatted: an envelope is one line, as lakeaudit writes it")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise MalformedError(f"has the payload type {envelope.payload_type[:_SHOWN]!r}, not {PAYLOAD_TYPE}")
    return envelope


def parse_json(content: bytes) -> Any:
    """Parse JSON whose objects name each key once.

    Raises:
        MalformedError: it is not such JSON, or it is nested too deeply.
    """
    try:
        return json.loads(content.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except MalformedError:
        raise
    except RecursionError:
        raise MalformedError("is nested too deeply") from None
    except ValueError:  # also UnicodeDecodeError and numbers with too many digits
        raise MalformedError("is not JSON") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    stated = dict(pairs)
    if len(stated) < len(pairs):
        raise MalformedError("has an object that names a key twice")
    return stated


def _no_constant(name: str) -> None:
    raise MalformedError(f"has the value {name}, which JSON does not know")


def _signature(stated: Any) -> Signature:
    if not isinstance(stated, dict) or stated.keys() != {"keyid", "sig"}:
        raise MalformedError("has a signature without keyid and sig")
    return Signature(_text(stated["keyid"], "keyid"), _decoded(stated["sig"], "sig"))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.isascii():
        raise MalformedError(f"has a {name} that is not plain text")
    return value


def _decoded(value: Any, name: str) -> bytes:
    try:
        return base64.b64decode(_text(value, name), validate=True)
    except binascii.Error:
        raise MalformedError(f"has a {name} that is not base64") from None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
