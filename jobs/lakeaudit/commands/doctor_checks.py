"""Check everything that an audit needs, each with the smallest request that proves it.

Only `_probe/` and `_canary` in the results location are written, and for `follow` an object in `_lakeaudit_canary/`
next to the tables of each bucket; all are removed again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.commands import doctor_probes as probes
from lakeaudit.commands.audit_task import rule_of
from lakeaudit.config import Lake, Table
from lakeaudit.errors import AuditError, CannotAudit
from lakeaudit.evidence.discovery import expanded, unmatched
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.registry import EVENTS, METASTORES, STORAGE
from lakeaudit.follow import canary
from lakeaudit.formatting import count, first_names, number
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint, credentials_from
from lakeaudit.runtime.connections.aws_failures import explain, unreachable
from lakeaudit.runtime.connections.reach import listens
from lakeaudit.runtime.extras import EXTRAS, LEAST_SPARK, explain_missing, install_hint, missing_of
from lakeaudit.runtime.java import find_java

Environment = Mapping[str, str]
PARALLEL = 16
LISTS_A_TABLE, READS_A_TABLE = 2, 3
"""Requests for a Delta log: it is listed before and after, and a checkpoint and some commits are read."""
REQUESTS_A_SECOND = 100
A_LIST, A_READ = 0.005, 0.0004
"""Dollars for 1,000 requests, at AWS's list price of us-east-1."""
NAMED = 20
"""Tables that are listed by name."""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    `state` is ok, note (worth knowing), bad (something cannot be used) or fatal (nothing can).
    """

    about: str
    state: str
    message: str
    hint: str = ""
    retryable: bool = False
    """Whether a retry may succeed."""


def examine(lake: Lake, clients: Clients, env: Environment, now: datetime) -> Iterator[Check]:
    """Yield the checks of a lake, one after the other: Java, extras, Spark, credentials, sources, tables, results."""
    yield Check("lake file", "ok", f"describes {lake.name}")
    yield from _java(env)
    yield _extras()
    yield from _spark()
    yield from _required_extras(lake)
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
        query = METASTORES[store.kind].probe
        yield _attempt(f"metastore {store.name}", partial(query, store, clients, now))
    for each in lake.events:
        yield _attempt(f"events {each.location.uri}", partial(EVENTS[each.kind].probe, each, clients, now))
    buckets = {cover.bucket for cover in covered}
    problems, lake = unmatched(lake, buckets), lake.among(buckets)
    yield from _data_files(lake, clients)
    yield from _tables(lake, clients)
    yield from _uncovered(lake, covered)
    yield from _discovery(lake, covered, problems)
    yield from _catalog_discovery(lake)
    yield estimate(lake)
    yield from _confirmation(lake)
    yield _attempt("results", partial(probes.results, lake.results, clients), broken="fatal")
    yield from _receivers(lake, clients, env)
    yield from _events(lake, clients, now)
    if lake.fail_on:
        yield Check("Airflow", "ok", rule_of(lake.fail_on))


def exit_code(checks: Sequence[Check]) -> int:
    """Return 0 if every check passed, 3 if something cannot be used, 10 if nothing can."""
    states = {check.state for check in checks}
    sources = [check for check in checks if check.about.startswith(("storage ", "tables"))]
    if "fatal" in states or (sources and all(check.state == "bad" for check in sources)):
        return 10
    return 3 if "bad" in states else 0


def _java(env: Environment) -> Iterator[Check]:
    """Check for a usable Java. Nothing is downloaded: an audit loads only Spark's own jars."""
    try:
        java = find_java(env)
    except CannotAudit as error:
        what = f"{error.what}; only `--spark`, spark-submit and the demo need Java"
        yield Check("Java", "note", what, error.hint)
    else:
        yield Check("Java", "ok", f"Java {java.version} from {java.origin}: {java.executable}")


def _extras() -> Check:
    """List the extras of lakeaudit's package that are installed, and the others."""
    missing = [extra for extra in EXTRAS if missing_of(extra)]
    installed = ", ".join(extra for extra in EXTRAS if extra not in missing) or "none"
    more = f"; not installed: {', '.join(missing)}" if missing else ""
    return Check("extras", "ok", f"installed: {installed}{more}")


def _spark() -> Iterator[Check]:
    """Name the version of Spark, if there is one, and whether audits run on it."""
    if missing_of("spark"):
        return
    found = _version_of_spark()
    if tuple(map(int, found.split(".")[:2])) >= LEAST_SPARK:
        yield Check("Spark", "ok", f"version {found}, which audits can use")
    else:
        least = ".".join(map(str, LEAST_SPARK))
        yield Check(
            "Spark", "note", f"version {found}: audits need at least {least}", "install a newer pyspark"
        )


