"""`lakeaudit certificate`: written certificates, and certificates that were changed or cannot be judged."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import __version__, cli
from lakeaudit.certificate.content import own_digest, statement
from lakeaudit.certificate.envelope import Envelope, Signature
from lakeaudit.certificate.signing_keys import KEY_VARIABLE, SigningKey
from lakeaudit.certificate.verification import Keys
from lakeaudit.commands import verify_certificate
from lakeaudit.commands.certificate_keys import key_to_sign
from lakeaudit.documents import document_schema
from lakeaudit.keys import Location
from tests.builders import results as built
from tests.builders.certificates import payload_of, private_pem, public_pem, write_key
from tests.builders.schema_files import validator

Captured = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Issued:
    """A signed certificate of published results, and its keys."""

    folder: Path
    key: SigningKey

    @property
    def file(self) -> Path:
        return self.folder / "certificate.json"

    @property
    def public(self) -> str:
        return str(self.folder / "trusted.pem")


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    folder = tmp_path_factory.mktemp("issued")
    place = Location.parse(str(folder / "results"))
    built.publish(
        place,
        runs=[built.run()],
        coverage=[built.covered(reason="")],
        discrepancies=[built.discrepancy(built.finding("duplicate_content", "k"))],
    )
    write_key(folder / "key.pem")
    words = ["write", built.lake_file(folder, place), "--key", str(folder / "key.pem")]
    assert cli.main(["certificate", *words, "-o", str(folder / "certificate.json")]) == 0
    key = key_to_sign(str(folder / "key.pem"), {})
    assert key is not None
    (folder / "trusted.pem").write_bytes(key.public.pem())
    return Issued(folder, key)


def test_a_signed_certificate_states_tables_evidence_rules_and_tallies(issued: Issued) -> None:
    stated = payload_of(issued.file)
    assert (stated["_type"], stated["predicateType"]) == (
        "https://in-toto.io/Statement/v1", "urn:lakeaudit:certificate:1",
    )  # fmt: skip
    content = stated["predicate"]
    assert [each["name"] for each in stated["subject"]] == ["orders"]
    assert content["table_states"] == [
        {"table": "orders", "location": "s3://lake/orders", "states": [], "verified_through": None}
    ]
    assert content["open_discrepancies"] == {"critical": 0, "error": 0, "warning": 1, "info": 0}
    (evidence,) = content["evidence"]
    assert (evidence["digests"], evidence["no_digest"]) == (
        [], "the source has no checksum; `identity` names the version that was read",
    )  # fmt: skip
    assert content["rules"].startswith("sha256:")
    validator(document_schema("certificate")).validate(stated)
    envelope = json.loads(issued.file.read_bytes())
    assert [each["keyid"] for each in envelope["signatures"]] == [issued.key.public.id]
    assert (issued.folder / "certificate.json.pub").read_bytes() == issued.key.public.pem()


def answers(capsys: Captured, *words: str) -> tuple[int, list[str], str]:
    capsys.readouterr()
    code = cli.main(["certificate", "verify", *words])
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err


def test_a_trusted_key_shows_who_signed(issued: Issued, capsys: Captured) -> None:
    code, lines, verdict = answers(capsys, str(issued.file), "--key", issued.public)
    assert code == 0
    assert (
        lines[0]
        == f"good     signature: valid for the Ed25519 key {issued.key.public.id[:16]} of {issued.public}"
    )
    assert (
        lines[1]
        == f"good     statement: 10 of 10 files in 1 table of the lake shop agree (run r1, lakeaudit {__version__})"
    )
    assert "the certificate is valid" in verdict


def test_the_key_beside_the_file_shows_only_that_it_is_intact(issued: Issued, capsys: Captured) -> None:
    code, lines, _ = answers(capsys, str(issued.file))
    assert code == 0
    assert lines[0].endswith("this proves that the file is intact, not who signed it")


def test_no_changed_byte_passes(issued: Issued) -> None:
    """A changed file is bad, or of an unknown key, but never good."""
    keys = Keys({issued.key.public.id: issued.key.public})
    content = issued.file.read_bytes()
    assert {each.answer for each in verify_certificate.verify_content(content, lambda: keys).checks} == {
        "good"
    }
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        checks = verify_certificate.verify_content(changed, lambda: keys).checks
        assert {each.answer for each in checks} & {"bad", "unknown"}, at


Change = Callable[[Issued], bytes]


def envelope(issued: Issued, *signatures: Signature, payload: bytes | None = None) -> bytes:
    whole = base64.b64decode(json.loads(issued.file.read_bytes())["payload"])
    return Envelope(whole if payload is None else payload, signatures).text()


def signature(issued: Issued, payload: bytes | None = None) -> Signature:
    signed = json.loads(envelope(issued, payload=payload))
    bytes_ = Envelope(base64.b64decode(signed["payload"]), ()).signed_bytes
    return Signature(issued.key.public.id, issued.key.sign(bytes_))


def resigned(issued: Issued, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The certificate with another statement, which the same key signed."""
    stated = payload_of(issued.file)
    change(stated)
    payload = json.dumps(stated).encode()
    return envelope(issued, signature(issued, payload), payload=payload)


