"""Patterns of access to a table, in consistent stores and in stores with delayed listings."""

from tests.builders.group_scenario import GroupScenario, access, group
from tests.builders.scenario import Row


def pattern(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("access", name, verdict, row)


SCENARIOS = (
    # healthy: S3 answers by what is there
    pattern("a key is requested before it is written, on S3", "ok", access("write", "missing")),
    pattern("a folder is listed just after a write, on S3", "ok", access("list", "written")),
    pattern("a file is read just after it was replaced, on S3", "ok", access("read", "removed")),
    # anywhere: what is cached, or half read, is another file
    pattern("files are overwritten in place", "overwrite_in_place", access("write", "written")),
    pattern("files are overwritten in place where listings lag", "overwrite_in_place",
         access("write", "written", weak=True)),
    pattern("names are used again", "reused_name", access("write", "removed")),
    pattern("names are used again where listings lag", "reused_name", access("write", "removed", weak=True)),
    # where listings lag
    pattern("a key is requested before it is written", "probe_before_put", access("write", "missing", weak=True)),
    pattern("a folder is listed just after a write", "list_after_put", access("list", "written", weak=True)),
    pattern("a file is read just after it was replaced", "stale_read", access("read", "removed", weak=True)),
)  # fmt: skip