def _events(lake: Lake, clients: Clients, now: datetime) -> Iterator[Check]:
    """Check the queue of `follow`, and with an object in each bucket that events arrive in it; or its journal."""
    if lake.follow is None:
        return
    if lake.follow.journal is not None:
        kind = EVENTS["s3_journal"]
        source = kind.model(kind=kind.name, location=lake.follow.journal)
        yield _attempt(f"journal {lake.follow.journal.uri}", partial(kind.probe, source, clients, now))
    if lake.follow.queue is None:
        return
    queue = _attempt(f"queue {lake.follow.queue.name}", partial(canary.probe_queue, lake.follow, clients))
    yield queue
    if queue.state in ("ok", "note"):
        for place, outcome in canary.probe_events(lake, clients):
            yield _attempt(f"events of {place.uri}", outcome)


def _version_of_spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # a platform's Spark is only on the import path
        return str(import_module("pyspark").__version__)


def _required_extras(lake: Lake) -> Iterator[Check]:
    """Name the extras that the lake file needs and that are not installed."""
    formats = {manifest.kind for table in lake.tables for manifest in table.manifests}
    required = {
        "gates": lake.gates_required,
        "alerts": lake.prometheus_textfile is not None,
        "iceberg": "iceberg" in formats,
        "hudi": "hudi" in formats,
    }
    for extra, wanted in required.items():
        if wanted and (missing := missing_of(extra)):
            what = f"the lake file needs it, and {', '.join(missing)} cannot be imported"
            yield Check(f"extra {extra}", "bad", what, install_hint(extra))


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
        yield _attempt(f"credentials for {bucket}", partial(_find_credentials, at))


def _find_credentials(at: Endpoint) -> str:
    if at.endpoint is not None and not listens(at.endpoint):
        failed = unreachable(at.endpoint)
        raise CannotAudit(at.endpoint, failed.what, failed.hint, retryable=failed.retryable)
    method = credentials_from(at)
    if method is None:
        raise CannotAudit(
            "AWS", "no credentials found", "set a profile, role or environment of the AWS chain"
        )
    return f"found ({method})"


def _data_files(lake: Lake, clients: Clients) -> Iterator[Check]:
    """Probe each bucket once per endpoint, however many tables it contains."""
    places = [table.location for table in lake.tables]
    places += [place for each in lake.discoveries for place in each.under]
    ways = {(place.bucket, clients.endpoint(*place)): place for place in places if place.is_in_s3}
    probed = [
        (
            f"bucket {bucket}" + (f" as {at.role_arn}" if at.role_arn else ""),
            partial(probes.data_files, place, clients),
        )
        for (bucket, at), place in ways.items()
    ]
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield from pool.map(lambda each: _attempt(*each), probed)


def _discovery(lake: Lake, covered: Sequence[Location], problems: Sequence[str]) -> Iterator[Check]:
    """Check that an inventory covers the locations in which each audit discovers tables."""
    for message in problems:
        yield Check("discovery", "bad", message, "add an inventory of such a bucket, or correct `under`")
    places = [place for each in lake.discoveries for place in each.under]
    bare = [place.uri for place in places if not any(cover.contains(place) for cover in covered)]
    if bare:
        message = f"no usable inventory covers {', '.join(bare[:NAMED])}"
        yield Check("discovery", "bad", message, "add an inventory of the bucket, or correct `under`")
    elif places:
        message = f"each audit discovers the tables of {count(len(places))} locations in inventories"
        yield Check("discovery", "ok", message)


def _catalog_discovery(lake: Lake) -> Iterator[Check]:
    """Name the catalogs in which each audit discovers tables; they are probed as metadata stores."""
    stores = {id_: store.name for each in lake.catalog_discoveries for id_, store in each.stores}
    if stores:
        yield Check("discovery", "ok", f"each audit discovers the tables of {', '.join(stores.values())}")


def estimate(lake: Lake) -> Check:
    """Estimate requests, time and list price of an audit, without those of reading the evidence."""
    confirm, tables = lake.settings.confirm, len(lake.tables)
    lists, reads = LISTS_A_TABLE * tables, READS_A_TABLE * tables
    confirming = 0 if confirm.mode == "none" else confirm.requests
    seconds = confirming / confirm.rate + (lists + reads) / REQUESTS_A_SECOND
    requests = (
        f"an audit of {number(tables, 'named table')} needs {count(lists)} LIST and {count(reads)} GET requests for"
        f" logs, and at most {count(confirming)} requests to confirm findings"
    )
    price = (lists * A_LIST + (reads + confirming) * A_READ) / 1000
    dollars = f" and cost at most {price:.2f} dollars at AWS's list price" if _is_on_aws(lake) else ""
    more = "; each discovered table adds its own requests" if lake.finds_tables else ""
    message = (
        f"{requests}; these requests take at most {count(round(seconds))} s{dollars}{more}; docs/deploy.md estimates"
        " the cost of reading the evidence"
    )
    return Check("estimate", "ok", message)


