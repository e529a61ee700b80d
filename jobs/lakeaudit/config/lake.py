"""The lake as the audit uses it: defaults, overrides and store options worked into every table and source."""

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
"""The folder of kept pictures beside the results."""

WEAK_MARGIN = timedelta(minutes=10)
"""Of listings of a weak bucket, where the lake file says no other."""


class Confirm(Block):
    """The live check: `limit` candidates of a run at most, `rate` requests a second at most.

    `fresh` is how many files of a run at most are looked at that are too young for its evidence, or lie where a live
    audit does not list.
    """

    mode: ConfirmMode = "head"
    limit: int = 10_000
    rate: int = 500
    fresh: int = 10_000

    @property
    def requests(self) -> int:
        """Of a run at most: a candidate's HEAD and a page of its versions, and a HEAD of each fresh file."""
        return 2 * self.limit + self.fresh


class Archived(Block):
    """What is archived on purpose: objects older than `expected_after`."""

    expected_after: timedelta | None = None


class Settings(Block):
    """What holds for one table; the defaults are the contract's. Sizes in bytes."""

    grace: timedelta = timedelta(hours=1)
    leftover_age: timedelta = timedelta(days=3)
    max_upload: timedelta = timedelta(hours=24)
    retention: timedelta = timedelta(days=7)
    """Only where the table's format states none."""
    min_duplicate_size: int = 4096
    readers: Readers | None = None
    """None: by state where the table has a state manifest, else by folder. Hudi's readers list folders even by state,
    unless they list by `metadata_table`."""
    append_only: bool = False
    """No job of the table ever removes or rewrites a file."""
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
    """Other tables that may hold this one's files live."""
    also: tuple[str, ...] = ()
    """Names of other tables of the same location, for which this one stands."""
    settings: Settings = Settings()
    severities: Mapping[str, SeverityOrOff] = Field(default_factory=dict)
    """What the file says of kinds of finding, the table's word over the lake's; the rest is `kinds.KINDS`."""
    s3: S3Options = S3Options()
    """The way to the table's files: its state manifest's, else the lake's."""
    moved: bool = False
    """`maps` lead here: its files may be younger than their commits, since they are copies."""
    catalogued: bool = False
    """Whether a catalog in which tables are found names it."""
    scheme: str = ""
    """The scheme of the location as catalogs write it, if `Location.uri` has another one; else empty."""
    pictures: Location | None = None
    """Where audits keep their picture of storage, for manifests of kind `previous`."""

    @property
    def catalog_uri(self) -> str:
        """The location as catalogs write it."""
        return (
            f"{self.scheme}{self.location.bucket}/{self.location.key}" if self.scheme else self.location.uri
        )

    def as_named(self, text: str) -> str:
        """A text in which places of the table's bucket are named as catalogs write them."""
        bucket = self.location.bucket
        return text.replace(f"s3://{bucket}/", f"{self.scheme}{bucket}/") if self.scheme else text

    @property
    def state_manifests(self) -> tuple[Manifest, ...]:
        """Those that say what the table is."""
        return tuple(entry for entry in self.manifests if entry.is_state)

    @property
    def event_manifests(self) -> tuple[Manifest, ...]:
        """Those that say what was written once."""
        return tuple(entry for entry in self.manifests if not entry.is_state)

    @property
    def complete(self) -> bool:
        """Whether every claim on the table's files is known: only then may a file be called a leftover.

        A state manifest answers alone where there is one; lists beside it are only checked against it.
        """
        deciding = self.state_manifests or self.event_manifests
        return bool(deciding) and all(entry.complete for entry in deciding)

    @property
    def read_by_folder(self) -> bool:
        """Whether readers read whatever lies visible in its folders, rather than what a state manifest lists."""
        return (
            not self.state_manifests if self.settings.readers is None else self.settings.readers == "folder"
        )

    @property
    def read_by_metadata_table(self) -> bool:
        """Whether all readers of a Hudi table list its files by its metadata table."""
        return self.settings.readers == "metadata_table"

    def severity_of(self, kind: str, default: Severity) -> SeverityOrOff:
        """The severity the file gives a kind here, else the rule's own."""
        return self.severities.get(kind, default)


