"""Read and write the file of a plan: JSON Lines with a header and one row per step. A changed file is refused.

The digest covers the header and every row. The table `plans` contains it too, so that a file with a recomputed digest
is refused as well.
"""

import hashlib
import json
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, SourceError
from lakeaudit.evidence.files import copied
from lakeaudit.formatting import iso
from lakeaudit.keys import S3_SCHEMES, Location
from lakeaudit.reconcile.plans.totals import Totals
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

FORMAT = 1
VALID_FOR = timedelta(hours=24)
BATCH = 200
"""Steps that are decided on, recorded and carried out together."""
WINDOW = 100
"""Batches for which the tables' manifests are read completely once, and then only later commits."""
_NEW = "make a new plan with `lakeaudit reconcile plan`"


@dataclass(frozen=True)
class Header:
    """The first line of a plan. `lake_digest` covers the whole lake file; times are ISO 8601 with Z.

    `lake_data` are the locations and stores of the lake file (`config.data_of_lake`), so that an undo needs no lake
    file; empty in plans of earlier versions.
    """

    lakeaudit_plan: int
    version: str
    plan_id: str
    lake: str
    lake_file: str
    lake_digest: str
    created_by: str
    created_at: str
    expires_at: str
    allow: tuple[str, ...]
    batch: int
    steps: int = 0
    for_person: int = 0
    digest: str = ""
    lake_data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sealed_text(self) -> bytes:
        """Return the header's bytes for the digest, which precede those of the rows."""
        known = asdict(self) | {"digest": ""}
        if not self.lake_data:
            del known["lake_data"]
        return json.dumps(known, sort_keys=True).encode() + b"\n"


def lake_digest(lake: Lake) -> str:
    """Return the digest of the lake file with its includes and environment variables."""
    return lake.digest


def header_of(
    lake: Lake,
    lake_file: str,
    plan_id: str,
    allow: Iterable[str],
    by: str,
    now: datetime,
    version: str,
    lake_data: Mapping[str, Any] | None = None,
) -> Header:
    """Return the header of a plan before its steps are known."""
    return Header(
        lakeaudit_plan=FORMAT,
        version=version,
        plan_id=plan_id,
        lake=lake.name,
        lake_file=lake_file,
        lake_digest=lake_digest(lake),
        created_by=by,
        created_at=iso(now),
        expires_at=iso(now + VALID_FOR),
        allow=tuple(sorted(allow)),
        batch=BATCH,
        lake_data=json.loads(json.dumps(lake_data or {}, default=str)),
    )


@dataclass(frozen=True)
class Lines:
    """Some rows of a plan as bytes of its file, with their totals."""

    text: bytes
    totals: Totals

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """Build the lines of steps."""
        lines, totals = [], Totals()
        for step in steps:
            lines.append(step.as_line().encode() + b"\n")
            totals.add(step)
        return cls(b"".join(lines), totals)


def write_plan(path: Path, header: Header, rows: Iterable[Lines]) -> tuple[Header, Totals]:
    """Write a plan completely or not at all; return its sealed header and the totals of its steps.

    Raises:
        BadInput: the file cannot be written.
    """
    with _writing(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=".plan-") as folder:
        lines, whole = Path(folder, "rows"), Path(folder, "whole")
        totals = _write_rows(lines, rows)
        counted = replace(header, steps=totals.steps, for_person=totals.for_person)
        sealed = replace(counted, digest=_digest(counted, lines))
        with whole.open("wb") as out, lines.open("rb") as content:
            out.write(json.dumps(asdict(sealed)).encode() + b"\n")
            shutil.copyfileobj(content, out)
        whole.replace(path)
        return sealed, totals


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be written ({error.strerror})", "name another file with -o"
        ) from error


def _write_rows(path: Path, rows: Iterable[Lines]) -> Totals:
    totals = Totals()
    with path.open("wb") as out:
        for lines in rows:
            out.write(lines.text)
            totals.include(lines.totals)
    return totals


