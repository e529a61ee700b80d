"""Writes and reads DSSE envelopes (github.com/secure-systems-lab/dsse) and the signed in-toto Statements in them. Pure.

A reader accepts only the bytes that `Envelope.text` writes: whitespace, the order of keys and the spelling of base64
are not signed, and a file with any changed byte must not pass for the original.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_SIGNATURES = 100
MOST_UNTRUSTED = 16 << 20
"""Bytes of the largest JSON that is parsed although no trusted key has signed it."""
_MOST_SIGNATURE_BYTES = MOST_SIGNATURES << 10
_FEW_VALUES = 100_000
_VALUE_BYTES, _GROUP_BYTES = 8, 32
"""A certificate has fewer values than one in 8 bytes, and fewer lists and objects than one in 32."""
_FRAME = re.compile(rb'\{"payloadType":"([^"\\]*)","payload":"([^"\\]*)","signatures":')
_SHOWN = 60


class MalformedError(ValueError):
    """The bytes are not the expected document; the message states why, as the end of a sentence."""


class TooLargeError(Exception):
    """The bytes are too many to be parsed without a signature by a trusted key."""


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


def read_document(content: bytes) -> Any:
    """Return the envelope in a file, or the JSON of another document.

    The payload of an envelope is not parsed: it is a text of any size between two short parts.

    Raises:
        MalformedError: it is neither an envelope as `Envelope.text` writes it nor other JSON.
        TooLargeError: it is not an envelope, and too large to be parsed.
    """
    frame = _FRAME.match(content)
    if frame is None or len(content) - frame.end() > _MOST_SIGNATURE_BYTES:
        stated = parse_untrusted(content)
        is_envelope = isinstance(stated, dict) and "payloadType" in stated
        return envelope_of(stated, content) if is_envelope else stated
    rest = parse_json(b'{"signatures":' + content[frame.end() :])
    texts = {"payloadType": frame[1], "payload": frame[2]}
    return envelope_of(
        {name: text.decode("ascii", "replace") for name, text in texts.items()} | rest, content
    )


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
    if len({each.key_id for each in envelope.signatures}) < len(envelope.signatures):
        raise MalformedError("has two signatures by the same key")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise MalformedError(f"has the payload type {envelope.payload_type[:_SHOWN]!r}, not {PAYLOAD_TYPE}")
    return envelope


def parse_untrusted(content: bytes) -> Any:
    """Parse JSON that no trusted key has signed; its size bounds the memory, and it has as few values as a certificate.

    Raises:
        MalformedError: it is not such JSON.
        TooLargeError: it has more bytes than are parsed without a trusted signature.
    """
    if len(content) > MOST_UNTRUSTED:
        raise TooLargeError
    groups = content.count(b"{") + content.count(b"[")
    values = groups + content.count(b",")
    most = max(_FEW_VALUES, len(content) // _VALUE_BYTES), max(_FEW_VALUES, len(content) // _GROUP_BYTES)
    if values > most[0] or groups > most[1]:
        raise MalformedError("has more values than a certificate of its size")
    return parse_json(content)


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
