"""Expand variables in text, and detect secrets in a lake file: by the name of a key, or in a URL."""

import re
from collections.abc import Mapping

from lakeaudit.keys import AZURE_NAME

NO_SECRETS = "credentials come from the AWS chain only"

VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)(\})?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUERY = re.compile(r"(://[^?]*)\?[\s\S]*")
SECRET_WORDS = ("password", "passwd", "secret", "token", "accesskey")
USER_INFO = re.compile(r"://[^/?#\s]*@|\b(?:s3[an]?|gs)://[^/\s]*:", re.IGNORECASE)
"""A bucket's name holds no colon: `s3://id:secret` is user info even where a slash hides the @."""
AZURE_PLACE = re.compile(rf"(?<![^\s]){AZURE_NAME}(?=[/\s]|\Z)")
"""The part before the @ is a container: its name has no colon, and only letters, digits and dashes."""


class Unexpanded(Exception):
    """A variable that cannot be expanded."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def expand(text: str, env: Mapping[str, str]) -> str:
    """Expand `${NAME}` once; `$${` means `${` itself. Raises Unexpanded with the names of all unset variables."""
    names = [match for match in VARIABLE.finditer(text) if match[0] != "$${"]
    if any(not match[2] or not NAME.fullmatch(match[1]) for match in names):
        raise Unexpanded(
            "${ does not begin a variable", "write ${NAME}, or $${ for the characters themselves"
        )
    unset = sorted({match[1] for match in names if match[1] not in env})
    if unset:
        raise Unexpanded(f"the variable {', '.join(unset)} is not set", "set it, or write the value")
    return VARIABLE.sub(lambda match: env[match[1]] if match[1] else "${", text)


def names_a_secret(key: str) -> bool:
    """Return whether the name of a key contains password, secret, token or access_key, in any case and spelling.

    `secret_env` does not count: its value is the name of a variable.
    """
    letters = re.sub("[^a-z]", "", key.lower())
    return key != "secret_env" and any(word in letters for word in SECRET_WORDS)


def without_query(text: str) -> str:
    """Return the text of a URL up to its query, which may hold signatures and keys."""
    return QUERY.sub(r"\1?...", text)


def has_user_info(text: str) -> bool:
    """Return whether a URL in the text has a user, and perhaps a password; a container of Azure is not a user."""
    return USER_INFO.search(AZURE_PLACE.sub(" ", text)) is not None
