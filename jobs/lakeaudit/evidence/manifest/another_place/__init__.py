"""`listing` and `s3_inventory` as manifests: all that another place holds should be here (a migration, a copy).

`reader` reads that place as storage is read, `originals` makes claims of its objects by the names that `maps` give
them, and `point_lookup` asks for one object.
"""

from lakeaudit.evidence.manifest.another_place.reader import changes, read

__all__ = ["changes", "read"]
