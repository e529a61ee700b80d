"""Printed commands, parsed by a shell and by their clients: every value stays unchanged."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import is_loaded, operand, option, s3api
from lakeaudit.explain.formats.lists import write_csv
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import FINDINGS
from tests.builders import pagedata
from tests.builders.listings import listing

SOURCES = Path(next_steps.__file__).parent
EXPANDED = [
    "file:///etc/passwd",
    "fileb://secret",
    "http://169.254.169.254/x",
    "https://evil.example/x",
    "@list",
]
EXPANDED += ["-rf", "--endpoint-url=http://evil.example", "FILE:///etc/passwd", "file:x"]
ENDPOINT = "http://127.0.0.1:5000"
PLAIN = ["day=1/part-0.parquet", "a/file:///etc/passwd", "a-b", "$(here)", "it's", "tab\there\u202e", "'\"\\"]


def shell_words(line: str) -> list[str]:
    """Return the words of a command, as bash splits them."""
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    return printed.decode().split("\0")[:-1]


def of_aws(line: str) -> tuple[str, dict[str, Any], list[str]]:
    """(operation, parameters, words that the CLI would expand) of a call, as the AWS CLI takes its options."""
    aws, service, operation, *options = shell_words(line)
    assert (aws, service) == ("aws", "s3api")
    given: dict[str, Any] = {}
    risky: list[str] = []
    while options:
        name = options.pop(0)
        if not name.startswith("--"):
            given["outfile"] = name
            continue
        name, has_value, value = name.partition("=")
        given[name] = value if has_value else options.pop(0)
        if is_loaded(given[name]) or (not has_value and is_risky(given[name])):
            risky.append(given[name])
    risky = [value for value in risky if value != ENDPOINT]
    inside = json.loads(given.pop("--cli-input-json", "{}"))
    return operation, given | inside, risky


def is_risky(word: str) -> bool:
    return re.match(r"[-@]|(?:fileb?|https?):", word, re.IGNORECASE) is not None


@pytest.mark.parametrize("key", EXPANDED)
def test_what_the_aws_cli_would_expand_stands_in_json_or_behind_its_name(key: str) -> None:
    operation, given, risky = of_aws(
        s3api("delete-object", {"Bucket": "lake", "Key": key, "VersionId": "-v1"})
    )
    assert (operation, risky) == ("delete-object", [])
    asked = {"Bucket": "lake", "Key": key, "VersionId": "-v1"}
    assert given in (asked, {"--bucket": "lake", "--key": key, "--version-id": "-v1"})
    assert ("Key" in given) is is_loaded(key)


@pytest.mark.parametrize("key", PLAIN)
def test_anything_else_stands_as_people_write_it(key: str) -> None:
    line = s3api("delete-object", {"Bucket": "lake", "Key": key, "VersionId": "v1"})
    assert line.startswith("aws s3api delete-object --bucket lake --key ")
    assert of_aws(line) == ("delete-object", {"--bucket": "lake", "--key": key, "--version-id": "v1"}, [])


def test_a_structure_stands_in_either_form() -> None:
    asked: dict[str, Any] = {"Bucket": "lake", "Key": "a", "RestoreRequest": {"Days": 7}}
    assert s3api("restore-object", asked).endswith("--key a --restore-request Days=7")
    assert of_aws(s3api("restore-object", asked | {"Key": "file:a"}))[1] == asked | {"Key": "file:a"}
    assert s3api("restore-object", {"RestoreRequest": {}}).endswith("--restore-request '{}'")


@pytest.mark.parametrize("value", [*EXPANDED, *PLAIN])
def test_a_command_of_ours_takes_the_value_for_itself(value: str) -> None:
    """By click, which reads the command line of lakeaudit."""
    taken: dict[str, str] = {}

    @click.command()
    @click.argument("lake")
    @click.option("--table")
    def command(lake: str, table: str) -> None:
        taken.update(lake=lake, table=table)

    line = shell_words(f"{operand(value)} {option('--table', value)}")
    assert not [word for word in line if is_risky(word) and not word.startswith("--table")]
    command.main(line, standalone_mode=False)
    assert taken["table"] == value
    assert taken["lake"] in (value, f"./{value}")


@pytest.mark.parametrize("key", [*EXPANDED, *PLAIN])
@pytest.mark.parametrize(
    "given",
    [
        {"recovery": "delete_marker", "storage_version_id": "-m1"},
        {"recovery": "older_version"},
        {"kind": "overwritten_commit", "recovery": "older_version"},
        {"kind": "archived", "storage_class": "GLACIER"},
    ],
)
def test_every_step_and_every_look_is_safe(key: str, given: dict[str, Any]) -> None:
    row = pagedata.dropped(1) | {
        "bucket": "lake", "key": key, "recoverable": "yes", "recovery_version_id": "v1", "storage_size": None,
    }  # fmt: skip
    at = Endpoint(ENDPOINT, requester_pays=True)
    step = next_steps.way_back(row | given, at)
    assert (step is None) is (given.get("kind") == "overwritten_commit" and is_loaded(key))
    look = next_steps.look_at_versions(row, at)
    assert look is not None
    for line in (*([step.command] if step else []), look):
        _, asked, risky = of_aws(line)
        assert risky == []
        assert key in (asked.get("Key"), asked.get("--key"), asked.get("Prefix"), asked.get("--prefix"))


def test_no_module_quotes_values_of_commands_itself() -> None:
    """One module knows what clients expand: neither the endpoint of a store, nor a URI that begins with `s3://`."""
    own = {"formatting.py", "command_lines.py", "next_steps.py", "aws_commands.py"}
    users = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if "shell_word" in path.read_text()
    }
    assert users <= own
    assert next_steps.__loader__ is not None
    assert (SOURCES / "next_steps.py").read_text().count("shell_word(") == 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-1+1", "'-1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\t=1", "\\t=1"),
        ("a\x1b[2Jb\r\nc", "a\\x1b[2Jb\\r\\nc"),
        ("user\u202egpj.exe", "user\\u202egpj.exe"),
        ("\u2066x\u200f", "\\u2066x\\u200f"),
        ("plain/key=1", "plain/key=1"),
    ],
)
def test_a_cell_of_csv_cannot_act(text: str, cell: str, capsys: pytest.CaptureFixture[str]) -> None:
    import csv
    import io

    out = io.StringIO()
    row = dict.fromkeys(FINDINGS.names) | {"key": text, "reasons": [text]}
    write_csv([row], out, listing())
    (read,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert read["key"] == cell
    assert all(char.isprintable() or char == "\n" for char in out.getvalue())
