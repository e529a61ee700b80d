"""`python -m lakeaudit`."""

import sys

from lakeaudit.cli import main

sys.exit(main())
