"""Storage as a listing of S3 or of a local folder names it now: versions, delete markers and open uploads."""

from lakeaudit.evidence.storage.listing.reader import read, read_place

__all__ = ["read", "read_place"]
