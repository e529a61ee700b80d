"""Runs the benchmark: generates a lake, measures an audit of it, bare Spark and DuckDB, and writes the figures.

usage: python -m tests.bench [SIZE] [--profile clean|real] [--tables N] [--csv] [--format delta|iceberg|hudi]
    [--runs N] [--second] [--live] [--guard]
"""

import argparse
import sys
from collections.abc import Sequence

from tests.bench import report
from tests.bench.lake import lake_folder
from tests.bench.measure import CONTENDERS, Selection, measure, runs_of
from tests.bench.spec import FORMATS, PROFILES, Spec


def main(arguments: Sequence[str]) -> int:
    """Return 0 if each audit found exactly the faults of the lake."""
    options = _options(arguments)
    inventory = "CSV" if options.csv else "Parquet"
    spec = Spec(options.size, options.profile, options.tables, inventory, format=options.format)
    _tell(f"lake {spec.name}: {spec.files:,} files x 3, {spec.tables:,} tables, {report.machine()}")
    _tell(f"  {lake_folder(spec, second=options.second)}")
    if options.generate:
        return 0
    runs, only = options.runs or runs_of(spec), tuple(options.only)
    selection = Selection(runs, options.second, options.live, options.guard, only)
    done = measure(spec, selection, _tell)
    report.store_figures(spec, done)
    if not options.no_docs:
        report.update_document()
    _tell(f"\n{report.terminal_text(spec)}")
    return 1 if done.wrong else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("size", nargs="?", default="10m", help="10k, 1m, 10m, 100m ...")
    parser.add_argument("--profile", choices=PROFILES, default="clean")
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--csv", action="store_true", help="write the inventory as CSV.gz")
    parser.add_argument("--format", choices=FORMATS, default="delta", help="format of the tables")
    parser.add_argument("--runs", type=int, default=0, help="number of runs; the median counts")
    parser.add_argument(
        "--second",
        action="store_true",
        help="also measure two audits after 1 %% of the files changed",
    )
    parser.add_argument("--live", action="store_true", help="also measure a live audit of a small table")
    parser.add_argument("--guard", action="store_true", help="also measure guard with a list of all files")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        choices=CONTENDERS,
        help="measure only these contenders",
    )
    parser.add_argument("--generate", action="store_true", help="generate the lake and stop")
    parser.add_argument("--no-docs", action="store_true", help="do not change docs/benchmark.md")
    options = parser.parse_args(arguments)
    if options.format != "delta" and (options.profile, options.second, options.guard) != (
        "clean",
        False,
        False,
    ):
        parser.error("profile real, a second audit and guard need Delta tables")
    return options


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
