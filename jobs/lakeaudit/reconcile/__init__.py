"""Repair open discrepancies with a plan that people review, apply and undo. The next audit resolves them."""
