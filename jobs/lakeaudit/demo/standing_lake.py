"""Serves a broken demo lake for audits from other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeaudit.demo.breaker import Fault
from lakeaudit.demo.scenario import Draw, damage, healthy_lake, prepare, write_lake_file
from lakeaudit.demo.server import serving
from lakeaudit.runtime.progress import Progress

CONF = "conf"


@contextmanager
def lake_served(folder: Path, draw: Draw, progress: Progress) -> Iterator[list[Fault]]:
    """Yield the faults of a demo lake, whose server runs until the block ends.

    The lake file is conf/demo.yaml in the folder; results are written to `results` there.
    """
    prepare(folder)
    (folder / CONF).mkdir()
    with serving() as server:
        with healthy_lake(server, progress):
            pass  # its session is no longer needed
        made = damage(server.clients, draw, progress)
        write_lake_file(folder / CONF / "demo.yaml", folder / "results", server)
        yield made
