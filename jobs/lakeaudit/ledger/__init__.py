"""What lakeaudit remembers of a lake, and who may write it."""
