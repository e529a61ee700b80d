"""Words of the lake file that other rooms use, too."""

FOUND_FORMATS = ("delta", "iceberg", "hudi")
"""Formats of which tables are found; a table of several is one of the first."""

FOUND_IN = ("s3_inventory", "gcs_inventory", "azure_inventory")
"""Kinds of inventories in which tables are found."""
