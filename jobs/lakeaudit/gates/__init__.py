"""The expectations that a run must meet before it is published."""
