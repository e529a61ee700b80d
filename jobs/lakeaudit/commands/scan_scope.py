"""The tables that `lakeaudit scan` judges: those below a location, or those that a catalog names."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlsplit

from lakeaudit.audit.preflight import first_of
from lakeaudit.commands.init import (
    DEEPEST,
    MOST_LISTINGS,
    Surroundings,
    comment_text,
    lake_text,
    look_around,
    yaml_text,
)
from lakeaudit.errors import BadInput, CannotAudit, SourceError
from lakeaudit.formatting import count, number, visible
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.request_limit import MAX_REQUESTS

NAMED = 3
"""Places that a line names."""


@dataclass(frozen=True)
class Request:
    """The arguments of the command: a location or a catalog; an `endpoint` is that of a store other than AWS."""

    place: Location | None
    endpoint: str | None = None
    fail_on: str = "critical"
    format: str = "text"
    save: str | None = None
    price: float | None = None
    catalog: str | None = None
    max_requests: int = MAX_REQUESTS


@dataclass(frozen=True)
class ScanScope:
    """Tables to judge.

    Attributes:
        name: the location or the catalog.
        text: returns the text of a lake file for a live audit, for a location of results.
        saved_text: the same for nightly audits, with the inventories that cover the tables.
        left_out: lines about everything that is not judged.
        is_searched: whether everything was searched.
        is_whole: whether each table is judged in all of its formats, too.
        counts: what the search found, for the progress line.
    """

    name: str
    text: Callable[[str], str]
    saved_text: Callable[[str], str]
    left_out: tuple[str, ...] = ()
    is_searched: bool = True
    is_whole: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)


def scope_of_place(place: Location, clients: Clients, now: datetime, endpoint: str | None) -> ScanScope:
    """Find the tables below a location.

    Raises:
        CannotAudit: there is no table, or the location cannot be read.
        BadInput: the local folder does not exist.
    """
    try:
        found = look_around(place, clients, now)
    except SourceError as error:
        raise CannotAudit(error.where, error.what, error.hint, error.retryable) from error
    if not found.roots:
        raise _no_table(found)
    is_searched = found.is_complete and not found.unreadable
    return ScanScope(
        place.uri,
        lambda results: lake_text(replace(found, inventories=()), results, endpoint),
        lambda results: lake_text(found, results, endpoint),
        (*_left_out(found),),
        is_searched,
        is_searched and not found.several,
        {"tables": len(found.roots), "folders": found.searched},
    )


def _no_table(found: Surroundings) -> CannotAudit:
    looked = f"{number(found.searched, 'folder')} of {DEEPEST} levels"
    what = f"no Delta log, no Iceberg metadata and no Hudi timeline was found in {looked}"
    if found.unreadable:
        place, why = next(iter(found.unreadable.items()))
        what += f", of which {count(len(found.unreadable))} could not be listed ({visible(place.uri)}: {why})"
    hint = "name a folder nearer to the tables; for files without a table log, see `lakeaudit init`"
    return CannotAudit(found.place.uri, what, hint)


def _left_out(found: Surroundings) -> Iterator[str]:
    """Yield lines about everything below the location that was not judged."""
    if found.plain:
        named = first_of([visible(place.uri) for place in found.plain], NAMED)
        yield f"not judged: {number(len(found.plain), 'folder')} ({named}) with files, but without a table log"
    for place, formats in found.several.items():
        yield f"judged only as {formats[0]}: {visible(place.uri)}, which is also a table of {', '.join(formats[1:])}"
    for place, why in [*found.unreadable.items()][:NAMED]:
        yield f"not searched: {visible(place.uri)}: {why}"
    if len(found.unreadable) > NAMED:
        yield f"not searched: {number(len(found.unreadable) - NAMED, 'more folder')} that cannot be listed"
    if found.links:
        named = first_of([visible(place.uri) for place in found.links], NAMED)
        yield f"not followed: {number(len(found.links), 'symbolic link')} ({named})"
    if found.skipped:
        yield f"not searched: {number(found.skipped, 'partition or hidden folder')} outside of tables"
    if not found.is_complete:
        yield f"not searched: folders below {DEEPEST} levels, or after {MOST_LISTINGS} folders"


TOKEN, CREDENTIAL = "LAKEAUDIT_CATALOG_TOKEN", "LAKEAUDIT_CATALOG_CREDENTIAL"
"""Variables with the token, or the `id:secret`, that a catalog over HTTP needs."""
_CATALOGS = (
    "write glue://, glue://DATABASE, hive://HOST:PORT, hive://HOST:PORT/DATABASE, or the URL before /v1"
)


def scope_of_catalog(text: str, endpoint: str | None, env: Collection[str]) -> ScanScope:
    """Return the scope of a catalog's tables; the audit itself reads the catalog.

    Args:
        text: glue://, glue://DATABASE, hive://HOST:PORT, hive://HOST:PORT/DATABASE, or the URL of an Iceberg REST
            catalog.
        endpoint: S3 endpoint, for a store other than AWS.
        env: names of the environment variables that are set.

    Raises:
        BadInput: the text names no such catalog.
    """
    kind, entry = _entry_of(text, env)
    lines = [
        f"# Tables of the catalog {comment_text(text)}.",
        "# `lakeaudit audit --live` needs no inventory; conf/example.yaml has the keys of `inventories`.",
        "version: 1",
        f"lake: {kind}",
        *([f"s3: {{endpoint: {yaml_text(endpoint)}, path_style: true}}"] if endpoint else []),
        f"metastores: [{{{', '.join([f'kind: {kind}', *entry])}}}]",
        f"tables: [{{discover: {{from: {kind}}}}}]",
    ]
    whole: Callable[[str], str] = lambda results: "\n".join([*lines, f"results: {yaml_text(results)}", ""])  # noqa: E731
    return ScanScope(text, whole, whole)


def _entry_of(text: str, env: Collection[str]) -> tuple[str, list[str]]:
    """Return the kind of the catalog, and the other keys of its entry."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadInput("--catalog", "is not the address of a catalog", _CATALOGS) from None
    if url.username is not None or url.query or url.fragment:
        raise BadInput("--catalog", "is not the address of a catalog", _CATALOGS)
    if url.scheme == "glue" and not url.path.strip("/"):
        return "glue", [f"databases: [{yaml_text(url.netloc)}]"] if url.netloc else []
    if url.scheme == "hive" and url.hostname and port:
        database = url.path.strip("/")
        entry = [f"uri: {yaml_text(f'thrift://{url.netloc}')}"]
        return "hive", [*entry, *([f"databases: [{yaml_text(database)}]"] if database else [])]
    if url.scheme in ("http", "https") and url.hostname:
        named = {"bearer_env": TOKEN, "credential_env": CREDENTIAL}
        secret = [f"{key}: {name}" for key, name in named.items() if name in env]
        return "iceberg_rest", [f"uri: {yaml_text(text)}", *secret[:1]]
    raise BadInput("--catalog", "is not the address of a catalog", _CATALOGS)
