"""`spark-submit jobs/audit.py ARGS` takes the arguments of `lakeaudit audit`."""

import sys

from lakeaudit.cli import main

if __name__ == "__main__":
    sys.exit(main(["audit", *sys.argv[1:]]))