class Discovery(Block):
    """Tables that are to be found in the evidence, and what holds for each.

    A bucket of `under` may be a pattern of names, until it is known which buckets there are.
    """

    under: tuple[Location, ...]
    formats: tuple[str, ...] = ("delta",)
    exclude: tuple[str, ...] = ()
    name: str | None = None
    owner: str | None = None
    settings: Settings = Settings()

    @property
    def named(self) -> tuple[Location, ...]:
        """The places of `under` whose bucket is named."""
        return tuple(place for place in self.under if not is_pattern(place.bucket))

    @property
    def patterns(self) -> tuple[Location, ...]:
        """The others."""
        return tuple(place for place in self.under if is_pattern(place.bucket))

    def places_in(self, place: Location, buckets: Collection[str]) -> tuple[Location, ...]:
        """What a place with a pattern stands for among these buckets."""
        regex = glob_to_regex(place.bucket)
        return tuple(Location(bucket, place.key) for bucket in sorted(buckets) if re.search(regex, bucket))

    def among(self, buckets: Collection[str]) -> "Discovery":
        """The same, where there are these buckets: a pattern that matches none of them goes."""
        found = [each for place in self.patterns for each in self.places_in(place, buckets)]
        return self.model_copy(update={"under": tuple(dict.fromkeys([*self.named, *found]))})


class CatalogDiscovery(Block):
    """Tables that catalogs name, and what holds for each."""

    stores: tuple[tuple[str, SerializeAsAny[CatalogSource]], ...]
    """Source id and catalog, of those that are asked."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("delta", "iceberg", "hudi", "hive")
    name: str | None = None
    owner: str | None = None
    settings: Settings = Settings()

    def wants(self, name: str) -> bool:
        """Whether a table of that name is meant."""
        if any(re.fullmatch(glob_to_regex(pattern), name) for pattern in self.exclude):
            return False
        patterns = self.include
        return not patterns or any(re.fullmatch(glob_to_regex(pattern), name) for pattern in patterns)


class Lake(Block):
    """One lake file, checked whole."""

    name: str
    results: Location
    keep: timedelta | None = None
    """How long the result tables keep the rows of a run; None: for ever."""
    quarantine: Quarantine | None = None
    """None: leftovers are left to people."""
    s3: S3Options = S3Options()
    buckets: tuple[BucketRule, ...] = ()
    """In order: the first that matches a bucket's name holds for it."""
    aliases: Aliases = ()
    """Other names of places, as claims may write them; no location here goes by one."""
    maps: Aliases = ()
    """(place before a migration, place since), the longest name first: claims on the first are about the second."""
    inventories: tuple[Inventory, ...] = ()
    metastores: tuple[Metastore, ...] = ()
    events: tuple[Requests, ...] = ()
    tables: tuple[Table, ...]
    """Those that the file names, and those that were found by `discoveries` once they were looked for."""
    discoveries: tuple[Discovery, ...] = ()
    """By inventories."""
    catalog_discoveries: tuple[CatalogDiscovery, ...] = ()
    owners: tuple[Owner, ...] = ()
    expected: tuple[Expected, ...] = ()
    settings: Settings = Settings()
    """What `defaults` gives where no table is meant."""
    severities: Mapping[str, SeverityOrOff] = Field(default_factory=dict)
    ignores: tuple[Ignore, ...] = ()
    ceiling: Ceiling = Ceiling()
    ledger: LedgerRules = LedgerRules()
    watched: tuple[Table, ...] = ()
    """Places where what no table owns is reported: tables without manifests, called by their places."""
    replicas: tuple[Replica, ...] = ()
    """Where copies of the lake's files lie."""
    alerts: tuple[AnyAlert, ...] = ()
    heartbeat_url_env: str | None = None
    openlineage_url_env: str | None = None
    prometheus_textfile: str | None = None
    overdue: timedelta = timedelta(hours=36)
    """After so long without a published audit people are told."""

    @property
    def own_places(self) -> tuple[Location, ...]:
        """Where the lake's own evidence, results and copies lie: no table owns them, and nobody need ask who does."""
        sources: list[Source] = [each for each in self.inventories if not each.is_listing]
        sources += [*self.metastores, *self.events]
        sources += [manifest for table in self.tables for manifest in table.manifests]
        kept = [self.results, *([self.quarantine.location] if self.quarantine else [])]
        return (*(place for each in sources for place in each.places), *kept, *(r.at for r in self.replicas))

    @property
    def finds_tables(self) -> bool:
        """Whether the file describes tables that each audit has to find first."""
        return bool(self.discoveries or self.catalog_discoveries)

    def table(self, name: str) -> Table:
        """The table of that name; KeyError where there is none."""
        return {table.name: table for table in self.tables}[name]

    def found_table(self, name: str, location: Location, by: Discovery, format_: str = "delta") -> Table:
        """A table that a discovery has found."""
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
        """A table that catalogs name; `pointers` say the state of an Iceberg table, `also` are its other names."""
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
        """The same, where there are these buckets: see `Discovery.among`."""
        return self.model_copy(
            update={"discoveries": tuple(each.among(buckets) for each in self.discoveries)}
        )

    def is_weak(self, bucket: str) -> bool:
        """Whether a bucket's listings may lag behind writes, and a 404 of it may be an old answer."""
        rule = next((rule for rule in self.buckets if rule.holds_for(bucket)), None)
        return rule is not None and rule.consistency == "weak"

    def listing_margin(self, bucket: str) -> timedelta:
        """By how long a listing of the bucket may lag."""
        return WEAK_MARGIN if self.is_weak(bucket) else timedelta(0)


