"""`previous`: what the last audited picture of storage held, and declares to stay, is a claim of today.

For tables without any writer's record. `kept_picture` keeps a picture beside the results, `compared` holds the last one
against storage as it is now and makes the next one of both, and `reader` makes claims of it.
"""

from lakeaudit.evidence.manifest.previous.point_lookup import probe
from lakeaudit.evidence.manifest.previous.reader import KIND, changes, read

__all__ = ["KIND", "changes", "probe", "read"]
