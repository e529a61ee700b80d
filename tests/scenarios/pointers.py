"""Pointers of catalogs: partitions, folders without a partition, and tables."""

from typing import Any

from tests.builders.group_scenario import (
    NOON,
    NOW_EMPTY,
    NOW_FILLED,
    GroupScenario,
    folder,
    group,
    pointed,
    registered,
)
from tests.builders.scenario import Row

HOUR, DAY = 60, 24 * 60
EMPTY, UNREGISTERED, STALE = "empty_partition", "unregistered_partition", "stale_pointer"
HOLED: Row = {"storage_holed": True}
NOWHERE: Row = {"edge": None}
DENIED: Row = {"look": "denied"}
UNTOLD: Row = {"untold": True}
ELSEWHERE: Row = {"registered": True}
REPLACED: Row = {"registered": True, "registered_filled": True}
OTHER_NAME: Row = {"named": False}
ALIKE: Row = {"named": False, "alike": True}
STATISTICS: Row = {"filled_said": True}
REMOVED: Row = {"removed": 1}
HOLLOW: Row = {"filled_said": True, "content_said": True, "with_content": 0}
OF_COUNTED: Row = {"table_said": True}
ALL_EMPTY: Row = {"all_empty": True}
LOST, DOUBTFUL = f"{EMPTY}:error", f"{EMPTY}:warning"
LEFT: Row = {"left_behind": "s3://lake/t/metadata/00002.metadata.json"}


def _of(table: str, name: str, verdict: str, *known: Row) -> GroupScenario:
    merged: dict[str, Any] = {key: value for row in known for key, value in row.items()}
    return group(table, name, verdict, merged)


def partition(name: str, verdict: str, *known: Row) -> GroupScenario:
    return _of("partitions", name, verdict, *known)


def unheld(name: str, verdict: str, *known: Row) -> GroupScenario:
    return _of("partition_folders", name, verdict, *known)


def table(name: str, verdict: str, *known: Row) -> GroupScenario:
    return _of("table_pointers", name, verdict, *known)


