"""`python jobs/report.py ARGS` takes the arguments of `lakeaudit report`."""

import sys

from lakeaudit.cli import program

if __name__ == "__main__":
    program(["report", *sys.argv[1:]])
