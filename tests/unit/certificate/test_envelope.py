"""DSSE envelopes: the bytes that are signed, and files that are not envelopes of lakeaudit."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest

from lakeaudit.certificate.envelope import (
    PAYLOAD_TYPE,
    Envelope,
    MalformedError,
    Signature,
    TooLargeError,
    envelope_of,
    parse_json,
    parse_untrusted,
    pre_authentication_encoding,
    read_document,
)


def parse_envelope(content: bytes) -> Envelope:
    read = read_document(content)
    return read if isinstance(read, Envelope) else envelope_of(read, content)


WHOLE = Envelope(b'{"a":1}', (Signature("k1", b"\x00\xff"), Signature("k2", b"")))


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    """The example of the DSSE specification, and lengths that count bytes and not characters."""
    assert (
        pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pre_authentication_encoding("é", "é\0".encode()) == b"DSSEv1 2 \xc3\xa9 3 \xc3\xa9\x00"


def test_an_envelope_is_read_as_it_was_written() -> None:
    assert parse_envelope(WHOLE.text()) == WHOLE


def changed(**fields: Any) -> bytes:
    stated = json.loads(WHOLE.text()) | fields
    return (
        json.dumps({k: v for k, v in stated.items() if v is not ...}, separators=(",", ":")).encode() + b"\n"
    )


SIGNATURE = {"keyid": "k", "sig": "AA=="}
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not JSON"),
    "not JSON": (b"PK\x03\x04", "is not JSON"),
    "not UTF-8": (b'{"a": "\xff"}', "is not JSON"),
    "cut off": (WHOLE.text()[:-9], "is not JSON"),
    "a list": (b"[]\n", "is not a DSSE envelope"),
    "a number of 5,000 digits": (b"1" * 5_000, "is not JSON"),
    "nested 100,000 times": (b"[" * 100_000, "is nested too deeply"),
    "not a number": (b'{"payload": NaN}', "has the value NaN"),
    "a key twice": (WHOLE.text().replace(b'"payload":', b'"payload":"","payload":'), "names a key twice"),
    "a signature's key twice": (WHOLE.text().replace(b'"sig":', b'"sig":"","sig":', 1), "names a key twice"),
    "no signatures": (changed(signatures=...), "is not a DSSE envelope"),
    "a further field": (changed(more=1), "is not a DSSE envelope"),
    "signatures in an object": (changed(signatures={}), "has no list"),
    "101 signatures": (changed(signatures=[SIGNATURE] * 101), "at most 100 signatures"),
    "two signatures by one key": (changed(signatures=[SIGNATURE, {"keyid": "k", "sig": "AQ=="}]), "two signatures by"),
    "the same signature twice": (changed(signatures=[SIGNATURE, SIGNATURE]), "two signatures by the same key"),
    "a megabyte of signatures": (changed(signatures=[{"keyid": "k" * (1 << 20), "sig": ""}] * 2), "two signatures by"),
    "a million empty lists": (b"[" + b"[]," * (1 << 20) + b"0]", "has more values than a certificate of its size"),
    "a million numbers": (changed(more=[1] * (1 << 20)), "has more values than a certificate of its size"),
    "a payload that ends in the file's middle": (changed(payload='a"'), "payload that is not base64"),
    "a signature is a text": (changed(signatures=["AA=="]), "without keyid and sig"),
    "a signature without keyid": (changed(signatures=[{"sig": "AA=="}]), "without keyid and sig"),
    "a keyid of another type": (changed(signatures=[{"keyid": 1, "sig": ""}]), "keyid that is not plain text"),
    "the payload is an object": (changed(payload={}), "payload that is not plain text"),
    "the payload is not base64": (changed(payload="a*b="), "payload that is not base64"),
    "base64 for URLs": (changed(signatures=[{"keyid": "", "sig": "__8="}]), "sig that is not base64"),
    "another spelling of the same bytes": (changed(payload="eyJhIjoxfR=="), "was changed or reformatted"),
    "reformatted": (json.dumps(json.loads(WHOLE.text()), indent=2).encode(), "was changed or reformatted"),
    "without the line's end": (WHOLE.text()[:-1], "was changed or reformatted"),
    "with a line more": (WHOLE.text() + b"\n", "was changed or reformatted"),
    "another payload type": (changed(payloadType="application/json"), "'application/json', not application/vnd"),
    "a payload type of another case": (changed(payloadType=PAYLOAD_TYPE.upper()), "has the payload type"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_not_exactly_an_envelope(case: str) -> None:
    content, why = WRONG[case]
    with pytest.raises(MalformedError, match=r"is|has|was|names") as error:
        parse_envelope(content)
    assert why in str(error.value)


def test_no_changed_byte_reads_as_the_same_envelope() -> None:
    text = WHOLE.text()
    for at in range(len(text)):
        for byte in (text[at] ^ 1, text[at] ^ 0x20, 0x20):
            other = text[:at] + bytes([byte]) + text[at + 1 :]
            with suppress(MalformedError):
                assert other == text or parse_envelope(other) != WHOLE


def test_a_large_payload_is_not_parsed_before_its_signature_is_checked() -> None:
    """Other JSON of that size is not parsed at all."""
    large = Envelope(b"[" + b"[]," * (6 << 20) + b"0]", WHOLE.signatures)
    assert parse_envelope(large.text()) == large
    for parse in (read_document, parse_untrusted):
        with pytest.raises(TooLargeError):
            parse(large.payload)


def test_json_with_distinct_keys_is_plain_json() -> None:
    assert parse_json(b'{"a": [1, {"b": null}], "c": "\\u00e9"}') == {"a": [1, {"b": None}], "c": "é"}
    assert base64.b64decode(json.loads(WHOLE.text())["payload"]) == WHOLE.payload
