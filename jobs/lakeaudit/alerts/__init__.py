"""Sends the changes of a run to their receivers, once. `decide` chooses receivers and changes, `deliver` sends."""