PARTITIONS = (
    # healthy
    partition("a partition with a file", "ok", registered(1)),
    partition("a partition with a file, registered a minute ago", "ok", registered(1, at=-1)),
    partition("a partition with a file where a listing has a gap", "ok", registered(1), HOLED),
    partition("a partition elsewhere that no report covers, with a file that a look has seen", "ok", registered(1),
              NOWHERE),
    partition("tomorrow's partition, filled since the report", "ok", registered(), NOW_FILLED),
    partition("filled since the report, which has a gap", "ok", registered(), NOW_FILLED, HOLED),
    # empty
    partition("a partition without a file", EMPTY, registered()),
    partition("a partition of unknown age without a file", EMPTY, registered(at=None)),
    partition("registered the grace before the report", EMPTY, registered(at=-HOUR)),
    partition("without a file, and still so", EMPTY, registered(), NOW_EMPTY),
    partition("without a file, and still so, where the report has a gap", EMPTY, registered(), NOW_EMPTY, HOLED),
    partition("without a file, and storage refuses a look", EMPTY, registered(), DENIED),
    partition("without a file, and a look that gave no answer said there is one", EMPTY, registered(), DENIED,
              {"look_there": True}),
    # empty, and it was filled
    partition("the catalog counts rows, and files lie under delete markers", LOST, registered(), STATISTICS, REMOVED),
    partition("counted and removed, and empty now", LOST, registered(), STATISTICS, REMOVED, NOW_EMPTY),
    partition("counted and removed, as all others of its table", LOST, registered(), STATISTICS, REMOVED, ALL_EMPTY),
    partition("all partitions of the table are empty", LOST, registered(), ALL_EMPTY),
    partition("all partitions of the table are empty, and the catalog counts rows", LOST, registered(), STATISTICS,
              ALL_EMPTY),
    partition("the catalog counts rows, and the bucket keeps no delete markers", DOUBTFUL, registered(), STATISTICS),
    partition("the catalog counts rows, and the only file has 0 bytes", DOUBTFUL, registered(1), HOLLOW),
    partition("the catalog counts rows, and the only file has 0 bytes, still so", DOUBTFUL, registered(1), HOLLOW,
              NOW_EMPTY),
    partition("0 bytes beside files that were removed", LOST, registered(1), HOLLOW, REMOVED),
    partition("a file of 0 bytes, too young", "young", registered(1, at=5), HOLLOW),
    partition("a file of 0 bytes, not covered", "uncovered", registered(1), HOLLOW, NOWHERE),
    partition("a file of 0 bytes, where the report has a gap", "undecided", registered(1), HOLLOW, HOLED),
    partition("0 bytes in the report, and filled now", "ok", registered(1), HOLLOW, NOW_FILLED),
    partition("0 bytes, of which the catalog counts no rows", "ok", registered(1), {"with_content": 0}),
    partition("0 bytes, and the catalog counts a file alone", "ok", registered(1), STATISTICS, {"with_content": 0}),
    partition("0 bytes beside a file with rows", "ok", registered(2), HOLLOW, {"with_content": 1}),
    partition("nothing, and the catalog counts rows", DOUBTFUL, registered(), HOLLOW),
    partition("files were removed, and the catalog counts rows of the table", DOUBTFUL, registered(), REMOVED,
              OF_COUNTED),
    partition("never filled, in a table whose rows the catalog counts", EMPTY, registered(), OF_COUNTED),
    partition("removed and written again, in a table that is counted", "ok", registered(1), REMOVED, OF_COUNTED),
    partition("files were removed, and the catalog counts nothing", EMPTY, registered(), REMOVED),
    partition("counted and removed, and filled again since the report", "ok", registered(), STATISTICS, REMOVED,
              NOW_FILLED),
    partition("all were empty, and it is filled now", "ok", registered(), ALL_EMPTY, NOW_FILLED),
    partition("counted, and filled now", "ok", registered(), STATISTICS, NOW_FILLED),
    partition("counted, removed and written again before the report", "ok", registered(1), STATISTICS, REMOVED),
    partition("counted, with a file", "ok", registered(1), STATISTICS),
    partition("with a file, though all were empty", "ok", registered(1), ALL_EMPTY),
    partition("counted and removed, too young", "young", registered(at=5), STATISTICS, REMOVED),
    partition("counted, too young", "young", registered(at=5), STATISTICS),
    partition("all are empty, too young", "young", registered(at=5), ALL_EMPTY),
    partition("counted and removed, not covered", "uncovered", registered(), NOWHERE, STATISTICS, REMOVED),
    partition("counted, not covered", "uncovered", registered(), NOWHERE, STATISTICS),
    partition("all are empty, not covered", "uncovered", registered(), NOWHERE, ALL_EMPTY),
    partition("counted and removed, where the report has a gap", "undecided", registered(), HOLED, STATISTICS, REMOVED),
    partition("counted, where the report has a gap", "undecided", registered(), HOLED, STATISTICS),
    partition("all are empty, where the report has a gap", "undecided", registered(), HOLED, ALL_EMPTY),
    # cannot be told
    partition("registered a little less than the grace before the report", "young", registered(at=-HOUR + 1)),
    partition("registered after the report was begun", "young", registered(at=5)),
    partition("registered after the report, and empty now", "young", registered(at=5), NOW_EMPTY),
    partition("registered after the report, and filled now", "young", registered(at=5), NOW_FILLED),
    partition("registered after a report with a gap", "young", registered(at=5), HOLED),
    partition("a partition elsewhere that no report covers", "uncovered", registered(), NOWHERE),
    partition("a new partition elsewhere that no report covers", "uncovered", registered(at=5), NOWHERE),
    partition("elsewhere, not covered, and filled now", "uncovered", registered(), NOWHERE, NOW_FILLED),
    partition("elsewhere, not covered, where the report has a gap", "uncovered", registered(), NOWHERE, HOLED),
    partition("a partition without a file where the report has a gap", "undecided", registered(), HOLED),
    partition("the report has a gap, and storage refuses a look", "undecided", registered(), HOLED, DENIED),
)  # fmt: skip

