"""Words of S3 that several readers have to know."""

ARCHIVE_CLASSES = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects have to be restored before they can be read; GLACIER_IR is read at once."""
NULL_VERSION = "null"
"""How the API writes the version that an unversioned put left; CSV inventories leave it empty, others null."""
