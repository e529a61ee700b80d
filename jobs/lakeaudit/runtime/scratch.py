"""Where temporary files of an audit lie: below Spark's local folders, which are sized for spilling and cleaned up."""

import os
from collections.abc import Mapping
from pathlib import Path


def scratch_root(env: Mapping[str, str] = os.environ) -> str | None:
    """One of the folders of `SPARK_LOCAL_DIRS`, which Spark gives its Python workers, or of YARN's `LOCAL_DIRS`.

    None: the system's own choice, as for every `tempfile`. Processes take different folders where there are several.
    """
    named = env.get("SPARK_LOCAL_DIRS") or env.get("LOCAL_DIRS") or ""
    folders = [folder for folder in named.split(",") if folder and _usable(Path(folder))]
    return folders[os.getpid() % len(folders)] if folders else None


def _usable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)
