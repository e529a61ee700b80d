"""What differs between versions of Airflow: modules of names (`airflow.sdk` since 3.1), and arguments of operators."""

from inspect import signature

try:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
    )
except ImportError:
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
    )
    from airflow.hooks.base import BaseHook

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "BaseHook",
    "has_durable",
]


def has_durable(operator: type) -> bool:
    """Return whether an operator can reconnect to a job of an earlier try, unless `durable` forbids it."""
    return "durable" in signature(operator.__init__).parameters  # type: ignore[misc]  # of this very class
