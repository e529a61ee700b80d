"""Compute the least AWS permissions for a lake: `lakes` collects grants, `policies` writes them as IAM policies."""