FOLDERS = (
    # healthy
    unheld("a folder of another name, such as an export beside the partitions", "none", folder(), OTHER_NAME),
    unheld("a folder of another name, written just now", "none", folder(-1), OTHER_NAME),
    unheld("a folder of another name, where partitions are not all known", "none", folder(), OTHER_NAME, UNTOLD),
    unheld("a folder of another name that is gone now", "none", folder(), OTHER_NAME, NOW_EMPTY),
    unheld("a folder of another name, and the values are registered", "none", folder(), OTHER_NAME, REPLACED),
    unheld("a partition rewritten to another place, whose old files were kept", "ok", folder(), REPLACED),
    unheld("a partition rewritten just now", "ok", folder(-1), REPLACED),
    unheld("a partition rewritten to another place, where not all are known", "ok", folder(), REPLACED, UNTOLD),
    unheld("dropped with its files since the report", "ok", folder(), NOW_EMPTY),
    unheld("its values are registered at an empty place, and its files are gone", "ok", folder(), ELSEWHERE, NOW_EMPTY),
    # no partition holds it
    unheld("a folder that nobody registered", UNREGISTERED, folder()),
    unheld("a folder like those of the registered ones, which have no names", UNREGISTERED, folder(), ALIKE),
    unheld("written the grace before the report", UNREGISTERED, folder(-HOUR)),
    unheld("written the grace before the catalog was read, which is the sooner", UNREGISTERED, folder(-2 * HOUR),
           {"catalog_edge": NOON.replace(hour=11)}),
    unheld("still written to, and its first files have waited for days", UNREGISTERED, folder(-1, -3 * DAY)),
    unheld("a folder that nobody registered, and it is still there", UNREGISTERED, folder(), NOW_FILLED),
    unheld("a folder that nobody registered, and storage refuses a look", UNREGISTERED, folder(), DENIED),
    unheld("its values are registered at a place that holds nothing", UNREGISTERED, folder(), ELSEWHERE),
    unheld("files of another partition's place are there, of other values", UNREGISTERED, folder(),
           {"registered_filled": True}),
    # cannot be told
    unheld("a little less than the grace before the report", "young", folder(-HOUR + 1)),
    unheld("still written to, and its first files have waited a little less than days", "young",
           folder(-1, -3 * DAY + 1)),
    unheld("written less than the grace before the catalog was read", "young", folder(-2 * HOUR + 1),
           {"catalog_edge": NOON.replace(hour=11)}),
    unheld("the catalog was read an hour after the report, and the folder is too young for that", "young",
           folder(-HOUR + 1), {"catalog_edge": NOON.replace(hour=13)}),
    unheld("the first files have waited for days by the later catalog alone", "young", folder(-1, -3 * DAY + 1),
           {"catalog_edge": NOON.replace(hour=13)}),
    unheld("the first files have waited for days by the later report alone", "young", folder(-1, -3 * DAY),
           {"catalog_edge": NOON.replace(hour=11)}),
    unheld("files came after the report was begun", "young", folder(5)),
    unheld("written after the report, where partitions are not all known", "young", folder(5), UNTOLD),
    unheld("written after the report, and gone now", "young", folder(5), NOW_EMPTY),
    unheld("written just now, and its values are registered at an empty place", "young", folder(-1), ELSEWHERE),
    unheld("of its table not all partitions could be read", "undecided", folder(), UNTOLD),
    unheld("gone now, and not all partitions could be read", "undecided", folder(), UNTOLD, NOW_EMPTY),
    unheld("registered at an empty place, and not all partitions could be read", "undecided", folder(), UNTOLD,
           ELSEWHERE),
)  # fmt: skip