def of_other_rules(stated: dict[str, Any]) -> None:
    stated["predicate"]["rules"] = "sha256:0"
    stated["predicate"]["digest"] = own_digest(stated["predicate"])
    stated["subject"] = statement(stated["predicate"])["subject"]


def redigested(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"digest": own_digest(content)}


def again(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """Change the content of a statement as its signer can: with the digests that belong to it."""

    def changed(stated: dict[str, Any]) -> None:
        change(stated["predicate"])
        stated["predicate"] = redigested(stated["predicate"])
        stated["subject"] = statement(stated["predicate"])["subject"]

    return changed


def covered_as(**given: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content["coverage"][0].update(given)


CONTRADICTIONS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "files": (lambda c: c.update(files=11), "files is 11, but its coverage gives 10"),
    "agreed files": (lambda c: c.update(files_agreed=9), "files_agreed is 9"),
    "bytes": (lambda c: c.update(bytes=1), "bytes is 1"),
    "young files": (lambda c: c.update(files_too_young=1), "files_too_young is 1"),
    "tables": (lambda c: c.update(tables=2), "tables is 2"),
    "time": (lambda c: c.update(through="2027-01-01T00:00:00Z"), "through is 2027-01-01T00:00:00Z"),
    "evidence": (lambda c: c["evidence"][0].update(rows=8), "its evidence_digest does not match"),
    "states": (lambda c: c.update(table_states=[]), "its table_states are not those of the tables"),
    "exclusions": (lambda c: c["exclusions"].update(ignored={"orders: content": 1}), "exclusions.ignored"),
    "coverage": (covered_as(consistent=9), "files_agreed is 10, but its coverage gives 9"),
    "time of the coverage": (covered_as(storage_cut_from="never"), "a time in it is not a time"),
    "undecided files": (
        covered_as(undecided=1),
        "a reason against a certificate: orders: files of the table: 1 file",
    ),
    "findings": (
        covered_as(findings=1),
        "a reason against a certificate: orders: files of the table: 1 file",
    ),
}


def unsigned(issued: Issued, **changes: Any) -> bytes:
    content = payload_of(issued.file)["predicate"] | changes
    return (json.dumps(content, indent=2) + "\n").encode()


STRANGER = key_to_sign(None, {KEY_VARIABLE: private_pem().decode()})
assert STRANGER is not None
OTHER = Signature(STRANGER.public.id, b"\x01" * 64)
WRONG: dict[str, tuple[Change, int, str]] = {
    "empty": (lambda _: b"", 1, "certificate: is not JSON"),
    "not JSON": (lambda _: b"\x89PNG", 1, "certificate: is not JSON"),
    "other JSON": (lambda _: b'{"tables": 3}', 1, "neither a DSSE envelope nor an unsigned certificate"),
    "a list": (lambda _: b"[1]", 1, "neither a DSSE envelope nor an unsigned certificate"),
    "a key twice": (
        lambda i: i.file.read_bytes().replace(b'"payload":', b'"payload":"","payload":'), 1, "names a key twice",
    ),
    "another payload type": (
        lambda i: i.file.read_bytes().replace(b"vnd.in-toto", b"vnd.in-tot0"), 1, "has the payload type",
    ),
    "no signature": (lambda i: envelope(i), 1, "signature: the envelope has none"),
    "an empty signature": (
        lambda i: envelope(i, Signature(i.key.public.id, b"")), 1, "signature: does not match the key",
    ),
    "another statement with the old signature": (
        lambda i: envelope(i, signature(i), payload=b"{}"), 1, "signature: does not match the key",
    ),
    "the id of another key": (
        lambda i: envelope(i, Signature("0" * 64, signature(i).value)), 1, "the id of its key was changed",
    ),
    "an unknown key": (lambda i: envelope(i, OTHER), 3, "which is not one of the trusted keys"),
    "a further signature of an unknown key": (lambda i: envelope(i, OTHER, signature(i)), 0, "good     signature"),
    "a further bad signature of the same key": (
        lambda i: envelope(i, signature(i), Signature(i.key.public.id, b"\x01" * 64)), 1, "two signatures by the same",
    ),
    "other rules": (lambda i: resigned(i, of_other_rules), 0, "rules: the certificate was made with other rules"),
    "signed, but not a statement": (
        lambda i: envelope(i, signature(i, b"[]"), payload=b"[]"), 1, "is not an in-toto Statement v1",
    ),
    "signed, but a key twice": (
        lambda i: envelope(i, signature(i, b'{"a":1,"a":2}'), payload=b'{"a":1,"a":2}'), 1, "names a key twice",
    ),
    "a statement of another kind": (
        lambda i: resigned(i, lambda s: s.update(predicateType="https://slsa.dev/provenance/v1")), 3,
        "another version of lakeaudit",
    ),
    "a newer format": (lambda i: resigned(i, lambda s: s["predicate"].update(format=2)), 3, "another version"),
    "a field is missing": (
        lambda i: resigned(i, lambda s: s["predicate"].pop("coverage")), 1, "predicate.coverage: Field required",
    ),
    "a number is a text": (
        lambda i: resigned(i, lambda s: s["predicate"].update(files="10")), 1, "predicate.files: Input should be",
    ),
    "signed, but its own digest is wrong": (
        lambda i: resigned(i, lambda s: s["predicate"].update(files=11)), 1, "its digest does not match its content",
    ),
    "signed, but with other subjects": (
        lambda i: resigned(i, lambda s: s["subject"][0].update(name="stock")), 1, "its subjects are not the tables",
    ),
    "signed, with half a character": (
        lambda i: resigned(i, lambda s: s["predicate"].update(lake="\ud800")), 1, "its digest does not match",
    ),
    **{
        f"signed again with wrong {name}": (partial(resigned, change=again(change)), 1, why)
        for name, (change, why) in CONTRADICTIONS.items()
    },
    "not signed, with wrong totals": (
        lambda i: json.dumps(redigested(payload_of(i.file)["predicate"] | {"files": 11})).encode(), 1,
        "certificate: files is 11, but its coverage gives 10",
    ),
    "not signed": (unsigned, 3, "the certificate is not signed; anybody can have written it"),
    "not signed, and changed": (lambda i: unsigned(i, files=11), 1, "certificate: its digest does not match"),
    "not signed, of a newer format": (lambda i: unsigned(i, format=2), 3, "another version of lakeaudit"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_certificate_that_was_changed_or_cannot_be_judged(
    case: str, issued: Issued, tmp_path: Path, capsys: Captured
) -> None:
    change, expected, why = WRONG[case]
    (tmp_path / "given.json").write_bytes(change(issued))
    code, lines, verdict = answers(capsys, str(tmp_path / "given.json"), "--key", issued.public)
    assert (code, any(why in line for line in lines)) == (expected, True), (lines, verdict)
    assert verdict.count("\n") == 1


BESIDE: dict[str, tuple[Callable[[Issued], bytes | None], int, str]] = {
    "the key": (lambda i: i.key.public.pem(), 0, "not who signed it"),
    "no file": (lambda _: None, 3, "no key is stored beside the file"),
    "another key": (lambda _: public_pem(), 3, "another key is stored beside the file"),
    "a damaged key": (lambda i: i.key.public.pem()[:40], 3, "no key is stored beside the file"),
    "a huge file": (lambda i: i.key.public.pem() * 1000, 3, "no key is stored beside the file"),
    "a private key": (lambda _: private_pem(), 3, "no key is stored beside the file"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_without_a_trusted_key(case: str, issued: Issued, tmp_path: Path, capsys: Captured) -> None:
    make, expected, why = BESIDE[case]
    (tmp_path / "c.json").write_bytes(issued.file.read_bytes())
    if (key := make(issued)) is not None:
        (tmp_path / "c.json.pub").write_bytes(key)
    code, lines, _ = answers(capsys, str(tmp_path / "c.json"))
    assert (code, why in lines[0]) == (expected, True), lines


def test_a_key_beside_a_file_does_not_count_if_a_trusted_key_is_named(
    issued: Issued, capsys: Captured
) -> None:
    (issued.folder / "other.pem").write_bytes(public_pem("p256"))
    code, lines, _ = answers(capsys, str(issued.file), "--key", str(issued.folder / "other.pem"))
    assert (code, lines[0].endswith("which is not one of the trusted keys")) == (3, True)


def test_a_huge_file_is_not_parsed(issued: Issued, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(verify_certificate, "LARGEST", 100)
    code, lines, _ = answers(capsys, str(issued.file))
    assert (code, lines) == (1, ["bad      certificate: has more than 100 bytes"])


@pytest.mark.parametrize(
    "words", [("no-such.json",), ("FILE", "--key", "no-such.pem"), ("FILE", "--replay", "no-such.yaml")]
)
def test_files_that_do_not_exist(issued: Issued, words: tuple[str, ...], capsys: Captured) -> None:
    code, lines, why = answers(capsys, *(str(issued.file) if word == "FILE" else word for word in words))
    assert (code, lines) == (2, [])
    assert "no-such" in why


def test_without_a_key_a_certificate_is_not_signed(
    issued: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """`report --certificate` signs with the key of the variable, as `certificate write` does."""
    lake, file = str(issued.folder / "lake.yaml"), tmp_path / "c.json"
    assert cli.main(["report", lake, "--certificate", "-o", str(file)]) == 0
    assert f"; not signed: neither --key nor {KEY_VARIABLE} names a key" in capsys.readouterr().err
    assert json.loads(file.read_bytes())["files_agreed"] == 10
    assert not (tmp_path / "c.json.pub").exists()
    monkeypatch.setenv(KEY_VARIABLE, private_pem("p256").decode())
    assert cli.main(["report", lake, "--certificate", "-o", str(file)]) == 0
    assert "; signed with the ECDSA P-256 key " in capsys.readouterr().err
    assert answers(capsys, str(file))[0] == 0


def test_a_faulty_key_writes_nothing(
    issued: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    secret = private_pem("rsa").decode()
    monkeypatch.setenv(KEY_VARIABLE, secret)
    words = ["write", str(issued.folder / "lake.yaml"), "-o", str(tmp_path / "c.json")]
    assert cli.main(["--debug", "certificate", *words, "--status-file", str(tmp_path / "status.json")]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["status.json"]
    printed = capsys.readouterr()
    texts = printed.out + printed.err + (tmp_path / "status.json").read_text()
    assert "of another kind (RSA)" in texts
    assert not any(line in texts for line in secret.splitlines()[1:-1])
