"""Record the batches of a run in small files in the results location, before they are written to the table `actions`.

A batch costs two files, however many came before it; a commit of the table would cost more with each batch.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import list_files, put_bytes, read_bytes, remove_file
from lakeaudit.formatting import iso
from lakeaudit.results.delta_writer import in_words
from lakeaudit.results.read import Results, Row
from lakeaudit.results.write_errors import refuse

FOLDER = "_reconcile"
_NUMBERED = re.compile(r"[0-9]+\.json")


class WriteAhead:
    """The records of one plan: a file for each batch with its rows of `actions`.

    Methods that write raise `CannotPublish`, and `Busy` if another run may hold the lease; methods that read raise
    `SourceError`.
    """

    def __init__(self, results: Results, plan_id: str) -> None:
        self._results = results
        self._folder = results.place.join(FOLDER, plan_id)

    def put(self, number: int, rows: Sequence[Row]) -> None:
        """Replace the record of a batch."""
        content = json.dumps([_plain(row) for row in rows]).encode()
        self._results.require_lease()
        try:
            put_bytes(self._results.clients, self._folder.join(f"{number}.json"), content)
        except (OSError, ClientError, BotoCoreError) as error:
            refuse(self._folder, [in_words(error)], error)

    def left(self) -> Iterator[tuple[int, list[Row]]]:
        """Yield the batches that a killed run did not write to the table."""
        for file in [*list_files(self._results.clients, self._folder, flat=True)]:
            name, _, ending = file.name.partition(".")
            if name.isdigit() and ending == "json":
                content = read_bytes(self._results.clients, file.place)
                yield int(name), [_of_plain(row) for row in json.loads(content or b"[]")]

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the files of batches that are in the table; the next run writes a leftover file to it once more."""
        self._results.require_lease()
        for number in numbers:
            try:
                remove_file(self._results.clients, self._folder.join(f"{number}.json"))
            except (OSError, ClientError, BotoCoreError):
                return


def plans_left(results: Results) -> list[str]:
    """Return plans with files of a killed run, by one listing. Raises SourceError."""
    folder = results.place.join(FOLDER)
    keys = {file.place.key[len(folder.prefix) :] for file in list_files(results.clients, folder)}
    return sorted(
        {plan for plan, _, name in (key.partition("/") for key in keys) if _NUMBERED.fullmatch(name)}
    )


def _plain(row: Row) -> dict[str, Any]:
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _of_plain(row: dict[str, Any]) -> Row:
    at = row["done_at"]
    return row | {"done_at": None if at is None else datetime.fromisoformat(at)}
