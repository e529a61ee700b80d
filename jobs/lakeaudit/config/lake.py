"""The lake as the audit uses it: defaults, overrides and store options are merged into every table and source."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import Field, SerializeAsAny

from lakeaudit.config.buckets import BucketRule
from lakeaudit.config.field_types import Severity, SeverityOrOff
from lakeaudit.config.file import (
    AnyAlert,
    AppriseAlert,
    CatalogDiscover,
    Ceiling,
    ConfirmMode,
    Discover,
    DiscoverEntry,
    Expected,
    Ignore,
    LakeFile,
    LedgerRules,
    Overrides,
    Owner,
    Quarantine,
    Readers,
    Renaming,
    Replica,
    ResultsBlock,
    TableEntry,
)
from lakeaudit.config.follow import Follow
from lakeaudit.config.globs import glob_to_regex, is_pattern
from lakeaudit.config.sources import (
    Block,
    CatalogSource,
    Inventory,
    Manifest,
    ManifestSource,
    Metastore,
    MetastoreSource,
    Pointer,
    Requests,
    S3Options,
    Source,
)
from lakeaudit.evidence.registry import MANIFESTS, format_rank
from lakeaudit.keys import Aliases, Location, digest

AnySource = TypeVar("AnySource", bound=Source)

PICTURES = ".previous"
"""The folder of storage snapshots next to the results."""

WEAK_MARGIN = timedelta(minutes=10)
"""The margin of listings of a weak bucket, unless the lake file has another one."""


class Confirm(Block):
    """The live check: at most `limit` candidates of a run and `rate` requests a second.

    `fresh` is the most files of a run that are checked because they are too young for its evidence, or lie outside of
    all listings.
    """

    mode: ConfirmMode = "head"
    limit: int = 10_000
    rate: int = 500
    fresh: int = 10_000

    @property
    def requests(self) -> int:
        """The most requests of a run: for each candidate a HEAD and a page of versions, for each fresh file a HEAD."""
        return 2 * self.limit + self.fresh


class Archived(Block):
    """Objects that are archived on purpose: those older than `expected_after`."""

    expected_after: timedelta | None = None


class Settings(Block):
    """The settings of one table, with the defaults of the contract. Sizes in bytes."""

    grace: timedelta = timedelta(hours=1)
    leftover_age: timedelta = timedelta(days=3)
    max_upload: timedelta = timedelta(hours=24)
    retention: timedelta = timedelta(days=7)
    """It applies only if the table's format states none."""
    min_duplicate_size: int = 4096
    readers: Readers | None = None
    """None: by state if the table has a state manifest, else by folder. Hudi's readers list folders even by state,
    unless they list by `metadata_table`."""
    append_only: bool = False
    """Whether no job of the table ever removes or rewrites a file."""
    archived: Archived = Archived()
    confirm: Confirm = Confirm()


