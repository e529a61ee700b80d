"""The block `follow`: which queue it names, and how the queue is reached."""

from pathlib import Path

import pytest

from lakeaudit.config import Follow, load_lake
from lakeaudit.config.follow import Queue, parse_queue
from lakeaudit.errors import LakeFileError

ARN = "arn:aws:sqs:eu-west-1:123456789012:lake"


@pytest.mark.parametrize(
    ("text", "region", "endpoint"),
    [
        (ARN, "eu-west-1", None),
        ("arn:aws-cn:sqs:cn-north-1:123456789012:lake", "cn-north-1", None),
        (
            "https://sqs.eu-west-1.amazonaws.com/123456789012/lake",
            "eu-west-1",
            "https://sqs.eu-west-1.amazonaws.com",
        ),
        ("https://sqs-fips.us-gov-west-1.amazonaws.com/123456789012/lake", "us-gov-west-1", None),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/lake", "cn-north-1", None),
        ("https://sqs.eu-west-1.api.aws/123456789012/lake", "eu-west-1", None),
        ("https://vpce-0a1-b2.sqs.eu-west-1.vpce.amazonaws.com/123456789012/lake", "eu-west-1", None),
        ("https://eu-west-1.queue.amazonaws.com/123456789012/lake", "eu-west-1", None),
        ("https://queue.amazonaws.com/123456789012/lake", "us-east-1", None),
        ("http://127.0.0.1:5000/123456789012/lake", None, "http://127.0.0.1:5000"),
    ],
)
def test_region_and_endpoint_of_a_queue(text: str, region: str | None, endpoint: str | None) -> None:
    own = None if text.startswith("arn:") else endpoint or text.removesuffix("/123456789012/lake")
    assert parse_queue(text) == Queue(text, "lake", "123456789012", region, own)


def test_the_arn_of_a_queue() -> None:
    assert parse_queue("http://127.0.0.1:5000/123456789012/lake").arn("eu-west-1") == ARN
    assert parse_queue("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/lake").arn("eu-west-1") == (
        "arn:aws-cn:sqs:cn-north-1:123456789012:lake"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lake",
        "https://sqs.eu-west-1.amazonaws.com/lake",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/lake/more",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/lake?x=1",
        "https://user@sqs.eu-west-1.amazonaws.com/123456789012/lake",
        "https://127.0.0.1:99999/123456789012/lake",
        "ftp://127.0.0.1/123456789012/lake",
        f"{ARN}\n",
        f"{ARN} ",
        f"arn:aws:sqs:eu-west-1:123456789012:{'q' * 76}",
    ],
)
def test_not_a_queue(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|[Pp]ort"):
        parse_queue(text)


def follow(tmp_path: Path, block: str, s3: str = "{}") -> Follow:
    text = f"version: 1\nlake: shop\nresults: s3://r/x\ns3: {s3}\nfollow: {block}\ntables: [{{name: a, location: s3://lake/a}}]\n"
    (tmp_path / "lake.yaml").write_text(text)
    block_of_lake = load_lake(tmp_path / "lake.yaml", {}).follow
    assert block_of_lake is not None
    return block_of_lake


@pytest.mark.parametrize(
    ("block", "s3", "region", "endpoint"),
    [
        (f"{{queue: '{ARN}'}}", "{}", "eu-west-1", None),
        (
            f"{{queue: '{ARN}'}}",
            "{region: us-east-1, endpoint: 'http://127.0.0.1:9'}",
            "eu-west-1",
            "http://127.0.0.1:9",
        ),
        (f"{{queue: '{ARN}'}}", "{endpoint: 'https://s3.eu-west-1.amazonaws.com'}", "eu-west-1", None),
        (
            f"{{queue: '{ARN}', region: us-east-2, endpoint: 'http://127.0.0.1:8'}}",
            "{}",
            "us-east-2",
            "http://127.0.0.1:8",
        ),
        (
            "{queue: 'http://127.0.0.1:5000/123456789012/q'}",
            "{region: us-east-1}",
            "us-east-1",
            "http://127.0.0.1:5000",
        ),
    ],
)
def test_options_come_from_the_queue_and_then_from_s3(
    tmp_path: Path, block: str, s3: str, region: str, endpoint: str | None
) -> None:
    block_of_lake = follow(tmp_path, block, s3)
    assert (block_of_lake.region, block_of_lake.endpoint) == (region, endpoint)


def test_the_role_comes_from_s3_and_defaults_hold(tmp_path: Path) -> None:
    block_of_lake = follow(
        tmp_path, f"{{queue: '{ARN}'}}", "{role_arn: 'arn:aws:iam::1:role/a', external_id: x}"
    )
    assert (block_of_lake.role_arn, block_of_lake.external_id) == ("arn:aws:iam::1:role/a", "x")
    assert (block_of_lake.window.total_seconds(), block_of_lake.state) == (5, None)


def test_a_journal_needs_no_options_of_a_queue(tmp_path: Path) -> None:
    block_of_lake = follow(tmp_path, "{journal: 's3://meta/journal'}", "{region: eu-west-1}")
    assert (block_of_lake.queue, block_of_lake.region) == (None, None)


def test_a_queue_and_a_journal_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(LakeFileError, match="names a queue and a journal"):
        follow(tmp_path, f"{{journal: 's3://meta/journal', queue: '{ARN}'}}")
