"""An Iceberg REST catalog as it is read: namespaces, pages, tokens, and answers that are slow, half, false or hostile.

The server is a stand-in over real HTTP (`tests.builders.rest_catalog`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyiceberg.table import Table

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import http
from lakeaudit.evidence.catalog.http import CatalogClient
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.catalog.iceberg_rest import reader as iceberg_rest
from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.iceberg import BY_DAY, SCHEMA
from tests.builders.rest_catalog import Answer, Params, Parts, RestCatalog, served

NAMES = {
    "shop.orders": ("shop", "orders"),
    "shop.eu.orders": ("shop", "eu", "orders"),
    "shop.eu.north.returns": ("shop", "eu", "north", "returns"),
    "raw.`a.b/c d%2F`": ("raw", "a.b/c d%2F"),
    "raw.né🎉": ("raw", "né🎉"),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[Parts, Table]:
    """Five tables below namespaces of up to three levels."""
    place = tmp_path_factory.mktemp("warehouse")
    from pyiceberg.catalog.memory import InMemoryCatalog  # takes a second

    catalog = InMemoryCatalog("tests", warehouse=str(place))
    catalog.create_namespace("all")
    return {
        name: catalog.create_table(
            f"all.t{n}", SCHEMA, location=f"file://{place}/t{n}", partition_spec=BY_DAY
        )
        for n, name in enumerate(NAMES.values())
    }


@pytest.fixture
def server(tables: dict[Parts, Table]) -> Iterator[RestCatalog]:
    with served(RestCatalog({**tables})) as rest:
        yield rest


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Between tries nobody waits; what would have been waited."""
    waited: list[float] = []
    monkeypatch.setattr(http, "wait_a_while", waited.append)
    return waited


def source(rest: RestCatalog, **more: Any) -> IcebergRest:
    return IcebergRest(kind="iceberg_rest", uri=rest.uri, **more)


def listed(rest: RestCatalog, **more: Any) -> Pointers:
    return iceberg_rest.list_tables(source(rest, **more), Clients(), "metastore:0")


def test_all_tables_of_nested_namespaces_are_named_with_their_states(
    server: RestCatalog, tables: dict[Parts, Table]
) -> None:
    found = listed(server)
    assert found.holes == ()
    by_name = {table.name: table for table in found.tables}
    assert sorted(by_name) == sorted(NAMES)
    for name, parts in NAMES.items():
        real = tables[parts]
        table = by_name[name]
        assert table.metadata_location == real.metadata_location
        assert table.location == Location.parse(real.location())
        assert (table.format, table.partition_keys) == ("iceberg", ("day",))
        assert table.updated_at is not None
        assert abs((datetime.now(UTC) - table.updated_at).total_seconds()) < 3600
    assert all(params == {"snapshots": "refs"} for _, path, params in server.asked if path.count("/") > 5)


def test_lists_come_in_pages(server: RestCatalog) -> None:
    server.page = 1
    assert sorted(table.name for table in listed(server).tables) == sorted(NAMES)


def test_only_wanted_tables_are_loaded(server: RestCatalog) -> None:
    found = iceberg_rest.list_tables(
        source(server), Clients(), "metastore:0", names=lambda name: name.startswith("shop.eu.")
    )
    assert sorted(table.name for table in found.tables) == ["shop.eu.north.returns", "shop.eu.orders"]
    assert len(server.paths("/tables/")) == 2


def test_some_tables_are_requested_without_any_list(server: RestCatalog) -> None:
    said = iceberg_rest.current(
        source(server), Clients(), "metastore:0", [*NAMES, "shop.gone", "no_namespace"]
    )
    assert {name for name, each in said.items() if isinstance(each, CatalogTable)} == set(NAMES)
    assert "answers 404" in str(said["shop.gone"])
    assert not [path for path in server.paths("/namespaces") if "/tables/" not in path]


@pytest.mark.parametrize("nests", ["heeds no parent", "refuses a parent"])
def test_a_catalog_that_does_not_nest_has_its_top_namespaces_alone(server: RestCatalog, nests: str) -> None:
    def flat(_: str, path: str, params: Params) -> Answer | None:
        if not path.endswith("/namespaces"):
            return None
        if nests == "refuses a parent" and "parent" in params:
            return 400, {
                "error": {"message": "no nested namespaces", "type": "BadRequestException", "code": 400}
            }
        return 200, {"namespaces": [["shop"], ["raw"]]}

    server.faults.append(flat)
    found = listed(server)
    assert found.holes == ()
    assert sorted(table.name for table in found.tables) == ["raw.`a.b/c d%2F`", "raw.né🎉", "shop.orders"]


