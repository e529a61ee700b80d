"""Separate the options that every command has, and that may also follow the name of the command."""

from collections.abc import Sequence
from contextvars import ContextVar

DEBUG, QUIET, NO_COLOR = "--debug", "--quiet", "--no-color"
FLAGS = frozenset((DEBUG, QUIET, NO_COLOR))

IS_QUIET: ContextVar[bool] = ContextVar("is_quiet", default=False)
"""Whether stderr contains only warnings and errors."""


def split_flags(words: Sequence[str]) -> tuple[frozenset[str], list[str]]:
    """Return the flags of a command line and its other words; words after `--` are arguments."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for at, word in enumerate(words) if at >= end or word not in FLAGS]
    return FLAGS.intersection(words[:end]), rest
