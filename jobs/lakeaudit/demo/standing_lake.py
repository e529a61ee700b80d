"""A broken demo lake that lasts, for those who audit it from other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeaudit.demo.breaker import Fault
from lakeaudit.demo.scenario import Draw, built, damage, prepare, write_lake_file
from lakeaudit.demo.server import serving
from lakeaudit.runtime.progress import Progress

CONF = "conf"


@contextmanager
def lake_served(folder: Path, draw: Draw, progress: Progress) -> Iterator[list[Fault]]:
    """What was broken in a demo lake, on a server that lives as long as the block.

    Its file is conf/demo.yaml of the folder; results go to `results` there.
    """
    prepare(folder)
    (folder / CONF).mkdir()
    with serving() as server:
        with built(server, progress):
            pass  # nobody needs its session any more
        made = damage(server.clients, draw, progress)
        write_lake_file(folder / CONF / "demo.yaml", folder / "results", server)
        yield made
