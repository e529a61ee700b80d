"""Secrets, keys and partition values in the texts of messages."""

from dataclasses import replace

import pytest

from lakeaudit.alerts.decide import FAILED, Notice
from lakeaudit.alerts.redaction import redacted, without_keys, without_secrets
from lakeaudit.results.summaries.change_summary import Change

SECRETS = [
    ("https://user:hunter2@host/path is not there", "https://...@host/path is not there"),
    ("s3a://AKIAABCDEFGHIJKLMNOP:hunter2@bucket/key", "s3a://...@bucket/key"),
    (
        "GET https://lake.s3.amazonaws.com/a?X-Amz-Credential=AKIA1&X-Amz-Signature=abc answered 403",
        "GET https://lake.s3.amazonaws.com/a?... answered 403",
    ),
    ("password=hunter2, retrying", "password=..., retrying"),
    ("{'sasToken': 'hunter2', 'a': 1}", "{'sasToken': ..., 'a': 1}"),
    ("aws_secret_access_key = hunter2", "aws_secret_access_key =..."),
    ("Authorization: Bearer abcdefgh.ijk answered 401", "Authorization: Bearer ... answered 401"),
    ("the key AKIAABCDEFGHIJKLMNOP is disabled", "the key AKIA... is disabled"),
]
CLEAN = [
    "s3://lake/orders/day=1/part-0.parquet: AccessDenied",
    "abfss://container@account.dfs.core.windows.net/orders",
    "InvalidToken: The provided token is malformed",
    "expired by a lifecycle rule, by arn:aws:iam::1:role/etl",
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_secret_is_removed(text: str, expected: str) -> None:
    assert without_secrets(text) == expected


@pytest.mark.parametrize("text", CLEAN)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


KEYS = [
    ("s3://lake/orders/day=1/part-0.parquet: AccessDenied", "s3://lake/...: AccessDenied"),
    ("no report (s3://inv/lake/daily: none)", "no report (s3://inv/...: none)"),
    ("cannot read orders/day=1/part-0.parquet", "cannot read ..."),
    ("00007.json is damaged", "... is damaged"),
    ("deleted in day=2026-11-01 by etl", "deleted in day=... by etl"),
    ("of customer 4711 only", "of customer ... only"),
    ("expired by a lifecycle rule", "expired by a lifecycle rule"),
]


@pytest.mark.parametrize(("text", "expected"), KEYS)
def test_keys_and_values_of_partitions_are_removed(text: str, expected: str) -> None:
    assert without_keys(text, ("4711",)) == expected


def test_a_notice_is_redacted_in_words_and_causes() -> None:
    change = Change(
        "orders", "opened", "dropped", "critical", 1, by_cause={"deleted s3://lake/a/b?token=x by etl": 1}
    )
    notice = Notice("to", None, FAILED, "opened", (change,), "https://u:p@h/x/y.json: 403")
    whole, short = (redacted(notice, keys=keys) for keys in (False, True))
    assert (whole.words, short.words) == ("https://...@h/x/y.json: 403", "https://...@h/...: 403")
    assert short.changes == (replace(change, by_cause={"deleted s3://lake/... by etl": 1}),)
    assert "token=..." in str(whole.changes[0].cause)
