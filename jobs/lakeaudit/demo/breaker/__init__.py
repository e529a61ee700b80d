"""Breaks a lake on purpose, directly on the server, and lists the findings that a correct audit must have.

The breaker imports nothing else of lakeaudit, so that it cannot repeat the audit's mistakes: it selects files by
listing the bucket, scanning DynamoDB, reading Delta logs and file lists itself, and from a plain JSON description of
the lake. Its expectations follow the documented kinds and rules, never the output of an audit.
"""

from lakeaudit.demo.breaker.fault_draw import CATALOGUE, break_lake
from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site

__all__ = ["CATALOGUE", "Expected", "Fault", "NoVictim", "Site", "break_lake"]
