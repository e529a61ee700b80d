"""Every table that lakeaudit passes between its rooms or writes, in one package, as Arrow schemas.

`evidence`: rows that readers give; `matching`: rows that rules are asked of; `answers`: rows that the kernel answers
with; `results`: the result tables. All of them may be imported from here.
"""

from lakeaudit.schemas.answers import (
    ANSWERS,
    ASKED,
    BATCH,
    CLONED,
    LIVE,
    LOG_VERSIONS,
    MOVES,
    REPEATED,
    TALLY,
)
from lakeaudit.schemas.columns import plain_time, without_zone
from lakeaudit.schemas.evidence import CLAIM, ENTRY, NOTE, STORED, UPLOAD, VERSION
from lakeaudit.schemas.matching import (
    COPY,
    CUT,
    KNOWN,
    LEFTOVERS,
    OLDER_VERSIONS,
    PAIR,
    TABLE_FACTS,
    TREE,
    TREE_VERDICT,
    VERDICT,
    VERSION_RULES,
)
from lakeaudit.schemas.results import (
    COVERAGE,
    DISCREPANCIES,
    FINDINGS,
    LEDGER,
    LEFTOVER_FILES,
    NOTICES,
    OF_FINDING,
    RESULTS,
    RUNS,
    SOURCE_OF_RUN,
    TRANSITIONS,
)

__all__ = [
    "ANSWERS",
    "ASKED",
    "BATCH",
    "CLAIM",
    "CLONED",
    "COPY",
    "COVERAGE",
    "CUT",
    "DISCREPANCIES",
    "ENTRY",
    "FINDINGS",
    "KNOWN",
    "LEDGER",
    "LEFTOVERS",
    "LEFTOVER_FILES",
    "LIVE",
    "LOG_VERSIONS",
    "MOVES",
    "NOTE",
    "NOTICES",
    "OF_FINDING",
    "OLDER_VERSIONS",
    "PAIR",
    "REPEATED",
    "RESULTS",
    "RUNS",
    "SOURCE_OF_RUN",
    "STORED",
    "TABLE_FACTS",
    "TALLY",
    "TRANSITIONS",
    "TREE",
    "TREE_VERDICT",
    "UPLOAD",
    "VERDICT",
    "VERSION",
    "VERSION_RULES",
    "plain_time",
    "without_zone",
]
