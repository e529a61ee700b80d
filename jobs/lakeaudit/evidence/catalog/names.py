"""Names of tables as catalogs say them: namespaces and a table, joined so that they can be taken apart again."""

import re
from collections.abc import Sequence


def name_of(parts: Sequence[str]) -> str:
    """Namespaces and the table, joined by dots; a part that has a dot or a backtick stands in backticks, as in SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" if re.search("[.`]", part) else part for part in parts)


def parts_of(name: str) -> list[str]:
    """The twin of `name_of`; what stands in no pair of backticks is taken as it is."""
    found = re.findall(r"(?s)(?:\A|\.)(?:`((?:[^`]|``)*)`(?=\.|\Z)|([^.]*))", name)
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in found]
