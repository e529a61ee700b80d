r"""Build command lines for copying, in which each value is safe from changes by the shell and by the client.

A shell expands unquoted text. Quotes do not protect from the client itself: the AWS CLI replaces a value that begins
with `file://` or `fileb://` (version 1 also `http://` and `https://`) by the content of that file or page; every client
takes a leading `-` for an option, and some take a leading `@` for a file. A value of the first sort goes into
`--cli-input-json` of the AWS CLI, which does not expand it; a value of the second sort into `--name=value`, or behind
`./` if it is a path.
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
    """Return a path or a URI as one word."""
    return shell_word(f"./{path}" if _EXPANDED.match(path) else path)


def option(name: str, value: str) -> str:
    """Return an option of a client that takes `--name value` and `--name=value`."""
    return f"{name}{'=' if _EXPANDED.match(value) else ' '}{shell_word(value)}"


def s3api(operation: str, parameters: Mapping[str, Value], *rest: str) -> str:
    """Return a command of the AWS CLI's `s3api`.

    Args:
        operation: name of the operation in the CLI.
        parameters: values by their names in the API (`VersionId`).
        rest: further words, which are not changed.
    """
    if any(is_loaded(value) for value in parameters.values() if isinstance(value, str)):
        given = [f"--cli-input-json {shell_word(json.dumps(parameters))}"]
    else:
        given = [option(f"--{_cli_name(name)}", _shorthand(value)) for name, value in parameters.items()]
    return " ".join(["aws", "s3api", operation, *given, *rest])


def is_loaded(value: str) -> bool:
    """Return whether the AWS CLI would replace a value by a file or a page."""
    return _LOADED.match(value) is not None


def _cli_name(name: str) -> str:
    return _CAMEL.sub("-", name).lower()


def _shorthand(value: Value) -> str:
    if isinstance(value, str):
        return value
    return ",".join(f"{name}={number}" for name, number in value.items()) or "{}"
