"""Small files beside the results that say what is being done to which batch, before the table `actions` does.

A batch costs two of them, whatever was done before it; a commit of the table would cost more with each batch.
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
    """The records of one plan, a file for each batch: its rows of `actions`.

    Raises, from what writes, `CannotPublish`, and `Busy` where another run may hold the lease; from what reads,
    `SourceError`.
    """

    def __init__(self, results: Results, plan_id: str) -> None:
        self._results = results
        self._folder = results.place.join(FOLDER, plan_id)

    def put(self, number: int, rows: Sequence[Row]) -> None:
        """Replace what is recorded of a batch."""
        content = json.dumps([_plain(row) for row in rows]).encode()
        self._results.require_lease()
        try:
            put_bytes(self._results.clients, self._folder.join(f"{number}.json"), content)
        except (OSError, ClientError, BotoCoreError) as error:
            refuse(self._folder, [in_words(error)], error)

    def left(self) -> Iterator[tuple[int, list[Row]]]:
        """What a run that was killed did not fold into the table, by batch."""
        for file in [*list_files(self._results.clients, self._folder, flat=True)]:
            name, _, ending = file.name.partition(".")
            if name.isdigit() and ending == "json":
                content = read_bytes(self._results.clients, file.place)
                yield int(name), [_of_plain(row) for row in json.loads(content or b"[]")]

    def forget(self, numbers: Iterable[int]) -> None:
        """What the table says now needs no file; one that stays is folded once more by the next run."""
        self._results.require_lease()
        for number in numbers:
            try:
                remove_file(self._results.clients, self._folder.join(f"{number}.json"))
            except (OSError, ClientError, BotoCoreError):
                return


def plans_left(results: Results) -> list[str]:
    """The plans of which a run that was killed left files; one listing. Raises SourceError."""
    folder = results.place.join(FOLDER)
    keys = {file.place.key[len(folder.prefix) :] for file in list_files(results.clients, folder)}
    found = {plan for plan, _, name in (key.partition("/") for key in keys) if _NUMBERED.fullmatch(name)}
    return sorted(found)


def _plain(row: Row) -> dict[str, Any]:
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _of_plain(row: dict[str, Any]) -> Row:
    at = row["done_at"]
    return row | {"done_at": None if at is None else datetime.fromisoformat(at)}
