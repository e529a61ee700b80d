"""The scalar types of the lake file's models: each reads its written form and refuses other values with a hint.

A validator never repeats the value in its message: the report shows the text of the file, except for values that may
hold a secret.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from lakeaudit.config.globs import glob_to_regex
from lakeaudit.config.parsers import (
    parse_day,
    parse_duration,
    parse_endpoint,
    parse_location,
    parse_matching,
    parse_origin,
    parse_places,
    parse_size,
    parse_thrift,
    parse_url,
)
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS


def refuse(what: str, hint: str, *, quiet: bool = False) -> PydanticCustomError:
    """Return the error of a refused value; `quiet` keeps the value itself out of the report."""
    return PydanticCustomError("lake_value", "{what}", {"what": what, "hint": hint, "quiet": quiet})


def text_validator(
    parse: Callable[[str], object], what: str, hint: str, *, ready: type | None = None, quiet: bool = False
) -> PlainValidator:
    """Return a validator that parses text by `parse`, accepts an instance of `ready`, and refuses other values."""

    def validate(value: object) -> object:
        if ready is not None and type(value) is ready:
            return value
        try:
            if isinstance(value, str):
                return parse(value)
        except ValueError:
            pass
        raise refuse(what, hint, quiet=quiet)

    return PlainValidator(validate)


@dataclass(frozen=True)
class Matching:
    """Text that a pattern matches whole; the JSON Schema has the same pattern."""

    pattern: str
    what: str
    hint: str
    quiet: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        matched = text_validator(
            partial(parse_matching, self.pattern), self.what, self.hint, quiet=self.quiet
        )
        return matched.__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, _: CoreSchema, __: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


def text_schema(pattern: str | None = None, **more: object) -> WithJsonSchema:
    """Return the JSON Schema of the written form."""
    return WithJsonSchema({"type": "string", **({"pattern": pattern} if pattern else {}), **more})


def _ttl(text: str) -> timedelta | None:
    return None if text == "none" else parse_duration(text)


def _glob(text: str) -> str:
    if not text:
        raise ValueError("empty")
    glob_to_regex(text)
    return text


def _path_glob(text: str) -> str:
    if text.startswith("/") or "://" in text:
        raise ValueError("not relative")
    return _glob(text)


def _finding(text: str) -> str:
    if text not in KINDS:
        raise ValueError("unknown kind")
    return text


def _integer(value: object) -> int:
    """Parse a whole number; quoted digits, which expanded variables produce, are valid; true and 1.0 are not."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return value
    raise refuse("not a whole number", "write a number such as 400")


