"""`python jobs/alert.py ARGS` takes the arguments of `lakeaudit alert`."""

import sys

from lakeaudit.cli import program

if __name__ == "__main__":
    program(["alert", *sys.argv[1:]])
