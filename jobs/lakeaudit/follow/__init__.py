"""Follow the changes of a lake's objects by their events, and report a loss within a minute."""
