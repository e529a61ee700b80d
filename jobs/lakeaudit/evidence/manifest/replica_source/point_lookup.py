"""Look up the original of one file in the other place: now, on this machine."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import stat
from lakeaudit.keys import Location, origins
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

Answer = tuple[str, list[dict[str, Any]], str]


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:  # noqa: ARG001 - as in every kind
    """Return (answer, history, reason) as `point.LookupResult` holds them; an inventory may show an older state."""
    try:
        found = [
            file for place in origins(clients.maps, Location(bucket, key)) if (file := stat(clients, place))
        ]
    except SourceError as error:
        return "unknown", [], str(error)
    except (ClientError, BotoCoreError) as error:
        return "unknown", [], explain(error).what
    acts = [{"at": f.modified_at, "file": "stored", "size": f.size, "original": f.place.uri} for f in found]
    return ("present" if found else "absent"), acts, ""
