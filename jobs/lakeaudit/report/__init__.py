"""The report: one self-contained page a run leaves behind."""
