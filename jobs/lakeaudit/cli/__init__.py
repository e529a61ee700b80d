"""The command line parses arguments, calls a command, prints each failure as one line and returns an exit code.

Results go to stdout, progress and logs to stderr; the last line on stderr is the verdict.
"""

from lakeaudit.cli.process import main, program

__all__ = ["main", "program"]
