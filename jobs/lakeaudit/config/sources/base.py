"""The base of all blocks of the lake file, and the connection options of a source's store."""

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
    """Base of every model of the lake file: frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class S3Options(Block):
    """Connection options of a store; missing ones come from the lake, then from the AWS chain. It has no credential."""

    endpoint: Endpoint | None = None
    region: Region | None = None
    path_style: Flag | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    requester_pays: Flag | None = None

    def over(self, base: "S3Options") -> "S3Options":
        """Return these options where they are set, the base's elsewhere."""
        return base.model_copy(update=self.model_dump(exclude_none=True))


class DynamoOptions(Block):
    """Connection options of DynamoDB; missing ones come from the AWS chain.

    `read_capacity`: read units a second that a scan may consume, over all its tasks; None: without a limit.
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
        """Return the options with the account of `s3`, and with its endpoint unless that is AWS's own."""
        shared = {"region": s3.region, "role_arn": s3.role_arn, "external_id": s3.external_id}
        endpoint = None if self.says_where or is_of_aws(s3.endpoint) else s3.endpoint
        return self.over(DynamoOptions(**shared, endpoint=endpoint))


class Source(Block):
    """A configured piece of evidence. In a `Lake`, `s3` is already merged over the lake's own."""

    kind: str
    s3: S3Options = S3Options()

    @property
    def places(self) -> tuple[Location, ...]:
        """Its places in a store, if it has any."""
        return ()

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:  # noqa: ARG003 - for kinds
        """Yield contradictions between the keys of an entry as written; the types check the values of single keys."""
        yield from ()


def location_of(entry: Mapping[str, object], key: str = "location") -> Location | None:
    """Return the place of an entry as written; None if it is not valid."""
    value = entry.get(key)
    try:
        return parse_location(value) if isinstance(value, str) else None
    except ValueError:
        return None
