"""Whole writes: the part of a commit that storage still has."""

from tests.builders.group_scenario import GroupScenario, declared, group
from tests.builders.scenario import Row

SHORT = "incomplete_commit"
HOUR, DAY = 60, 24 * 60
LACKING: Row = declared(rows=(290, 200))
REPLACED, PARTLY, UNTOLD = {"replaced": "whole"}, {"replaced": "partly"}, {"untold": "two writes look alike"}
NOWHERE: Row = {"edge": None}
HOLED: Row = {"holed": True}
LOGGED: Row = {"logged": True}


def write(name: str, verdict: str, *known: Row) -> GroupScenario:
    return group("writes", name, verdict, {key: value for row in known for key, value in row.items()})


SCENARIOS = (
    # healthy
    write("a write of which all files, rows and bytes are there", "ok", declared((12, 12), (290, 290), (6501, 6501))),
    write("a write of which more is there than was committed", "ok", declared(bytes=(6501, 6600))),
    write("a job that wrote nothing", "ok", declared((0, 0), (0, 0), (0, 0))),
    write("a write whose missing files have names", "ok", declared((12, 10), (290, 200), (6501, 6000)),
          {"files_named": 2, "rows_named": 90, "bytes_named": 501}),
    write("an overwritten table's writes of yesterday", "ok", LACKING, REPLACED),
    write("what overwrote it came to a place that no report covers", "ok", LACKING, REPLACED, NOWHERE),
    write("written and overwritten just now", "ok", LACKING, declared(ended=1), REPLACED),
    write("overwritten, and of its files nothing was ever known", "ok", LACKING, REPLACED, UNTOLD),
    write("overwritten, and a log is torn", "ok", LACKING, REPLACED, HOLED),
    write("all is there, though a log is torn", "ok", declared((12, 12)), HOLED),
    write("all is there already, a minute before the report", "ok", declared((12, 12), ended=-1)),
    write("all is there where an overwrite has taken a part", "ok", declared((12, 12)), PARTLY),
    write("all is there, of a place that only a later look covers", "ok", declared((12, 12)), NOWHERE),
    write("a plain table that was made a Delta table, and vacuumed", "none", declared((12, 0)), LOGGED),
    write("a Delta table's plain files, at a place that no source covers", "none", declared((12, 0)), LOGGED, NOWHERE),
    write("a Delta table's plain files of just now", "none", declared((12, 0), ended=5), LOGGED),
    write("a Delta table's plain files that were replaced in part", "none", declared((12, 0)), LOGGED, PARTLY),
    write("a Delta table's plain files, whose write is unknown", "none", declared((12, 0)), LOGGED, UNTOLD),
    write("a Delta table's plain files, and a log is torn", "none", declared((12, 0)), LOGGED, HOLED),
    write("a Delta table's plain files that are all there", "ok", declared((12, 12)), LOGGED),
    write("a Delta table's plain files that were all replaced", "ok", LACKING, LOGGED, REPLACED),
    # storage has less
    write("files are missing that have no names", SHORT, declared((12, 10))),
    write("rows are missing that have no names", SHORT, LACKING),
    write("bytes are missing that have no names", SHORT, declared(bytes=(6501, 6500))),
    write("nothing is left of it", SHORT, declared((12, 0), (290, 0), (6501, 0))),
    write("more is missing than has names", SHORT, declared((12, 9)), {"files_named": 2}),
    write("more rows are missing than those of named files", SHORT, LACKING, {"rows_named": 89}),
    write("more bytes are missing than those of named files", SHORT, declared(bytes=(6501, 100)), {"bytes_named": 1}),
    write("only its bytes were declared, and how many rows are there nobody knows", SHORT,
          declared(bytes=(6501, 100)), {"rows": 290}),
    write("committed the grace before the report", SHORT, declared((12, 10), ended=-HOUR)),
    # cannot be told
    write("committed a little less than the grace before the report", "young", declared((12, 10), ended=-HOUR + 1)),
    write("committed after the report was begun", "young", declared((12, 0), ended=5)),
    write("nobody knows when it was committed", "young", declared((12, 0)), {"ended_at": None}),
    write("young, and a later write has replaced a part of it", "young", declared((12, 0), ended=5), PARTLY),
    write("young, and the files of the write are unknown", "young", declared((12, 0), ended=5), UNTOLD),
    write("young, and a log is torn", "young", declared((12, 0), ended=5), HOLED),
    write("no source covers its place", "uncovered", declared((12, 0)), NOWHERE),
    write("in a place that no source covers, its files unknown", "uncovered", declared((12, 0)), UNTOLD, NOWHERE),
    write("no source covers its place, and it was committed just now", "uncovered", declared((12, 0), ended=5),
          NOWHERE),
    write("later writes have replaced a part of it", "undecided", LACKING, PARTLY),
    write("its files cannot be separated from those of another write", "undecided", declared((12, 0)), UNTOLD),
    write("a writer that declared nothing", "undecided", declared()),
    write("a writer that declared files, and nobody counted them", "undecided", declared(), {"files": 12}),
    write("a writer that declared bytes, and nobody counted them", "undecided", declared(), {"bytes": 12}),
    write("bytes were counted, and none declared", "undecided", declared(), {"bytes_there": 12}),
    write("files were counted, rows were declared", "undecided", declared(), {"rows": 12, "files_there": 12}),
    write("a log is torn that may contain its later removal", "undecided", LACKING, HOLED),
)  # fmt: skip