class Table(Block):
    """A named set of files."""

    name: str
    location: Location
    manifests: tuple[Manifest, ...] = ()
    """Empty: the content axis is off."""
    owner: str | None = None
    shares: tuple[str, ...] = ()
    """Other tables whose current state may list this one's files."""
    also: tuple[str, ...] = ()
    """Other names of this table, of entries with the same location."""
    settings: Settings = Settings()
    severities: Mapping[str, SeverityOrOff] = Field(default_factory=dict)
    """Severities of the file by kind of finding: the table's override the lake's; all others are in `kinds.KINDS`."""
    s3: S3Options = S3Options()
    """Connection options of the table's files: its state manifest's, else the lake's."""
    moved: bool = False
    """Whether `maps` lead here: its files may be younger than their commits, since they are copies."""
    catalogued: bool = False
    """Whether a catalog in which tables are discovered names it."""
    scheme: str = ""
    """The scheme of the location as catalogs write it, if `Location.uri` has another one; else empty."""
    pictures: Location | None = None
    """The folder of storage snapshots, for manifests of kind `previous`."""

    @property
    def catalog_uri(self) -> str:
        """The location as catalogs write it."""
        return (
            f"{self.scheme}{self.location.bucket}/{self.location.key}" if self.scheme else self.location.uri
        )

    def as_named(self, text: str) -> str:
        """Return a text with places of the table's bucket as catalogs write them."""
        bucket = self.location.bucket
        return text.replace(f"s3://{bucket}/", f"{self.scheme}{bucket}/") if self.scheme else text

    @property
    def state_manifests(self) -> tuple[Manifest, ...]:
        """The manifests that define the table's current state."""
        return tuple(entry for entry in self.manifests if entry.is_state)

    @property
    def event_manifests(self) -> tuple[Manifest, ...]:
        """The manifests that list the files that were written once."""
        return tuple(entry for entry in self.manifests if not entry.is_state)

    @property
    def complete(self) -> bool:
        """Whether every claim on the table's files is known: only then a file may count as unused.

        If there is a state manifest, it decides alone; other lists are only compared with it.
        """
        return bool(self._deciding) and all(entry.complete for entry in self._deciding)

    def is_decided_by(self, kind: str) -> bool:
        """Return whether manifests of a kind decide which files the table has."""
        return any(entry.kind == kind for entry in self._deciding)

    @property
    def _deciding(self) -> tuple[Manifest, ...]:
        return self.state_manifests or self.event_manifests

    @property
    def read_by_folder(self) -> bool:
        """Whether readers read all visible files in its folders, rather than the files in a state manifest."""
        return (
            not self.state_manifests if self.settings.readers is None else self.settings.readers == "folder"
        )

    @property
    def read_by_metadata_table(self) -> bool:
        """Whether all readers of a Hudi table list its files by its metadata table."""
        return self.settings.readers == "metadata_table"

    def severity_of(self, kind: str, default: Severity) -> SeverityOrOff:
        """Return the severity of a kind in the file, else the rule's own."""
        return self.severities.get(kind, default)


class Discovery(Block):
    """Tables to discover in inventories, and the settings of each.

    A bucket of `under` may be a pattern of names, until the buckets are known.
    """

    under: tuple[Location, ...]
    formats: tuple[str, ...] = ("delta",)
    exclude: tuple[str, ...] = ()
    name: str | None = None
    owner: str | None = None
    settings: Settings = Settings()

    @property
    def plain_places(self) -> tuple[Location, ...]:
        """The places of `under` whose bucket is not a pattern."""
        return tuple(place for place in self.under if not is_pattern(place.bucket))

    @property
    def patterns(self) -> tuple[Location, ...]:
        """The places of `under` whose bucket is a pattern."""
        return tuple(place for place in self.under if is_pattern(place.bucket))

    def places_in(self, place: Location, buckets: Collection[str]) -> tuple[Location, ...]:
        """Return the places in these buckets that match a place with a pattern."""
        regex = glob_to_regex(place.bucket)
        return tuple(Location(bucket, place.key) for bucket in sorted(buckets) if re.search(regex, bucket))

    def among(self, buckets: Collection[str]) -> "Discovery":
        """Return the discovery with its patterns replaced by the matching buckets."""
        found = [each for place in self.patterns for each in self.places_in(place, buckets)]
        return self.model_copy(update={"under": tuple(dict.fromkeys([*self.plain_places, *found]))})


