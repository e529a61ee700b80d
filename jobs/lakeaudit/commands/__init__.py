"""What the commands do, apart from how they are typed: `cli.py` parses, these run."""
