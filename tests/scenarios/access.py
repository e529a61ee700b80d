"""What patterns of access to a table mean, in stores that keep their word and in those whose listings lag."""

from tests.builders.group_scenario import GroupScenario, access, group
from tests.builders.scenario import Row


def done(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("access", name, verdict, row)


SCENARIOS = (
    # healthy: S3 answers by what is there
    done("a key is asked for before it is written, on S3", "ok", access("write", "missing")),
    done("a folder is listed just after a write, on S3", "ok", access("list", "written")),
    done("a file is read just after it was replaced, on S3", "ok", access("read", "removed")),
    # anywhere: what is cached, or half read, is another file
    done("files are written over themselves", "overwrite_in_place", access("write", "written")),
    done("files are written over themselves where listings lag", "overwrite_in_place",
         access("write", "written", weak=True)),
    done("names are used again", "reused_name", access("write", "removed")),
    done("names are used again where listings lag", "reused_name", access("write", "removed", weak=True)),
    # where listings lag
    done("a key is asked for before it is written", "probe_before_put", access("write", "missing", weak=True)),
    done("a folder is listed just after a write", "list_after_put", access("list", "written", weak=True)),
    done("a file is read just after it was replaced", "stale_read", access("read", "removed", weak=True)),
)  # fmt: skip
