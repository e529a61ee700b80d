"""The smallest requests that prove what an audit needs of tables and results; of sources, their kinds know it.

Each returns what was found, or raises: `SourceError` and friends in our words, or what boto3 raised.
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
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import code_of, explain
from lakeaudit.runtime.quick_reads import why_left_to_boto

PAGE = 50
"""Keys of the page in which a data file is sought."""


def table(table: Table, clients: Clients) -> str:
    """The table's own records can be listed and the first of them read."""
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
    """A page of objects can be listed, and a byte of one of them read: of a data file where the page has one.

    S3 serves a HEAD to who may not decrypt; only a read shows the right to the key.
    """
    client = clients.s3(*place)
    page = client.list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=PAGE)
    found = [each.key for each in listed_objects(page) if each.size != 0]
    data = [key for key in found if "/_delta_log/" not in f"/{key}"]
    key = next(iter([*data, *found]), None)
    if key is None:
        return Probed("can be listed; no object was there to try a read on")
    try:
        client.get_object(Bucket=place.bucket, Key=key, Range="bytes=0-0")["Body"].read()
    except ClientError as error:
        if code_of(error) == "InvalidObjectState":
            return Probed("can be listed; the first object is archived and cannot be read")
        what = f"an object can be listed and not be read: {explain(error).what}"
        raise SourceError(
            Location(place.bucket, key).uri, what, "grant s3:GetObject and kms:Decrypt"
        ) from error
    slow = why_left_to_boto(clients, Location(place.bucket, key))
    notes = [f"small files are read with boto alone, which is slower: obstore {slow}"] if slow else []
    return Probed("can be listed, and a byte of a file be read", notes=tuple(notes))


def results(place: Location, clients: Clients) -> Probed:
    """A small table can be written and read by delta-rs, which writes results, and conditions are honoured.

    The lease, which keeps two audits apart, is written by boto: both clients are tried.

    Raises:
        CannotPublish: it would not.
    """
    if place.is_local:
        _write_locally(place)
        return Probed("can be written (`_probe` was put there and removed); a lock keeps two audits apart")
    try_out(place, clients)
    probe_conditions(place, clients)
    return Probed(
        "can be written, and conditional writes are honoured (tried on objects that were removed again)"
    )


def _first(clients: Clients, place: Location, kind: str) -> None:
    if stat(clients, place):
        return
    first = next(list_files(clients, place), None)
    if first is None:
        raise SourceError(place.uri, f"no {kind} manifest there", "correct the location or the kind")
    stat(clients, first.place)


def _write_locally(place: Location) -> None:
    """In the nearest folder that is there: the results' own is only made by the first audit."""
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
