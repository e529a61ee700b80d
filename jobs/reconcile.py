"""`python jobs/reconcile.py ARGS` takes the arguments of `lakeaudit reconcile`."""

import sys

from lakeaudit.cli import program

if __name__ == "__main__":
    program(["reconcile", *sys.argv[1:]])
