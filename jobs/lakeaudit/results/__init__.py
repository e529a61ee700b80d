"""The results of audits: Delta tables that Spark writes and anything that knows Delta can read."""
