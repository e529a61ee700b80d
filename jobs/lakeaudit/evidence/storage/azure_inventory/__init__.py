"""Azure Blob Storage as its blob inventory reports name it, hierarchical accounts and flat ones."""

from lakeaudit.evidence.storage.azure_inventory.reader import probe, read

__all__ = ["probe", "read"]