def _number(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise refuse("not a number", "write a number such as 0.2")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise refuse("neither true nor false", "write true or false")


def _off(value: object) -> object:
    """Turn false, as which YAML reads a bare `off`, into `off`."""
    return "off" if value is False else value


def _never_alone(conditions: tuple[str, ...]) -> tuple[str, ...]:
    if "never" in conditions and len(conditions) > 1:
        raise refuse("never and another condition", "write [never] alone, or leave it out")
    return conditions


LAKE_NAME = r"^[A-Za-z0-9._-]+$"
TEXTFILE = r"^/.+\.prom$"
"""Prometheus's node exporter reads only files with this ending."""
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
REGION = r"^[a-z0-9-]+$"
ARN = r"^arn:[!-~]+$"
CATALOG_ID = r"^[0-9]{12}$"
DYNAMODB_NAME = r"^[A-Za-z0-9_.-]{3,255}$"
TABLE_NAME = r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
NAME_TEMPLATE = r"^[^{}\s\x00-\x1f\x7f]*(\{[1-9][0-9]?\}[^{}\s\x00-\x1f\x7f]*)+$"
SCHEDULE = r"^(@[a-z]+|[^\s@]+([ \t]+[^\s]+){4,6})$"
"""A preset of Airflow's, or the five to seven fields of a cron expression; Airflow checks the values of the fields."""
FREE_TEXT = r"^[\s\S]*\S[\s\S]*$"
LOCATION = r"^(s3a?://|s3n://|gs://|abfss?://|wasbs?://|file:/|/|dbfs:/)"
BUCKET_GLOB = r"^[A-Za-z0-9*?\[\]!._@-]+$"
BUCKET_ALIAS = r"^([A-Za-z0-9][A-Za-z0-9._-]*|dbfs:/+[^/].*)$"

DURATION_HINT = "write 0s, 30m, 24h or 7d"
LOCATION_HINT = (
    "write s3://bucket/prefix, file:///data/prefix or an absolute path; a mount needs its bucket's `aliases`"
)
ENV_HINT = "write the name of an environment variable, never the address itself"
PATH_HINT = "write a pattern below the table's location, such as **/_expectations/**"

Severity = Literal["critical", "error", "warning", "info"]
SeverityOrOff = Literal["critical", "error", "warning", "info", "off"]
WrittenSeverity = Annotated[SeverityOrOff, BeforeValidator(_off)]

Duration = Annotated[
    timedelta,
    text_validator(parse_duration, "not a duration", DURATION_HINT, ready=timedelta),
    text_schema("^[0-9]{1,10}[smhd]$"),
]
Ttl = Annotated[
    timedelta | None,
    text_validator(_ttl, "not a duration", f"{DURATION_HINT}, or none", ready=timedelta),
    text_schema("^([0-9]{1,10}[smhd]|none)$"),
]
Size = Annotated[
    int,
    text_validator(parse_size, "not a size", "write 1B, 4KiB or 8MiB"),
    text_schema("^[0-9]{1,19}([KMGT]i)?B$"),
]
Day = Annotated[
    date, text_validator(parse_day, "not a date", "write 2027-06-01", ready=date), text_schema(format="date")
]
Place = Annotated[
    Location,
    text_validator(parse_location, "not a location", LOCATION_HINT, ready=Location),
    text_schema(LOCATION),
]
Origin = Annotated[
    Location,
    text_validator(
        parse_origin, "not a location", f"{LOCATION_HINT}, or hdfs://host:port/path", ready=Location
    ),
    text_schema(r"^([A-Za-z][A-Za-z0-9+.-]*:/|/)"),
]
"""A place that may lie in any store, since it is not read."""
Places = Annotated[
    Location,
    text_validator(
        parse_places,
        "not a location",
        f"{LOCATION_HINT}; or a pattern such as s3://lake-*/prefix",
        ready=Location,
    ),
    text_schema(LOCATION),
]
"""A place, or one in every bucket whose name matches."""
Endpoint = Annotated[
    str,
    text_validator(
        parse_endpoint, "not an endpoint", "write http://host:port and nothing after it", quiet=True
    ),
    text_schema("^https?://"),
]
Url = Annotated[
    str,
    text_validator(parse_url, "not a URL", "write https://host:port/path, without a query", quiet=True),
    text_schema("^https?://"),
]
ThriftUris = Annotated[
    str,
    text_validator(
        parse_thrift,
        "not a Hive Metastore",
        "write thrift://host:9083, several with commas between",
        quiet=True,
    ),
    text_schema("^thrift://"),
]
BucketGlob = Annotated[
    str, Matching(BUCKET_GLOB, "not a pattern of bucket names", "write a name or a pattern such as prod-*")
]
BucketAlias = Annotated[
    str,
    Matching(BUCKET_ALIAS, "no other name of a bucket", "write an access point's alias, or dbfs:/mnt/name"),
]
EnvName = Annotated[str, Matching(ENV_NAME, "not the name of a variable", ENV_HINT, quiet=True)]
Textfile = Annotated[str, Matching(TEXTFILE, "not a file for metrics", "write /var/lib/.../lakeaudit.prom")]
LakeName = Annotated[str, Matching(LAKE_NAME, "not a name for a lake", "letters, digits, . _ and -")]
TableName = Annotated[str, Matching(TABLE_NAME, "not a name for a table", "one line; quote a number")]
Region = Annotated[str, Matching(REGION, "not a region", "write us-east-1")]
RoleArn = Annotated[str, Matching(ARN, "not a role", "write arn:aws:iam::123456789012:role/name")]
TopicArn = Annotated[str, Matching(ARN, "not a topic", "write arn:aws:sns:us-east-1:123456789012:name")]
CatalogId = Annotated[str, Matching(CATALOG_ID, "not an account", "write its twelve digits, quoted")]
DynamoName = Annotated[
    str, Matching(DYNAMODB_NAME, "not the name of a DynamoDB table", "3 to 255 letters, digits, . _ -")
]
Text = Annotated[
    str,
    text_validator(partial(parse_matching, FREE_TEXT), "no text", "write some text; quote a number"),
    text_schema(),
]
Glob = Annotated[
    str,
    text_validator(_glob, "not a pattern", "write a name or a pattern such as sales.*"),
    text_schema(minLength=1),
]
PathGlob = Annotated[
    str, text_validator(_path_glob, "not a pattern below a table", PATH_HINT), text_schema(minLength=1)
]
NameTemplate = Annotated[
    str, Matching(NAME_TEMPLATE, "not a template of names", "folders by their number, such as {1}.{2}")
]
Schedule = Annotated[
    str, Matching(SCHEDULE, "not a schedule", 'write a cron expression such as "0 5 * * *", or "@daily"')
]
FindingKind = Annotated[
    str, text_validator(_finding, "unknown kind of finding", ""), WithJsonSchema({"enum": list(KINDS)})
]
Condition = Literal["critical", "error", "warning", "info", "coverage_lost", "failed", "never"]
FailOn = Annotated[tuple[Condition, ...], Field(min_length=1), AfterValidator(_never_alone)]
Limit = Annotated[int, Field(ge=0), BeforeValidator(_integer)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_integer)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
