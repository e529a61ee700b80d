"""Collect the grants of a lake: those of its tables, kinds of evidence, results and actions of reconcile. Pure."""

from collections.abc import Iterator

from lakeaudit.config import CatalogSource, Lake, SnsAlert
from lakeaudit.evidence.registry import EVENTS, MANIFESTS, METASTORES, STORAGE, catalog_kinds, roots
from lakeaudit.evidence.storage.s3_metadata.permissions import table_grants
from lakeaudit.evidence.table_grants import on_tables
from lakeaudit.grants import (
    DELETE,
    DELETE_VERSION,
    GET,
    GET_VERSION,
    INVENTORY,
    LIFECYCLE,
    LIST,
    LIST_UPLOADS,
    LIST_VERSIONS,
    NOTIFICATION,
    PUT,
    VERSIONING,
    Grant,
    NoGrant,
    S3Grant,
    ServiceGrant,
    arn,
    literal,
)
from lakeaudit.keys import Location
from lakeaudit.permissions.event_places import canary_folder, event_places
from lakeaudit.reconcile.registry import ACTIONS

_STATES = (GET, LIST, LIST_VERSIONS, VERSIONING)
_JUDGED = (*_STATES, LIST_UPLOADS, LIFECYCLE)
"""HEAD and the logs; what can be restored, and until when; `--live` also lists uploads."""
_QUEUE = (
    *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
    *("sqs:GetQueueAttributes", "sqs:GetQueueUrl"),
)
_SCANNED = (*_JUDGED, GET_VERSION, INVENTORY)


def audit_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants of `audit`, also with `--live`, of `doctor`, `explain` and `hazards`, and to read results."""
    yield from on_tables("ReadTables", lake, _JUDGED)
    yield from _older_versions(lake)
    yield from _inventories(lake)
    for store in lake.metastores:
        yield from METASTORES[store.kind].permissions(store, lake)
    yield from _records(lake)
    yield _results(lake)
    for each in lake.alerts:
        if isinstance(each, SnsAlert):
            yield ServiceGrant("SendAlerts", (literal(each.topic_arn),), ("sns:Publish",))


def guard_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants of `guard`, which changes nothing."""
    yield from on_tables("ReadTables", lake, _STATES)
    yield from _older_versions(lake)
    yield from _other_tables(lake)
    if not lake.discoveries:
        yield from _inventories(lake)
    yield from _catalogs(lake)
    yield from _records(lake)
    yield S3Grant("ReadResults", lake.results, (GET, LIST))


def reconcile_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants of `reconcile plan`, `apply`, `undo` and `purge`."""
    yield from on_tables("ReadTables", lake, _STATES)
    yield from _other_tables(lake)
    yield from _older_versions(lake)
    yield from _catalogs(lake)
    yield from _records(lake)
    yield _results(lake)
    for action in ACTIONS.values():
        yield from action.permissions(lake)


def follow_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants of `follow` and of doctor's canaries, and those of `audit`: it reads the newest states, too."""
    yield from audit_grants(lake)
    if lake.follow is None:
        return
    if lake.follow.journal is not None:
        yield from table_grants(lake.follow.journal)
    if lake.follow.queue is None:
        return
    queue, region = lake.follow.queue, lake.follow.region
    resource = literal(queue.arn(region)) if region else arn("sqs", None, None, queue.name, queue.account)
    yield ServiceGrant("FollowQueue", (resource,), _QUEUE, lake.follow.role_arn)
    for place in event_places(lake):
        yield S3Grant("WriteCanary", canary_folder(place), (PUT, DELETE, DELETE_VERSION))
        yield S3Grant("ReadNotifications", place, (NOTIFICATION,))


def scan_grants(lake: Lake) -> Iterator[Grant]:
    """Yield the grants of `scan` at the locations of all tables."""
    yield from on_tables("ScanTables", lake, _SCANNED)


def scan_grants_at(place: Location) -> Iterator[Grant]:
    """Yield the grants of `scan` at a location."""
    yield S3Grant("ScanTables", place, _SCANNED)


def _older_versions(lake: Lake) -> Iterator[Grant]:
    """Yield the grants to read older versions: only of tables whose files or log some record claims."""
    everywhere = any(store.knows_files and store.location is None for store in lake.metastores)
    claimed = tuple(table for table in lake.tables if table.manifests or everywhere)
    yield from on_tables("ReadTables", lake.model_copy(update={"tables": claimed}), (GET_VERSION,))


def _other_tables(lake: Lake) -> Iterator[Grant]:
    """Yield the grants to find tables that the lake file does not name, and to read those of catalogs."""
    folders = (
        Location(table.location.bucket, parent)
        for table in lake.tables
        for parent in _parents(table.location.key)
    )
    for folder in dict.fromkeys(folders):
        for root in roots().values():
            yield S3Grant("FindTables", folder.join(root.folder), (LIST,))
    if lake.discoveries:
        yield from _inventories(lake)
    for store in lake.metastores:
        if isinstance(store, CatalogSource):
            yield _catalog_tables(store)


def _inventories(lake: Lake) -> Iterator[Grant]:
    for source in lake.inventories:
        yield from STORAGE[source.kind].permissions(source, lake)


def _catalogs(lake: Lake) -> Iterator[Grant]:
    catalogs = catalog_kinds()
    for store in lake.metastores:
        if store.kind in catalogs:
            yield from catalogs[store.kind].permissions(store, lake)


def _parents(key: str) -> Iterator[str]:
    parts = key.split("/")
    yield from ("/".join(parts[:n]) for n in range(1, len(parts)))


def _catalog_tables(store: CatalogSource) -> Grant:
    """Return the grant on the tables of a catalog, each of which may be a clone that needs files of other tables."""
    if store.location is not None:
        return S3Grant("ReadCatalogTables", store.location, (GET, LIST))
    why = "each of its tables is read, and the lake file does not say where they are"
    return NoGrant(f"catalog {store.name}", why, "give the catalog a `location`")


def _records(lake: Lake) -> Iterator[Grant]:
    for table in lake.tables:
        for manifest in table.manifests:
            yield from MANIFESTS[manifest.kind].permissions(manifest, lake)
    for source in lake.events:
        yield from EVENTS[source.kind].permissions(source, lake)


def _results(lake: Lake) -> Grant:
    return S3Grant("KeepResults", lake.results, (GET, PUT, DELETE, LIST))