def test_a_table_that_is_dropped_between_list_and_load_is_left_out(server: RestCatalog) -> None:
    server.faults.append(lambda _, path, __: (404, {}) if path.endswith("/tables/orders") else None)
    found = listed(server)
    assert (len(found.tables), found.holes) == (3, ())


@pytest.mark.parametrize(
    ("at", "subject"), [("/tables/returns", "shop.eu.north.returns"), ("raw/tables", "raw.*")]
)
@pytest.mark.parametrize("status", [403, 500, 503])
def test_unreadable_answers_are_evidence_gaps_and_stop_nothing_else(
    server: RestCatalog, at: str, subject: str, status: int, pauses: list[float]
) -> None:
    refusal = {"error": {"message": "no\n\x1b[2Jluck", "code": status}}
    server.faults.append(lambda _, path, __: (status, refusal) if path.endswith(at) else None)
    found = listed(server)
    (hole,) = found.holes
    assert (hole.subject, hole.retryable) == (subject, status != 403)
    assert f"answers {status}: no" in hole.reason
    assert len(found.tables) == (4 if at.startswith("/") else 3)
    assert len(pauses) == (0 if status == 403 else http.TRIES - 1)


def test_a_failure_that_passes_is_waited_for(server: RestCatalog, pauses: list[float]) -> None:
    fails = iter([503, 500, 429])

    def for_a_while(_: str, path: str, __: Params) -> Answer | None:
        status = next(fails, None) if path.endswith("/config") else None
        return None if status is None else (status, {})

    server.faults.append(for_a_while)
    assert len(listed(server).tables) == len(NAMES)
    assert len(pauses) == 3
    assert max(pauses) <= http.LONGEST_PAUSE


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>", "not a JSON object"),
        (b'{"overrides": {"prefix": "a', "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"overrides": {"prefix": "../../admin"}}', "prefix that no path can have"),
    ],
)
def test_a_catalog_that_answers_nonsense_cannot_be_read(server: RestCatalog, body: bytes, told: str) -> None:
    server.faults.append(lambda *_: (200, body))
    with pytest.raises(SourceError, match=told):
        listed(server)


