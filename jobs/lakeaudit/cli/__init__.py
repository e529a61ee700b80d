"""The command line: parses, calls, prints one line for every failure, and returns the contract's exit codes.

Results go to stdout, progress and logs to stderr; the last line on stderr is the verdict.
"""

from lakeaudit.cli.process import main, program

__all__ = ["main", "program"]
