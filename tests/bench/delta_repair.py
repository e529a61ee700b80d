"""Runs delta-rs' repair of one table of the live lake as a dry run, and prints how many files it would remove.

usage: python -m tests.bench.delta_repair ENDPOINT
"""

import sys

from deltalake import DeltaTable

from tests.bench.live import TABLES
from tests.bench.spec import BUCKET


def count_lost_files(endpoint: str) -> int:
    """Return the number of files that the table lists and storage lacks."""
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    table = DeltaTable(f"s3://{BUCKET}/warehouse/{TABLES[0]}", storage_options=options)
    return len(table.repair(dry_run=True)["files_removed"])


if __name__ == "__main__":
    sys.stdout.write(f"{count_lost_files(sys.argv[1])}\n")
