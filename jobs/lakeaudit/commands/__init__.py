"""What the commands do, apart from how they are typed: `cli` parses, these run."""