def test_an_answer_that_never_ends_is_left(server: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST", 1000)
    server.faults.append(lambda _, path, __: (200, b" " * 2000) if path.endswith("/namespaces") else None)
    with pytest.raises(SourceError, match="answers with more than"):
        listed(server)


def test_a_slow_answer_is_left(server: RestCatalog) -> None:
    ticks = iter(range(0, 10_000, 400))
    client = CatalogClient(source(server).access, server.uri, clock=lambda: next(ticks))
    with pytest.raises(SourceError, match="still answering after 300 s"):
        client.get("v1/main/namespaces")


def test_pages_that_repeat_are_an_evidence_gap(server: RestCatalog) -> None:
    def round_and_round(_: str, path: str, __: Params) -> Answer | None:
        return (200, {"identifiers": [], "next-page-token": "x"}) if path.endswith("raw/tables") else None

    server.faults.append(round_and_round)
    (hole,) = listed(server).holes
    assert "a second time" in hole.reason


@pytest.mark.parametrize(
    "body",
    [{"identifiers": 7}, {"identifiers": [7]}, {"identifiers": [{"namespace": ["raw"], "name": None}]}],
)
def test_a_list_that_cannot_be_understood_is_an_evidence_gap(
    server: RestCatalog, body: dict[str, Any]
) -> None:
    server.faults.append(lambda _, path, __: (200, body) if path.endswith("raw/tables") else None)
    found = listed(server)
    (hole,) = found.holes
    assert (hole.subject, hole.reason) == (
        "raw.*",
        "the catalog answers identifiers that cannot be understood",
    )
    assert len(found.tables) == 3


@pytest.mark.parametrize("body", [{"namespaces": "shop"}, {"namespaces": [[]]}, {"namespaces": [["a", 7]]}])
def test_namespaces_that_cannot_be_understood_end_it(server: RestCatalog, body: dict[str, Any]) -> None:
    server.faults.append(lambda _, path, __: (200, body) if path.endswith("/namespaces") else None)
    with pytest.raises(SourceError, match="answers namespaces that cannot be understood"):
        listed(server)


def test_nobody_at_that_port(server: RestCatalog) -> None:
    nowhere = IcebergRest(kind="iceberg_rest", uri="http://127.0.0.1:9")
    with pytest.raises(SourceError, match="does not answer") as caught:
        iceberg_rest.probe(nowhere, Clients(), datetime.now(UTC))
    assert caught.value.retryable


@pytest.mark.parametrize("name", ["..", ".", "", "a\x00b", "\ud800", "a\nb"])
def test_names_that_no_request_can_carry_are_evidence_gaps(server: RestCatalog, name: str) -> None:
    def hostile(_: str, path: str, __: Params) -> Answer | None:
        if not path.endswith("raw/tables"):
            return None
        return 200, {"identifiers": [{"namespace": ["raw"], "name": name}]}

    server.faults.append(hostile)
    found = listed(server)
    assert [hole.reason for hole in found.holes] == ["no request can be made for such a name"]
    assert len(found.tables) == 3
    assert all(".." not in path for path in server.paths())


@pytest.mark.parametrize(
    ("loaded", "place"),
    [
        ({}, None),
        ({"metadata-location": 7, "metadata": [1]}, None),
        ({"metadata-location": "s3://b/m.json", "metadata": {"location": "hdfs://nn/x"}}, None),
        ({"metadata": {"location": "s3://b/\ud800", "last-updated-ms": 1e300}}, None),
        ({"metadata": {"location": "s3://b/x/", "partition-specs": {"a": 1}}}, Location("b", "x")),
    ],
)
def test_a_table_with_few_fields_is_named_anyway(
    server: RestCatalog, loaded: dict[str, Any], place: Location | None
) -> None:
    server.faults.append(lambda _, path, __: (200, loaded) if path.endswith("/tables/returns") else None)
    (table,) = [each for each in listed(server).tables if each.name.endswith("returns")]
    assert (table.location, table.partition_keys, table.updated_at) == (place, (), None)


class TestTokens:
    """How the catalog lets the audit in."""

    def test_a_token_of_the_environment_is_sent(
        self, server: RestCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.tokens = {"right"}
        monkeypatch.setenv("CATALOG", "right")
        assert len(listed(server, bearer_env="CATALOG").tables) == len(NAMES)
        monkeypatch.setenv("CATALOG", "wrong")
        with pytest.raises(SourceError, match=r"answers 401: Unauthorized; check the values of bearer_env"):
            listed(server, bearer_env="CATALOG")

    def test_a_variable_that_is_not_set_is_named(self, server: RestCatalog) -> None:
        with pytest.raises(SourceError, match="the variable CATALOG is not set"):
            listed(server, credential_env="CATALOG")

    def test_a_credential_is_exchanged_once_and_again_when_its_token_is_over(
        self, server: RestCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Sixteen threads that meet the end of one token ask for one new one."""
        monkeypatch.setenv("CATALOG", "audit:hush")
        server.grants, server.tokens = ["first", "second", "third"], {"first"}

        def an_hour_passes(_: str, path: str, __: Params) -> Answer | None:
            if path.endswith("/raw/tables"):
                server.tokens = {"second"}
            return None

        server.faults.append(an_hour_passes)
        assert len(listed(server, credential_env="CATALOG", scope="audit").tables) == len(NAMES)
        exchanges = [params for method, _, params in server.asked if method == "POST"]
        assert exchanges == [{"grant_type": "client_credentials", "client_id": "audit", "client_secret": "hush",
                              "scope": "audit"}] * 2  # fmt: skip

    def test_a_wrong_credential_is_reported_without_its_value(
        self, server: RestCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CATALOG", "audit:loud")
        with pytest.raises(SourceError, match="answers 401") as caught:
            listed(server, credential_env="CATALOG")
        assert "loud" not in str(caught.value)

    def test_what_netrc_holds_is_not_sent(
        self, server: RestCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password pw\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        monkeypatch.setenv("CATALOG", "right")
        server.tokens = {"right"}
        assert len(listed(server, bearer_env="CATALOG").tables) == len(NAMES)
