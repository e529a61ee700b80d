"""Join namespaces and a table to one name, and split such a name again."""

import re
from collections.abc import Sequence


def name_of(parts: Sequence[str]) -> str:
    """Join namespaces and the table by dots; a part with a dot or a backtick is put in backticks, as in SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" if re.search("[.`]", part) else part for part in parts)


def parts_of(name: str) -> list[str]:
    """Split a name that `name_of` joined; text that is not in backticks is kept unchanged."""
    found = re.findall(r"(?s)(?:\A|\.)(?:`((?:[^`]|``)*)`(?=\.|\Z)|([^.]*))", name)
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in found]
