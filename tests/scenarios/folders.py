"""Two folders of one table with the same files, none of them listed: half a rename, or files that land again."""

from tests.builders.group_scenario import GroupScenario, folders, group
from tests.builders.scenario import Row


def pair(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("folders", name, verdict, row)


SCENARIOS = (
    # healthy
    pair("a reference file that lands every day", "ok", folders(1, dated=True)),
    pair("reference files that land every day", "ok", folders(12, dated=True)),
    pair("one file of a common name in two folders", "ok", folders(1)),
    # moved half way
    pair("a folder that was renamed half way, of which names tell", "half_moved", folders(3, unrepeated=True)),
    pair("one file was copied so far", "half_moved", folders(1, unrepeated=True)),
    pair("from one day to another, by names that no two writers give", "half_moved",
         folders(3, unrepeated=True, dated=True)),
    pair("one file from one day to another", "half_moved", folders(1, unrepeated=True, dated=True)),
    pair("files of common names in folders of other names", "half_moved", folders(2)),
)  # fmt: skip
