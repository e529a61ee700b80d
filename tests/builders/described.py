"""A lake in many buckets under several roles, whose files mostly exist only in its inventories; and API call counts."""

import json
import os
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest
from botocore.client import BaseClient

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint, forget_clients
from tests.builders import delta_lake, inventory
from tests.builders.audits import audited, results_of
from tests.builders.inventory import Version

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ETAG = "0" * 32


@dataclass
class ApiCalls:
    """API calls of a process: how many of each operation, and by bucket the credentials that were used."""

    calls: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    roles: Counter[str] = field(default_factory=Counter)


@contextmanager
def count_api_calls() -> Iterator[ApiCalls]:
    """Count the API calls of every client inside the context."""
    plain: Callable[..., Any] = BaseClient._make_api_call  # type: ignore[attr-defined]
    seen, lock = ApiCalls(), Lock()

    def count_call(client: Any, operation: str, params: Any) -> Any:
        key = (
            client._request_signer._credentials.access_key if "Bucket" in params else ""
        )  # may assume a role
        with lock:
            seen.calls[operation] += 1
            if operation == "AssumeRole":
                seen.roles[params["RoleArn"]] += 1
            elif "Bucket" in params:
                seen.keys[params["Bucket"]].add(key)
        return plain(client, operation, params)

    BaseClient._make_api_call = count_call  # type: ignore[attr-defined]
    try:
        yield seen
    finally:
        BaseClient._make_api_call = plain  # type: ignore[attr-defined]


@contextmanager
def roles_of_the_server(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Roles are assumed at the tests' own server."""
    monkeypatch.setitem(os.environ, "AWS_ENDPOINT_URL_STS", str(endpoint.endpoint))
    forget_clients()
    yield
    forget_clients()


def fresh_name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@dataclass
class DescribedLake:
    """`tables` tables of one file each, evenly in `buckets` buckets, each of which belongs to one of `roles` roles."""

    s3: "S3Client"
    endpoint: Endpoint
    name: str
    tables: int
    buckets: int
    roles: int = 4
    rows: dict[str, list[Version]] = field(default_factory=lambda: defaultdict(list))

    def bucket(self, number: int) -> str:
        return f"{self.name}-{number % self.roles}-{number}"

    @property
    def central(self) -> str:
        return f"{self.name}-central"

    def place(self, table: int) -> tuple[str, str]:
        return self.bucket(table % self.buckets), f"wh/db{table % 7}/t{table}"

    def build(self, lost: set[int] = frozenset()) -> "DescribedLake":  # type: ignore[assignment]
        """Logs are real; data files stand in the reports only, those of `lost` tables nowhere."""
        for bucket in [self.central, *map(self.bucket, range(self.buckets))]:
            self.s3.create_bucket(Bucket=bucket)
        with ThreadPoolExecutor(8) as pool:
            for (bucket, key), size in pool.map(self._log, range(self.tables)):
                self.rows[bucket].append(
                    Version(key, Size=size, LastModifiedDate=datetime.now(UTC), Bucket=bucket)
                )
        for table in set(range(self.tables)) - lost:
            bucket, root = self.place(table)
            written = datetime.now(UTC) - timedelta(days=2)
            data = Version(
                f"{root}/part-0.parquet", Size=100, LastModifiedDate=written, ETag=ETAG, Bucket=bucket
            )
            self.rows[bucket].append(data)
        time.sleep(1.1)  # reports begin when every object is at least a second old
        self.report()
        return self

    def report(self, without: frozenset[str] = frozenset()) -> None:
        """A report of each bucket in the central one; keys below the `without` folders stand in none."""
        at = datetime.now(UTC)
        put: Callable[[str, bytes], Any] = lambda key, body: self.s3.put_object(  # noqa: E731
            Bucket=self.central, Key=key, Body=body
        )
        for number in range(self.buckets):
            bucket = self.bucket(number)
            kept = [row for row in self.rows[bucket] if not any(row.Key.startswith(each) for each in without)]
            inventory.lay(
                put, [inventory.parquet(kept, inventory.CURRENT)], form="Parquet", columns=inventory.CURRENT, at=at,
                under=f"{bucket}/all", source=bucket, destination=self.central,
            )  # fmt: skip

    def _log(self, table: int) -> tuple[tuple[str, str], int]:
        bucket, root = self.place(table)
        actions = [*delta_lake.BORN, delta_lake.add("part-0.parquet", size=100)]
        body = "".join(json.dumps(action) + "\n" for action in actions).encode()
        key = f"{root}/_delta_log/{0:020}.json"
        self.s3.put_object(Bucket=bucket, Key=key, Body=body)
        return (bucket, key), len(body)

    def text(self, results: Path, *, by_pattern: bool = False) -> str:
        """The lake file; `by_pattern` names the buckets all at once."""
        rules = "\n".join(
            f'  - {{match: "{self.name}-{n}-*", role_arn: "arn:aws:iam::12345678901{n}:role/audit"}}'
            for n in range(self.roles)
        )
        places = [f"s3://{self.bucket(n)}/wh/" for n in range(self.buckets)]
        if by_pattern:
            places = [f'"s3://{self.name}-[0-9]*/wh/"']
        under = ",\n        ".join(", ".join(places[n : n + 4]) for n in range(0, len(places), 4))
        return f"""version: 1
lake: described
results: {results}
s3: {{endpoint: "{self.endpoint.endpoint}", region: us-east-1, path_style: true}}
buckets:
{rules}
inventories:
  - {{kind: s3_inventory, location: "s3://{self.central}/", expand: true, margin: 0s}}
tables:
  - discover:
      from: inventory
      name: "{{1}}.{{2}}"
      under: [
        {under}]
defaults: {{grace: 0s, leftover_age: 0s, max_upload: 0s}}
owners: [{{match: "db0.*", owner: zero}}]
"""

    def lake(self, folder: Path, *, by_pattern: bool = False) -> Lake:
        path = folder / "lake.yaml"
        path.write_text(self.text(folder / "results", by_pattern=by_pattern), encoding="utf-8")
        return load_lake(path, {})


def requests(made: DescribedLake, lake: Lake) -> ApiCalls:
    """API calls of an audit of a lake whose only fault is the lost file of table 3."""
    forget_clients()
    with count_api_calls() as seen:
        outcome = audited(lake)
    assert (outcome.summary["status"], outcome.exit_code) == ("complete", 0), outcome.summary
    assert len(outcome.summary["coverage"]) == made.tables
    (lost,) = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
    bucket, root = made.place(3)
    assert (lost["kind"], lost["bucket"], lost["key"]) == ("dropped", bucket, f"{root}/part-0.parquet")
    assert lost["table_name"] == "db3.t3"
    return seen
