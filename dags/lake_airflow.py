"""What differs between Airflows: modules of names (`airflow.sdk` since 3.1), arguments of operators, and time zones."""

from inspect import signature
from typing import Any

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

try:
    from airflow.sdk import CronTriggerTimetable
except ImportError:
    from airflow.timetables.trigger import CronTriggerTimetable

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "BaseHook",
    "has_durable",
    "in_utc",
]

WITHOUT_TIMES = (None, "@once", "@continuous")
"""Schedules that are not cron expressions."""


def has_durable(operator: type) -> bool:
    """Return whether an operator can reconnect to a job of an earlier try, unless `durable` forbids it."""
    return "durable" in signature(operator.__init__).parameters  # type: ignore[misc]  # of this very class


def in_utc(schedule: str | None) -> Any:
    """Return a schedule whose times are UTC; Airflow reads a text in its own default time zone."""
    return schedule if schedule in WITHOUT_TIMES else CronTriggerTimetable(schedule, timezone="UTC")