def _own_manifest(format_: str, way: S3Options) -> ManifestSource:
    return MANIFESTS[format_].model(kind=format_, s3=way)


def resolve(file: LakeFile, aliases: Aliases = ()) -> Lake:
    """The lake that a checked file describes, in which every place goes by its own name."""
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
        heartbeat_url_env=file.heartbeat_url_env,
        openlineage_url_env=file.openlineage_url_env,
        prometheus_textfile=file.prometheus_textfile,
        overdue=file.overdue,
    )


def _maps(written: Sequence[Renaming]) -> Aliases:
    pairs = ((each.source, each.target) for each in written)
    return tuple(sorted(pairs, key=lambda pair: (-len(pair[0].key), pair)))


def settings(*layers: Overrides) -> Settings:
    """The contract's defaults under each layer in turn; a nested block merges key by key."""
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
    """One table for each location and format; entries of one format at one location are one table of several names."""
    groups = _grouped([entry for entry in file.tables if isinstance(entry, TableEntry)])
    true = {entry.name: group[0].name for group in groups for entry in group}
    beside: dict[Location, list[str]] = {}
    for group in groups:
        beside.setdefault(group[0].location, []).append(group[0].name)
    return tuple(_table(group, file, true, beside[group[0].location]) for group in groups)


def _grouped(entries: Sequence[TableEntry]) -> list[list[TableEntry]]:
    """Entries by table, in the order of the file; one without a format is a name of the table at its location."""
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
    """A place that lies in another watched one is watched with that."""
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
    """The first that matches."""
    return next((each.owner for each in owners if re.fullmatch(glob_to_regex(each.match), table)), None)


def _routes(owners: Sequence[Owner]) -> Iterator[AnyAlert]:
    """Findings of owned tables are sent to their owner; what one address has several patterns of, in one route."""
    patterns: dict[str, list[str]] = {}
    for each in owners:
        if each.url_env is not None:
            patterns.setdefault(each.url_env, []).append(each.match)
    for url_env, matches in patterns.items():
        yield AppriseAlert(kind="apprise", url_env=url_env, tables=tuple(dict.fromkeys(matches)))


def _table(
    group: Sequence[TableEntry], file: LakeFile, true: Mapping[str, str], beside: Sequence[str]
) -> Table:
    """The table of these entries; what they do not share is the first one's, and `beside` are tables at its place."""
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
    """Those of all entries; where several name one kind, those of the first."""
    first = {manifest.kind: entry.name for entry in reversed(group) for manifest in entry.manifests}
    return tuple(
        _pointed(_reached(manifest, file, entry.location), entry.name, file)
        for entry in group
        for manifest in entry.manifests
        if first[manifest.kind] == entry.name
    )


def _pointed(manifest: ManifestSource, name: str, file: LakeFile) -> ManifestSource:
    """With the catalog itself in place of its word."""
    if manifest.catalog_entry is None:
        return manifest
    word, called = manifest.catalog_entry
    at, store = next(each for each in enumerate(file.metastores) if _is_called(each[1], word))
    pointer = Pointer(
        store=_connected_metastore(store, file), source_id=metastore_id(at), name=called or name
    )
    return manifest.pointed((pointer,))


def _is_called(store: MetastoreSource, word: str | None) -> bool:
    """Whether it is a catalog of that name; None: of any."""
    return isinstance(store, CatalogSource) and word in (None, store.word)


def metastore_id(number: int) -> str:
    """The source id of a metadata store, by its place in the lake file."""
    return f"metastore:{number}"


def _is_moved(location: Location, targets: Iterable[Location]) -> bool:
    return any(target.contains(location) or location.contains(target) for target in targets)


def _snapshot_folder(file: LakeFile) -> Location:
    """Beside the results, which may be those of other lakes too."""
    results = file.results.location if isinstance(file.results, ResultsBlock) else file.results
    return results.join(PICTURES, digest(file.lake))


def _reached(source: AnySource, file: LakeFile, home: Location | None = None) -> AnySource:
    """With its own options over those of its place's bucket, or of its table's where it has no place of its own."""
    place = next(iter(source.places), home)
    return source.model_copy(update={"s3": source.s3.over(_way_to(place, file))})


def _way_to(place: Location | None, file: LakeFile | Lake) -> S3Options:
    rules = (rule for rule in file.buckets if place is not None and rule.holds_for(place.bucket))
    rule = next(rules, None)
    return rule.options.over(file.s3) if rule else file.s3


def _connected_metastore(store: MetastoreSource, file: LakeFile) -> Any:
    return store.reached_by(file.dynamodb, _reached(store, file).s3)
