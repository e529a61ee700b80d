"""Write findings and discrepancies in the formats of `--format`; `registry` has the formats by name."""
