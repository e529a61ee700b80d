"""`python -m lakeaudit.runtime.install [--delta] [FOLDER]` prepares Spark: Java, trust store, spark-submit settings.

Without FOLDER it only fills the cache, so that later runs need no network. In FOLDER it writes spark-defaults.conf and
log4j2.properties, env.sh with the variables under which `spark-submit jobs/audit.py` finds them, and a program
spark-submit that sets these variables itself. Without `--delta` the first two contain no path of this machine.

An audit loads no jars beyond Spark's own. `--delta` also fetches the Delta and S3A jars and puts them into the
settings: the demo, and jobs that read or write Delta tables through Spark, load them.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from lakeaudit.errors import AuditError
from lakeaudit.runtime.cache import write_once
from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import launch_environment, log_text, session_settings, submit_settings

DELTA = "--delta"


def main(arguments: list[str]) -> int:
    """Prepare Spark, or print the reason of a failure in one line."""
    folders = [Path(each).absolute() for each in arguments if each != DELTA]
    try:
        make_ready(next(iter(folders), None), os.environ, delta=DELTA in arguments)
    except AuditError as error:
        print(f"lakeaudit: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


def make_ready(folder: Path | None, env: Mapping[str, str], *, delta: bool = False) -> None:
    """Fill the cache and, where a folder is given, write Spark's configuration into it; `delta` adds the jars."""
    java = find_java(env)
    settings = session_settings(delta) | submit_settings(java, env, delta=delta)
    if folder is not None:
        variables = launch_environment(java) | {"SPARK_CONF_DIR": str(folder)}
        write_once(folder / "spark-defaults.conf", spark_defaults(settings).encode())
        write_once(folder / "log4j2.properties", log_text())
        write_once(folder / "env.sh", shell_exports(variables).encode())
        write_once(folder / "spark-submit", submitter(folder).encode(), mode=0o755)


def spark_defaults(settings: Mapping[str, str]) -> str:
    """Return the text of a spark-defaults.conf."""
    return "".join(f"{key} {value}\n" for key, value in sorted(settings.items()))


def shell_exports(variables: Mapping[str, str]) -> str:
    """Return lines that a shell sources with `.`; Spark's own programs come first on PATH."""
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    return "".join([*lines, 'export PATH="$SPARK_HOME/bin:$PATH"\n'])


def submitter(folder: Path) -> str:
    """Return a program that starts spark-submit in that environment, for callers that cannot set variables."""
    return f'#!/bin/sh\n. {shlex.quote(str(folder / "env.sh"))}\nexec "$SPARK_HOME/bin/spark-submit" "$@"\n'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
