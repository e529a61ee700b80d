"""A limit of the requests that one command sends to S3."""

from typing import Any

from botocore.exceptions import BotoCoreError


class BudgetSpent(BotoCoreError):
    """A request was not sent, since the command has sent as many as it may."""

    fmt = "not read: the limit of {most} requests is reached"
    hint = "raise --max-requests, or name a smaller location"


class RequestBudget:
    """Counts the requests of all clients of an endpoint, and refuses those above the limit.

    Threads count without a lock: a few requests more are harmless.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent = 0

    @property
    def is_spent(self) -> bool:
        """Return whether a further request is refused."""
        return self.sent >= self.most

    def take(self, **_: Any) -> None:
        """Count a request; botocore calls this before it sends one.

        Raises:
            BudgetSpent: the limit is reached.
        """
        if self.is_spent:
            raise BudgetSpent(most=f"{self.most:,}")
        self.sent += 1