def _digest(header: Header, rows: Path) -> str:
    digest = hashlib.sha256(header.sealed_text)
    with rows.open("rb") as lines:
        for block in iter(lambda: lines.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


class PlanFile:
    """An unchanged plan. One batch of its rows at a time is in memory, and the offset of each line."""

    def __init__(self, file: IO[bytes], header: Header, places: "array[int]") -> None:
        self._file = file
        self.header = header
        self._places = places

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a plan and check its digest.

        Raises:
            BadInput: the file is not a plan, or was changed or truncated.
        """
        try:
            file = path.open("rb")
        except OSError as error:
            raise BadInput(
                str(path), f"cannot be read ({error.strerror})", "name the file of a plan"
            ) from error
        header = _header(path, file.readline())
        digest = hashlib.sha256(replace(header, digest="").sealed_text)
        places = array("q")
        place = file.tell()
        for line in file:
            places.append(place)
            place += len(line)
            digest.update(line)
        if digest.hexdigest() != header.digest or len(places) != header.steps + header.for_person:
            file.close()
            raise BadInput(str(path), "was changed or truncated since it was written", _NEW)
        return cls(file, header, places)

    def rows(self) -> Iterator[Step]:
        """Yield all rows, also those that need a person."""
        return (self._step(line) for line in range(len(self._places)))

    def windows(self) -> Iterator[list[tuple[int, list[Step]]]]:
        """Yield the batches in groups for which the tables are read once."""
        batches = self.batches()
        while window := [*islice(batches, WINDOW)]:
            yield window

    def by_table(self) -> Counter[str]:
        """Return the number of steps by table."""
        return Counter(step.table_name or "" for _, steps in self.batches() for step in steps)

    def batches(self, *, backwards: bool = False) -> Iterator[tuple[int, list[Step]]]:
        """Yield (number, steps) of every batch; backwards, the last step comes first."""
        begins = range(0, len(self._places), self.header.batch)
        for begin in reversed(begins) if backwards else begins:
            lines = range(begin, min(begin + self.header.batch, len(self._places)))
            steps = [self._step(line) for line in (reversed(lines) if backwards else lines)]
            yield begin // self.header.batch, [step for step in steps if not step.needs_person]

    def _step(self, line: int) -> Step:
        self._file.seek(self._places[line])
        return Step.of_line(self._file.readline())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _header(path: Path, line: bytes) -> Header:
    try:
        values: dict[str, Any] = json.loads(line)
        known = {each.name: values[each.name] for each in fields(Header) if each.name != "lake_data"}
        known["lake_data"] = dict(values.get("lake_data", {}))
        header = Header(**(known | {"allow": tuple(values["allow"])}))
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(str(path), "is not a plan of lakeaudit", _NEW) from error
    if header.lakeaudit_plan != FORMAT or header.batch < 1:
        raise BadInput(str(path), "is a plan of another version of lakeaudit", _NEW)
    return header


@contextmanager
def open_plan(name: str, clients: Clients) -> Iterator[PlanFile]:
    """Open the plan at a path or s3:// URI until the end of the block. Raises as `PlanFile.open`."""
    if not name.startswith(S3_SCHEMES):
        with closing(PlanFile.open(Path(name))) as plan:
            yield plan
        return
    with tempfile.TemporaryDirectory(prefix="lakeaudit-") as folder:
        local = Path(folder, "plan")
        try:
            with copied(clients, Location.parse(name), local) as copy:
                exists = copy is not None
        except SourceError as error:
            raise BadInput(name, error.what, error.hint) from error
        if not exists:
            raise BadInput(name, "does not exist", "name the file of a plan")
        with closing(PlanFile.open(local)) as plan:
            yield plan


@contextmanager
def new_plan_file(name: str, clients: Clients) -> Iterator[Path]:
    """Yield a local path for a plan that is stored under its name, a path or s3:// URI, at the end of the block.

    Raises:
        BadInput: the plan cannot be written.
    """
    if not name.startswith(S3_SCHEMES):
        with suppress(OSError):  # the next write reports it
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="lakeaudit-") as folder:
        local, place = Path(folder, "plan"), Location.parse(name)
        yield local
        try:
            with local.open("rb") as content:
                clients.s3(*place).put_object(Bucket=place.bucket, Key=place.key, Body=content)
        except (ClientError, BotoCoreError) as error:
            raise BadInput(name, explain(error).what, "name another location with -o") from error
