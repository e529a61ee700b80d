"""A year of nightly audits over many tables, as pages meet it: quiet ones, bursts, doubts, failed nights, owners."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from tests.builders.results import covered, discrepancy, finding, lake_file, publish, run, transition

Row = dict[str, Any]

AREAS = ("sales", "raw", "crm", "finance", "ops", "web", "ref")
NOUNS = ("orders", "events", "customers", "ledger", "clicks", "stock", "prices", "returns", "carts", "visits")
AXES = ("content", "metastore", "metastore_tree", "leftover", "duplicate")
_BURSTS = 3
_OF_A_BURST = 40


def table_names(number: int) -> list[str]:
    """Names as a lake has them."""
    return [
        f"{AREAS[n % 7]}.{NOUNS[n // 7 % 10]}{f'_{n // 70:02d}' if n >= 70 else ''}" for n in range(number)
    ]


def lay_year(folder: Path, now: datetime, tables: int = 2000, nights: int = 365, seed: int = 1) -> str:
    """Publish the results of so many nights; the path of the lake file."""
    chance = random.Random(seed)
    place = Location.parse(str(folder / "results"))
    names = table_names(tables)
    at = now.replace(hour=3, minute=12, second=9, microsecond=0) - timedelta(days=1 if now.hour < 4 else 0)
    runs = [_run(chance, at - timedelta(days=back), tables) for back in reversed(range(nights))]
    runs[-1]["status"] = "partial"
    publish(place, runs=runs, coverage=list(_coverage(chance, names, runs[-1])))
    rows, told = [], []
    for row, transitions in _ledger(chance, names, at, nights):
        rows.append(row)
        told += transitions
    found = [row | {"run_id": runs[-1]["run_id"]} for row in rows if row["state"] == "open"]
    publish(place, discrepancies=rows, transitions=told, findings=found)
    named = [
        {"name": name, "location": f"s3://lake/{name.replace('.', '/')}", "manifests": [{"kind": "delta"}],
         "owner": f"{name.partition('.')[0]}-data"} for name in names
    ]  # fmt: skip
    inventory = {
        "kind": "s3_inventory",
        "location": "s3://inv/lake/daily/",
        "covers": ["s3://lake/"],
        "max_age": "3d",
    }
    return lake_file(folder, place, tables=named, inventories=[inventory])


def _run(chance: random.Random, at: datetime, tables: int) -> Row:
    status = chance.choices(("complete", "partial", "failed", "suspect"), (88, 8, 3, 1))[0]
    picture = {
        "cut_from": at - timedelta(hours=26),
        "cut_to": at - timedelta(hours=20),
        "rows": 900_000 + chance.randrange(9_000),
    }
    sources = [
        {"role": "storage", "kind": "s3_inventory", "location": "s3://inv/lake/daily/", "identity": "x", **picture},
        {"role": "metastore", "kind": "s3guard", "location": "dynamodb://shop-s3guard", "identity": "y",
         "cut_from": at, "cut_to": at + timedelta(minutes=4), "rows": 880_000},
    ]  # fmt: skip
    return run(
        f"{at:%Y%m%dT%H%M%SZ}-{chance.getrandbits(16):04x}", status, as_of=at, started_at=at,
        finished_at=at + timedelta(minutes=9), sources=sources, tables_expected=tables, tables_audited=tables,
        error="the inventory is 4 d old, older than max_age allows" if status == "failed" else None,
    )  # fmt: skip


def _coverage(chance: random.Random, names: list[str], last: Row) -> Iterator[Row]:
    cut = last["sources"][0]["cut_from"]
    for name in names:
        files = int(10 ** chance.uniform(1, 5))
        blind = chance.random() < 0.004
        told = {"status": "partial", "consistent": 0, "undecided": files, "decided_share": None,
                "reason": "the Delta log needs a reader feature that is not understood"}  # fmt: skip
        for axis in AXES:
            part = told if blind else {"consistent": files}
            yield covered(name, axis, last["run_id"], files=files, storage_cut_from=cut, **part)


def _ledger(
    chance: random.Random, names: list[str], at: datetime, nights: int
) -> Iterator[tuple[Row, list[Row]]]:
    """Rows with their transitions: a few on most nights, forty tables on some, most of them resolved since."""
    number = 0
    bursts = {
        chance.randrange(3, min(nights, 28)): chance.sample(names, min(_OF_A_BURST, len(names)))
        for _ in range(_BURSTS)
    }
    for back in range(nights):
        hit = bursts.get(back, []) + chance.sample(names, chance.choice((0, 0, 1, 2, 3)))
        for name in hit:
            for _ in range(chance.randint(1, 9)):
                number += 1
                yield _followed(chance, name, at - timedelta(days=back), back, number)


def _followed(
    chance: random.Random, table: str, opened: datetime, back: int, number: int
) -> tuple[Row, list[Row]]:
    kind = chance.choices(
        ("dropped", "size_mismatch", "overwritten", "uncommitted", "hidden", "tombstoned"), (5, 1, 2, 3, 2, 1)
    )[0]
    path = f"region={chance.choice(('eu', 'us', 'apac'))}/dt={(opened - timedelta(days=chance.randrange(40))).date()}"
    key = f"{table.replace('.', '/')}/{path}/part-{number:05d}-{chance.getrandbits(64):016x}.snappy.parquet"
    lasts = chance.choice((1, 2, 5, 9, 400 if back < 12 else 20))
    over = opened + timedelta(days=lasts)
    resolved = lasts < back
    can = chance.choice(("yes", "yes", "no", "unknown")) if kind == "dropped" else None
    row = finding(
        kind, key, table_name=table, partition_path=path, discrepancy_id=f"{number:08x}", recoverable=can,
        rows_at_stake=chance.randrange(100_000), bytes_at_stake=chance.randrange(1 << 28), table_version=4200 - back,
        recoverable_until=opened + timedelta(days=34) if can == "yes" else None,
        manifest_time=opened - timedelta(hours=9), manifest_size=1 << 20, storage_size=None,
        cause=chance.choice((None, "a lifecycle rule", "a request to delete it")),
    )  # fmt: skip
    held = discrepancy(
        row, "resolved" if resolved else "open", first_seen_at=opened, opened_at=opened, last_evidence_at=opened,
        resolved_at=over if resolved else None, resolution="restored" if resolved else None,
    )  # fmt: skip
    told = [
        transition(
            row,
            "opened",
            at=opened,
            transition_id=f"o{number}",
            run_id=None,
            to_severity=KINDS[kind].severity,
        )
    ]
    if resolved:
        told.append(
            transition(
                row,
                "resolved",
                at=over,
                transition_id=f"r{number}",
                run_id=None,
                from_severity=KINDS[kind].severity,
            )
        )
    return held, told
