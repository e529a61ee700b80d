"""Looks at everything an audit will need, each with the smallest request that proves it, and says what to do.

Nothing is changed but `_probe/` and `_canary` in the results place, which are written and removed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.commands import doctor_probes as probes
from lakeaudit.config import Lake, Table
from lakeaudit.errors import AuditError, CannotAudit
from lakeaudit.evidence.discovery import expanded, unmatched
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.registry import EVENTS, METASTORES, STORAGE
from lakeaudit.formatting import count
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, Endpoint, credentials_from
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.java import find_java

Environment = Mapping[str, str]
PARALLEL = 16
LISTS_A_TABLE, READS_A_TABLE = 2, 3
"""Of a Delta log: it is listed before and after, and a checkpoint and some commits are read."""
REQUESTS_A_SECOND = 100
A_LIST, A_READ = 0.005, 0.0004
"""Dollars for 1,000 requests, by AWS's list price of us-east-1."""
NAMED = 20
"""Tables named one by one."""


@dataclass(frozen=True)
class Check:
    """One thing looked at.

    `state` is ok, note (worth knowing), bad (something cannot be used) or fatal (nothing can).
    """

    about: str
    state: str
    told: str
    hint: str = ""
    retryable: bool = False
    """Whether it may be gone at the next try."""


def examine(lake: Lake, clients: Clients, env: Environment, now: datetime) -> Iterator[Check]:
    """Every check of a lake, one after the other: the ground, the sources, the tables, the results."""
    yield Check("lake file", "ok", f"describes {lake.name}")
    yield from _ground(env)
    lake, unexpanded = expanded(lake, clients)
    yield from (Check("inventories", "note", warning) for warning in unexpanded)
    yield from _credentials(lake, clients)
    covered: list[Location] = []
    for source in lake.inventories:
        probe = STORAGE[source.kind].probe
        yield _attempt(
            f"storage {source.location.uri}", partial(probe, source, clients, now), covered=covered
        )
    for store in lake.metastores:
        ask = METASTORES[store.kind].probe
        yield _attempt(f"metastore {store.name}", partial(ask, store, clients, now))
    for each in lake.events:
        yield _attempt(f"events {each.location.uri}", partial(EVENTS[each.kind].probe, each, clients, now))
    buckets = {cover.bucket for cover in covered}
    nowhere, lake = unmatched(lake, buckets), lake.among(buckets)
    yield from _data_files(lake, clients)
    yield from _tables(lake, clients)
    yield from _uncovered(lake, covered)
    yield from _to_be_found(lake, covered, nowhere)
    yield from _in_catalogs(lake)
    yield estimate(lake)
    yield from _live_looks(lake)
    yield _attempt("results", partial(probes.results, lake.results, clients), broken="fatal")
    yield from _receivers(lake, clients, env)


def exit_code(checks: Sequence[Check]) -> int:
    """0 all fine, 3 something cannot be used, 10 nothing can."""
    states = {check.state for check in checks}
    sources = [check for check in checks if check.about.startswith(("storage ", "tables"))]
    if "fatal" in states or (sources and all(check.state == "bad" for check in sources)):
        return 10
    return 3 if "bad" in states else 0


def _ground(env: Environment) -> Iterator[Check]:
    """Check for a usable Java. Nothing is fetched: an audit loads no jars beyond those of Spark."""
    try:
        java = find_java(env)
    except CannotAudit as error:
        yield Check("Java", "fatal", error.what, error.hint)
    else:
        yield Check("Java", "ok", f"Java {java.version} from {java.origin}: {java.executable}")


def _credentials(lake: Lake, clients: Clients) -> Iterator[Check]:
    places = [
        lake.results,
        *(source.location for source in lake.inventories),
        *(t.location for t in lake.tables),
        *(place for each in lake.discoveries for place in each.plain_places),
    ]
    buckets = sorted({place.bucket for place in places if place.is_in_s3})
    endpoints = {clients.endpoint(bucket): bucket for bucket in buckets}
    if not endpoints and lake.metastores:
        endpoints = {clients.default: "DynamoDB"}
    for at, bucket in endpoints.items():
        yield _attempt(f"credentials for {bucket}", partial(_held, at))


def _held(at: Endpoint) -> str:
    method = credentials_from(at)
    if method is None:
        raise CannotAudit(
            "AWS", "no credentials found", "set a profile, role or environment of the AWS chain"
        )
    return f"found ({method})"


def _data_files(lake: Lake, clients: Clients) -> Iterator[Check]:
    """One look for each bucket and each way to it, however many tables lie there."""
    places = [table.location for table in lake.tables]
    places += [place for each in lake.discoveries for place in each.under]
    ways = {(place.bucket, clients.endpoint(*place)): place for place in places if place.is_in_s3}
    looks = [
        (
            f"bucket {bucket}" + (f" as {at.role_arn}" if at.role_arn else ""),
            partial(probes.data_files, place, clients),
        )
        for (bucket, at), place in ways.items()
    ]
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield from pool.map(lambda each: _attempt(*each), looks)


def _to_be_found(lake: Lake, covered: Sequence[Location], nowhere: Sequence[str]) -> Iterator[Check]:
    """Where tables are looked for by each audit, and whether an inventory knows what lies there."""
    for told in nowhere:
        yield Check("discovery", "bad", told, "add an inventory of such a bucket, or correct `under`")
    places = [place for each in lake.discoveries for place in each.under]
    bare = [place.uri for place in places if not any(cover.contains(place) for cover in covered)]
    if bare:
        told = f"no usable inventory covers {', '.join(bare[:NAMED])}"
        yield Check("discovery", "bad", told, "add an inventory of the bucket, or correct `under`")
    elif places:
        yield Check(
            "discovery", "ok", f"each audit finds the tables of {count(len(places))} places in inventories"
        )


