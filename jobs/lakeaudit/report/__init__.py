"""Renders the report of a run as one self-contained HTML page."""
