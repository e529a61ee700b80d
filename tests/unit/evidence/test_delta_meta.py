"""The meaning of a table's protocol and metadata."""

import json
from datetime import timedelta
from typing import Any

import pytest

from lakeaudit.evidence.manifest.delta.log.metadata import (
    READABLE_FEATURES,
    Meta,
    NotReadable,
    parse_interval,
    understand,
    vacuum_retention,
)

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}


def meaning(protocol: dict[str, Any] | None = None, **metadata: Any) -> Meta:
    return understand(json.dumps(protocol or PLAIN), json.dumps(metadata))


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("interval 1 week", 168), ("168 hours", 168), ("interval 168 hours", 168), ("INTERVAL 30 DAYS", 720),
        ("interval 1 day 12 hours", 36), ("interval 0 hours", 0), ("interval 90 minutes", 1.5), ("2 weeks", 336),
        ("interval 3600 seconds", 1), ("3600000 milliseconds", 1),
    ],
)  # fmt: skip
def test_intervals(text: str, hours: float) -> None:
    assert parse_interval(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "interval", "a week", "1 month", "7", "interval -1 day", "1 day or so"])
def test_an_invalid_interval(text: str) -> None:
    with pytest.raises(NotReadable, match="not an interval"):
        parse_interval(text)


def test_defaults() -> None:
    assert meaning() == Meta(timedelta(days=7), (), None)


def test_every_known_reader_feature_is_read() -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": sorted(READABLE_FEATURES)}
    assert meaning(protocol) == Meta()


@pytest.mark.parametrize(
    ("protocol", "why"),
    [
        ({"minReaderVersion": 4}, "read protocol 4 is newer than 3"),
        ({}, "read protocol None"),
        (
            {"minReaderVersion": 3, "readerFeatures": ["adaptiveMetadata", "deletionVectors"]},
            "known here: adaptiveMeta",
        ),
        ({"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}, "managed by a catalog"),
        ({"minReaderVersion": 3, "readerFeatures": ["catalogOwned-preview"]}, "managed by a catalog"),
        ({"minReaderVersion": 1, "writerFeatures": ["coordinatedCommits-preview"]}, "managed by a catalog"),
    ],
)
def test_unreadable_tables_are_refused(protocol: dict[str, Any], why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        understand(json.dumps(protocol), "{}")


def test_writer_features_do_not_concern_a_reader() -> None:
    assert meaning(PLAIN | {"writerFeatures": ["domainMetadata", "rowTracking", "anythingElse"]}) == Meta()


@pytest.mark.parametrize("missing", [(None, "{}"), (json.dumps(PLAIN), None)])
def test_a_table_has_protocol_and_metadata(missing: tuple[str | None, str | None]) -> None:
    with pytest.raises(NotReadable, match="no protocol and metaData"):
        understand(*missing)


def test_partition_columns_are_mapped_to_their_names() -> None:
    schema = {
        "fields": [{"name": "day", "metadata": {"delta.columnMapping.physicalName": "col-7"}}, {"name": "x"}]
    }
    given: dict[str, Any] = {"partitionColumns": ["day"], "schemaString": json.dumps(schema)}
    assert meaning(**given).columns == (("day", "day"),)
    mapped = given | {"configuration": {"delta.columnMapping.mode": "id"}}
    assert meaning(**mapped).columns == (("col-7", "day"),)


def test_in_commit_times() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    assert meaning(configuration=on).in_commit_times_from == 0
    later = on | {"delta.inCommitTimestampEnablementVersion": "12"}
    assert meaning(configuration=later).in_commit_times_from == 12
    assert (
        meaning(configuration={"delta.inCommitTimestampEnablementVersion": "12"}).in_commit_times_from is None
    )


@pytest.mark.parametrize(
    ("parameters", "hours"),
    [
        ({"specifiedRetentionMillis": 3_600_000, "defaultRetentionMillis": 7_200_000}, 1),
        ({"specifiedRetentionMillis": 0, "defaultRetentionMillis": 7_200_000}, 0),
        ({"specifiedRetentionMillis": "3600000"}, 1),
        ({"defaultRetentionMillis": 7_200_000}, 2),
        ({}, 5),
        (None, 5),
    ],
)
def test_how_far_a_vacuum_reaches(parameters: dict[str, Any] | None, hours: float) -> None:
    record = json.dumps({"operation": "VACUUM START", "operationParameters": parameters})
    assert vacuum_retention(record, timedelta(hours=5)) == timedelta(hours=hours)


@pytest.mark.parametrize(("text", "after"), [(None, None), ("180 days", timedelta(days=180)), ("soon", None)])
def test_what_a_table_archives_on_purpose(text: str | None, after: timedelta | None) -> None:
    configuration = {} if text is None else {"delta.timeUntilArchived": text}
    protocol = json.dumps({"minReaderVersion": 1})
    assert understand(protocol, json.dumps({"configuration": configuration})).archived_after == after
