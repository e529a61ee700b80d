"""A broken demo lake that lasts, for those who audit it from other processes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lakeaudit.demo.breaker import Fault
from lakeaudit.demo.server import serving
from lakeaudit.demo.story import Draw, build, build_without_spark, damage, prepare, write_lake_file
from lakeaudit.progress import Progress

CONF = "conf"


@contextmanager
def lake_served(folder: Path, draw: Draw, progress: Progress) -> Iterator[list[Fault]]:
    """What was broken in a demo lake, on a server that lives as long as the block.

    Its file is conf/demo.yaml of the folder; results go to `results` there.
    """
    from lakeaudit.spark import build_session

    prepare(folder)
    (folder / CONF).mkdir()
    with serving() as server, ThreadPoolExecutor(1) as beside:
        others = beside.submit(build_without_spark, server)
        with progress.stage("start Spark"):
            spark = build_session("lakeaudit demo", s3=server.endpoint, small=True, brief=True)
        try:
            build(spark, server, others, progress)
        finally:
            spark.stop()
        made = damage(server.clients, draw, progress)
        write_lake_file(folder / CONF / "demo.yaml", folder / "results", server)
        yield made
