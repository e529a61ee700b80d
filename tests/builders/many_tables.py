"""A bucket with many Delta tables: every fifth one has lost a file, and each has a file that no version lists."""

import json
from datetime import UTC, datetime, timedelta

from tests.builders.backdate import backdate, put
from tests.builders.delta_lake import BORN, add

OLD = datetime.now(UTC) - timedelta(days=9)


def lay_tables(bucket: str, tables: int, files: int) -> None:
    """Lay tables of `files` files together, in four databases below `wh`."""
    for number in range(tables):
        root = f"wh/db{number % 4}/t{number:03}"
        names = [f"part-{each:05}.parquet" for each in range(files // tables)]
        actions = [*BORN, *(add(name, size=100) for name in names)]
        log = "".join(json.dumps(action) + "\n" for action in actions)
        _put_old(bucket, f"{root}/_delta_log/{0:020}.json", log.encode())
        lost = names[7] if number % 5 == 3 else None
        for name in (*names, "stray.parquet"):
            if name != lost:
                _put_old(bucket, f"{root}/{name}", b"x" * 100)


def _put_old(bucket: str, key: str, body: bytes) -> None:
    put(bucket, key, body)
    backdate(bucket, key, OLD)
