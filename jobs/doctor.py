"""`python jobs/doctor.py ARGS` takes the arguments of `lakeaudit doctor`."""

import sys

from lakeaudit.cli import program

if __name__ == "__main__":
    program(["doctor", *sys.argv[1:]])
