"""Compares the faults that Hudi's own checks and an audit find in the same broken Hudi tables.

usage: python -m tests.bench.hudi_peers PYTHON JAR

PYTHON is the interpreter of an environment with pyspark 3.5. JAR is org.apache.hudi:hudi-spark3.5-bundle_2.12, at least
1.0.
Prints a table of Markdown for docs/comparison.md.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench import peers
from tests.bench.spec import ROOT

FAULTS = ("files", "timeline")


def results_by_tool(
    folder: Path, faults: str, python: str, jar: str
) -> tuple[list[str], dict[str, peers.Found]]:
    """Return the faults of one broken table, and by tool the faults that it detects.

    For the audit, a finding about the file counts, or else a finding about its table.

    Raises:
        RuntimeError: a tool reports a fault before the table is broken.
    """
    command = [python, "-m", "tests.bench.hudi_validators", str(folder), jar, faults]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    output = json.loads(done.stdout.splitlines()[-1])
    if any(output["healthy"].values()):
        raise RuntimeError(f"a tool reports faults of the healthy table: {output['healthy']}")
    place = folder / "written"
    audited = peers.by_audit(folder, place, "hudi")
    tools = {name: _detections(named, output["faults"]) for name, named in output["named"].items()}
    of_table = audited.get(str(place), peers.NOTHING)
    ours = {fault: audited.get(str(place / path), of_table) for fault, path in output["faults"].items()}
    return list(output["faults"]), tools | {"lakeaudit": ours}


def _detections(named: Sequence[str] | str, faults: dict[str, str]) -> peers.Found:
    if isinstance(named, str):
        return {"": f"ends with an error: {named.splitlines()[0][:100]}"}
    return {fault: "named" for fault, path in faults.items() if path in named}


def main(python: str, jar: str) -> None:
    """Break two tables, run each tool, and print the faults that each tool detects."""
    lines: list[str] = []
    for faults in FAULTS:
        with tempfile.TemporaryDirectory() as scratch:
            names, tools = results_by_tool(Path(scratch), faults, python, jar)
        lines += peers.lines_of(names, tools, head=not lines)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
