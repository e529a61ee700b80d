"""Answer `lakeaudit certificate verify`: is the certificate intact, and who signed it?"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lakeaudit.certificate.envelope import (
    MOST_UNTRUSTED,
    Envelope,
    MalformedError,
    TooLargeError,
    read_document,
)
from lakeaudit.certificate.rules_version import rules_version
from lakeaudit.certificate.signing_keys import PublicKey, public_key, require_cryptography
from lakeaudit.certificate.verification import (
    BAD,
    GOOD,
    UNKNOWN,
    Check,
    Keys,
    check_signatures,
    check_statement,
    check_unsigned,
    is_bad,
)
from lakeaudit.commands.certificate_keys import BESIDE, MOST_BYTES
from lakeaudit.errors import BadInput, SourceError
from lakeaudit.formatting import number, visible
from lakeaudit.json_documents import Certificate
from lakeaudit.runtime.connections.aws import Clients

LARGEST = 256 << 20
"""Bytes of the largest certificate that is read: that of a lake of 100,000 tables has half as many."""

_TOO_LARGE = Check(
    UNKNOWN,
    f"certificate: has more than {MOST_UNTRUSTED:,} bytes, which are read only if a trusted key signed them",
)


@dataclass(frozen=True)
class Verified:
    """The checks of a certificate, and its content if nothing is wrong with it."""

    checks: tuple[Check, ...]
    content: Certificate | None = None

    def with_checks(self, checks: Sequence[Check]) -> "Verified":
        """Return the same with further checks."""
        return Verified((*self.checks, *checks), self.content)


def verify(name: str, trusted: Mapping[str, PublicKey], clients: Clients) -> Verified:
    """Check the certificate at a path or URI.

    Raises:
        BadInput: it cannot be read.
        CannotAudit: it is signed, and the package `cryptography` is not installed.
    """
    content = _read(name, clients, LARGEST)
    if content is None:
        raise BadInput(name, "does not exist", "name the file of a certificate")
    if len(content) > LARGEST:
        return Verified((Check(BAD, f"certificate: has more than {LARGEST:,} bytes"),))
    return verify_content(content, lambda: Keys(trusted, None if trusted else _key_beside(name, clients)))


def verify_content(content: bytes, keys: Callable[[], Keys]) -> Verified:
    """Check the content of a certificate; a statement is parsed only after its signatures, and if none is bad.

    JSON that no trusted key has signed is parsed only up to `MOST_UNTRUSTED` bytes.

    Raises:
        CannotAudit: it is signed, and the package `cryptography` is not installed.
    """
    try:
        envelope = read_document(content)
        if not isinstance(envelope, Envelope):
            found, checks = check_unsigned(envelope)
            return Verified((*checks, *_rules(found)), found)
    except MalformedError as error:
        return Verified((Check(BAD, f"certificate: {error}"),))
    except TooLargeError:
        return Verified((_TOO_LARGE,))
    require_cryptography()
    known = keys()
    signatures = check_signatures(envelope, known)
    if is_bad(signatures):
        return Verified(tuple(signatures))
    is_trusted = bool(known.trusted) and all(each.answer == GOOD for each in signatures)
    try:
        found, checks = check_statement(envelope.payload, trusted=is_trusted)
    except TooLargeError:
        return Verified((*signatures, _TOO_LARGE))
    return Verified((*signatures, *checks, *_rules(found)), found)


def _rules(found: Certificate | None) -> list[Check]:
    """Report the version of the rules; another version matters only for a replay."""
    if found is None or found["rules"] == rules_version():
        return []
    return [Check(GOOD, "rules: the certificate was made with other rules than those of this lakeaudit")]


def _key_beside(name: str, clients: Clients) -> PublicKey | None:
    """Return the key that is stored beside a certificate; None if there is none that can be used."""
    try:
        content = _read(name + BESIDE, clients, MOST_BYTES)
        if content is None or len(content) > MOST_BYTES:
            return None
        return public_key(content, name + BESIDE)
    except BadInput:
        return None


def _read(name: str, clients: Clients, most: int) -> bytes | None:
    """Return the content of a file, and at most one byte more than `most`; None if it does not exist."""
    if "://" in name:
        return _read_object(name, clients, most)
    try:
        with Path(name).open("rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise BadInput(name, what, "name the file of a certificate") from None


def _read_object(name: str, clients: Clients, most: int) -> bytes | None:
    from lakeaudit.evidence.files import read_bytes, stat
    from lakeaudit.keys import Location

    try:
        place = Location.parse(name)
        file = stat(clients, place)
        if file is not None and file.size > most:
            return b" " * (most + 1)
        return None if file is None else read_bytes(clients, place, size=file.size)
    except ValueError as error:
        raise BadInput(name, f"is not a location: {error}", "write s3://bucket/certificate.json") from None
    except SourceError as error:
        raise BadInput(name, error.what, error.hint) from None


def write(name: str, verified: Verified, out: TextIO) -> str:
    """Print the checks, one line each; return the verdict."""
    for each in verified.checks:
        print(f"{each.answer:<7}  {visible(each.text)}", file=out)
    counts = Counter(each.answer for each in verified.checks)
    if counts[BAD]:
        return f"{visible(name)}: the certificate is not valid"
    if counts[UNKNOWN]:
        return (
            f"{visible(name)}: nothing is wrong, but {number(counts[UNKNOWN], 'answer')} could not be given"
        )
    return f"{visible(name)}: the certificate is valid"
