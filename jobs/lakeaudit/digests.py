"""Ids made of what they stand for; `compare.findings.digest` makes those of Spark's rows."""

import hashlib


def digest(*parts: str) -> str:
    """An id for these parts, the same wherever it is made."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]
