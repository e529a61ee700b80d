"""Breaks a lake on purpose, straight on the server, and says what an honest audit has to find.

Nothing of lakeaudit is imported here, so that the breaker cannot make the audit's mistakes: it finds its victims by
listing the bucket, scanning DynamoDB, reading Delta logs and file lists itself, and from a plain JSON description of
the lake. What it expects follows the documented kinds and rules, never what an audit happens to say.
"""

from lakeaudit.demo.breaker.fault_draw import CATALOGUE, break_lake
from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site

__all__ = ["CATALOGUE", "Expected", "Fault", "NoVictim", "Site", "break_lake"]
