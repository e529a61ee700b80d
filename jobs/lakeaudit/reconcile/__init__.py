"""Mends what audits found: a plan that people review, its steps, and the way back. The next audit resolves."""
