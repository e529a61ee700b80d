"""What the line reader makes of a store that refuses, or has lost, a file: never an absence, never a crash."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber

from lakeaudit.evidence.manifest.delta_lines import Asked, _Reader, in_commit_time
from lakeaudit.runtime.aws import Clients, Endpoint


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("AccessDenied", "it cannot be read: access denied"),
        ("NoSuchKey", "it is gone since the log was listed"),
        ("PermanentRedirect", "it cannot be read: lies in another region"),
        ("SlowDown", "it cannot be read: the store answered SlowDown"),
    ],
)
def test_a_refusal_is_told_from_an_absence(code: str, problem: str) -> None:
    client = Clients(Endpoint(endpoint="http://127.0.0.1:9", region="us-east-1")).s3("lake")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", code)
        reader = _Reader(_given(client))
        (row,) = reader.rows([Asked(7, "lake", "t/_delta_log/x.json", 10)])
    assert (row.file, row.line, row.problem) == (7, None, problem)


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_local_file(size: int, tmp_path: Path) -> None:
    """Small and large ones are read alike: blank lines skipped, every line with the commit's own time."""
    path = tmp_path / "c.json"
    path.write_text('{"commitInfo":{"inCommitTimestamp":5}}\n\n{"add":{}}\n')
    rows = list(
        _Reader(Clients()).rows([Asked(1, "", str(path)[1:], size), Asked(2, "", "no/such/file", size)])
    )
    assert [(row.file, row.in_commit_ms, row.line, row.problem) for row in rows] == [
        (1, 5, '{"commitInfo":{"inCommitTimestamp":5}}', None),
        (1, 5, '{"add":{}}', None),
        (2, None, None, "it is gone since the log was listed"),
    ]


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ('{"commitInfo":{"inCommitTimestamp":1700000000000}}', 1_700_000_000_000),
        ('{"commitInfo":{"timestamp":1}}', None),
        ('{"commitInfo":{"note":"\\"inCommitTimestamp\\""}}', None),
        ('{"commitInfo":{"inCommitTimestamp":', None),
        ('{"commitInfo":{"inCommitTimestamp":"x"}}', None),
        ("", None),
    ],
)
def test_the_time_that_a_commit_carries(line: str, stamp: int | None) -> None:
    assert in_commit_time(line) == stamp


def _given(client: Any) -> Any:
    return SimpleNamespace(s3=lambda _: client)
