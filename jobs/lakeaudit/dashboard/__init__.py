"""The dashboard: pages over the result tables. `figures` asks them, the pages show what it answers."""
