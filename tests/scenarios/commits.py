"""Single commits of a log: written twice or once, and batches that were appended twice or only look alike."""

from tests.builders.group_scenario import (
    BY_KMS,
    DOUBTED,
    LOOKS_REPEATED,
    PROVED,
    UNREADABLE,
    GroupScenario,
    compared,
    group,
    repeats,
    rewritten,
)
from tests.builders.scenario import Row

OVERWRITTEN, PROBABLY, TWICE = "overwritten_commit", "overwritten_commit:warning", "duplicate_commit"
RACE = rewritten(0, 0)
DAY = 24 * 60
COPIED_LOG = rewritten(0, DAY, after=DAY + 1)


def commit(name: str, verdict: str, *known: Row) -> GroupScenario:
    return group("commit", name, verdict, {key: value for row in known for key, value in row.items()})


SCENARIOS = (
    # healthy
    commit("a commit of which nothing is suspected", "ok"),
    commit("written twice, and what the first version said another commit has said again", "ok", RACE, compared()),
    commit("a log copied over an older copy of it, with the commit after", "ok", COPIED_LOG),
    commit("a log copied over an older copy of it, with the commit before", "ok",
           rewritten(0, DAY, before=DAY - 1)),
    commit("copied ten minutes after the commit before", "ok", rewritten(0, DAY, before=DAY - 10)),
    commit("copied ten minutes before the commit before", "ok", rewritten(0, DAY, before=DAY + 10)),
    commit("copied ten minutes after the commit after", "ok", rewritten(0, DAY, after=DAY - 10)),
    commit("copied ten minutes before the commit after", "ok", rewritten(0, DAY, after=DAY + 10)),
    commit("its file looks late, and both of its versions say the same", "ok", RACE, compared(), DOUBTED),
    commit("its checksum is another's, and both of its versions say the same", "ok", RACE, compared(), PROVED),
    commit("two batches that look alike, the younger removed since", "ok", repeats(live=0, older_live=3)),
    commit("two batches that look alike, the older compacted since", "ok", repeats(live=3, older_live=0)),
    commit("two batches that look alike, half of the younger live", "ok", repeats(2, 4, files=4)),
    commit("two batches that look alike, half of the older live", "ok", repeats(4, 2, files=4)),
    # written twice
    commit("nobody lists what the first version added", OVERWRITTEN, RACE, compared(files=3)),
    commit("what the first version removed is listed still", OVERWRITTEN, RACE, compared(removals=1)),
    commit("the first version changed the schema, the second did not", OVERWRITTEN, RACE, compared(of_table=True)),
    commit("written twice, and one of the versions cannot be read", OVERWRITTEN, RACE, UNREADABLE),
    commit("the checksum beside it is of another transaction", OVERWRITTEN, PROVED),
    commit("its file was written after that of the next commit", PROBABLY, DOUBTED),
    commit("a copied log, and its checksum is of another transaction", OVERWRITTEN, COPIED_LOG, PROVED),
    commit("one version cannot be read, and its file looks late", OVERWRITTEN, RACE, UNREADABLE, DOUBTED),
    commit("nobody lists what the first version added, and its rows look like an older batch", OVERWRITTEN, RACE,
           compared(files=3), repeats(live=3, older_live=3)),
    commit("lost, and nobody knows whether its rows are an older batch", OVERWRITTEN, RACE, compared(files=3),
           LOOKS_REPEATED),
    commit("unreadable, and its rows look like an older batch", OVERWRITTEN, RACE, UNREADABLE, repeats(3, 3)),
    commit("unreadable, and nobody knows whether its rows are an older batch", OVERWRITTEN, RACE, UNREADABLE,
           LOOKS_REPEATED),
    commit("proved, and its rows look like an older batch", OVERWRITTEN, PROVED, repeats(3, 3)),
    commit("proved, and nobody knows whether its rows are an older batch", OVERWRITTEN, PROVED, LOOKS_REPEATED),
    commit("proved, whatever its versions say, which nobody read", OVERWRITTEN, RACE, PROVED),
    commit("looks late, and its rows look like an older batch", PROBABLY, DOUBTED, repeats(3, 3)),
    commit("looks late, and nobody knows whether its rows are an older batch", PROBABLY, DOUBTED, LOOKS_REPEATED),
    commit("looks late, and nobody read its versions", PROBABLY, RACE, DOUBTED),
    # cannot be told
    commit("more commits were written twice than are read", "undecided", RACE),
    commit("encrypted versions that cannot be read may be the same", "undecided", RACE, BY_KMS, UNREADABLE),
    commit("one of two encrypted versions can be read, and what that says nobody lists", "undecided", RACE, BY_KMS,
           compared(files=3), UNREADABLE),
    commit("written again an hour later to the second, with its neighbours", "undecided",
           rewritten(0, 60, before=60, after=60)),
    commit("written in a race in a busy table", "undecided", rewritten(0, 1, before=0, after=2)),
    commit("written again a day later, alone", "undecided", rewritten(0, DAY, before=-1, after=1)),
    commit("written again a day later, eleven minutes after the commit before", "undecided",
           rewritten(0, DAY, before=DAY - 11)),
    commit("written again a day later, eleven minutes before the commit after", "undecided",
           rewritten(0, DAY, after=DAY + 11)),
    commit("written again a day later, of whose neighbours nothing is known", "undecided", rewritten(0, DAY)),
    commit("looks like an older batch, and one of both cannot be read", "undecided", LOOKS_REPEATED),
    # appended twice
    commit("one batch twice, all of it live", TWICE, repeats(live=3, older_live=3)),
    commit("one batch twice, most of both live", TWICE, repeats(live=2, older_live=2)),
    commit("appended twice, and nobody read whether it was written twice too", TWICE, RACE, repeats(3, 3)),
    commit("a batch of which nothing could be read cannot be live", "undecided", LOOKS_REPEATED,
           {"files": 3, "live": 3, "older_files": 3, "older_live": 3}),
)  # fmt: skip
