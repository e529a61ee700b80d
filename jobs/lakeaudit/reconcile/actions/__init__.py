"""A module per action, each joined by its line in `reconcile.registry`."""
