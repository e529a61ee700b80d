"""The default limits of requests of scan and guard; loads no client."""

MAX_REQUESTS = 20_000
"""Requests to S3 for ten cents at the list price of LIST, enough for some million objects."""

MAX_GUARD_REQUESTS = 100_000
"""Requests to S3 for four cents at the list price of HEAD."""
