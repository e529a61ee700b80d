"""`spark-submit jobs/audit.py ARGS` takes the arguments of `lakeaudit audit`."""

import sys

from lakeaudit.cli import program

if __name__ == "__main__":
    program(["audit", *sys.argv[1:]])