def _is_on_aws(lake: Lake) -> bool:
    """Return whether a table is in S3 of AWS, so that its list price applies."""
    places = [table.location for table in lake.tables]
    places += [place for each in lake.discoveries for place in each.under]
    return lake.s3.endpoint is None and any(place.is_in_s3 for place in places)


def _tables(lake: Lake, clients: Clients) -> Iterator[Check]:
    """Yield one check for all readable tables, and one for each table that cannot be read."""
    if not lake.tables:
        return

    def probe(table: Table) -> Check:
        return _attempt(f"table {table.name}", partial(probes.table, table, clients))

    with ThreadPoolExecutor(PARALLEL) as pool:
        checks = list(pool.map(probe, lake.tables))
    bad = [check for check in checks if check.state == "bad"]
    well = len(checks) - len(bad)
    yield Check("tables", "ok" if well else "bad", f"{count(well)} of {count(len(checks))} can be read")
    yield from bad[:NAMED]
    if len(bad) > NAMED:
        yield Check("tables", "bad", f"and {count(len(bad) - NAMED)} more cannot be read", "see above")


def _uncovered(lake: Lake, covered: Sequence[Location]) -> Iterator[Check]:
    """Check that a storage source covers each table: without one the presence of its files is unknown."""
    if not lake.tables:
        return
    bare = [table.name for table in lake.tables if not _covers(covered, table.location)]
    if not bare:
        yield Check("coverage", "ok", "a storage source covers every table")
        return
    named = first_names(bare, NAMED)
    message = (
        f"no usable storage source covers {count(len(bare))} of {count(len(lake.tables))} tables: {named}"
    )
    yield Check(
        "coverage", "bad", message, "add an inventory or a listing, widen `covers`, or audit them with --live"
    )


def _confirmation(lake: Lake) -> Iterator[Check]:
    """State the highest number of requests that confirm findings.

    They are a HEAD per file, and a page of its versions if the object does not match the claim.
    """
    confirm = lake.settings.confirm
    if all(table.settings.confirm.mode == "none" for table in lake.tables):
        return
    seconds = -(-confirm.requests // confirm.rate)
    message = (
        f"an audit checks at most {count(confirm.limit)} suspect files live (`confirm.limit`, 2 requests for each file)"
        f" and at most {count(confirm.fresh)} files that are newer than the evidence or that no storage source covers"
        f" (`confirm.fresh`, 1 request for each file); this takes at most {count(seconds)} s at {count(confirm.rate)}"
        " requests per second"
    )
    yield Check("confirm", "ok", message)


def _covers(covered: Sequence[Location], table: Location) -> bool:
    return any(place == table or place.holds(table.bucket, f"{table.key}/") for place in covered)


def _receivers(lake: Lake, clients: Clients, env: Environment) -> Iterator[Check]:
    """Check that each receiver of alerts is configured; nothing is sent."""
    from lakeaudit.alerts.deliver import CannotDeliver, channel

    for route in {route.receiver: route for route in lake.alerts}.values():
        try:
            channel(route, env, clients)
        except CannotDeliver as error:
            yield Check(f"alerts to {route.receiver}", "bad", str(error), "set it where audits run")
        else:
            yield Check(f"alerts to {route.receiver}", "ok", "configured; no message was sent")
    for about, name in (("heartbeat", lake.heartbeat_url_env), ("lineage", lake.openlineage_url_env)):
        if name and not env.get(name):
            yield Check(about, "bad", f"the variable {name} is not set", "set it where audits run")


def _attempt(
    about: str, probe: Callable[[], str | Probed], broken: str = "bad", covered: list[Location] | None = None
) -> Check:
    """Return the result of a probe; add the locations that it proves to be covered to `covered`."""
    try:
        result = probe()
    except AuditError as error:
        return Check(about, broken, f"{error.where}: {error.what}", error.hint, error.retryable)
    except ModuleNotFoundError as error:
        missing = explain_missing(error)
        if missing is None:
            raise
        return Check(about, broken, f"{missing.where} {missing.what}", missing.hint)
    except (ClientError, BotoCoreError) as error:
        failed = explain(error)
        return Check(about, broken, failed.what, failed.hint, failed.retryable)
    if isinstance(result, str):
        return Check(about, "ok", result)
    if covered is not None:
        covered += result.covers
    state = "note" if result.notes else "ok"
    return Check(about, state, "; ".join([result.message, *result.notes]), result.hint)
