"""The default limit of requests of a scan; apart from `request_budget`, so that the command line loads no client."""

MAX_REQUESTS = 20_000
"""Requests to S3 for ten cents at the list price of LIST, enough for some million objects."""
