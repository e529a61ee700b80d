"""lakeaudit compares what writers, metadata stores and storage say about every file of a data lake.

`lakeaudit.open` opens a lake by its lake file, and `lakeaudit.scan` judges the tables below a location without one.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError("lakeaudit runs on Linux and macOS; on Windows, install it inside WSL")

if TYPE_CHECKING:
    from lakeaudit.api.frame import Frame
    from lakeaudit.api.lake import LakeHandle, open, scan  # noqa: A004 - `lakeaudit.open` is read with its module
    from lakeaudit.api.plan import RepairPlan
    from lakeaudit.api.run import AuditRun
    from lakeaudit.errors import AuditError

__version__ = "1.0.0"

_HOMES = {
    "AuditError": "lakeaudit.errors",
    "AuditRun": "lakeaudit.api.run",
    "Frame": "lakeaudit.api.frame",
    "LakeHandle": "lakeaudit.api.lake",
    "RepairPlan": "lakeaudit.api.plan",
    "open": "lakeaudit.api.lake",
    "scan": "lakeaudit.api.lake",
}
"""Modules of the public names; each is imported at its first use, so that `import lakeaudit` takes no time."""
__all__ = ["AuditError", "AuditRun", "Frame", "LakeHandle", "RepairPlan", "__version__", "open", "scan"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__]
