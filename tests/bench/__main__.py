"""The bench: generates a lake, measures an audit of it beside bare Spark and DuckDB, and writes down what came out.

usage: python -m tests.bench [SIZE] [--profile clean|real] [--tables N] [--csv] [--format delta|iceberg|hudi]
    [--runs N] [--second] [--live]
"""

import argparse
import sys
from collections.abc import Sequence

from tests.bench import report
from tests.bench.lake import made
from tests.bench.measure import AUDIT, DUCK, PASS, SESSION, Asked, measured, runs_of
from tests.bench.spec import FORMATS, PROFILES, Spec


def main(arguments: Sequence[str]) -> int:
    """0: an audit found exactly what is broken, each time."""
    options = _options(arguments)
    inventory = "CSV" if options.csv else "Parquet"
    spec = Spec(options.size, options.profile, options.tables, inventory, format=options.format)
    _tell(f"lake {spec.name}: {spec.files:,} files x 3, {spec.tables:,} tables, {report.machine()}")
    _tell(f"  {made(spec, second=options.second)}")
    if options.generate:
        return 0
    asked = Asked(options.runs or runs_of(spec), options.second, options.live, tuple(options.only))
    done = measured(spec, asked, _tell)
    report.keep(spec, done)
    if not options.no_docs:
        report.into_document()
    _tell(f"\n{report.on_terminal(spec)}")
    return 1 if done.wrong else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("size", nargs="?", default="10m", help="10k, 1m, 10m, 100m ...")
    parser.add_argument("--profile", choices=PROFILES, default="clean")
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--csv", action="store_true", help="the inventory as CSV.gz")
    parser.add_argument("--format", choices=FORMATS, default="delta", help="of the tables")
    parser.add_argument("--runs", type=int, default=0, help="how often; the median counts")
    parser.add_argument(
        "--second",
        action="store_true",
        help="two audits of 1 %% of changes too",
    )
    parser.add_argument("--live", action="store_true", help="a live audit of a small table too")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=(SESSION, PASS, DUCK, AUDIT), help="not all contenders"
    )
    parser.add_argument("--generate", action="store_true", help="make the lake and measure nothing")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/performance.md alone")
    options = parser.parse_args(arguments)
    if options.format != "delta" and (options.profile, options.second) != ("clean", False):
        parser.error("profile real and a second audit are of Delta tables")
    return options


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
