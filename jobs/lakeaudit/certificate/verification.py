"""Checks a certificate: its signatures, and whether the signed statement agrees with itself. Pure, except for keys."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import TypeAdapter, ValidationError

from lakeaudit.certificate.consistency import contradiction
from lakeaudit.certificate.content import FORMAT, PREDICATE_TYPE, STATEMENT_TYPE, own_digest, statement
from lakeaudit.certificate.envelope import Envelope, MalformedError, Signature, parse_json, parse_untrusted
from lakeaudit.certificate.signing_keys import PublicKey
from lakeaudit.formatting import number
from lakeaudit.json_documents import Certificate, CertificateStatement

Answer = Literal["good", "bad", "unknown"]
GOOD: Answer = "good"
BAD: Answer = "bad"
UNKNOWN: Answer = "unknown"
SHOWN = 16
"""Characters of a key's id that messages show."""
_OTHER_VERSION = "it was written by another version of lakeaudit, which may state other things"


@dataclass(frozen=True)
class Check:
    """The answer to one question about a certificate: good, bad or unknown."""

    answer: Answer
    text: str


@dataclass(frozen=True)
class Keys:
    """The keys with which a certificate is verified, by their ids.

    `trusted` are those that the user names; if there are none, `beside` is the key that is stored beside the file.
    """

    trusted: Mapping[str, PublicKey] = field(default_factory=dict)
    beside: PublicKey | None = None

    @property
    def usable(self) -> Mapping[str, PublicKey]:
        """Return the keys that count."""
        return self.trusted or ({self.beside.id: self.beside} if self.beside else {})


def check_signatures(envelope: Envelope, keys: Keys) -> list[Check]:
    """Check every signature whose key is known; one good signature is enough, and none may be bad."""
    checks = [_signature(each, envelope.signed_bytes, keys) for each in dict.fromkeys(envelope.signatures)]
    if not checks:
        return [Check(BAD, "signature: the envelope has none")]
    decided = [each for each in checks if each.answer != UNKNOWN]
    return decided or checks[:1]


def _signature(signature: Signature, signed: bytes, keys: Keys) -> Check:
    key = keys.usable.get(signature.key_id)
    if key is None:
        if any(each.verifies(signature.value, signed) for each in keys.usable.values()):
            return Check(BAD, "signature: the id of its key was changed")
        return Check(UNKNOWN, f"signature: by the key {short_id(signature.key_id)}, {_why_unknown(keys)}")
    if not key.verifies(signature.value, signed):
        changed = "the certificate or the signature was changed"
        return Check(BAD, f"signature: does not match the key {short_id(key.id)}: {changed}")
    named = f"signature: valid for the {key.algorithm} key {short_id(key.id)}"
    if keys.trusted:
        return Check(GOOD, f"{named} of {key.name}")
    return Check(GOOD, f"{named} of {key.name}; this proves that the file is intact, not who signed it")


def _why_unknown(keys: Keys) -> str:
    if keys.trusted:
        return "which is not one of the trusted keys"
    return (
        "and another key is stored beside the file" if keys.beside else "and no key is stored beside the file"
    )


def short_id(key_id: str) -> str:
    """Return the beginning of a key's id; ids are hostile text."""
    return re.sub(r"[^0-9A-Za-z:._-]", "?", key_id)[:SHOWN] or "without an id"


def check_statement(payload: bytes, *, trusted: bool) -> tuple[Certificate | None, list[Check]]:
    """Parse the payload of an envelope whose signature was checked; None with the reasons if it cannot be used.

    `trusted`: a trusted key has signed it, so that it may be large.

    Raises:
        TooLargeError: it is too large for a payload that no trusted key has signed.
    """
    try:
        stated = parse_json(payload) if trusted else parse_untrusted(payload)
    except MalformedError as error:
        return None, [Check(BAD, f"statement: {error}")]
    if not isinstance(stated, dict) or stated.get("_type") != STATEMENT_TYPE:
        return None, [Check(BAD, "statement: is not an in-toto Statement v1")]
    predicate = stated.get("predicate")
    if stated.get("predicateType") != PREDICATE_TYPE or _is_newer(predicate):
        return None, [Check(UNKNOWN, f"statement: {_OTHER_VERSION}")]
    if fault := _fault(CertificateStatement, stated):
        return None, [Check(BAD, f"statement: is not a certificate ({fault})")]
    found = cast("Certificate", predicate)
    if not _has_own_digest(found):
        return None, [Check(BAD, "statement: its digest does not match its content")]
    if statement(found)["subject"] != stated["subject"]:
        return None, [Check(BAD, "statement: its subjects are not the tables of its content")]
    if why := contradiction(found):
        return None, [Check(BAD, f"statement: {why}")]
    return found, [Check(GOOD, f"statement: {in_short(found)}")]


def check_unsigned(stated: Any) -> tuple[Certificate | None, list[Check]]:
    """Check the JSON of a certificate without a signature: only its own digest can show a change."""
    if not isinstance(stated, dict) or "digest" not in stated:
        return None, [Check(BAD, "certificate: is neither a DSSE envelope nor an unsigned certificate")]
    if _is_newer(stated):
        return None, [Check(UNKNOWN, f"certificate: {_OTHER_VERSION}")]
    if not _has_own_digest(stated):
        return None, [Check(BAD, "certificate: its digest does not match its content")]
    unsigned = Check(UNKNOWN, "signature: the certificate is not signed; anybody can have written it")
    if _fault(Certificate, stated):
        return None, [unsigned, Check(UNKNOWN, f"certificate: {_OTHER_VERSION}")]
    found = cast("Certificate", stated)
    if why := contradiction(found):
        return None, [unsigned, Check(BAD, f"certificate: {why}")]
    return found, [unsigned, Check(GOOD, f"certificate: {in_short(found)}")]


def _has_own_digest(stated: Mapping[str, Any]) -> bool:
    try:
        return bool(own_digest(stated) == stated["digest"])
    except (UnicodeEncodeError, RecursionError):  # text or nesting that no certificate can have
        return False


def _is_newer(predicate: Any) -> bool:
    version = predicate.get("format") if isinstance(predicate, dict) else None
    return isinstance(version, int) and version > FORMAT


def _fault(kind: Any, stated: Any) -> str:
    """Return the first fault of a document of a type, or an empty text."""
    try:
        TypeAdapter(kind).validate_python(stated, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg']}"
    return ""


def in_short(found: Certificate) -> str:
    """Describe a certificate in one line."""
    through = f" through {found['through']}" if found["through"] else ""
    agreed = (
        f"{found['files_agreed']:,} of {number(found['files'], 'file')} in {number(found['tables'], 'table')}"
    )
    made = f"run {found['run_id']}, lakeaudit {found['version']}"
    return f"{agreed} of the lake {found['lake']} agree{through} ({made})"


def exit_code(checks: Iterable[Check]) -> int:
    """Return 1 if an answer is bad, else 3 if one is unknown, else 0."""
    answers = {each.answer for each in checks}
    return 1 if BAD in answers else 3 if UNKNOWN in answers or not answers else 0


def is_bad(checks: Sequence[Check]) -> bool:
    """Return whether an answer is bad."""
    return any(each.answer == BAD for each in checks)
