"""A lake whose tables concern each other: a clone, a table inside of a table, copies, hostile names, damaged logs."""

from pathlib import Path

from tests.audits.test_bounds import put
from tests.builders.delta_lake import BORN, Log, add, features, remove
from tests.builders.found_tables import LONG_AGO

FILES = ("a.parquet", "b.parquet")


def lay_hostile(root: Path, fillers: int) -> Path:
    """Lay damaged tables, and so many healthy ones, each of which has an unlisted file."""
    for number in range(fillers):
        _table(root / f"m{number:03}")
        put(root / f"m{number:03}/unlisted.parquet", 50 + number, LONG_AGO)
    _cloned(root)
    _nested(root)
    _lost_files(root)
    _damaged_logs(root)
    return root


def _table(table: Path, *names: str, size: int = 100) -> None:
    names = names or FILES
    Log(table).commit(0, *BORN, *(add(name, size=size) for name in names), when=LONG_AGO)
    for name in names:
        put(table / name, size, LONG_AGO)


def _cloned(root: Path) -> None:
    """A clone, last by name, needs a file that its source, first by name, has removed; another one is lost."""
    source = root / "a_source"
    _table(source, "needed.parquet", "unneeded.parquet", "kept.parquet", "lost.parquet")
    gone = [remove(name, removed=LONG_AGO) for name in ("needed.parquet", "unneeded.parquet")]
    Log(source).commit(1, *gone, when=LONG_AGO)
    needed = [add(f"{source}/{name}", size=100) for name in ("needed.parquet", "lost.parquet")]
    Log(root / "z_clone").commit(0, *BORN, *needed, add("own.parquet", size=100), when=LONG_AGO)
    (source / "lost.parquet").unlink()


def _nested(root: Path) -> None:
    """A table inside of a table; both have a lost file and an unlisted one."""
    for place in (root / "n_outer", root / "n_outer/inner"):
        _table(place)
        (place / "a.parquet").unlink()
        put(place / "unlisted.parquet", 77, LONG_AGO)


def _lost_files(root: Path) -> None:
    """Two tables with files of one name and size; one lost its file, and the other has one that nobody lists."""
    name = "part-00000-6a3d9b8e-2f41-4a5b-9c3d-0f6e7a8b9c0d-c000.snappy.parquet"
    for place in (root / "b_moved", root / "x_other"):
        _table(place, name, size=4321)
    (root / "b_moved" / name).unlink()
    put(root / "y_third" / name, 4321, LONG_AGO)
    _table(root / "y_third")
    for name in ('quoted "x"', "line\nbreak", "\u202ereversed", "[bold]markup[/bold]", "%41"):
        Log(root / name).commit(0, *BORN, add("lost.parquet", size=100), when=LONG_AGO)


def _damaged_logs(root: Path) -> None:
    """A log with a gap, a log that ends within a line, and a log of a feature that nobody knows."""
    _table(root / "d_gap")
    Log(root / "d_gap").commit(2, add("c.parquet", size=100), when=LONG_AGO)
    _table(root / "d_torn")
    Log(root / "d_torn").put(f"{1:020}.json", '{"add": {"path": "c.par', LONG_AGO)
    _table(root / "d_feature")
    Log(root / "d_feature").commit(1, features("unheardOf"), when=LONG_AGO)
