"""States where the commands of a page or a message can be run: they name a lake file of this machine."""

from pathlib import Path
from socket import gethostname


def absolute_lake_file(lake_file: str) -> str:
    """Return the lake file by its whole path, or its address in a store."""
    return lake_file if "://" in lake_file else str(Path(lake_file).absolute())


def place_of_commands(lake_file: str) -> str:
    """Return where commands with this lake file can be run, in a sentence; empty for one in a store."""
    if "://" in lake_file:
        return ""
    folder = "" if Path(lake_file).is_absolute() else f" in the folder {Path.cwd()}"
    where = f"on the host {gethostname()}{folder}"
    return f"Run the commands of this page {where}. The lake file there is {lake_file}."
