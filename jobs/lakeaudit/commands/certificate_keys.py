"""Find the keys of certificates: the private key in a file or a variable, trusted public keys in files and folders."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lakeaudit.certificate.signing_keys import (
    KEY_VARIABLE,
    PASSWORD_VARIABLE,
    PublicKey,
    SigningKey,
    public_key,
    signing_key,
)
from lakeaudit.errors import BadInput

MOST_BYTES = 1 << 16
"""No key of a supported kind has more bytes."""
PUBLIC_SUFFIXES = (".pem", ".pub")
BESIDE = ".pub"
"""The name of a certificate and this suffix is the name of its public key."""


def key_to_sign(path: str | None, environment: Mapping[str, str]) -> SigningKey | None:
    """Return the private key of a file, else the one of the variable; None if neither is given.

    Raises:
        BadInput: it is not a key, or its password is missing or wrong.
        CannotAudit: the package `cryptography` is not installed.
    """
    password = environment.get(PASSWORD_VARIABLE, "").encode() or None
    if path is not None:
        return signing_key(read_key_file(Path(path)), path, password)
    pem = environment.get(KEY_VARIABLE, "")
    if not pem:
        return None
    # CI systems often store a variable of several lines as one line
    return signing_key(
        pem.replace("\\n", "\n").encode(errors="replace"), f"the variable {KEY_VARIABLE}", password
    )


def trusted_keys(names: Sequence[str], certificate: str = "") -> dict[str, PublicKey]:
    """Return by id the public keys of files, and of the files `*.pem` and `*.pub` in folders.

    The file beside the `certificate` is not one of a folder's keys: anybody can store a key of their own there.

    Raises:
        BadInput: a name is empty, a file is not a public key, or a folder has none.
        CannotAudit: the package `cryptography` is not installed.
    """
    beside = Path(f"{certificate}{BESIDE}").absolute()
    keys = [public_key(read_key_file(path), str(path)) for name in names for path in _files(name, beside)]
    return {key.id: key for key in keys}


def _files(name: str, beside: Path) -> Iterator[Path]:
    if not name:
        raise BadInput("--key", "is empty", "name the PEM file of a key, or a folder of public keys")
    path = Path(name)
    if not path.is_dir():
        yield path
        return
    found = (each for each in path.iterdir() if each.name.endswith(PUBLIC_SUFFIXES) and each.is_file())
    files = sorted(each for each in found if each.absolute() != beside)
    if not files:
        raise BadInput(str(path), "has no file *.pem or *.pub", "name a folder of public keys, or one key")
    yield from files


def read_key_file(path: Path) -> bytes:
    """Return the content of a key file.

    Raises:
        BadInput: it cannot be read, or it is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be read ({error.strerror})", "name the PEM file of a key"
        ) from None
    if len(content) > MOST_BYTES:
        raise BadInput(str(path), f"has more than {MOST_BYTES:,} bytes", "name the PEM file of a key")
    return content
