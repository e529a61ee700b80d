"""Keys of certificates: kinds, passwords and faulty files; no message has a part of a key."""

import hashlib
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from lakeaudit.certificate.envelope import Envelope
from lakeaudit.certificate.signing_keys import KEY_VARIABLE, PASSWORD_VARIABLE, SigningKey, public_key
from lakeaudit.commands.certificate_keys import MOST_BYTES, key_to_sign, trusted_keys
from lakeaudit.errors import BadInput
from tests.builders.certificates import private_pem, public_pem

SECRET = "correct horse"
CONTENT = Envelope(b'{"table": "orders"}', ()).signed_bytes


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_a_signature_is_valid_only_for_its_key_and_its_bytes(kind: str) -> None:
    key, other = (key_to_sign(None, {KEY_VARIABLE: private_pem(kind).decode()}) for _ in range(2))
    assert key is not None
    assert other is not None
    signature = key.sign(CONTENT)
    public = public_key(key.public.pem(), "k.pub")
    assert public.verifies(signature, CONTENT)
    assert not public.verifies(signature, CONTENT + b" ")
    assert not public.verifies(signature[:-1], CONTENT)
    assert not public.verifies(b"", CONTENT)
    assert not other.public.verifies(signature, CONTENT)
    assert public.id == key.public.id != other.public.id


def test_only_one_of_the_two_ecdsa_signatures_is_valid() -> None:
    """Anybody can compute the other one, without the key."""
    key = key_to_sign(None, {KEY_VARIABLE: private_pem("p256").decode()})
    assert key is not None
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for _ in range(20):
        signature = key.sign(CONTENT)
        r, s = decode_dss_signature(signature)
        assert s < order - s
        assert key.public.verifies(signature, CONTENT)
        for other in (
            encode_dss_signature(r, order - s),
            encode_dss_signature(r, order + s),
            b"0" + signature,
        ):
            assert not key.public.verifies(other, CONTENT)


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_openssl_agrees(kind: str, tmp_path: Path) -> None:
    """An independent implementation verifies the signature and computes the id of the key."""
    key = key_to_sign(None, {KEY_VARIABLE: private_pem(kind).decode()})
    assert key is not None
    for name, content in (("signed", CONTENT), ("sig", key.sign(CONTENT)), ("key.pub", key.public.pem())):
        (tmp_path / name).write_bytes(content)
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "signed"]
    digest = [] if kind == "ed25519" else ["-digest", "sha256"]
    subprocess.run([*verify, *digest, "-sigfile", "sig"], cwd=tmp_path, check=True, capture_output=True)
    to_der = ["openssl", "pkey", "-pubin", "-in", "key.pub", "-outform", "DER"]
    der = subprocess.run(to_der, cwd=tmp_path, check=True, capture_output=True).stdout
    assert hashlib.sha256(der).hexdigest() == key.public.id


def test_no_key_is_given() -> None:
    assert key_to_sign(None, {}) is None
    assert key_to_sign(None, {KEY_VARIABLE: ""}) is None


PEM = private_pem().decode()
LOCKED = private_pem(password=SECRET).decode()
GOOD = {
    "a variable": {KEY_VARIABLE: PEM},
    "a variable on one line": {KEY_VARIABLE: PEM.replace("\n", "\\n")},
    "an encrypted key": {KEY_VARIABLE: LOCKED, PASSWORD_VARIABLE: SECRET},
    "a password that is not needed": {KEY_VARIABLE: PEM, PASSWORD_VARIABLE: SECRET},
}


@pytest.mark.parametrize("case", GOOD)
def test_keys_of_variables(case: str) -> None:
    assert isinstance(key_to_sign(None, GOOD[case]), SigningKey)


def test_the_key_of_a_file_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(private_pem("p256"))
    key = key_to_sign(str(file), {KEY_VARIABLE: PEM})
    assert key is not None
    assert key.public.algorithm == "ECDSA P-256"


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "a path": ({KEY_VARIABLE: "/etc/keys/lake.pem"}, "has no private key in PEM"),
    "no text": ({KEY_VARIABLE: "\udcff"}, "has no private key in PEM"),
    "cut off": ({KEY_VARIABLE: PEM[:60]}, "has no private key in PEM"),
    "a public key": ({KEY_VARIABLE: public_pem().decode()}, "has no private key in PEM"),
    "RSA": ({KEY_VARIABLE: private_pem("rsa").decode()}, "of another kind (RSA)"),
    "another curve": ({KEY_VARIABLE: private_pem("p384").decode()}, "of another kind (EC)"),
    "no password": ({KEY_VARIABLE: LOCKED}, f"set the variable {PASSWORD_VARIABLE}"),
    "another password": ({KEY_VARIABLE: LOCKED, PASSWORD_VARIABLE: "wrong"}, "cannot be decrypted"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_a_key_is_one_line_without_a_part_of_it(case: str) -> None:
    variables, why = WRONG[case]
    with pytest.raises(BadInput) as error:
        key_to_sign(None, variables)
    message = str(error.value)
    assert why in message
    assert KEY_VARIABLE in message
    secrets = [line for text in variables.values() for line in text.splitlines() if not line.startswith("-")]
    assert not any(secret in message for secret in secrets)


def test_a_key_shows_nothing_of_itself() -> None:
    key = key_to_sign(None, {KEY_VARIABLE: PEM})
    assert "Private" not in repr(key) + str(key)


TRUSTED: dict[str, tuple[bytes | None, str]] = {
    "a private key": (private_pem(), "has a private key"),
    "not a key": (b"hello", "has no public key in PEM"),
    "RSA": (public_pem("rsa"), "of another kind (RSA)"),
    "missing": (None, "cannot be read"),
    "too large": (public_pem() + b" " * MOST_BYTES, "has more than"),
}


@pytest.mark.parametrize("case", TRUSTED)
def test_a_file_that_is_not_a_public_key(case: str, tmp_path: Path) -> None:
    content, why = TRUSTED[case]
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput, match=r"key\.pem") as error:
        trusted_keys([str(file)])
    assert why in str(error.value)


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "certificate.json.pub").write_bytes(public_pem())
    with pytest.raises(BadInput, match="--key: is empty"):
        trusted_keys([""], "certificate.json")


def test_the_key_beside_a_certificate_is_not_trusted_as_one_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "certificate.json.pub").write_bytes(public_pem())
    with pytest.raises(BadInput, match="has no file"):
        trusted_keys([str(tmp_path)], str(tmp_path / "certificate.json"))
    (tmp_path / "ours.pem").write_bytes(public_pem("p256"))
    keys = trusted_keys([str(tmp_path)], str(tmp_path / "certificate.json"))
    assert [key.algorithm for key in keys.values()] == ["ECDSA P-256"]


def test_a_folder_of_keys(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no file"):
        trusted_keys([str(tmp_path)])
    for name, kind in (("a.pem", "ed25519"), ("b.pub", "p256"), ("notes.txt", "rsa")):
        (tmp_path / name).write_bytes(public_pem(kind))
    assert {key.algorithm for key in trusted_keys([str(tmp_path)]).values()} == {"Ed25519", "ECDSA P-256"}
