"""Alerts: what a run changed is told to whom it concerns, once, in words. Decided apart from how it is delivered."""