def _in_catalogs(lake: Lake) -> Iterator[Check]:
    """Which catalogs each audit asks for tables; whether they answer is looked at as of any metadata store."""
    stores = {id_: store.name for each in lake.catalog_discoveries for id_, store in each.stores}
    if stores:
        yield Check("discovery", "ok", f"each audit finds the tables of {', '.join(stores.values())}")


def estimate(lake: Lake) -> Check:
    """What an audit asks at most beside reading evidence: requests, the time and the list price of them."""
    confirm, tables = lake.settings.confirm, len(lake.tables)
    lists, reads = LISTS_A_TABLE * tables, READS_A_TABLE * tables
    looks = 0 if confirm.mode == "none" else confirm.requests
    seconds = looks / confirm.rate + (lists + reads) / REQUESTS_A_SECOND
    dollars = (lists * A_LIST + (reads + looks) * A_READ) / 1000
    asked = f"{count(lists)} LIST and {count(reads)} GET of logs, up to {count(looks)} live looks"
    price = f"up to {count(round(seconds))} s, {dollars:.2f} dollars by AWS's list price"
    more = "; of tables to be found, as much for each" if lake.finds_tables else ""
    told = f"{count(tables)} named tables: {asked}: {price}{more}; reading evidence is reckoned in docs/deploy.md"
    return Check("estimate", "ok", told)


def _tables(lake: Lake, clients: Clients) -> Iterator[Check]:
    """One line for all that is well, one for each table that is not."""
    if not lake.tables:
        return

    def look(table: Table) -> Check:
        return _attempt(f"table {table.name}", partial(probes.table, table, clients))

    with ThreadPoolExecutor(PARALLEL) as pool:
        checks = list(pool.map(look, lake.tables))
    bad = [check for check in checks if check.state == "bad"]
    well = len(checks) - len(bad)
    yield Check("tables", "ok" if well else "bad", f"{count(well)} of {count(len(checks))} can be read")
    yield from bad[:NAMED]
    if len(bad) > NAMED:
        yield Check(
            "tables", "bad", f"and {count(len(bad) - NAMED)} more cannot be read", "see the first ones"
        )


def _uncovered(lake: Lake, covered: Sequence[Location]) -> Iterator[Check]:
    """Tables no storage source covers: nothing can be said of their files' presence."""
    if not lake.tables:
        return
    bare = [table.name for table in lake.tables if not _covers(covered, table.location)]
    if not bare:
        yield Check("coverage", "ok", "a storage source covers every table")
        return
    named = ", ".join(bare[:NAMED]) + (f" and {count(len(bare) - NAMED)} more" if len(bare) > NAMED else "")
    told = f"no usable storage source covers {count(len(bare))} of {count(len(lake.tables))} tables: {named}"
    yield Check(
        "coverage", "bad", told, "add an inventory or a listing, widen `covers`, or audit them with --live"
    )


def _live_looks(lake: Lake) -> Iterator[Check]:
    """What live looks cost at most: a HEAD a file, and a page of its versions where it is not as it was claimed."""
    confirm = lake.settings.confirm
    if all(table.settings.confirm.mode == "none" for table in lake.tables):
        return
    seconds = -(-confirm.requests // confirm.rate)
    told = (
        f"at most {count(confirm.limit)} files a run that seem lost (2 requests each) and {count(confirm.fresh)}"
        " younger than the evidence, or elsewhere (`confirm.fresh`, 1 request each):"
        f" up to {count(seconds)} s at {count(confirm.rate)} requests a second"
    )
    yield Check("live looks", "ok", told)


def _covers(covered: Sequence[Location], table: Location) -> bool:
    return any(place == table or place.holds(table.bucket, f"{table.key}/") for place in covered)


def _receivers(lake: Lake, clients: Clients, env: Environment) -> Iterator[Check]:
    """Whether the way to each receiver of alerts is known; nothing is sent."""
    from lakeaudit.alerts.deliver import CannotDeliver, channel

    for route in {route.receiver: route for route in lake.alerts}.values():
        try:
            channel(route, env, clients)
        except CannotDeliver as error:
            yield Check(f"alerts to {route.receiver}", "bad", str(error), "set it where audits run")
        else:
            yield Check(f"alerts to {route.receiver}", "ok", "the way is known; nothing was sent")
    for about, name in (("heartbeat", lake.heartbeat_url_env), ("lineage", lake.openlineage_url_env)):
        if name and not env.get(name):
            yield Check(about, "bad", f"the variable {name} is not set", "set it where audits run")


def _attempt(
    about: str, look: Callable[[], str | Probed], broken: str = "bad", covered: list[Location] | None = None
) -> Check:
    """The outcome of one look; the places that it proves to be covered are added to `covered`."""
    try:
        found = look()
    except AuditError as error:
        return Check(about, broken, f"{error.where}: {error.what}", error.hint, error.retryable)
    except (ClientError, BotoCoreError) as error:
        failed = explain(error)
        return Check(about, broken, failed.what, failed.hint, failed.retryable)
    if isinstance(found, str):
        return Check(about, "ok", found)
    if covered is not None:
        covered += found.covers
    return Check(about, "note" if found.notes else "ok", "; ".join([found.message, *found.notes]), found.hint)
