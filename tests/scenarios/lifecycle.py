"""Effects of a bucket's lifecycle rules on the live files of a table."""

from tests.builders.group_scenario import GroupScenario, group, rule
from tests.builders.scenario import Row


def meets(name: str, verdict: str, row: Row) -> GroupScenario:
    return group("lifecycle", name, verdict, row)


UNREAD: Row = {"unread": "access denied", "files": 5}

SCENARIOS = (
    # healthy
    meets("a rule below a folder that holds no live file", "ok", rule(files=0)),
    meets("a rule that asks for tags, and no live file", "ok", rule(files=0, tags=True)),
    meets("archived when it is as old as the lake file says", "ok", rule("archives", 365, archived_after_days=365)),
    meets("archived later than the lake file says", "ok", rule("archives", 400, archived_after_days=365)),
    meets("archived on purpose by a tag", "ok", rule("archives", 400, archived_after_days=365, tags=True)),
    # live files will go
    meets("a rule that deletes live files", "will_expire", rule()),
    meets("a rule that deletes them on a date", "will_expire", rule(days=None)),
    meets("a rule that archives live files", "will_expire", rule("archives", 90)),
    meets("a rule that archives them sooner than the lake file says", "will_expire",
          rule("archives", 364, archived_after_days=365)),
    meets("old files are archived on purpose, and this rule deletes them", "will_expire",
          rule("deletes", 400, archived_after_days=365)),
    meets("one live file", "will_expire", rule(files=1)),
    # cannot be told
    meets("a rule that asks for tags", "undecided", rule(tags=True)),
    meets("the bucket's rules cannot be read", "undecided", UNREAD),
    meets("the bucket's rules cannot be read, nor the table's log", "undecided", UNREAD | {"files": 0}),
)  # fmt: skip
