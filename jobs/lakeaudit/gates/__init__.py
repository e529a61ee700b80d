"""What must hold of a run before it is believed."""
