r"""Command lines that are printed to be copied: each value stands in them so that no shell and no client changes it.

A shell expands what is not quoted. Quotes do not help against the client itself: the AWS CLI replaces a value that
begins with `file://` or `fileb://` (version 1 also `http://` and `https://`) by what it reads there, and any client
takes a leading `-` for an option, some a leading `@` for a file. For the AWS CLI a value of the first sort goes into
`--cli-input-json`, whose inside it does not expand; one of the second into `--name=value`, as for other clients, or
behind `./` if it is a path.
"""

import json
import re
from collections.abc import Mapping

from lakeaudit.formatting import shell_word

_LOADED = re.compile(r"(?:fileb?|https?):", re.IGNORECASE)
_EXPANDED = re.compile(rf"[-@]|{_LOADED.pattern}", re.IGNORECASE)
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")

Value = str | Mapping[str, int]
"""A text, or a structure of numbers."""


def operand(path: str) -> str:
    """A path or a URI as a word of its own."""
    return shell_word(f"./{path}" if _EXPANDED.match(path) else path)


def option(name: str, value: str) -> str:
    """An option of a client that takes `--name value` and `--name=value`."""
    return f"{name}{'=' if _EXPANDED.match(value) else ' '}{shell_word(value)}"


def s3api(operation: str, parameters: Mapping[str, Value], *rest: str) -> str:
    """A call of the AWS CLI's `s3api`.

    Args:
        operation: as the CLI names it.
        parameters: by their names in the API (`VersionId`).
        rest: words behind them, which are written as they are.
    """
    if any(is_loaded(value) for value in parameters.values() if isinstance(value, str)):
        given = [f"--cli-input-json {shell_word(json.dumps(parameters))}"]
    else:
        given = [option(f"--{_cli_name(name)}", _shorthand(value)) for name, value in parameters.items()]
    return " ".join(["aws", "s3api", operation, *given, *rest])


def is_loaded(value: str) -> bool:
    """Whether the AWS CLI would load a file or a page in place of a value. It takes no JSON where it writes a file."""
    return _LOADED.match(value) is not None


def _cli_name(name: str) -> str:
    return _CAMEL.sub("-", name).lower()


def _shorthand(value: Value) -> str:
    if isinstance(value, str):
        return value
    return ",".join(f"{name}={number}" for name, number in value.items()) or "{}"
