"""Explain one file, folder or discrepancy, for the command and the dashboard."""
