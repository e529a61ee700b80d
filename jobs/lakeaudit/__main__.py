"""`python -m lakeaudit`."""

from lakeaudit.cli import program

program()
