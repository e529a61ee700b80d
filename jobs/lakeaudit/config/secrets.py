"""Variables in text, and how a secret gets into a lake file: under a telling key, or in a URL."""

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
"""What stands before the @ is a container: no container's name holds a colon, nor any sign of a key's but letters."""


class Unexpanded(Exception):
    """A variable that cannot be put in."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def expand(text: str, env: Mapping[str, str]) -> str:
    """Put `${NAME}` in, once; `$${` stands for `${` itself. `Unexpanded` names all that are unset."""
    names = [match for match in VARIABLE.finditer(text) if match[0] != "$${"]
    if any(not match[2] or not NAME.fullmatch(match[1]) for match in names):
        raise Unexpanded("${ begins no variable", "write ${NAME}, or $${ for the characters themselves")
    unset = sorted({match[1] for match in names if match[1] not in env})
    if unset:
        raise Unexpanded(f"the variable {', '.join(unset)} is not set", "set it, or write the value")
    return VARIABLE.sub(lambda match: env[match[1]] if match[1] else "${", text)


def names_a_secret(key: str) -> bool:
    """Whether a key is called password, secret, token or access_key*, in any case and spelling."""
    letters = re.sub("[^a-z]", "", key.lower())
    return any(word in letters for word in SECRET_WORDS)


def without_query(text: str) -> str:
    """The text of a URL up to its query, where signatures and keys stand."""
    return QUERY.sub(r"\1?...", text)


def has_user_info(text: str) -> bool:
    """Whether a URL in the text carries a user, and with it perhaps a password; a container of Azure is none."""
    return USER_INFO.search(AZURE_PLACE.sub(" ", text)) is not None
