"""The Python interface: what `lakeaudit.open` and `lakeaudit.scan` return."""
