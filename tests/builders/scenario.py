"""Scenarios: what sources say of a few files, and the verdicts that an expert expects. `twin` judges them plainly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.config import ManifestSource, Settings, Table
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.replica_source import InventoryManifest
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.keys import Location
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.rules import file_rules
from tests.builders.evidence import BUCKET, CUT, folder, state_of, stored

Row = dict[str, Any]
ZERO = timedelta(0)
ORIGINAL = InventoryManifest(kind="s3_inventory", location=Location("inventories", "old"))
DELTA = DeltaManifest(kind="delta")
LISTS = FileListManifest(kind="file_list", location=Location("lists", "orders"), complete=True)
PARTIAL_LISTS = FileListManifest(kind="file_list", location=Location("lists", "orders"), complete=False)


def before(hours: float = 0, seconds: float = 0) -> datetime:
    """A moment before the storage cut."""
    return CUT - timedelta(hours=hours, seconds=seconds)


def after(hours: float = 0, seconds: float = 0) -> datetime:
    """A moment after the storage cut."""
    return CUT + timedelta(hours=hours, seconds=seconds)


def table(
    name: str = "orders",
    manifests: Sequence[ManifestSource] = (DELTA,),
    *,
    shares: tuple[str, ...] = (),
    holed: bool = False,
    state: Mapping[str, Any] | None = None,
    at: str | None = None,
    moved: bool = False,
    **settings: Any,
) -> TableFacts:
    """A table in the folder `at`, else of its own name, with the lake file's defaults; `state` is its own state."""
    place = Location(BUCKET, name if at is None else at)
    entry = Table(
        name=name, location=place, manifests=tuple(manifests), shares=shares, settings=Settings(**settings),
        moved=moved,
    )  # fmt: skip
    holes = (EvidenceGap("manifest:delta", "commit 4 is missing", table=name),) if holed else ()
    return TableFacts(entry, (state_of(name, **(state or {})),) if manifests else (), holes)


_UNSAID = ("size", "etag", "storage_class", "archived", "multipart", "encryption")


NOW = after(7)
"""Time of the live check of missing and recent files."""


def deleted(key: str, **given: Any) -> Row:
    """A key under a delete marker that was set two days before the cut: the time and the version are the marker's."""
    marker = {"presence": "absent", "delete_marker": True, "version_id": "m1", "modified_at": before(48)}
    return stored(key) | dict.fromkeys(_UNSAID) | marker | given


def unclear(key: str) -> Row:
    """A key without exactly one latest version: no other column has a value."""
    return stored(key) | dict.fromkeys((*_UNSAID, "modified_at", "delete_marker")) | {"presence": "unclear"}


@dataclass(frozen=True)
class Storage:
    """A storage source: begin of its snapshot window, margin, covered prefixes, and whether it has an evidence gap."""

    cut: datetime = CUT
    margin: timedelta = ZERO
    covers: tuple[str, ...] = ("",)
    holed: bool = False


@dataclass(frozen=True)
class Store:
    """A metadata store. `authoritative` are the prefixes where readers trust it alone ("" is everywhere).

    Folder entries for the roots of all tables are there without being said.
    """

    cut: datetime = CUT
    margin: timedelta = ZERO
    ttl: timedelta | None = None
    authoritative: tuple[str, ...] = ()
    holed: bool = False


@dataclass(frozen=True)
class Scenario:
    """Observations in, verdicts out. `live` is what storage answers now, by key, of findings and of fresh files."""

    name: str
    verdicts: Mapping[tuple[str, str], Mapping[str, str]]
    claims: Sequence[Row] = ()
    objects: Sequence[Row] = ()
    entries: Sequence[Row] = ()
    uploads: Sequence[Row] = ()
    tables: Sequence[TableFacts] = ()
    storage: Sequence[Storage] = (Storage(),)
    store: Store | None = None
    live: Mapping[str, Row] = field(default_factory=dict)


_PRESENT = {"l_storage_class": "STANDARD", "l_archived": False}


def case(
    name: str,
    verdicts: str | Mapping[str, str],
    *,
    claims: Sequence[Row] = (),
    objects: Sequence[Row] = (),
    entries: Sequence[Row] = (),
    uploads: Sequence[Row] = (),
    tables: Sequence[TableFacts] = (),
    storage: Sequence[Storage] = (Storage(),),
    store: Store | None = None,
    live: Mapping[str, Row] | None = None,
) -> Scenario:
    """A scenario about one file (`verdicts` is one line) or several ({"orders/a": line, "copy: orders/a": line})."""
    seen = sorted({row["key"] for row in (*claims, *objects, *entries, *uploads) if not row.get("is_dir")})
    told = {seen[0]: verdicts} if isinstance(verdicts, str) else verdicts
    known = tables or (table(),)
    if store or entries:
        store = store or Store()
        entries = [*(folder(fact.table.location.key) for fact in known if fact.table.location.key), *entries]
    live = {
        key: _PRESENT | row if row.get("l_presence") == "present" else row
        for key, row in (live or {}).items()
    }
    expected = {_subject(about): _line(line) for about, line in told.items()}
    return Scenario(name, expected, claims, objects, entries, uploads, known, storage, store, live or {})


WORDS = {"ok": file_rules.CONSISTENT, "young": file_rules.OUT}


def _subject(about: str) -> tuple[str, str]:
    """(judged table, key) of `orders/a`, or of `copy: orders/a` where another table is judged."""
    name, colon, key = about.partition(": ")
    return (name, key) if colon else (about.partition("/")[0], about)


def _line(line: str) -> dict[str, str]:
    """{axis: verdict} of `content dropped, duplicate ok`; an axis that is not named does not judge the file."""
    pairs = (part.split() for part in line.split(",")) if line else ()
    return {axis: WORDS.get(word, word) for axis, word in pairs}
