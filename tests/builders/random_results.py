"""Results drawn at random, with the answers that a page must give about one of their tables."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.formatting import second
from lakeaudit.keys import Location
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import KINDS
from tests.builders.pagedata import HOSTILE
from tests.builders.results import covered, discrepancy, finding, group, leftover, publish, run, transition

Row = dict[str, Any]

_LOSSES = ("dropped", "size_mismatch", "content_mismatch", "overwritten")
_CAUSES = (None, "a lifecycle rule", "a job that ran twice")


@dataclass(frozen=True)
class Loss:
    """One kind of loss in the examined table, as a page must show it."""

    kind: str
    number: int
    since: str
    why: str
    answers: str


@dataclass
class RandomResults:
    """A lake's results: the examined table, its losses, and its largest lost file."""

    table: str
    hostile: str
    """A table whose keys are `pagedata.HOSTILE`."""
    now: datetime
    losses: list[Loss] = field(default_factory=list)
    subject: str = ""
    recoverable: str = ""
    ledger: list[Row] = field(default_factory=list)


def draw(place: Location, seed: int, now: datetime) -> RandomResults:
    """Publish one run an hour ago over a few tables, one of them with losses, one blind, one with hostile keys."""
    chance = random.Random(seed)
    at = now - timedelta(hours=1)
    names = [f"{area}.{noun}" for area in ("sales", "raw") for noun in ("orders", "events", "clicks_2")]
    chance.shuffle(names)
    asked, hostile, blind, *well = names
    drawn = RandomResults(asked, hostile, now)
    for kind in chance.sample(_LOSSES, chance.randint(1, 3)):
        drawn.losses.append(_loss(chance, drawn, kind, at))
    _worst(drawn)
    strays = group("temporary", "day=1", 3, table_name=asked)
    others = [
        finding("dropped", text, table_name=hostile, explanation=text, discrepancy_id=f"h{n}", cause=text)
        for n, text in enumerate(HOSTILE)
    ]
    rows = [*drawn.ledger, strays, *others]
    undecided = covered(
        blind, consistent=0, undecided=10, status="partial", decided_share=None, reason="an evidence gap"
    )
    publish(
        place,
        runs=[run(as_of=at, started_at=at, finished_at=at, tables_expected=len(names), tables_audited=len(names))],
        coverage=[undecided, *(covered(name, storage_cut_from=at) for name in [asked, hostile, *well])],
        findings=rows,
        discrepancies=[discrepancy(row, first_seen_at=row.get("_since", at), last_evidence_at=at) for row in rows],
        transitions=[transition(row, "opened", at=at) for row in rows],
        leftover_files=[leftover(strays, f"{asked}/tmp/{n}") for n in range(3)],
    )  # fmt: skip
    return drawn


def _loss(chance: random.Random, drawn: RandomResults, kind: str, at: datetime) -> Loss:
    number, cause = chance.randint(1, 9), chance.choice(_CAUSES)
    since = (at - timedelta(minutes=chance.randint(1, 90_000))).replace(second=0)
    told = chance.choices(("yes", "no", "unknown"), k=number)
    for n, recoverable in enumerate(told):
        until = at + timedelta(days=n + 1) if recoverable == "yes" else None
        drawn.ledger.append(
            finding(kind, f"{drawn.table}/day={n % 3}/{kind}-{n}.parquet", table_name=drawn.table, cause=cause,
                    partition_path=f"day={n % 3}", recoverable=recoverable, recoverable_until=until,
                    recovery="older_version" if recoverable == "yes" else None, rows_at_stake=chance.randint(1, 10**6),
                    bytes_at_stake=chance.randint(1, 10**9), manifest_size=7, table_version=n)
            | {"_since": since + timedelta(hours=n)}
        )  # fmt: skip
    answers = _amount(told) if number > 1 else f"Recoverable: {told[0]}"
    return Loss(
        kind, number, f"Since {second(since)}", f"Cause: {cause}." if cause else KINDS[kind].words, answers
    )


def _amount(told: Sequence[str]) -> str:
    if len(told) == 1 or set(told) in ({"no"}, {"unknown"}):
        return told[0]
    unknown = f" ({told.count('unknown')} unknown)" if "unknown" in told else ""
    return f"{told.count('yes')} of {len(told)}{unknown}"


def _worst(drawn: RandomResults) -> None:
    """The file that stands first in the table's list."""
    ranks = ("critical", "error", "warning", "info")
    worst = min(drawn.ledger, key=lambda row: (ranks.index(row["severity"]), -row["bytes_at_stake"]))
    until = worst["recoverable_until"]
    drawn.subject = worst["subject"]
    drawn.recoverable = {
        "yes": f"Recoverable: yes, from an older version, until {until and second(until)}",
        "no": "Recoverable: no.",
        "unknown": "Recoverable: unknown.",
    }[worst["recoverable"]]


def kind_heading(loss: Loss) -> str:
    """Return the heading of a kind on the page of a table."""
    return counted_kind(loss.kind, loss.number)