TABLES = (
    # healthy
    table("a table with files", "ok", pointed(3)),
    table("a table with a folder's marker alone, made by a console", "ok", pointed(1)),
    table("a table with files that was altered a minute ago", "ok", pointed(3, at=-1)),
    table("a table with files where the report has a gap", "ok", pointed(3), HOLED),
    table("a table with files at a place that only a later look covers", "ok", pointed(3), NOWHERE),
    table("a table with files that the catalog counts", "ok", pointed(3), STATISTICS),
    table("a table filled since the report", "ok", pointed(), NOW_FILLED),
    table("a table filled since the report, which has a gap", "ok", pointed(), NOW_FILLED, HOLED),
    table("a table whose partitions lie elsewhere", "ok", pointed(partitions_filled=2)),
    table("a table whose partitions lie elsewhere, with statistics", "ok", pointed(partitions_filled=1), STATISTICS),
    table("its partitions lie elsewhere, and its place is empty now", "ok", pointed(partitions_filled=1), NOW_EMPTY),
    # nothing is there
    table("a plain table that was never filled", f"{STALE}:info", pointed()),
    table("a plain table of unknown age that was never filled", f"{STALE}:info", pointed(at=None)),
    table("a plain table that had files", STALE, pointed(), STATISTICS),
    table("changed the grace before the report", STALE, pointed(at=-HOUR), STATISTICS),
    table("a plain table whose files lie under delete markers", STALE, pointed(), REMOVED),
    table("a Delta table without its log", STALE, pointed(format="delta")),
    table("an Iceberg table without its metadata", STALE, pointed(format="iceberg")),
    table("a Hudi table without its timeline", STALE, pointed(format="hudi")),
    table("a table that had files, and nothing is there now", STALE, pointed(), STATISTICS, NOW_EMPTY),
    table("nothing is there now, where the report has a gap", STALE, pointed(), STATISTICS, NOW_EMPTY, HOLED),
    table("a table that had files, and storage refuses a look", STALE, pointed(), STATISTICS, DENIED),
    table("a look that gave no answer says there is something", STALE, pointed(), STATISTICS, DENIED,
          {"look_there": True}),
    # another state has taken its place
    table("another catalog points at a newer state", STALE, pointed(1, format="iceberg"), LEFT),
    table("a newer state was built on, and the report does not cover it", STALE, pointed(format="iceberg"), LEFT,
          NOWHERE),
    table("left behind, and changed just now", STALE, pointed(1, at=-1, format="iceberg"), LEFT),
    # cannot be told
    table("changed a little less than the grace before the report", "young", pointed(at=-HOUR + 1), STATISTICS),
    table("made after the report was begun", "young", pointed(at=5)),
    table("made after the report, and filled now", "young", pointed(at=5), NOW_FILLED),
    table("made after the report, with partitions elsewhere", "young", pointed(at=5, partitions_filled=1)),
    table("made after a report with a gap", "young", pointed(at=5), HOLED),
    table("at a place that no report covers", "uncovered", pointed(), NOWHERE),
    table("at a place that no report covers, made just now", "uncovered", pointed(at=5), NOWHERE),
    table("at a place that no report covers, and filled now", "uncovered", pointed(), NOWHERE, NOW_FILLED),
    table("at a place that no report covers, with partitions elsewhere", "uncovered", pointed(partitions_filled=1),
          NOWHERE),
    table("at a place that no report covers, where another has a gap", "uncovered", pointed(), NOWHERE, HOLED),
    table("nothing is there, and the report has a gap", "undecided", pointed(), HOLED),
    table("the report has a gap, and the catalog counts files", "undecided", pointed(), STATISTICS, HOLED),
    table("the report has a gap, and partitions lie elsewhere", "undecided", pointed(partitions_filled=1), HOLED),
    table("a gap in the report of a table, and storage refuses a look", "undecided", pointed(), HOLED, DENIED),
)  # fmt: skip

SCENARIOS = (*PARTITIONS, *FOLDERS, *TABLES)
