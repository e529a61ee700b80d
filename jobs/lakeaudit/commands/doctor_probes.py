"""Probe tables and results with the smallest requests that prove what an audit needs; each kind probes its sources.

Each probe returns a description, or raises an `AuditError` or the exception of boto3.
"""

import tempfile
from pathlib import Path

from botocore.exceptions import ClientError

from lakeaudit.config import Table
from lakeaudit.errors import CannotPublish, SourceError
from lakeaudit.evidence.files import list_files, stat
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.s3_responses import listed_objects
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import probe_conditions
from lakeaudit.results.delta_writer import try_out
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of, explain
from lakeaudit.runtime.connections.quick_reads import why_left_to_boto

PAGE = 50
"""Keys of the listing page in which a data file is searched."""


def table(table: Table, clients: Clients) -> str:
    """List the table's manifests and read the first of them."""
    for manifest in table.manifests:
        probe = MANIFESTS[manifest.kind].probe
        if probe is not None:
            probe(table, clients)
        own = (table.location.join(manifest.folder),) if manifest.folder else ()
        for place in manifest.places or own:
            _first(clients, place, manifest.kind)
    if not table.manifests:
        next(list_files(clients, table.location), None)
    return "can be read"


def data_files(place: Location, clients: Clients) -> Probed:
    """List a page of objects and read a byte of one of them, of a data file if the page has one.

    S3 answers a HEAD without the right to decrypt; only a read proves the right to the key.
    """
    client = clients.s3(*place)
    page = client.list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=PAGE)
    keys = [each.key for each in listed_objects(page) if each.size != 0]
    data = [key for key in keys if "/_delta_log/" not in f"/{key}"]
    key = next(iter([*data, *keys]), None)
    if key is None:
        return Probed("can be listed; there is no object to test a read")
    try:
        client.get_object(Bucket=place.bucket, Key=key, Range="bytes=0-0")["Body"].read()
    except ClientError as error:
        if code_of(error) == "InvalidObjectState":
            return Probed("can be listed; the first object is archived and cannot be read")
        what = f"an object can be listed but not read: {explain(error).what}"
        raise SourceError(
            Location(place.bucket, key).uri, what, "grant s3:GetObject and kms:Decrypt"
        ) from error
    slow = why_left_to_boto(clients, Location(place.bucket, key))
    notes = [f"small files are read with boto only, which is slower: obstore {slow}"] if slow else []
    return Probed("can be listed, and a byte of a file can be read", notes=tuple(notes))


def results(place: Location, clients: Clients) -> Probed:
    """Write and read a small table with delta-rs, and check with boto that conditional writes are honoured.

    delta-rs writes the results, and boto the lease that prevents two audits at once.

    Raises:
        CannotPublish: one of these failed.
    """
    if place.is_local:
        _write_locally(place)
        return Probed("can be written (`_probe` was written and removed); a lock prevents two audits at once")
    try_out(place, clients)
    probe_conditions(place, clients)
    return Probed(
        "can be written, and conditional writes are honoured (tested with objects that were removed again)"
    )


def _first(clients: Clients, place: Location, kind: str) -> None:
    if stat(clients, place):
        return
    first = next(list_files(clients, place), None)
    if first is None:
        raise SourceError(place.uri, f"no {kind} manifest there", "correct the location or the kind")
    stat(clients, first.place)


def _write_locally(place: Location) -> None:
    """Write a file to the nearest folder that exists: the first audit creates the results' own folder."""
    folder = Path(place.spark_path)
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="_probe"):
            pass
    except OSError as error:
        raise CannotPublish(
            str(folder), error.strerror or "cannot be written", "correct `results`"
        ) from error