class CatalogDiscovery(Block):
    """Tables to discover in catalogs, and the settings of each."""

    stores: tuple[tuple[str, SerializeAsAny[CatalogSource]], ...]
    """Source id and catalog of each catalog to read."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("delta", "iceberg", "hudi", "hive")
    name: str | None = None
    owner: str | None = None
    settings: Settings = Settings()

    def wants(self, name: str) -> bool:
        """Return whether a table of that name is selected."""
        if any(re.fullmatch(glob_to_regex(pattern), name) for pattern in self.exclude):
            return False
        patterns = self.include
        return not patterns or any(re.fullmatch(glob_to_regex(pattern), name) for pattern in patterns)


class Lake(Block):
    """One lake file, checked as a whole."""

    name: str
    results: Location
    other_results: tuple[Location, ...] = ()
    """The results of the file, if an audit writes to other ones."""
    keep: timedelta | None = None
    """The time for which the result tables keep the rows of a run; None: for ever."""
    quarantine: Quarantine | None = None
    """None: `reconcile` does not move unused files."""
    s3: S3Options = S3Options()
    buckets: tuple[BucketRule, ...] = ()
    """In order: the first that matches a bucket's name applies to it."""
    aliases: Aliases = ()
    """Other names of places, as claims may write them; locations here have true names."""
    maps: Aliases = ()
    """(place before a migration, place after it), the longest name first: claims on the first are about the second."""
    inventories: tuple[Inventory, ...] = ()
    metastores: tuple[Metastore, ...] = ()
    events: tuple[Requests, ...] = ()
    tables: tuple[Table, ...]
    """The tables that the file names, and the tables of `discoveries` once they were discovered."""
    discoveries: tuple[Discovery, ...] = ()
    """The discoveries in inventories."""
    catalog_discoveries: tuple[CatalogDiscovery, ...] = ()
    owners: tuple[Owner, ...] = ()
    expected: tuple[Expected, ...] = ()
    settings: Settings = Settings()
    """The settings of `defaults`, for places without a table."""
    severities: Mapping[str, SeverityOrOff] = Field(default_factory=dict)
    ignores: tuple[Ignore, ...] = ()
    ceiling: Ceiling = Ceiling()
    ledger: LedgerRules = LedgerRules()
    watched: tuple[Table, ...] = ()
    """Places whose files without a table are reported: tables without manifests, named by their places."""
    replicas: tuple[Replica, ...] = ()
    """The places of copies of the lake's files."""
    alerts: tuple[AnyAlert, ...] = ()
    follow: Follow | None = None
    """The queue of events for `lakeaudit follow`, with the options of its connection; None: it has none."""
    dashboard_url: str | None = None
    """The address at which people open the dashboard."""
    heartbeat_url_env: str | None = None
    openlineage_url_env: str | None = None
    openlineage_tables: bool = False
    prometheus_textfile: str | None = None
    gates_required: bool = False
    """An audit without Great Expectations, which checks the results, does not start."""
    overdue: timedelta = timedelta(hours=36)
    """The time without a published audit after which an alert is sent."""
    assets: tuple[str, ...] = ("*",)
    """Names or patterns of the tables for which an audit reports whether they may be used."""
    fail_on: tuple[str, ...] = ()
    """Conditions on which the task `audit` in Airflow fails; empty if the lake file does not mention Airflow."""

    @property
    def own_places(self) -> tuple[Location, ...]:
        """The places of the lake's own evidence, results and copies, which no table owns."""
        sources: list[Source] = [each for each in self.inventories if not each.is_listing]
        sources += [*self.metastores, *self.events]
        sources += [manifest for table in self.tables for manifest in table.manifests]
        kept = [self.results, *self.other_results, *([self.quarantine.location] if self.quarantine else [])]
        return (*(place for each in sources for place in each.places), *kept, *(r.at for r in self.replicas))

    @property
    def digest(self) -> str:
        """The SHA-256 of the file with its includes and environment variables."""
        content = self.model_copy(update={"warnings": ()})
        return hashlib.sha256(repr(content).encode(errors="replace")).hexdigest()

    @property
    def finds_tables(self) -> bool:
        """Whether the file describes tables that each audit must discover first."""
        return bool(self.discoveries or self.catalog_discoveries)

    def table(self, name: str) -> Table:
        """Return the table of that name; raises KeyError for an unknown name."""
        return {table.name: table for table in self.tables}[name]

    def owner_of(self, name: str) -> str | None:
        """Return the owner of a table, which may be discovered; None: it has no owner."""
        return self.owners_of([name])[name]

    def owners_of(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the owner of each table. Which of several discoveries found a table is not known here.

        The empty name stands for what belongs to no table; only a pattern gives it an owner.
        """
        named = {table.name: table.owner for table in self.tables}
        finders = {each.owner for each in self.discoveries} | {
            each.owner for each in self.catalog_discoveries
        }
        finder = finders.pop() if len(finders) == 1 else None
        return {
            name: named[name] if name in named else (name and finder) or _owner(name, self.owners)
            for name in names
        }

    def found_table(self, name: str, location: Location, by: Discovery, format_: str = "delta") -> Table:
        """Return a table that a discovery has found."""
        way = _way_to(location, self)
        return self._table_of(name, location, by, way, (_own_manifest(format_, way),))

    def catalog_table(
        self,
        name: str,
        location: Location,
        by: CatalogDiscovery,
        format_: str,
        pointers: tuple[Pointer, ...] = (),
        also: tuple[str, ...] = (),
        scheme: str = "",
    ) -> Table:
        """Return a table that catalogs name; `pointers` name the state of an Iceberg table, `also` are other names."""
        way = _way_to(location, self)
        own = () if format_ == "hive" else (_own_manifest(format_, way).pointed(pointers),)
        table = self._table_of(name, location, by, way, own)
        return table.model_copy(update={"also": also, "scheme": scheme, "catalogued": True})

    def _table_of(
        self,
        name: str,
        location: Location,
        by: Discovery | CatalogDiscovery,
        way: S3Options,
        manifests: tuple[Manifest, ...],
    ) -> Table:
        return Table(
            name=name,
            location=location,
            manifests=manifests,
            owner=by.owner or _owner(name, self.owners),
            settings=by.settings,
            severities=self.severities,
            s3=way,
            moved=_is_moved(location, (new for _, new in self.maps)),
        )

    def among(self, buckets: Collection[str]) -> "Lake":
        """Return the lake with its patterns replaced by the matching buckets: see `Discovery.among`."""
        return self.model_copy(
            update={"discoveries": tuple(each.among(buckets) for each in self.discoveries)}
        )

    def is_weak(self, bucket: str) -> bool:
        """Return whether a bucket's listings may lag behind writes, and its 404 responses may be outdated."""
        rule = next((rule for rule in self.buckets if rule.holds_for(bucket)), None)
        return rule is not None and rule.consistency == "weak"

    def listing_margin(self, bucket: str) -> timedelta:
        """Return the time by which a listing of the bucket may lag."""
        return WEAK_MARGIN if self.is_weak(bucket) else timedelta(0)


def _own_manifest(format_: str, way: S3Options) -> ManifestSource:
    return MANIFESTS[format_].model(kind=format_, s3=way)


def resolve(file: LakeFile, aliases: Aliases = ()) -> Lake:
    """Return the lake that a checked file describes, with true names of all places."""
    written, kept = file.results, file.quarantine
    found = [each.discover for each in file.tables if isinstance(each, DiscoverEntry)]
    results = written if isinstance(written, ResultsBlock) else ResultsBlock(location=written)
    return Lake(
        name=file.lake,
        results=Location(results.location.bucket, results.location.key.rstrip("/")),
        keep=results.keep,
        quarantine=None
        if kept is None
        else kept
        if isinstance(kept, Quarantine)
        else Quarantine(location=kept),
        s3=file.s3,
        buckets=file.buckets,
        aliases=aliases,
        maps=_maps(file.maps),
        inventories=tuple(_reached(source, file) for source in file.inventories),
        metastores=tuple(_connected_metastore(source, file) for source in file.metastores),
        events=tuple(_reached(source, file) for source in file.events),
        tables=_tables(file),
        discoveries=tuple(_discovery(each, file) for each in found if isinstance(each, Discover)),
        catalog_discoveries=tuple(
            _catalog_discovery(each, file) for each in found if isinstance(each, CatalogDiscover)
        ),
        owners=file.owners,
        expected=file.expect,
        settings=settings(file.defaults),
        severities=file.severity,
        ignores=file.ignore,
        ceiling=file.ceiling or Ceiling(),
        ledger=file.ledger or LedgerRules(),
        watched=_watched(file),
        replicas=file.replicas,
        alerts=(*file.alerts, *_routes(file.owners)),
        follow=file.follow.beside(file.s3) if file.follow else None,
        dashboard_url=file.dashboard_url,
        heartbeat_url_env=file.heartbeat_url_env,
        openlineage_url_env=file.openlineage_url_env,
        openlineage_tables=file.openlineage_tables,
        prometheus_textfile=file.prometheus_textfile,
        gates_required=file.gates == "required",
        overdue=file.overdue,
        assets=file.airflow.assets if file.airflow else ("*",),
        fail_on=file.airflow.fail_on if file.airflow else (),
    )


def _maps(written: Sequence[Renaming]) -> Aliases:
    pairs = ((each.source, each.target) for each in written)
    return tuple(sorted(pairs, key=lambda pair: (-len(pair[0].key), pair)))


def settings(*layers: Overrides) -> Settings:
    """Return the contract's defaults, overridden by each layer in turn; a nested block merges key by key."""
    values: dict[str, Any] = {}
    confirm: dict[str, Any] = {}
    archived: dict[str, Any] = {}
    for layer in layers:
        written = {name: getattr(layer, name) for name in Overrides.model_fields}
        values |= {name: value for name, value in written.items() if value is not None}
        confirm |= layer.confirm.model_dump(exclude_none=True)
        archived |= layer.archived.model_dump(exclude_none=True)
    return Settings(**(values | {"confirm": Confirm(**confirm), "archived": Archived(**archived)}))


def _tables(file: LakeFile) -> tuple[Table, ...]:
    """Return one table for each location and format; entries of one format at one location are names of one table."""
    groups = _grouped([entry for entry in file.tables if isinstance(entry, TableEntry)])
    true = {entry.name: group[0].name for group in groups for entry in group}
    beside: dict[Location, list[str]] = {}
    for group in groups:
        beside.setdefault(group[0].location, []).append(group[0].name)
    return tuple(_table(group, file, true, beside[group[0].location]) for group in groups)


def _grouped(entries: Sequence[TableEntry]) -> list[list[TableEntry]]:
    """Return entries by table, in the order of the file; one without a format is a name of its location's table."""
    formats: dict[Location, set[str]] = {}
    for entry in entries:
        formats.setdefault(entry.location, set()).update(filter(None, [_format_of(entry)]))
    groups: dict[tuple[Location, str | None], list[TableEntry]] = {}
    for entry in entries:
        format_ = _format_of(entry) or min(formats[entry.location], key=format_rank, default=None)
        groups.setdefault((entry.location, format_), []).append(entry)
    return list(groups.values())


def _format_of(entry: TableEntry) -> str | None:
    return next((manifest.kind for manifest in entry.manifests if manifest.is_state), None)


def _watched(file: LakeFile) -> tuple[Table, ...]:
    """Return the watched places as tables, without places inside other watched places."""
    outer = [each for each in file.watch if not any(o != each and o.contains(each) for o in file.watch)]
    held, owners = settings(file.defaults), file.owners
    return tuple(
        Table(
            name=place.uri,
            location=place,
            owner=_owner(place.uri, owners),
            settings=held,
            severities=file.severity,
        )
        for place in dict.fromkeys(outer)
    )


def _discovery(entry: Discover, file: LakeFile) -> Discovery:
    return Discovery(
        under=entry.under,
        formats=entry.formats,
        exclude=entry.exclude,
        name=entry.name,
        owner=entry.owner,
        settings=settings(file.defaults, *_profile(entry.profile, file)),
    )


def _catalog_discovery(entry: CatalogDiscover, file: LakeFile) -> CatalogDiscovery:
    stores = [
        (metastore_id(at), _connected_metastore(store, file))
        for at, store in enumerate(file.metastores)
        if store.kind == entry.source and _is_called(store, entry.catalog)
    ]
    return CatalogDiscovery(
        stores=tuple(stores),
        include=entry.include,
        exclude=entry.exclude,
        formats=entry.formats,
        name=entry.name,
        owner=entry.owner,
        settings=settings(file.defaults, *_profile(entry.profile, file)),
    )


def _profile(name: str | None, file: LakeFile) -> tuple[Overrides, ...]:
    return (file.profiles[name],) if name else ()


def _owner(table: str, owners: Sequence[Owner]) -> str | None:
    """Return the owner of the first entry that matches."""
    return next((each.owner for each in owners if re.fullmatch(glob_to_regex(each.match), table)), None)


def _routes(owners: Sequence[Owner]) -> Iterator[AnyAlert]:
    """Yield a route for each owner's address, with all of its patterns of tables."""
    patterns: dict[str, list[str]] = {}
    for each in owners:
        if each.url_env is not None:
            patterns.setdefault(each.url_env, []).append(each.match)
    for url_env, matches in patterns.items():
        yield AppriseAlert(kind="apprise", url_env=url_env, tables=tuple(dict.fromkeys(matches)))


def _table(
    group: Sequence[TableEntry], file: LakeFile, true: Mapping[str, str], beside: Sequence[str]
) -> Table:
    """Return the table of these entries, with the keys of the first one; `beside` are other tables at its place."""
    entry, *others = group
    manifests = _manifests_of(group, file)
    shares = [true.get(name, name) for name in entry.shares] + [name for name in beside if name != entry.name]
    return Table(
        name=entry.name,
        location=entry.location,
        manifests=manifests,
        owner=entry.owner or _owner(entry.name, file.owners),
        shares=tuple(dict.fromkeys(shares)),
        also=tuple(other.name for other in others),
        settings=settings(file.defaults, *_profile(entry.profile, file), entry),
        severities={**file.severity, **entry.severity},
        s3=next((manifest.s3 for manifest in manifests if manifest.is_state), _way_to(entry.location, file)),
        moved=_is_moved(entry.location, (each.target for each in file.maps)),
        pictures=_snapshot_folder(file),
    )


def _manifests_of(group: Sequence[TableEntry], file: LakeFile) -> tuple[ManifestSource, ...]:
    """Return the manifests of all entries; if several entries have one kind, those of the first."""
    first = {manifest.kind: entry.name for entry in reversed(group) for manifest in entry.manifests}
    return tuple(
        _pointed(_reached(manifest, file, entry.location), entry.name, file)
        for entry in group
        for manifest in entry.manifests
        if first[manifest.kind] == entry.name
    )


def _pointed(manifest: ManifestSource, name: str, file: LakeFile) -> ManifestSource:
    """Return the manifest with the catalog in place of its name."""
    if manifest.catalog_entry is None:
        return manifest
    word, called = manifest.catalog_entry
    at, store = next(each for each in enumerate(file.metastores) if _is_called(each[1], word))
    pointer = Pointer(
        store=_connected_metastore(store, file), source_id=metastore_id(at), name=called or name
    )
    return manifest.pointed((pointer,))


def _is_called(store: MetastoreSource, word: str | None) -> bool:
    """Return whether it is a catalog of that name; None: any name."""
    return isinstance(store, CatalogSource) and word in (None, store.word)


def metastore_id(number: int) -> str:
    """Return the source id of a metadata store, by its position in the lake file."""
    return f"metastore:{number}"


def _is_moved(location: Location, targets: Iterable[Location]) -> bool:
    return any(target.contains(location) or location.contains(target) for target in targets)


def _snapshot_folder(file: LakeFile) -> Location:
    """Return the folder of storage snapshots next to the results, which other lakes may share."""
    results = file.results.location if isinstance(file.results, ResultsBlock) else file.results
    return results.join(PICTURES, digest(file.lake))


def _reached(source: AnySource, file: LakeFile, home: Location | None = None) -> AnySource:
    """Return the source with its own options over those of its place's bucket, or of its table's bucket."""
    place = next(iter(source.places), home)
    return source.model_copy(update={"s3": source.s3.over(_way_to(place, file))})


def _way_to(place: Location | None, file: LakeFile | Lake) -> S3Options:
    rules = (rule for rule in file.buckets if place is not None and rule.holds_for(place.bucket))
    rule = next(rules, None)
    return rule.options.over(file.s3) if rule else file.s3


def _connected_metastore(store: MetastoreSource, file: LakeFile) -> Any:
    return store.reached_by(file.dynamodb, _reached(store, file).s3)
