"""Which endpoint serves which bucket of a lake, for boto3 and for Spark alike."""

from lakeaudit.config import Lake, S3Options
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, Endpoint


def endpoint(options: S3Options) -> Endpoint:
    """An `s3` block as the clients take it."""
    return Endpoint(
        endpoint=options.endpoint,
        region=options.region,
        path_style=bool(options.path_style),
        role_arn=options.role_arn,
        external_id=options.external_id,
        requester_pays=bool(options.requester_pays),
    )


def clients_of(lake: Lake) -> Clients:
    """Clients for every bucket the lake names; buckets of sources with their own `s3` block get their own."""
    default = endpoint(lake.s3)
    named = [(place.bucket, endpoint(options)) for place, options in _places(lake)]
    return Clients(default, {bucket: at for bucket, at in named if bucket and at != default})


def _places(lake: Lake) -> list[tuple[Location, S3Options]]:
    places = [(table.location, table.s3) for table in lake.tables]
    manifests = [manifest for table in lake.tables for manifest in table.manifests]
    sources = (*manifests, *lake.inventories, *lake.metastores)
    return places + [(place, source.s3) for source in sources for place in source.places]
