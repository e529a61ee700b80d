"""Results of years of nightly audits besides open discrepancies: coverage of all runs, a long ledger, commits."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from lakeaudit.evidence.protocol import RECENT
from lakeaudit.keys import Location
from lakeaudit.results.read import PUBLISHED
from lakeaudit.schemas import COMMITS, RESULTS
from tests.builders.results import LAKE
from tests.builders.year import lay_year, table_names

_RUNS_A_FILE = 40
"""As upkeep joins them."""


def lay_long_year(
    folder: Path, now: datetime, ledger: int, tables: int = 2000, nights: int = 730, seed: int = 1
) -> str:
    """A year as `lay_year` has it, in a ledger of so many rows; the path of the lake file."""
    lake = lay_year(folder, now, tables, nights, seed)
    place = Location.parse(str(folder / "results"))
    _lay_coverage(place)
    _lengthen(place, ledger)
    _lay_commits(place, table_names(tables), now)
    return lake


def _read(place: Location, name: str) -> pa.Table:
    return DeltaTable(place.join(name).spark_path).to_pyarrow_table()


def _append(place: Location, name: str, rows: pa.Table) -> None:
    cast = rows.select(RESULTS[name].names).cast(RESULTS[name])
    write_deltalake(place.join(name).spark_path, cast, mode="append")


def _lay_coverage(place: Location) -> None:
    """Rows of every published run except the last, which has its own."""
    last, runs = _read(place, "coverage"), _read(place, "runs")
    ids = runs.filter(pc.field("status").isin(list(PUBLISHED))).sort_by("as_of")["run_id"].to_pylist()
    for begin in range(0, len(ids) - 1, _RUNS_A_FILE):
        some = ids[begin : min(begin + _RUNS_A_FILE, len(ids) - 1)]
        of_runs = [_with(last, "run_id", pa.repeat(id_, last.num_rows)) for id_ in some]
        _append(place, "coverage", pa.concat_tables(of_runs))


def _lengthen(place: Location, ledger: int) -> None:
    """Resolved rows over and over, each with a key of its own, and their transitions."""
    held, told = _read(place, "discrepancies"), _read(place, "transitions")
    over = held.filter(pc.field("state") == "resolved")
    of_over = told.filter(pc.field("discrepancy_id").isin(over["discrepancy_id"]))
    for copy in range(1, max(ledger - held.num_rows, 0) // over.num_rows + 1):
        mark = f"{copy:04x}"
        more = over
        for name in ("discrepancy_id", "key", "subject"):
            more = _marked(more, name, mark)
        _append(place, "discrepancies", more)
        _append(
            place, "transitions", _marked(_marked(of_over, "discrepancy_id", mark), "transition_id", mark)
        )


def _lay_commits(place: Location, names: list[str], now: datetime) -> None:
    """As many of each table as are kept, six hours apart."""
    number = len(names) * RECENT
    version = np.arange(number, dtype=np.int64) % RECENT + 4100
    at = [now - timedelta(hours=6 * (RECENT - n)) for n in range(RECENT)]
    last = _read(place, "coverage")["run_id"][0].as_py()
    rows = {
        "run_id": pa.repeat(last, number), "lake": pa.repeat(LAKE, number),
        "table_name": np.repeat(names, RECENT), "manifest_kind": pa.repeat("delta", number), "version": version,
        "commit_id": version.astype(str), "committed_at": at * len(names), "operation": pa.repeat("WRITE", number),
        "files_added": version % 17, "files_removed": version % 5,
    }  # fmt: skip
    _append(place, "commits", pa.table(rows, schema=COMMITS))


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _marked(rows: pa.Table, name: str, mark: str) -> pa.Table:
    return _with(rows, name, pc.binary_join_element_wise(rows[name].cast(pa.string()), mark, ""))
