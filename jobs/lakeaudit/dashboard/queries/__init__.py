"""Reads from the result tables the rows that the pages show. It does not depend on the pages."""
