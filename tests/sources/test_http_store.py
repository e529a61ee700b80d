"""The example of a metadata store over HTTP passes the contract of its role; no error shows its token."""

from collections.abc import Iterator
from typing import Any

import pytest

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import http
from lakeaudit.evidence.protocol import Context, Entries
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.http_store import TOKEN, ListServer, ObjectList, item, read
from tests.builders.rest_catalog import served
from tests.sources.metastore_contract import (
    AT,
    BUCKETS,
    DELETED,
    FILES,
    OLD,
    MetastoreContract,
    World,
    rows_of,
)

ENV = "LAKEAUDIT_OBJECT_LIST"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV, TOKEN)
    monkeypatch.setattr(http, "wait_a_while", lambda _: None)


def entries_of(server: ListServer, **more: Any) -> Entries:
    context = Context(InProcessEngine(2), Clients(), as_of=AT, now=AT, live=True)
    source = ObjectList(kind="object_list", uri=server.uri, bearer_env=ENV, buckets=BUCKETS, **more)
    return read(source, context, "metastore:0", lambda: AT)


class TestObjectList(MetastoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls) -> Iterator[World]:
        objects = [item(key, size, OLD) for key, size in FILES.items()]
        objects += [item(key, None, OLD, deleted=True) for key in DELETED]
        server = ListServer(page=7, objects=dict.fromkeys(BUCKETS, objects))
        with pytest.MonkeyPatch.context() as patch, served(server):
            patch.setenv(ENV, TOKEN)
            everything = entries_of(server)
            orders = entries_of(server, location=Location("lake", "wh/orders"))
            yield World(everything, rows_of(everything), rows_of(orders), flat=True, own_items=0)


def test_a_list_without_an_answer_is_refused_without_the_token() -> None:
    server = ListServer(objects={"lake": []}, faults=[lambda *_: (403, {"message": f"no right: {TOKEN}"})])
    with served(server), pytest.raises(SourceError, match=r"the store answers 403: no right: \*\*\*"):
        entries_of(server)
