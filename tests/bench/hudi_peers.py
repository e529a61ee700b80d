"""What Hudi's own checks and an audit each find in the same broken Hudi tables, one fault of a sort.

usage: python -m tests.bench.hudi_peers PYTHON JAR

PYTHON is one of an environment with pyspark 3.5, JAR that of org.apache.hudi:hudi-spark3.5-bundle_2.12, at least 1.0.
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


def asked(folder: Path, faults: str, python: str, jar: str) -> tuple[list[str], dict[str, peers.Found]]:
    """The faults of one broken table, and by tool what it sees of them; an audit of the file, else of its table.

    Raises:
        RuntimeError: a tool names something of the table before it is broken.
    """
    command = [python, "-m", "tests.bench.hudi_validators", str(folder), jar, faults]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    told = json.loads(done.stdout.splitlines()[-1])
    if any(told["healthy"].values()):
        raise RuntimeError(f"of the healthy table is said {told['healthy']}")
    place = folder / "written"
    audited = peers.by_audit(folder, place, "hudi")
    tools = {name: _found(named, told["faults"]) for name, named in told["named"].items()}
    of_table = audited.get(str(place), peers.NOTHING)
    ours = {fault: audited.get(str(place / path), of_table) for fault, path in told["faults"].items()}
    return list(told["faults"]), tools | {"lakeaudit": ours}


def _found(named: Sequence[str] | str, faults: dict[str, str]) -> peers.Found:
    if isinstance(named, str):
        return {"": f"ends with an error: {named.splitlines()[0][:100]}"}
    return {fault: "named" for fault, path in faults.items() if path in named}


def main(python: str, jar: str) -> None:
    """Break two tables, ask each tool, print who saw what."""
    lines: list[str] = []
    for faults in FAULTS:
        with tempfile.TemporaryDirectory() as scratch:
            names, tools = asked(Path(scratch), faults, python, jar)
        lines += peers.lines_of(names, tools, head=not lines)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
