"""Whether a state's file has other content than the one whose ETag an audit recorded: yes, no, or nobody can tell."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeaudit.evidence.files import File
from lakeaudit.evidence.rewritten_files import is_rewritten
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.conftest import Aws

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
BODY, OTHER = b'{"add": 1}\n', b'{"add": 2}\n'
LARGE = b"0123456789abcdef" * ((6 << 20) // 16)
KMS, AZURE = "0" * 32, "0x8DC0FFEE"
MIB = 1 << 20


def put(aws: Aws, place: Location, body: bytes, parts: int) -> str:
    """The ETag of an object: uploaded by one request (0), or in parts of so many bytes."""
    at: Any = {"Bucket": place.bucket, "Key": place.key}
    if not parts:
        return aws.s3.put_object(**at, Body=body)["ETag"].strip('"')
    upload = at | {"UploadId": aws.s3.create_multipart_upload(**at)["UploadId"]}
    done: list[Any] = []
    for number, begin in enumerate(range(0, len(body), parts), 1):
        part = aws.s3.upload_part(**upload, PartNumber=number, Body=body[begin : begin + parts])
        done.append({"PartNumber": number, "ETag": part["ETag"]})
    return aws.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})["ETag"].strip('"')


CASES = [
    # content and its parts before, content and its parts now, whether it is another one
    pytest.param((BODY, MIB), (BODY, 0), False, id="in parts, then by one request"),
    pytest.param((BODY, 0), (BODY, MIB), False, id="by one request, then in parts"),
    pytest.param((LARGE, 5 * MIB), (LARGE, 0), False, id="in two parts of 5 MiB, then by one request"),
    pytest.param((LARGE, 5 * MIB), (LARGE, 6 * MIB), False, id="in two parts, then in one"),
    pytest.param((BODY, MIB), (OTHER, 0), True, id="other content by one request"),
    pytest.param((BODY, 0), (OTHER, MIB), True, id="other content in parts"),
    pytest.param((BODY, 0), (OTHER, 0), True, id="other content, both by one request"),
    pytest.param((LARGE, 5 * MIB + 1), (LARGE, 0), None, id="parts of a size that nobody uses"),
    pytest.param((LARGE, 5 * MIB), (OTHER, 0), None, id="several parts, and other content"),
]


@pytest.mark.parametrize(("before", "now", "expected"), CASES)
def test_equal_bytes_are_no_other_content_whatever_their_etag(
    aws: Aws, clients: Clients, bucket: str, before: Any, now: Any, expected: bool | None
) -> None:
    place = Location(bucket, "log/3.json")
    was, etag = put(aws, place, *before), put(aws, place, *now)
    assert was != etag
    there = File(place, len(now[0]), datetime.now(UTC), etag)
    assert is_rewritten(clients, there, was, LONG_AGO) is expected


@pytest.mark.parametrize("etags", [(AZURE, None), (None, KMS), (KMS, AZURE), ("", None), (None, "")])
def test_etags_other_than_digests_prove_nothing(
    aws: Aws, clients: Clients, bucket: str, etags: tuple[str | None, str | None]
) -> None:
    """As those of Azure, and of objects under KMS; without an ETag nothing is concluded at all."""
    place = Location(bucket, "log/3.json")
    was, now = put(aws, place, BODY, 0), put(aws, place, OTHER, 0)
    recorded, named = (
        given if given is not None else own for given, own in zip(etags, (was, now), strict=True)
    )
    there = File(place, len(OTHER), datetime.now(UTC), named)
    assert is_rewritten(clients, there, recorded, LONG_AGO) is (None if recorded and named else False)


def test_an_older_version_decides(aws: Aws, clients: Clients, bucket: str) -> None:
    """Its content is compared, in however many parts either was uploaded."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    place = Location(bucket, "log/3.json")
    was = put(aws, place, LARGE, 5 * MIB + 1)
    for body, expected in ((OTHER, True), (LARGE, False)):
        there = File(place, len(body), datetime.now(UTC), put(aws, place, body, 0))
        assert is_rewritten(clients, there, was, LONG_AGO) is expected
