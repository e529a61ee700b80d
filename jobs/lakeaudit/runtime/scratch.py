"""The folder of an audit's temporary files: below Spark's local folders, which have room for spilling."""

import os
from collections.abc import Mapping
from pathlib import Path


def scratch_root(env: Mapping[str, str] = os.environ) -> str | None:
    """Return one of the folders of `SPARK_LOCAL_DIRS`, which Spark sets for its Python workers, or of `LOCAL_DIRS`.

    None: the system's own choice, as for every `tempfile`. If there are several folders, processes use different ones.
    """
    named = env.get("SPARK_LOCAL_DIRS") or env.get("LOCAL_DIRS") or ""
    folders = [folder for folder in named.split(",") if folder and _usable(Path(folder))]
    return folders[os.getpid() % len(folders)] if folders else None


def _usable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)
