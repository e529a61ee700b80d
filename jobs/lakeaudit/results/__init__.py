"""The results of audits: plain Delta tables, written by delta-rs, which anything that knows Delta can read."""
