"""One audit from evidence to published results."""
