"""A writer that does not stop for an audit: it commits, compacts and vacuums one Delta table over and over."""

import threading
from types import TracebackType
from typing import Self

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FILES_BEFORE_COMPACTION = 3


class BusyWriter:
    """Works in a thread of its own from `with` to its end; a failure of the writer is raised there."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.uri, self.options = uri, options
        self.rounds = 0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._append()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._over.wait(0.2):
                self._round()
        except BaseException as error:  # noqa: BLE001 - handed on to the test's own thread
            self._failure = error

    def _round(self) -> None:
        for _ in range(FILES_BEFORE_COMPACTION):
            self._append()
        table = DeltaTable(self.uri, storage_options=self.options)
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        self.rounds += 1

    def _append(self) -> None:
        rows = pa.table({"tick": list(range(self.rounds * 100, self.rounds * 100 + 100))})
        write_deltalake(self.uri, rows, mode="append", storage_options=self.options)
