"""What all blocks of the lake file are, and how a source's store is reached."""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from lakeaudit.config.field_types import (
    Count,
    Endpoint,
    Flag,
    Region,
    RoleArn,
    Text,
)
from lakeaudit.config.parsers import parse_location
from lakeaudit.keys import Location, is_of_aws

EntryProblem = tuple[tuple[str, ...], str, str]
"""(path below the entry, what is wrong, what to do)."""


class Block(BaseModel):
    """Base of every model of the lake file: frozen, and no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class S3Options(Block):
    """How a store is reached; a key left out is the lake's, then the AWS chain's. Holds no credential."""

    endpoint: Endpoint | None = None
    region: Region | None = None
    path_style: Flag | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    requester_pays: Flag | None = None

    def over(self, base: "S3Options") -> "S3Options":
        """These options where they are written, the base's elsewhere."""
        return base.model_copy(update=self.model_dump(exclude_none=True))


class DynamoOptions(Block):
    """How DynamoDB is reached; a key left out is the AWS chain's.

    `read_capacity`: read units a second that a scan may consume, over all its tasks; None: as many as the table gives.
    """

    endpoint: Endpoint | None = None
    region: Region | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    read_capacity: Count | None = None

    @property
    def says_where(self) -> bool:
        return self.endpoint is not None or self.region is not None

    def over(self, base: "DynamoOptions") -> "DynamoOptions":
        """These options where they are written, the base's elsewhere."""
        return base.model_copy(update=self.model_dump(exclude_none=True))

    def beside(self, s3: S3Options) -> "DynamoOptions":
        """With what `s3` says of the account; its endpoint is DynamoDB's only where it is not AWS's own."""
        shared = {"region": s3.region, "role_arn": s3.role_arn, "external_id": s3.external_id}
        endpoint = None if self.says_where or is_of_aws(s3.endpoint) else s3.endpoint
        return self.over(DynamoOptions(**shared, endpoint=endpoint))


class Source(Block):
    """A configured piece of evidence. In a `Lake`, `s3` is already merged over the lake's own."""

    kind: str
    s3: S3Options = S3Options()

    @property
    def places(self) -> tuple[Location, ...]:
        """Where it lies, if it has a place of its own in a store."""
        return ()

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:  # noqa: ARG003 - for kinds
        """What keys of an entry, as written, contradict each other; a wrong value of one key is refused by its type."""
        yield from ()


def location_of(entry: Mapping[str, object], key: str = "location") -> Location | None:
    """The place of an entry as written; None where it is none that can be understood."""
    value = entry.get(key)
    try:
        return parse_location(value) if isinstance(value, str) else None
    except ValueError:
        return None
