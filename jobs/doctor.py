"""`python jobs/doctor.py ARGS` takes the arguments of `lakeaudit doctor`."""

import sys

from lakeaudit.cli import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
