"""`python jobs/alert.py ARGS` takes the arguments of `lakeaudit alert`."""

import sys

from lakeaudit.cli import main

if __name__ == "__main__":
    sys.exit(main(["alert", *sys.argv[1:]]))
