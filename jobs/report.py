"""`python jobs/report.py ARGS` takes the arguments of `lakeaudit report`."""

import sys

from lakeaudit.cli import main

if __name__ == "__main__":
    sys.exit(main(["report", *sys.argv[1:]]))
