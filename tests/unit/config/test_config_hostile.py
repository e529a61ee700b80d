"""Secrets never come back out of a lake file, and no text breaks the reader."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.config import load_lake
from lakeaudit.config.secrets import has_user_info, names_a_secret
from lakeaudit.errors import LakeFileError

HUSH = "hUsH4711"
HEAD = "version: 1\nlake: shop\nresults: /r\n"
TABLES = "\ntables: [{name: a, location: s3://l/a}]\n"

LEAKS = [
    f"s3: {{secret: {HUSH}}}",
    f"s3: {{AWS_Secret_Access_Key: {HUSH}}}",
    f"s3: {{accessKeyId: {HUSH}}}",
    f"s3: {{access_key: {HUSH}}}",
    f"s3: {{session-token: {HUSH}}}",
    f"PASSWORD: {HUSH}",
    f"alerts: [{{kind: apprise, url_env: A, token: [{HUSH}]}}]",
    f"x: {{y: [{{db_password: {{z: {HUSH}}}}}]}}",
    f"s3: {{endpoint: 'http://me:{HUSH}@h:1'}}",
    f"s3: {{endpoint: 'http://{HUSH}@h:1'}}",
    f"inventories: [{{kind: listing, location: 's3://AKIA:{HUSH}@b/x'}}]",
    f"inventories: [{{kind: listing, location: 's3a://AKIA:{HUSH}/more@b/x'}}]",
    f"watch: ['https://me:{HUSH}@h']",
    f"watch: ['abfss://me:{HUSH}@acme.dfs.core.windows.net/a']",
    f"watch: ['abfss://{HUSH.upper()}@acme.dfs.core.windows.net/a']",
    f"watch: ['abfss://wh@acme.dfs.core.windows.net@{HUSH}/a']",
    f"watch: ['https://abfss://wh@acme.dfs.core.windows.net/{HUSH}@h']",
    f"watch: ['https://{HUSH}@acme.dfs.core.windows.net/a']",
    f"heartbeat_url_env: 'https://u:{HUSH}@h/ping'",
    f"'http://me:{HUSH}@h': 1",
    f"s3: {{'http://me:{HUSH}@h': 1}}",
    "s3: {endpoint: '${PLACE}'}",
    "watch: ['${PLACE}']",
]
"""Each is refused as a secret; the secret is HUSH."""


@pytest.mark.parametrize("text", LEAKS)
def test_a_secret_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(f"{HEAD}{text}{TABLES}", encoding="utf-8")
    with pytest.raises(LakeFileError, match="credentials come from the AWS chain only") as caught:
        load_lake(file, {"PLACE": f"http://me:{HUSH}@h"})
    assert HUSH not in str(caught.value)
    assert HUSH not in repr(caught.value.problems)
    assert str(caught.value).startswith(f"{file}:4: ")


QUIET = [
    f"heartbeat_url_env: https://hc.example/{HUSH}",
    f"alerts: [{{kind: apprise, url_env: 'slack://{HUSH}'}}]",
    f"s3: {{endpoint: 'https://h/?sig={HUSH}'}}",
    f"watch: ['https://h/x?sig={HUSH}']",
    "lake: '${VALUE} x'",
    "severity: {dropped: '${VALUE}'}",
    "s3: {region: '${VALUE}'}",
    "inventories: [{kind: listing, location: '${VALUE}'}]",
    f"a: [{HUSH}",
]
"""Wrong in another way; what may be a secret still stays out."""


@pytest.mark.parametrize("text", QUIET)
def test_what_may_be_a_secret_is_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(f"{HEAD}{text}{TABLES}", encoding="utf-8")
    with pytest.raises(LakeFileError) as caught:
        load_lake(file, {"VALUE": HUSH})
    assert HUSH not in str(caught.value)


@pytest.mark.parametrize("key", ["kind", "url_env", "external_id", "location", "owner", "access", "keys"])
def test_plain_keys_name_no_secret(key: str) -> None:
    assert not names_a_secret(key)


@pytest.mark.parametrize(
    "text",
    [
        "s3://b/a@b",
        "s3a://b/x:y",
        "/data/a@b",
        "me@host",
        "http://h:1/@me",
        "a://b c@d",
        "abfss://wh@acme.dfs.core.windows.net/a@b",
        "wasbs://$web@acme.blob.core.windows.net",
        "see abfs://wh@acme.dfs.core.windows.net",
    ],
)
def test_plain_places_hold_no_user_info(text: str) -> None:
    assert not has_user_info(text)


WORDS = st.sampled_from(
    [
        *(
            "version",
            "lake",
            "results",
            "tables",
            "name",
            "location",
            "kind",
            "delta",
            "s3://a/b",
            "1h",
            "manifests",
        ),
        *(
            "inventories",
            "listing",
            "ignore",
            "paths",
            "severity",
            "dropped",
            "confirm",
            "off",
            "${X}",
            "s3",
            "<<",
        ),
        *(
            "discover",
            "metastores",
            "s3guard",
            "events",
            "defaults",
            "watch",
            "maps",
            "alerts",
            "covers",
            "shares",
        ),
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.datetimes() | st.text() | WORDS
)
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=6),
    max_leaves=25,
)


def only_refuses(content: bytes) -> None:
    """A lake, or the one error with problems that are one line each."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lake.yaml"
        file.write_bytes(content)
        told = refusal(file)
    if told is not None:
        assert told.problems
        assert len(str(told).splitlines()) == len(told.problems)
        str(told).encode()


def refusal(file: Path) -> LakeFileError | None:
    try:
        load_lake(file, {})
    except LakeFileError as error:
        return error
    return None


@settings(deadline=None)
@given(st.dictionaries(WORDS | st.text(), TREES, max_size=8))
def test_any_tree_is_read_or_refused(tree: dict[str, Any]) -> None:
    valid = yaml.safe_load(HEAD + TABLES)
    only_refuses(yaml.safe_dump({**valid, **tree}, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text("ab:-[]{}&*!|>'\"%@`,?#<\n \t0${}", max_size=80).map(str.encode))
def test_any_text_is_read_or_refused(content: bytes) -> None:
    only_refuses(content)
    only_refuses((HEAD + TABLES).encode() + content)
